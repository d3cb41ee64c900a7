use std::time::Duration;

use hark_store::{EntryKind, Error, Settlement};

use crate::support::{account, assert_balanced, on_both};

const KEEP: Duration = Duration::from_secs(600);

on_both! {
    async fn a_hold_that_the_balance_does_not_cover_is_refused(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        assert_eq!(store.ledger().hold(id, "call:1", 7, KEEP).await.unwrap(), 3);
        let refused = store.ledger().hold(id, "call:2", 4, KEEP).await;
        assert!(matches!(refused, Err(Error::NotEnoughCredits { have: 3, need: 4 })), "{refused:?}");
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 3);
        assert_balanced(&store).await;
    }

    async fn settling_releases_the_hold_and_charges_what_was_used_once(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        store.ledger().hold(id, "call:1", 7, KEEP).await.unwrap();
        assert_eq!(store.ledger().settle("call:1", 5, "summary").await.unwrap(), Settlement { charged: 5, credits: 5 });
        assert!(matches!(store.ledger().settle("call:1", 5, "summary").await, Err(Error::NotFound(_))));
        assert!(matches!(store.ledger().hold(id, "call:1", 1, KEEP).await, Err(Error::Conflict(_))));
        let kinds: Vec<_> = store.ledger().entries(id, 10).await.unwrap().iter().map(|e| (e.kind, e.amount)).collect();
        assert_eq!(kinds, [(EntryKind::Charge, -5), (EntryKind::Release, 7), (EntryKind::Hold, -7), (EntryKind::Grant, 10)]);
        assert_balanced(&store).await;
    }

    async fn the_ledger_is_read_by_pages_newest_first(place: Place) {
        let store = place.open().await;
        let (id, other) = (account(&store, 10).await, account(&store, 3).await);
        for note in ["one", "two", "three"] {
            store.ledger().grant(id, 1, note).await.unwrap();
        }
        let notes = async |page, per_page| {
            let found = store.ledger().page(id, page, per_page).await.unwrap();
            (found.entries.into_iter().map(|entry| entry.note).collect::<Vec<_>>(), found.total)
        };
        assert_eq!(notes(1, 2).await, (vec!["three".to_owned(), "two".to_owned()], 4));
        assert_eq!(notes(2, 2).await, (vec!["one".to_owned(), "to begin with".to_owned()], 4));
        assert_eq!(notes(i64::MAX, 100).await, (Vec::new(), 4));
        assert_eq!(store.ledger().page(other, 1, 10).await.unwrap().total, 1);
    }

    async fn work_that_took_longer_takes_what_is_left_and_no_more(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        store.ledger().hold(id, "call:1", 2, KEEP).await.unwrap();
        assert_eq!(store.ledger().settle("call:1", 6, "").await.unwrap(), Settlement { charged: 6, credits: 4 });
        store.ledger().hold(id, "call:2", 2, KEEP).await.unwrap();
        assert_eq!(store.ledger().settle("call:2", 100, "").await.unwrap(), Settlement { charged: 4, credits: 0 });
        assert_balanced(&store).await;
    }

    async fn a_hold_nobody_ends_is_released_when_its_time_is_over(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        store.ledger().hold(id, "call:1", 7, KEEP).await.unwrap();
        assert_eq!(store.ledger().release_expired().await.unwrap(), 0);
        place.clock.advance(KEEP + Duration::from_secs(1));
        assert_eq!(store.ledger().release_expired().await.unwrap(), 1);
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 10);
        assert!(matches!(store.ledger().settle("call:1", 5, "").await, Err(Error::NotFound(_))));
        assert_balanced(&store).await;
    }

    async fn a_live_session_holds_more_as_it_goes_on(place: Place) {
        let store = place.open().await;
        let id = account(&store, 3).await;
        store.ledger().hold(id, "live:1", 1, KEEP).await.unwrap();
        assert_eq!(store.ledger().extend_hold(id, "live:1", 1, KEEP).await.unwrap(), 1);
        assert_eq!(store.ledger().extend_hold(id, "live:1", 0, KEEP).await.unwrap(), 1);
        assert_eq!(store.ledger().extend_hold(id, "live:1", 1, KEEP).await.unwrap(), 0);
        let refused = store.ledger().extend_hold(id, "live:1", 1, KEEP).await;
        assert!(matches!(refused, Err(Error::NotEnoughCredits { have: 0, need: 1 })), "{refused:?}");
        assert_eq!(store.ledger().settle("live:1", 3, "").await.unwrap(), Settlement { charged: 3, credits: 0 });
        assert_balanced(&store).await;
    }

    async fn a_charge_is_refunded_once(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let other = account(&store, 10).await;
        store.ledger().hold(id, "call:1", 4, KEEP).await.unwrap();
        store.ledger().settle("call:1", 4, "").await.unwrap();
        assert!(matches!(store.ledger().refund(other, "call:1", "").await, Err(Error::NotFound(_))));
        assert_eq!(store.ledger().refund(id, "call:1", "our fault").await.unwrap(), 10);
        assert!(matches!(store.ledger().refund(id, "call:1", "").await, Err(Error::Conflict(_))));
        assert_balanced(&store).await;
    }

    async fn a_balance_never_goes_below_zero_by_hand(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        assert_eq!(store.ledger().adjust(id, -4, "mistake").await.unwrap(), 6);
        assert!(matches!(store.ledger().adjust(id, -7, "").await, Err(Error::NotEnoughCredits { have: 6, need: 7 })));
        assert!(store.ledger().grant(id, 0, "").await.is_err());
        assert!(store.ledger().grant(id, -1, "").await.is_err());
        assert!(store.ledger().adjust(id, i64::MAX, "").await.is_err());
        assert!(store.ledger().hold(id, "call:1", -5, KEEP).await.is_err());
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 6);
        assert_balanced(&store).await;
    }

    async fn concurrent_holds_never_overdraw(place: Place) {
        let store = place.open().await;
        let id = account(&store, 100).await;
        let hold = |n: i64| {
            let store = store.clone();
            tokio::spawn(async move { store.ledger().hold(id, &format!("call:{n}"), 7, KEEP).await })
        };
        let tasks: Vec<_> = (0..40).map(hold).collect();
        let mut held = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => held += 1,
                Err(Error::NotEnoughCredits { have, need: 7 }) => assert!(have < 7, "{have} would have been enough"),
                Err(e) => panic!("{e}"),
            }
        }
        assert_eq!(held, 14);
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 2);
        assert_balanced(&store).await;
    }

    async fn concurrent_settles_charge_once(place: Place) {
        let store = place.open().await;
        let id = account(&store, 100).await;
        store.ledger().hold(id, "call:1", 10, KEEP).await.unwrap();
        let settle = |_| {
            let store = store.clone();
            tokio::spawn(async move { store.ledger().settle("call:1", 10, "").await })
        };
        let tasks: Vec<_> = (0..16).map(settle).collect();
        let mut charged = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(settled) => charged += settled.charged,
                Err(Error::NotFound(_)) => {}
                Err(e) => panic!("{e}"),
            }
        }
        assert_eq!(charged, 10);
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 90);
        assert_balanced(&store).await;
    }

    async fn a_balance_that_was_tampered_with_is_found(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        crate::accounts::run_sql(&place.database, &format!("UPDATE accounts SET credits = 99 WHERE id = {id}")).await;
        let found = store.ledger().check().await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].account, found[0].credits, found[0].sum), (id, 99, 10));
    }
}

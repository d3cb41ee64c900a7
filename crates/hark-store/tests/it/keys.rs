use std::time::Duration;

use hark_store::{AddressUse, Error, IdempotencyKey, KeyChange, KeyKind, Limit, NewKey, Owner, Scope, StoredAnswer};

use crate::accounts::count;
use crate::support::{account, on_both};

on_both! {
    async fn a_key_opens_its_account_and_no_other(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let (key, secret) = store.keys().create(ours, &NewKey::new(KeyKind::Service, "laptop")).await.unwrap();
        let text = secret.reveal();
        assert!(text.starts_with("svc_") && text.len() == 68, "{text}");
        assert_eq!(key.prefix, text[..12]);
        let credential = store.keys().authenticate(text).await.unwrap();
        assert_eq!((credential.key.id, credential.key.account), (key.id, ours));
        assert_eq!((credential.key.rate_limit, credential.key.monthly_limit_minutes), (60, 5000));
        let mut other = text.to_owned();
        other.replace_range(67.., if text.ends_with('0') { "1" } else { "0" });
        for wrong in [other.as_str(), "", "svc_", "nonsense", &text[..67], &text.to_uppercase()] {
            assert!(matches!(store.keys().authenticate(wrong).await, Err(Error::NotFound(_))), "{wrong}");
        }
        assert!(matches!(store.keys().revoke(theirs, key.id).await, Err(Error::NotFound(_))));
        assert!(store.keys().authenticate(text).await.is_ok());
    }

    async fn a_revoked_key_opens_nothing_and_is_listed_as_inactive(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let (key, secret) = store.keys().create(ours, &NewKey::new(KeyKind::Service, "laptop")).await.unwrap();
        store.keys().revoke(ours, key.id).await.unwrap();
        assert!(store.keys().authenticate(secret.reveal()).await.is_err());
        assert!(matches!(store.keys().revoke(ours, key.id).await, Err(Error::NotFound(_))));
        let listed = store.keys().list(ours, KeyKind::Service).await.unwrap();
        assert_eq!((listed.len(), listed[0].is_active), (1, false));
    }

    async fn a_session_ends_by_itself(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let new = NewKey { valid_for: Some(Duration::from_secs(60)), ..NewKey::new(KeyKind::Session, "browser") };
        let (_, secret) = store.keys().create(ours, &new).await.unwrap();
        assert!(store.keys().authenticate(secret.reveal()).await.is_ok());
        place.clock.advance(Duration::from_secs(60));
        assert!(store.keys().authenticate(secret.reveal()).await.is_err());
        assert_eq!(store.recordings().sweep_older_than(Duration::from_secs(60)).await.unwrap().expired, 1);
        assert_eq!(store.keys().list(ours, KeyKind::Session).await.unwrap(), []);
    }

    async fn a_confirmation_works_once_and_is_no_credential(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let (_, secret) = store.keys().create(ours, &NewKey::new(KeyKind::Confirmation, "")).await.unwrap();
        assert!(store.keys().authenticate(secret.reveal()).await.is_err());
        assert!(store.keys().redeem(secret.reveal(), KeyKind::Reset).await.is_err());
        assert_eq!(store.keys().redeem(secret.reveal(), KeyKind::Confirmation).await.unwrap(), ours);
        assert!(store.keys().redeem(secret.reveal(), KeyKind::Confirmation).await.is_err());
    }

    async fn last_used_is_written_at_most_once_a_minute(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let (_, secret) = store.keys().create(ours, &NewKey::new(KeyKind::Service, "laptop")).await.unwrap();
        let last_used = async || store.keys().list(ours, KeyKind::Service).await.unwrap()[0].last_used;
        assert_eq!(last_used().await, None);
        store.keys().authenticate(secret.reveal()).await.unwrap();
        let first = last_used().await;
        assert_eq!(first, Some(store.now()));
        place.clock.advance(Duration::from_secs(59));
        store.keys().authenticate(secret.reveal()).await.unwrap();
        assert_eq!(last_used().await, first);
        place.clock.advance(Duration::from_secs(2));
        store.keys().authenticate(secret.reveal()).await.unwrap();
        assert_eq!(last_used().await, Some(store.now()));
    }

    async fn signing_out_everywhere_spares_other_kinds(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let (_, session) = store.keys().create(ours, &NewKey::new(KeyKind::Session, "a")).await.unwrap();
        let (_, service) = store.keys().create(ours, &NewKey::new(KeyKind::Service, "b")).await.unwrap();
        assert_eq!(store.keys().revoke_all(ours, KeyKind::Session).await.unwrap(), 1);
        assert!(store.keys().authenticate(session.reveal()).await.is_err());
        assert!(store.keys().authenticate(service.reveal()).await.is_ok());
    }

    async fn no_secret_is_stored(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let (_, secret) = store.keys().create(ours, &NewKey::new(KeyKind::User, "a")).await.unwrap();
        assert!(!format!("{secret:?}").contains(secret.reveal()));
        let shown = format!("%{}%", &secret.reveal()[12..30]);
        let sql = format!("SELECT count(*) FROM keys WHERE prefix LIKE '{shown}' OR name LIKE '{shown}'");
        assert_eq!(count(&place.database, &sql).await, 0);
        store.close().await;
        for path in place.files() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(18).any(|w| w == &secret.reveal().as_bytes()[12..30]), "{}", path.display());
        }
    }

    async fn a_keys_minutes_are_counted_by_the_month(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let new = NewKey { monthly_limit_minutes: 10, ..NewKey::new(KeyKind::Service, "laptop") };
        let (key, _) = store.keys().create(ours, &new).await.unwrap();
        store.keys().use_minutes(key.id, 8).await.unwrap();
        let refused = store.keys().use_minutes(key.id, 3).await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::MonthlyMinutes, limit: 10, used: 8 })), "{refused:?}");
        store.keys().use_minutes(key.id, 2).await.unwrap();
        assert_eq!(store.keys().minutes_used(key.id).await.unwrap(), 10);
        // From 15 January to 1 February.
        place.clock.advance(Duration::from_secs(17 * 86_400));
        assert_eq!(store.keys().minutes_used(key.id).await.unwrap(), 0);
        store.keys().use_minutes(key.id, 10).await.unwrap();
    }
    async fn a_request_for_a_key_that_is_repeated_makes_one_key_and_gets_one_answer(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let name = |fingerprint| IdempotencyKey { key: "once".into(), fingerprint: vec![fingerprint], older: Vec::new(), keep: Duration::from_secs(60) };
        let new = NewKey::new(KeyKind::Service, "laptop");
        let write = |_, secret: hark_store::Secret| {
            Ok(StoredAnswer { status: 201, content_type: "text/plain".into(), body: secret.reveal().into() })
        };
        assert_eq!(store.idempotency().answer(&Owner::Account(ours), &name(1)).await.unwrap(), None);
        let refused = store.keys().create_once(ours, &new, &name(1), |_, _| Err(Error::Conflict("no"))).await;
        assert!(matches!(refused, Err(Error::Conflict("no"))));
        assert!(store.keys().list(ours, KeyKind::Service).await.unwrap().is_empty(), "a key without an answer was kept");
        let (one, two) = (name(1), name(1));
        let both = tokio::join!(store.keys().create_once(ours, &new, &one, write), store.keys().create_once(ours, &new, &two, write));
        let first = both.0.unwrap();
        assert_eq!(first, both.1.unwrap());
        assert_eq!(store.keys().create_once(ours, &new, &name(1), write).await.unwrap(), first);
        assert_eq!(store.idempotency().answer(&Owner::Account(ours), &name(1)).await.unwrap(), Some(first.clone()));
        assert!(matches!(store.keys().create_once(ours, &new, &name(2), write).await, Err(Error::KeyReused)));
        assert_eq!(store.keys().list(ours, KeyKind::Service).await.unwrap().len(), 1);
        assert!(store.keys().authenticate(std::str::from_utf8(&first.body).unwrap()).await.is_ok());
        place.clock.advance(Duration::from_secs(61));
        assert_ne!(store.keys().create_once(ours, &new, &name(2), write).await.unwrap(), first, "the name is free again");
    }

    async fn a_key_that_is_rolled_over_has_two_secrets_until_the_grace_ends(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let (key, first) = store.keys().create(ours, &NewKey::new(KeyKind::Service, "laptop")).await.unwrap();
        assert!(matches!(store.keys().roll(theirs, key.id, Duration::ZERO).await, Err(Error::NotFound(_))));
        let (rolled, second) = store.keys().roll(ours, key.id, Duration::from_secs(60)).await.unwrap();
        assert_eq!((rolled.id, &rolled.name), (key.id, &key.name));
        for secret in [&first, &second] {
            assert_eq!(store.keys().authenticate(secret.reveal()).await.unwrap().key.id, key.id);
        }
        place.clock.advance(Duration::from_secs(60));
        assert!(store.keys().authenticate(first.reveal()).await.is_err());
        let (_, third) = store.keys().roll(ours, key.id, Duration::from_secs(60)).await.unwrap();
        let (_, fourth) = store.keys().roll(ours, key.id, Duration::from_secs(60)).await.unwrap();
        assert!(store.keys().authenticate(second.reveal()).await.is_err(), "only one secret before is kept");
        assert!(store.keys().authenticate(third.reveal()).await.is_ok());
        store.keys().revoke(ours, key.id).await.unwrap();
        for secret in [&third, &fourth] {
            assert!(store.keys().authenticate(secret.reveal()).await.is_err());
        }
    }

    async fn a_key_keeps_what_it_may_do_and_how_much_it_may_spend(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let new = NewKey {
            scopes: vec![Scope::Read],
            allowed_addresses: vec!["192.0.2.0/24".into(), "2001:db8::/48".into()],
            spending_limit: Some(5),
            ..NewKey::new(KeyKind::Service, "reader")
        };
        let (key, secret) = store.keys().create(ours, &new).await.unwrap();
        let found = store.keys().authenticate(secret.reveal()).await.unwrap().key;
        assert_eq!((&found.scopes, &found.allowed_addresses), (&new.scopes, &new.allowed_addresses));
        store.keys().use_minutes(key.id, 3).await.unwrap();
        // Months don't matter for what it may spend in all.
        place.clock.advance(Duration::from_secs(40 * 86_400));
        store.keys().use_minutes(key.id, 2).await.unwrap();
        let refused = store.keys().use_minutes(key.id, 1).await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::Spending, limit: 5, used: 5 })), "{refused:?}");
        assert!(store.keys().check_minutes(key.id, 1).await.is_err());
        let change = KeyChange { spending_limit: Some(Some(6)), ..KeyChange::default() };
        let changed = store.keys().change(ours, key.id, &change).await.unwrap();
        assert_eq!((changed.spending_limit, changed.name.as_str()), (Some(6), "reader"));
        store.keys().use_minutes(key.id, 1).await.unwrap();
        assert_eq!(store.keys().spent(key.id).await.unwrap(), 6);
    }

    async fn addresses_are_counted_by_day_and_known_by_account(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        let networks = |household: &str| vec![(household.to_owned(), 1), ("wide".to_owned(), 2)];
        store.addresses().count(AddressUse::SignUps, &networks("a"), 1).await.unwrap();
        let refused = store.addresses().count(AddressUse::SignUps, &networks("a"), 1).await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::SignUps, limit: 1, used: 1 })), "{refused:?}");
        store.addresses().count(AddressUse::SignUps, &networks("b"), 1).await.unwrap();
        assert!(store.addresses().count(AddressUse::SignUps, &networks("c"), 1).await.is_err(), "a refusal counts for nobody");
        assert!(store.addresses().check(AddressUse::SignUps, &networks("c")).await.is_err());
        store.addresses().count(AddressUse::Anonymous, &networks("a"), 1).await.unwrap();
        assert!(!store.addresses().is_known(ours, "a").await.unwrap());
        store.addresses().remember(ours, "a").await.unwrap();
        store.addresses().remember(ours, "a").await.unwrap();
        assert!(store.addresses().is_known(ours, "a").await.unwrap());
        place.clock.advance(Duration::from_secs(86_400));
        store.addresses().count(AddressUse::SignUps, &networks("a"), 1).await.unwrap();
        place.clock.advance(Duration::from_secs(180 * 86_400));
        assert!(!store.addresses().is_known(ours, "a").await.unwrap());
        store.addresses().expire().await.unwrap();
        assert_eq!(count(&place.database, "SELECT count(*) AS n FROM known_addresses").await, 0);
        assert_eq!(count(&place.database, "SELECT count(*) AS n FROM address_days").await, 0);
    }
}

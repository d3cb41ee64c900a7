use hark_store::{
    AccountChange, AccountFilter, AccountId, Actor, Adjustment, EmailPreferences, Error, KeyKind, NewAccount, NewAudit,
    NewInstance, NewKey, Options, Plan, Store,
};

use crate::support::{accept, account, assert_balanced, completed, on_both};

on_both! {
    async fn an_address_has_one_account_whatever_its_case(place: Place) {
        let store = place.open().await;
        let made = store.accounts().create(&NewAccount::new("Ada@Example.org", Plan::Free)).await.unwrap();
        assert_eq!((made.email.as_str(), made.credits, made.plan), ("Ada@Example.org", 600, Plan::Free));
        let again = store.accounts().create(&NewAccount::new("ada@example.ORG ", Plan::Pro)).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
        assert_eq!(store.accounts().by_email("ADA@example.org").await.unwrap(), made);
        assert!(matches!(store.accounts().by_email("eve@example.org").await, Err(Error::NotFound(_))));
        assert!(store.accounts().create(&NewAccount::new("anonymous", Plan::Free)).await.is_err());
    }

    async fn the_first_credits_are_in_the_ledger(place: Place) {
        let store = place.open().await;
        let made = store.accounts().create(&NewAccount::new("ada@example.org", Plan::Free)).await.unwrap();
        let ledger = store.ledger().entries(made.id, 10).await.unwrap();
        assert_eq!(ledger.len(), 1);
        assert_eq!((ledger[0].kind.name(), ledger[0].amount), ("grant", 600));
        assert_balanced(&store).await;
    }

    async fn a_change_touches_only_what_it_names(place: Place) {
        let store = place.open().await;
        let before = store.accounts().get(account(&store, 5).await).await.unwrap();
        let preferences = EmailPreferences { marketing: true, newsletter: false, product_updates: true, usage_alerts: false };
        let change = AccountChange {
            plan: Some(Plan::Business),
            next_billing_at: Some(Some(7)),
            email_preferences: Some(preferences),
            password_hash: Some("$argon2id$hash".into()),
            ..AccountChange::default()
        };
        let after = store.accounts().change(before.id, &change).await.unwrap();
        assert_eq!(after.plan, Plan::Business);
        assert_eq!(after.next_billing_at, Some(7));
        assert_eq!(after.email_preferences, preferences);
        assert_eq!((after.credits, &after.lang, after.is_confirmed), (5, &before.lang, before.is_confirmed));
        assert_eq!(store.accounts().password_hash(before.id).await.unwrap().as_deref(), Some("$argon2id$hash"));
        let change = AccountChange { next_billing_at: Some(None), ..AccountChange::default() };
        assert_eq!(store.accounts().change(before.id, &change).await.unwrap().next_billing_at, None);
    }

    async fn accounts_are_found_by_any_part_of_their_address(place: Place) {
        let store = place.open().await;
        for name in ["Ann_B@example.org", "annxb@example.org", r"a\b%c@example.net"] {
            store.accounts().create(&NewAccount::new(name, Plan::Free)).await.unwrap();
        }
        let found = async |email: Option<&str>, page, per_page| {
            let filter = AccountFilter { email, page, per_page };
            let found = store.accounts().page(&filter).await.unwrap();
            (found.accounts.into_iter().map(|listed| listed.account.email).collect::<Vec<_>>(), found.total)
        };
        assert_eq!(found(None, 1, 2).await, (vec![r"a\b%c@example.net".to_owned(), "annxb@example.org".to_owned()], 3));
        assert_eq!(found(None, 2, 2).await, (vec!["Ann_B@example.org".to_owned()], 3));
        assert_eq!(found(Some("ANN_"), 1, 10).await, (vec!["Ann_B@example.org".to_owned()], 1));
        assert_eq!(found(Some(r"\b%"), 1, 10).await.1, 1);
        assert_eq!(found(Some("%"), 1, 10).await.1, 1);
        assert_eq!(found(Some("anonymous"), 1, 10).await.1, 0);
        assert_eq!(found(None, i64::MAX, 10).await, (Vec::new(), 3));
        let id = store.accounts().by_email("annxb@example.org").await.unwrap().id;
        completed(&store, id).await;
        let listed = store.accounts().page(&AccountFilter { email: Some("annxb"), page: 1, per_page: 1 }).await.unwrap();
        assert_eq!(listed.accounts[0].transcripts, 1);
    }

    async fn an_adjustment_is_done_whole_or_not_at_all_and_logged(place: Place) {
        let store = place.open().await;
        let id = account(&store, 5).await;
        let by = NewAudit { actor: Actor::Admin, ..NewAudit::operator("account.changed") };
        let adjustment = Adjustment { plan: Some(Plan::Business), plan_active: Some(false), credits: 7, note: "sorry".into() };
        let changed = store.accounts().audited(&by).adjust(id, &adjustment).await.unwrap();
        assert_eq!((changed.plan, changed.plan_active, changed.credits), (Plan::Business, false, 12));
        let refused = Adjustment { plan: Some(Plan::Free), credits: -13, ..Adjustment::default() };
        let refused = store.accounts().audited(&by).adjust(id, &refused).await;
        assert!(matches!(refused, Err(Error::NotEnoughCredits { have: 12, need: 13 })), "{refused:?}");
        let taken = Adjustment { credits: -12, ..Adjustment::default() };
        let changed = store.accounts().audited(&by).adjust(id, &taken).await.unwrap();
        assert_eq!((changed.plan, changed.credits), (Plan::Business, 0));
        let log = store.audit().page(Some(id), 1, 10).await.unwrap().entries;
        let log: Vec<_> = log.iter().map(|e| (e.event.as_str(), e.actor.as_str(), e.detail.as_str())).collect();
        assert_eq!(log, [
            ("credits.changed", "admin", "-12: "),
            ("credits.changed", "admin", "+7: sorry"),
            ("plan.changed", "admin", "business, not in force"),
        ]);
        for nobody in [AccountId(999), store.anonymous_account()] {
            assert!(matches!(store.accounts().adjust(nobody, &taken).await, Err(Error::NotFound(_))));
        }
        assert_balanced(&store).await;
    }

    async fn a_deleted_account_leaves_nothing_behind(place: Place) {
        let store = place.open().await;
        let gone = account(&store, 50).await;
        let stays = account(&store, 50).await;
        let kept = completed(&store, stays).await;
        let done = completed(&store, gone).await;
        let session = store.chats().begin(gone, done).await.unwrap();
        store.chats().add(gone, done, &session, "who?", "they").await.unwrap();
        store.chats().count_question(gone, None).await.unwrap();
        store.keys().create(gone, &NewKey::new(KeyKind::Service, "key")).await.unwrap();
        let instance = NewInstance { name: "a".into(), region: "b".into(), status: "c".into(), gpu: "d".into(), base_url: "e".into() };
        store.instances().add(gone, &instance).await.unwrap();
        store.voiceprints().add(gone, "Ann", &[1]).await.unwrap();
        store.voiceprints().add(stays, "Ann", &[2]).await.unwrap();
        accept(&store, gone, 3).await;
        assert!(crate::accounts::rows_of(&place.database, gone.0).await.contains(&("voiceprints", 1)));
        let removed = store.accounts().delete(gone).await.unwrap();
        assert_eq!(removed.len(), 2);
        assert!(matches!(store.accounts().get(gone).await, Err(Error::NotFound(_))));
        assert!(matches!(store.transcripts().status(done).await, Err(Error::NotFound(_))));
        assert_eq!(store.jobs().queue_length().await.unwrap(), 0);
        assert_eq!(place.recordings().len(), 1, "only the other account's recording is left");
        assert!(store.transcripts().get(stays, kept).await.is_ok());
        assert_eq!(store.voiceprints().list(stays).await.unwrap().len(), 1);
        assert_balanced(&store).await;
        for (table, rows) in crate::accounts::rows_of(&place.database, gone.0).await {
            assert_eq!(rows, 0, "{table} still has rows of the account");
        }
    }

    async fn the_anonymous_account_is_one_and_stays(place: Place) {
        let first = place.open().await;
        let second = place.open().await;
        assert_eq!(first.anonymous_account(), second.anonymous_account());
        assert!(first.accounts().delete(first.anonymous_account()).await.is_err());
        assert_eq!(first.accounts().list().await.unwrap(), []);
    }

    async fn several_stores_may_open_an_empty_database_at_once(place: Place) {
        let open = || tokio::spawn(Store::open(place.options()));
        for store in [open(), open(), open(), open()] {
            store.await.unwrap().unwrap().ping().await.unwrap();
        }
    }

    async fn a_database_of_a_later_version_is_refused(place: Place) {
        let later = place.open().await;
        let account = crate::support::account(&later, 5).await;
        crate::accounts::run_sql(&place.database, "INSERT INTO migrations VALUES (1000, 'x', 0)").await;
        // An older program that starts beside the server that has migrated the database.
        for _ in 0..2 {
            let refused = Store::open(place.options()).await.map(drop).unwrap_err();
            assert!(matches!(refused, Error::Newer { .. }), "{refused:?}");
            assert!(refused.to_string().contains("start a newer hark"), "{refused}");
        }
        // It left nothing behind that would stop the others.
        assert_eq!(later.ledger().grant(account, 1, "").await.unwrap(), 6);
        later.integrity().probe_database().await.unwrap();
        later.close().await;
    }

    async fn a_step_that_was_changed_afterwards_is_refused(place: Place) {
        place.open().await.close().await;
        crate::accounts::run_sql(&place.database, "UPDATE migrations SET checksum = 'x' WHERE version = 1").await;
        let opened = Store::open(place.options()).await;
        assert!(matches!(opened, Err(Error::Setup(_))), "{opened:?}");
    }

    async fn instances_belong_to_their_account(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let new = NewInstance { name: "a".into(), region: "eu".into(), status: "starting".into(), gpu: "H200".into(), base_url: "https://a".into() };
        let id = store.instances().add(ours, &new).await.unwrap();
        assert!(store.instances().set_status(theirs, id, "x").await.is_err());
        assert!(store.instances().remove(theirs, id).await.is_err());
        assert_eq!(store.instances().list(theirs).await.unwrap(), []);
        store.instances().set_status(ours, id, "running").await.unwrap();
        assert_eq!(store.instances().list(ours).await.unwrap()[0].about.status, "running");
        store.instances().remove(ours, id).await.unwrap();
        assert_eq!(store.instances().list(ours).await.unwrap(), []);
    }
}

#[tokio::test]
async fn the_database_and_its_folder_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let place = crate::support::Place::sqlite();
    let store = place.open().await;
    account(&store, 1).await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.folder.path().join("data")), 0o700);
    for path in place.files() {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_wrong_address_is_refused_without_showing_it() {
    let place = crate::support::Place::sqlite();
    for database in ["mysql://root:hunter2@host/db", "postgres://root:hunter2@host:notaport/db"] {
        let opened = Store::open(Options { database: database.into(), ..place.options() }).await;
        let said = format!("{:?} {0}", opened.unwrap_err());
        assert!(!said.contains("hunter2"), "{said}");
    }
}

/// Rows of every table with an account that are this account's.
pub async fn rows_of(database: &str, account: i64) -> Vec<(&'static str, i64)> {
    let tables = [
        "keys",
        "ledger",
        "holds",
        "transcripts",
        "jobs",
        "blobs",
        "idempotency",
        "usage_days",
        "chat_days",
        "chat_sessions",
        "webhooks",
        "cloud_instances",
        "voiceprints",
    ];
    let mut out = Vec::new();
    for table in tables {
        let rows = count(database, &format!("SELECT count(*) FROM {table} WHERE account_id = {account}")).await;
        out.push((table, rows));
    }
    for table in ["segments", "chat_turns"] {
        let orphans = match table {
            "segments" => "transcript_id NOT IN (SELECT id FROM transcripts)",
            _ => "session_id NOT IN (SELECT id FROM chat_sessions)",
        };
        out.push((table, count(database, &format!("SELECT count(*) FROM {table} WHERE {orphans}")).await));
    }
    out
}

/// One number from the database, past the store.
pub async fn count(database: &str, sql: &str) -> i64 {
    use sqlx::{Connection, Row};
    if database.starts_with("sqlite:") {
        let mut connection = sqlx::SqliteConnection::connect(database).await.unwrap();
        let counted = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap().get(0);
        closed(connection).await;
        counted
    } else {
        let mut connection = sqlx::PgConnection::connect(database).await.unwrap();
        let counted = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap().get(0);
        closed(connection).await;
        counted
    }
}

/// One statement, past the store.
pub async fn run_sql(database: &str, sql: &str) {
    use sqlx::{Connection, Executor};
    if database.starts_with("sqlite:") {
        let mut connection = sqlx::SqliteConnection::connect(database).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
        closed(connection).await;
    } else {
        let mut connection = sqlx::PgConnection::connect(database).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
        closed(connection).await;
    }
}

/// A connection that is only dropped ends some time later, and SQLite's last one takes files along.
async fn closed(connection: impl sqlx::Connection) {
    connection.close().await.unwrap();
}

//! Databases that earlier versions wrote open with this one, and nothing in them is lost.
//!
//! `fixtures/schema3.*.sql` were dumped from the program whose schema had version 3: two accounts, one made before there was a master key and one sealed with
//! it, each with a completed, a failed, a running and a waiting transcript, a key, ledger entries, a webhook, a voiceprint, a chat and stored answers.

use std::path::Path;
use std::time::Duration;

use hark_store::{
    AccountId, Clock, EntryKind, IdempotencyKey, KeyKind, MasterKey, MasterKeys, Options, Owner, Status, Store,
    TranscriptFilter,
};

use crate::accounts::run_sql;
use crate::support::{Place, START, assert_balanced, on_both};

/// An hour after the fixtures were made.
const LATER: i64 = START + 3_600_000_000;

fn fixture(place: &Place) -> String {
    let name = if place.database.starts_with("sqlite:") { "schema3.sqlite.sql" } else { "schema3.postgres.sql" };
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

/// A database as the old version left it.
async fn load(place: &Place) {
    let mut database = place.database.clone();
    if let Some(path) = database.strip_prefix("sqlite://") {
        std::fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
        std::fs::File::create(path).unwrap();
        database = format!("sqlite://{path}");
    }
    let dump = fixture(place);
    run_sql(&database, &dump).await;
    // The recordings that it knows; what is in them does not matter here.
    for line in dump.lines().filter(|line| line.contains("INTO blobs") || line.contains("INTO public.blobs")) {
        let key = line.split('\'').find(|text| text.len() == 32).expect("a recording has a name");
        let folder = place.folder.path().join("blobs").join(&key[..2]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(key), "RIFF a recording").unwrap();
    }
}

fn options(place: &Place) -> Options {
    let master_keys = MasterKeys::new(MasterKey::new([7; 32]));
    Options { master_keys, clock: Clock::manual(LATER), ..place.options() }
}

async fn check_account(store: &Store, email: &str) {
    let account = store.accounts().by_email(email).await.unwrap();
    let is_sealed = email.starts_with("sealed");
    // 600 to begin with, 50 of goodwill, 1 charged; 2 each are held for what runs and waits, 5 for a call.
    assert_eq!(account.credits, 600 + 50 - 1 - 2 - 2 - 5, "{email}");
    assert_eq!(store.accounts().password_hash(account.id).await.unwrap().as_deref(), Some("$argon2id$fake"));
    let entries = store.ledger().entries(account.id, 100).await.unwrap();
    let charged: Vec<i64> = entries.iter().filter(|e| e.kind == EntryKind::Charge).map(|e| e.amount).collect();
    assert_eq!(charged, [-1]);
    let keys = store.keys().list(account.id, KeyKind::Service).await.unwrap();
    assert_eq!(keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["server"]);
    assert_eq!(store.keys().minutes_used(keys[0].id).await.unwrap(), 1);

    let page = store
        .transcripts()
        .list(account.id, &TranscriptFilter { per_page: 100, ..TranscriptFilter::default() })
        .await
        .unwrap();
    let of = |title: &str| {
        page.transcripts.iter().find(|one| one.title == title).unwrap_or_else(|| panic!("{email}: no {title}"))
    };
    assert_eq!(page.transcripts.len(), 4);
    assert_eq!(of("Broken upload").status, Status::Failed);
    assert_eq!(of("Running talk").status, Status::Processing);
    assert_eq!(of("Waiting talk").status, Status::Queued);
    let completed = of("Completed meeting");
    assert_eq!(completed.status, Status::Completed);
    let (transcript, result) = store.transcripts().text(account.id, completed.id).await.unwrap();
    assert_eq!(transcript.is_encrypted, is_sealed);
    assert_eq!(transcript.summary.as_deref(), Some("They begin."));
    assert_eq!(result.text, "Good morning everyone. Shall we begin?");
    assert_eq!(result.segments[0].words.len(), 3);
    let names = store.transcripts().speaker_names(account.id, completed.id).await.unwrap();
    assert_eq!(names.get("SPEAKER_00").map(String::as_str), Some("Ada"));
    assert_eq!(store.recordings().get(account.id, completed.id).await.unwrap().size, 16);
    assert!(transcript.share_token.is_some(), "it was shared");
    let voices = store.voiceprints().list(account.id).await.unwrap();
    assert_eq!((voices[0].name.as_str(), voices[0].print.as_slice()), ("Ada", [7_u8; 64].as_slice()));
    check_repeats(store, account.id).await;
}

/// A request that was answered before the upgrade is not done again after it.
async fn check_repeats(store: &Store, account: AccountId) {
    let owner = Owner::Account(account);
    let name = |key: &str, fingerprint: &[u8]| IdempotencyKey {
        older: Vec::new(),
        key: key.into(),
        fingerprint: fingerprint.to_vec(),
        keep: Duration::from_secs(60),
    };
    assert!(store.idempotency().transcript(&owner, &name("again", &[1, 2, 3])).await.unwrap().is_some());
    let answer =
        store.idempotency().answer(&owner, &name("answered", &[9])).await.unwrap().expect("the answer was kept");
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"{}".as_slice()));
}

on_both! {
    async fn a_database_of_schema_3_keeps_everything(place: Place) {
        load(&place).await;
        let store = Store::open(options(&place)).await.unwrap();
        assert_balanced(&store).await;
        assert_eq!(store.integrity().check_database().await.unwrap(), [] as [String; 0]);
        for email in ["plain@example.org", "sealed@example.org"] {
            check_account(&store, email).await;
        }
        // Work goes on where it was: what waited is claimed, in the order of old.
        let job = store.jobs().claim_any("new worker", Duration::from_secs(30)).await.unwrap().expect("what waited still waits");
        assert!(job.payload.contains("whisper-large-v3-turbo"), "{}", job.payload);
        store.close().await;
    }

    async fn servers_that_start_at_the_same_moment_migrate_once(place: Place) {
        load(&place).await;
        let starts: Vec<_> = (0..4).map(|_| tokio::spawn(Store::open(options(&place)))).collect();
        let mut stores = Vec::new();
        for start in starts {
            stores.push(start.await.unwrap().unwrap());
        }
        // And one that starts while others work.
        let account = stores[0].accounts().by_email("plain@example.org").await.unwrap().id;
        let before = stores[0].accounts().get(account).await.unwrap().credits;
        let writers: Vec<_> = stores
            .iter()
            .map(|store| {
                let store = store.clone();
                tokio::spawn(async move {
                    for _ in 0..20 {
                        store.ledger().grant(account, 1, "").await.unwrap();
                    }
                })
            })
            .collect();
        stores.push(Store::open(options(&place)).await.unwrap());
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(stores[0].accounts().get(account).await.unwrap().credits, before + 80);
        assert_balanced(&stores[0]).await;
        for store in stores {
            store.close().await;
        }
    }
}

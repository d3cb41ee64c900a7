use std::collections::BTreeMap;
use std::time::Duration;

use hark_store::{
    AccountId, Error, IdempotencyKey, MasterKey, MasterKeys, NewJob, Options, Owner, Store, StoredAnswer,
    TranscriptEdit, TranscriptId, WebhookTarget,
};

use crate::accounts::{count, run_sql};
use crate::support::{Place, account, claim, completed, new_claim, new_job, on_both, result};

pub const KEY: [u8; 32] = [7; 32];

/// Fills every sealed column with a word that can be looked for.
pub async fn fill(store: &Store) -> (AccountId, TranscriptId) {
    let account = account(store, 0).await;
    let owner = Owner::Account(account);
    let mut job = new_job(store, &owner, 0).await;
    job.transcript.title = "xylophone title".into();
    job.payload = "xylophone request".into();
    let webhook = Some(WebhookTarget { url: "https://xylophone".into(), secret: "xylophone".into() });
    store
        .jobs()
        .accept(NewJob { webhook, blob: crate::support::upload(store, account, b"xylophone audio").await, ..job })
        .await
        .unwrap();
    let job = claim(store).await;
    let id = job.lease.transcript.unwrap();
    let mut heard = result();
    heard.segments[0].text = "xylophone text".into();
    heard.segments[0].words[0].word = "xylophone".into();
    store.jobs().complete(&job.lease, &heard, 0, true).await.unwrap();
    let names = TranscriptEdit {
        speakers: BTreeMap::from([("SPEAKER_00".into(), "Xylophone xylophone".into())]),
        ..Default::default()
    };
    store.transcripts().edit(account, id, &names).await.unwrap();
    store.transcripts().set_summary(account, id, "xylophone summary").await.unwrap();
    store.transcripts().store_derived(account, id, "topics", b"xylophone topics").await.unwrap();
    let session = store.chats().begin(account, id).await.unwrap();
    store.chats().add(account, id, &session, "xylophone?", "xylophone!").await.unwrap();
    store.voiceprints().add(account, "xylophone name", b"xylophone print").await.unwrap();
    let name =
        IdempotencyKey { key: "k".into(), fingerprint: vec![1], older: Vec::new(), keep: Duration::from_secs(60) };
    let key_claim = new_claim(store.idempotency().begin(&owner, &name, Duration::from_secs(60)).await.unwrap());
    let answer = StoredAnswer { status: 200, content_type: "text/plain".into(), body: b"xylophone answer".to_vec() };
    store.idempotency().finish(&owner, &key_claim, &answer).await.unwrap();
    (account, id)
}

/// How often the word lies open in the database or in a file.
pub async fn found_open(place: &Place) -> usize {
    let mut found = 0;
    if !place.database.starts_with("sqlite:") {
        for (table, column) in SEALED {
            let sql = format!("SELECT count(*) FROM {table} WHERE position('xylophone'::bytea in {column}) > 0");
            found += count(&place.database, &sql).await as usize;
        }
    }
    for path in place.files() {
        let bytes = match std::fs::read(path) {
            // The journal of a database that was just closed goes away by itself.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            read => read.unwrap(),
        };
        found += bytes.windows(9).filter(|w| *w == b"xylophone").count();
    }
    found
}

const SEALED: [(&str, &str); 11] = [
    ("transcripts", "title"),
    ("transcripts", "summary"),
    ("segments", "body"),
    ("speaker_names", "name"),
    ("derived", "body"),
    ("jobs", "payload"),
    ("chat_turns", "body"),
    ("idempotency", "answer"),
    ("webhooks", "target"),
    ("voiceprints", "name"),
    ("voiceprints", "print"),
];

on_both! {
    async fn sealed_text_and_audio_lie_nowhere_open(place: Place) {
        let store = place.open_sealed(KEY).await;
        let (account, id) = fill(&store).await;
        let (found, text) = store.transcripts().text(account, id).await.unwrap();
        assert!(found.is_encrypted);
        assert_eq!(found.title, "xylophone title");
        assert_eq!(text.segments[0].text, "xylophone text");
        assert_eq!(text.speakers[0], "Xylophone xylophone");
        assert_eq!(store.webhooks().claim(1, Duration::ZERO).await.unwrap()[0].target.url, "https://xylophone");
        store.close().await;
        assert_eq!(found_open(&place).await, 0);
    }

    async fn without_a_master_key_the_same_word_is_found(place: Place) {
        // Shows that the search of the test above would find it.
        let store = place.open().await;
        let (account, id) = fill(&store).await;
        assert!(!store.transcripts().get(account, id).await.unwrap().is_encrypted);
        store.close().await;
        assert!(found_open(&place).await >= SEALED.len());
    }

    async fn a_value_that_was_moved_or_changed_does_not_open(place: Place) {
        let store = place.open_sealed(KEY).await;
        let account = account(&store, 0).await;
        let (one, two) = (completed(&store, account).await, completed(&store, account).await);
        let sql = format!("UPDATE transcripts SET title = (SELECT title FROM transcripts WHERE id = {one}) WHERE id = {two}");
        run_sql(&place.database, &sql).await;
        assert!(store.transcripts().get(account, one).await.is_ok());
        assert!(matches!(store.transcripts().get(account, two).await, Err(Error::Damaged(_))));
        let sql = format!(
            "UPDATE segments SET body = (SELECT body FROM segments WHERE transcript_id = {one} AND position = 0) WHERE transcript_id = {one} AND position = 1"
        );
        run_sql(&place.database, &sql).await;
        assert!(matches!(store.transcripts().text(account, one).await, Err(Error::Damaged(_))));
    }

    async fn without_its_master_key_a_store_opens_nothing_and_writes_nothing_open(place: Place) {
        let (account, id) = fill(&place.open_sealed(KEY).await).await;
        for store in [place.open().await, place.open_sealed([8; 32]).await] {
            assert!(matches!(store.transcripts().get(account, id).await, Err(Error::Sealed(_))));
            assert!(matches!(store.recordings().upload(account).await.map(drop), Err(Error::Sealed(_))));
            assert!(matches!(store.transcripts().set_summary(account, id, "open").await, Err(Error::Sealed(_))));
        }
    }

    async fn rotation_wraps_every_key_anew_and_the_old_master_may_go(place: Place) {
        let store = place.open_sealed(KEY).await;
        let (account, id) = fill(&store).await;
        let (other, _) = fill(&store).await;
        store.close().await;
        let new = MasterKey::new([9; 32]);
        let both = MasterKeys::new(new.clone()).with_old(MasterKey::new(KEY));
        let store = Store::open(Options { master_keys: both, ..place.options() }).await.unwrap();
        assert_eq!(store.transcripts().get(account, id).await.unwrap().title, "xylophone title");
        assert_eq!(store.sealing().rotate_master().await.unwrap(), 2);
        assert_eq!(store.sealing().rotate_master().await.unwrap(), 0);
        store.close().await;
        let store = place.open_sealed([9; 32]).await;
        assert_eq!(store.transcripts().get(account, id).await.unwrap().title, "xylophone title");
        let recording = store.recordings().get(account, id).await.unwrap();
        assert_eq!(store.recordings().read(&recording, None).await.unwrap().read_all().await.unwrap(), b"xylophone audio");
        assert!(store.transcripts().list(other, &Default::default()).await.is_ok());
        assert!(matches!(place.open_sealed(KEY).await.transcripts().get(account, id).await, Err(Error::Sealed(_))));
    }

    async fn every_account_has_a_key_of_its_own(place: Place) {
        let store = place.open_sealed(KEY).await;
        let (one, _) = fill(&store).await;
        let (two, theirs) = fill(&store).await;
        let sql = format!("UPDATE accounts SET data_key = (SELECT data_key FROM accounts WHERE id = {one}) WHERE id = {two}");
        run_sql(&place.database, &sql).await;
        let fresh = place.open_sealed(KEY).await;
        assert!(matches!(fresh.transcripts().get(two, theirs).await, Err(Error::Damaged(_))));
        // With its key gone an account's data is gone, also in old backups of everything else.
        run_sql(&place.database, &format!("UPDATE accounts SET data_key = NULL WHERE id = {one}")).await;
        let fresh = place.open_sealed(KEY).await;
        assert!(fresh.transcripts().list(one, &Default::default()).await.is_err());
    }

    async fn a_value_in_the_clear_is_refused_in_an_account_that_was_always_sealed(place: Place) {
        let store = place.open_sealed(KEY).await;
        let (account, id) = fill(&store).await;
        let store = {
            store.close().await;
            place.open_sealed(KEY).await
        };
        // Somebody who can write to the database, and has no key, puts words into a mouth: 0 and the text.
        let forged = if place.database.starts_with("sqlite:") { "x'00666f72676564'" } else { "'\\x00666f72676564'" };
        run_sql(&place.database, &format!("UPDATE transcripts SET title = {forged} WHERE id = {id}")).await;
        assert!(matches!(store.transcripts().get(account, id).await, Err(Error::Sealed(_))));
        assert!(matches!(store.transcripts().list(account, &Default::default()).await, Err(Error::Sealed(_))));
        // The same with a recording.
        let recording = store.recordings().get(account, id).await.unwrap();
        run_sql(&place.database, "UPDATE blobs SET is_sealed = FALSE").await;
        let swapped = hark_store::Blob { is_sealed: false, ..recording };
        assert!(matches!(store.recordings().read(&swapped, None).await.map(drop), Err(Error::Sealed(_))));
        assert!(matches!(store.recordings().source(&swapped).await.map(drop), Err(Error::Sealed(_))));
    }

    async fn a_value_in_the_clear_is_refused_once_everything_was_sealed(place: Place) {
        let (account, id) = fill(&place.open().await).await;
        let forged = if place.database.starts_with("sqlite:") { "x'00666f72676564'" } else { "'\\x00666f72676564'" };
        let forge = format!("UPDATE transcripts SET title = {forged} WHERE id = {id}");
        let store = place.open_sealed(KEY).await;
        run_sql(&place.database, &forge).await;
        assert_eq!(store.transcripts().get(account, id).await.unwrap().title, "forged", "until then nobody can tell");
        assert!(store.sealing().seal_all(|_| {}).await.unwrap().left.is_nothing());
        assert_eq!(store.transcripts().get(account, id).await.unwrap().title, "forged");
        run_sql(&place.database, &forge).await;
        assert!(matches!(store.transcripts().get(account, id).await, Err(Error::Sealed(_))));
        // It holds for whoever starts later, and through a rotation.
        store.close().await;
        let keys = MasterKeys::new(MasterKey::new([9; 32])).with_old(MasterKey::new(KEY));
        let store = Store::open(Options { master_keys: keys, ..place.options() }).await.unwrap();
        assert!(store.sealing().rotate_master().await.unwrap() > 0);
        store.close().await;
        let store = place.open_sealed([9; 32]).await;
        assert!(matches!(store.transcripts().get(account, id).await, Err(Error::Sealed(_))));
    }

    async fn what_was_stored_before_there_was_a_master_key_stays_readable(place: Place) {
        let (account, id) = fill(&place.open().await).await;
        let store = place.open_sealed(KEY).await;
        assert_eq!(store.transcripts().get(account, id).await.unwrap().title, "xylophone title");
        let recording = store.recordings().get(account, id).await.unwrap();
        assert_eq!(store.recordings().read(&recording, None).await.unwrap().read_all().await.unwrap(), b"xylophone audio");
        let new = completed(&store, account).await;
        assert!(store.transcripts().get(account, new).await.unwrap().is_encrypted);
        assert!(!store.transcripts().get(account, id).await.unwrap().is_encrypted);
    }
}

#[test]
fn keys_do_not_show_themselves() {
    let key = MasterKey::generate().unwrap();
    let shown = format!("{key:?} {:?}", MasterKeys::new(key.clone()));
    assert!(!shown.contains(key.to_hex().as_str()), "{shown}");
    assert_eq!(MasterKey::from_hex(&key.to_hex()).unwrap().id(), key.id());
    assert!(MasterKey::from_hex("abc").is_err());
    assert!(MasterKey::from_hex(&"g".repeat(64)).is_err());
}

//! Tokens of public pages: nobody who reads the database can open one.

use hark_store::{Error, TranscriptEdit};

use crate::accounts::{count, run_sql};
use crate::sealing::KEY;
use crate::support::{account, completed, on_both};

on_both! {
    async fn a_share_token_does_not_lie_in_the_database(place: Place) {
        let store = place.open_sealed(KEY).await;
        let owner = account(&store, 0).await;
        let id = completed(&store, owner).await;
        let share = TranscriptEdit { shared: Some(true), ..Default::default() };
        let token = store.transcripts().edit(owner, id, &share).await.unwrap().share_token.unwrap();
        assert_eq!(store.transcripts().shared(&token).await.unwrap().0.id, id);
        let listed = store.transcripts().list(owner, &Default::default()).await.unwrap().transcripts;
        assert_eq!(listed[0].share_token.as_ref(), Some(&token), "its owner still sees it");
        store.close().await;
        if place.database.starts_with("sqlite:") {
            for file in place.files() {
                let bytes = std::fs::read(&file).unwrap();
                assert!(!bytes.windows(token.len()).any(|part| part == token.as_bytes()), "{}", file.display());
            }
        } else {
            let sql = format!("SELECT count(*) FROM transcripts WHERE transcripts::text LIKE '%{token}%'");
            assert_eq!(count(&place.database, &sql).await, 0);
        }
    }

    async fn tokens_that_an_older_version_kept_in_the_clear_are_moved_and_still_open(place: Place) {
        let store = place.open_sealed(KEY).await;
        let owner = account(&store, 0).await;
        let (shared, off) = (completed(&store, owner).await, completed(&store, owner).await);
        store.close().await;
        let old = |id, token: &str, on| {
            format!("UPDATE transcripts SET share_token = '{token}', is_shared = {on} WHERE id = {id}")
        };
        run_sql(&place.database, &old(shared, "00112233445566778899aabbccddeeff", "TRUE")).await;
        run_sql(&place.database, &old(off, "ffeeddccbbaa99887766554433221100", "FALSE")).await;
        let store = place.open_sealed(KEY).await;
        assert_eq!(store.transcripts().shared("00112233445566778899aabbccddeeff").await.unwrap().0.id, shared);
        let found = store.transcripts().get(owner, shared).await.unwrap();
        assert_eq!(found.share_token.as_deref(), Some("00112233445566778899aabbccddeeff"));
        assert!(matches!(store.transcripts().shared("ffeeddccbbaa99887766554433221100").await, Err(Error::NotFound(_))));
        assert_eq!(count(&place.database, "SELECT count(*) FROM transcripts WHERE share_token IS NOT NULL").await, 0);
    }
}

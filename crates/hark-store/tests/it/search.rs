//! The search index: what is found, by whom, and when it is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use hark_api::{Segment, TranscriptionResult};
use hark_store::{
    AccountId, Error, IndexTask, MasterKey, MasterKeys, NewIndex, NewPassage, NewTranscript, Options, RestoreOptions,
    SearchCounts, SearchFilter, SegmentEdit, Store, TranscriptEdit, TranscriptId, restore,
};

use crate::accounts::{count, run_sql};
use crate::sealing::{KEY, found_open};
use crate::support::{Place, account, completed, on_both};

const LEASE: Duration = Duration::from_secs(60);
const MODEL: &str = "all-minilm-l6-v2";

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// A vector that says which of three subjects a text is about.
fn vector(text: &str) -> Vec<f32> {
    let has = |word: &str| if text.contains(word) { 1.0 } else { 0.1 };
    let vector = [has("money"), has("garden"), has("music"), 0.0];
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / norm).collect()
}

async fn transcript(store: &Store, account: AccountId, language: &str, texts: &[&str]) -> TranscriptId {
    let segments: Vec<Segment> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| Segment {
            start: at as f64 * 10.0,
            end: at as f64 * 10.0 + 9.0,
            text: (*text).to_owned(),
            speaker: Some(format!("SPEAKER_0{}", at % 2)),
            ..Segment::default()
        })
        .collect();
    let heard = TranscriptionResult { language: language.into(), duration: 60.0, segments, ..Default::default() };
    let new = NewTranscript { title: "xylophone lesson".into(), source_type: "api".into(), ..Default::default() };
    store.transcripts().save(account, &new, &heard, None).await.unwrap().0
}

/// A passage for each segment with words.
async fn index_of(store: &Store, task: &IndexTask, model: Option<&str>) -> NewIndex {
    let (_, text) = store.transcripts().text(task.account, task.transcript).await.unwrap();
    let with_words: Vec<(i64, &str)> = (0..)
        .zip(text.segments.iter().map(|segment| segment.text.trim()))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    let passage = |&(position, text): &(i64, &str)| NewPassage {
        first_segment: position,
        last_segment: position,
        text_offset: 0,
        text_length: text.len() as i64,
        terms: words(text),
    };
    NewIndex {
        version: 1,
        passages: with_words.iter().map(passage).collect(),
        model: model.map(str::to_owned),
        vectors: if model.is_some() { with_words.iter().map(|(_, text)| vector(text)).collect() } else { Vec::new() },
    }
}

/// Indexes what is due; returns how many transcripts were.
async fn index_all(store: &Store, model: Option<&str>) -> usize {
    let mut done = 0;
    while let Some(task) = store.search().claim(LEASE).await.unwrap() {
        let index = index_of(store, &task, model).await;
        match store.search().index(&task, &index).await {
            Ok(()) => done += 1,
            Err(Error::LeaseLost) => {}
            Err(error) => panic!("{error}"),
        }
    }
    done
}

/// The texts of passages with any of the words.
async fn find(store: &Store, account: AccountId, query: &str, filter: &SearchFilter) -> Vec<String> {
    let found = store.search().candidates(account, &words(query), &[], filter, 100).await.unwrap();
    let passages = store.search().passages(account, &found.passages).await.unwrap();
    passages.iter().map(|passage| passage.text()).collect()
}

async fn find_all(store: &Store, account: AccountId, query: &str) -> Vec<String> {
    find(store, account, query, &SearchFilter::default()).await
}

async fn rows(place: &Place) -> (i64, i64) {
    (
        count(&place.database, "SELECT count(*) FROM search_documents").await,
        count(&place.database, "SELECT count(*) FROM search_passages").await,
    )
}

on_both! {
    async fn words_are_found_in_the_passages_of_their_account_only(place: Place) {
        let store = place.open().await;
        let (one, other) = (account(&store, 0).await, account(&store, 0).await);
        transcript(&store, one, "en", &["The budget is tight.", "We grow tomatoes.", "", "The tomatoes cost money."]).await;
        transcript(&store, other, "en", &["Our tomatoes are secret."]).await;
        assert_eq!(find_all(&store, one, "tomatoes").await, Vec::<String>::new());
        assert_eq!(store.search().counts(one).await.unwrap(), SearchCounts { indexed: 0, pending: 1 });
        assert_eq!(index_all(&store, None).await, 2);
        assert_eq!(store.search().counts(one).await.unwrap(), SearchCounts { indexed: 1, pending: 0 });
        // The passage with both words comes first, then the newest.
        assert_eq!(
            find_all(&store, one, "tomatoes money budget").await,
            ["The tomatoes cost money.", "The budget is tight.", "We grow tomatoes."]
        );
        assert_eq!(find_all(&store, other, "tomatoes").await, ["Our tomatoes are secret."]);
        assert_eq!(find_all(&store, one, "secret").await, Vec::<String>::new());

        let asked = words("tomatoes the nowhere");
        let found = store.search().candidates(one, &asked, &words("tomatoes money"), &SearchFilter::default(), 10).await.unwrap();
        assert_eq!((found.total, found.frequencies), (3, vec![2, 2, 0]));
        assert!((found.average_terms - 11.0 / 3.0).abs() < 1e-9);
        let passages = store.search().passages(one, &found.passages).await.unwrap();
        assert_eq!(passages.len(), 1, "both required words are in one passage");
        let segment = passages[0].segment_at(4).unwrap();
        assert_eq!((segment.position, segment.start, segment.speaker.as_deref()), (3, 30.0, Some("SPEAKER_01")));
        // The ids of another account's passages are of no use.
        assert_eq!(store.search().passages(other, &found.passages).await.unwrap(), []);
        let limited = store.search().candidates(one, &asked, &[], &SearchFilter::default(), 1).await.unwrap();
        assert_eq!(limited.passages.len(), 1);
    }

    async fn meanings_are_found_by_their_vectors_nearest_first(place: Place) {
        let store = place.open_sealed(KEY).await;
        let (one, other) = (account(&store, 0).await, account(&store, 0).await);
        let first = transcript(&store, one, "en", &["about money", "about music and money", "about nothing"]).await;
        let second = transcript(&store, one, "de", &["the garden"]).await;
        transcript(&store, other, "en", &["their money"]).await;
        assert_eq!(index_all(&store, Some(MODEL)).await, 3);
        let near = async |filter: &SearchFilter, limit| {
            let nearest = store.search().nearest(one, MODEL, &vector("money"), filter, limit).await.unwrap();
            let ids: Vec<_> = nearest.iter().map(|one| one.passage).collect();
            let passages = store.search().passages(one, &ids).await.unwrap();
            let texts: Vec<String> = passages.iter().map(|passage| passage.text()).collect();
            (texts, nearest)
        };
        let (texts, nearest) = near(&SearchFilter::default(), 2).await;
        assert_eq!(texts, ["about money", "about music and money"]);
        assert!(nearest[0].cosine > 0.99 && nearest[1].cosine > 0.6 && nearest[1].cosine < 0.9, "{nearest:?}");
        assert_eq!(near(&SearchFilter::default(), 10).await.0.len(), 4);
        let german = SearchFilter { language: Some("de".into()), ..Default::default() };
        assert_eq!(near(&german, 10).await.0, ["the garden"]);
        let only = SearchFilter { transcript: Some(first), ..Default::default() };
        assert_eq!(near(&only, 10).await.0.len(), 3);
        let later = SearchFilter { created_after: Some(store.now() + 1), ..Default::default() };
        assert_eq!(near(&later, 10).await.0.len(), 0);
        assert_eq!(find(&store, one, "garden money", &german).await, ["the garden"]);
        assert_eq!(find(&store, one, "garden money", &SearchFilter { created_before: Some(store.now() + 1), ..only }).await.len(), 2);
        assert_eq!(store.search().nearest(one, "another model", &vector("money"), &SearchFilter::default(), 9).await.unwrap(), []);
        assert_eq!(store.search().nearest(one, MODEL, &[1.0], &SearchFilter::default(), 9).await.unwrap(), []);
        let found = store.search().transcripts(one, &[first, second]).await.unwrap();
        assert_eq!((found.len(), found[&second].language.as_str()), (2, "de"));
        assert_eq!(found[&first].title, "xylophone lesson");
        assert_eq!(store.search().transcripts(other, &[first]).await.unwrap().len(), 0);
    }

    async fn what_is_deleted_or_edited_is_found_no_more(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 0).await;
        let edited = transcript(&store, owner, "en", &["the old harbour", "a quiet place"]).await;
        let deleted = transcript(&store, owner, "en", &["the harbour again"]).await;
        index_all(&store, Some(MODEL)).await;
        assert_eq!(find_all(&store, owner, "harbour").await.len(), 2);

        let edit = TranscriptEdit {
            segments: vec![SegmentEdit { position: 0, text: "the new station".into() }],
            ..Default::default()
        };
        store.transcripts().edit(owner, edited, &edit).await.unwrap();
        assert_eq!(find_all(&store, owner, "old quiet").await, Vec::<String>::new(), "at once, not when it is indexed again");
        assert_eq!(store.search().counts(owner).await.unwrap(), SearchCounts { indexed: 1, pending: 1 });
        assert_eq!(index_all(&store, Some(MODEL)).await, 1);
        assert_eq!(find_all(&store, owner, "station").await, ["the new station"]);
        assert_eq!(find_all(&store, owner, "old").await, Vec::<String>::new());
        // A new title or name changes no words that are indexed.
        let names = TranscriptEdit {
            title: Some("Trip".into()),
            speakers: BTreeMap::from([("SPEAKER_00".into(), "Ann".into())]),
            ..Default::default()
        };
        store.transcripts().edit(owner, edited, &names).await.unwrap();
        assert_eq!(store.search().counts(owner).await.unwrap(), SearchCounts { indexed: 2, pending: 0 });
        let described = store.search().transcripts(owner, &[edited]).await.unwrap();
        assert_eq!((described[&edited].title.as_str(), described[&edited].speakers["SPEAKER_00"].as_str()), ("Trip", "Ann"));

        store.transcripts().delete(owner, deleted).await.unwrap();
        assert_eq!(find_all(&store, owner, "harbour").await, Vec::<String>::new());
        assert_eq!(rows(&place).await, (1, 2));
        assert_eq!(store.integrity().check_database().await.unwrap(), Vec::<String>::new());
        store.accounts().delete(owner).await.unwrap();
        assert_eq!(rows(&place).await, (0, 0));
        if place.database.starts_with("sqlite:") {
            let left = "SELECT count(*) FROM search_terms";
            assert_eq!(count(&place.database, left).await, 0);
        }
    }

    async fn a_sealed_index_holds_no_word_and_not_the_hash_of_another_account(place: Place) {
        let store = place.open_sealed(KEY).await;
        let (one, other) = (account(&store, 0).await, account(&store, 0).await);
        for owner in [one, other] {
            transcript(&store, owner, "en", &["xylophone money"]).await;
        }
        index_all(&store, Some(MODEL)).await;
        assert_eq!(find_all(&store, one, "xylophone").await, ["xylophone money"]);
        let terms = "SELECT count(DISTINCT CAST(terms AS TEXT)) FROM search_passages";
        assert_eq!(count(&place.database, terms).await, 2, "the same words of two accounts are other terms");
        let plain = "SELECT count(*) FROM search_passages WHERE CAST(terms AS TEXT) LIKE '%xylophone%'";
        assert_eq!(count(&place.database, plain).await, 0);
        store.close().await;
        assert_eq!(found_open(&place).await, 0);
        // Neither is a word found without the key.
        let keyless = place.open().await;
        assert!(matches!(keyless.search().candidates(one, &words("xylophone"), &[], &SearchFilter::default(), 9).await, Err(Error::Sealed(_))));
    }

    async fn sealing_what_was_plaintext_drops_the_index_and_it_is_made_again(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 0).await;
        transcript(&store, owner, "en", &["xylophone money"]).await;
        index_all(&store, Some(MODEL)).await;
        store.close().await;

        let store = place.open_sealed(KEY).await;
        // The account gets its data key with its first use.
        assert_eq!(find_all(&store, owner, "xylophone").await, Vec::<String>::new());
        assert_eq!(store.search().reconcile(1, Some(MODEL)).await.unwrap(), 1, "its terms are not keyed by the data key");
        let sealed = store.sealing().seal_all(|_| {}).await.unwrap();
        assert!(sealed.left.is_nothing(), "{sealed:?}");
        assert_eq!(rows(&place).await, (1, 0));
        assert_eq!(index_all(&store, Some(MODEL)).await, 1);
        assert_eq!(find_all(&store, owner, "xylophone").await, ["xylophone money"]);
        assert_eq!(store.search().nearest(owner, MODEL, &vector("money"), &SearchFilter::default(), 9).await.unwrap().len(), 1);
        assert_eq!(store.sealing().unsealed().await.unwrap(), Default::default());
        if !place.database.starts_with("sqlite:") {
            store.sealing().rewrite_tables().await.unwrap();
        }
        assert_eq!(store.search().reconcile(1, Some(MODEL)).await.unwrap(), 0);
        store.close().await;

        // A new master key wraps the same data key.
        let keys = MasterKeys::new(MasterKey::new([9; 32])).with_old(MasterKey::new(KEY));
        let store = Store::open(Options { master_keys: keys, ..place.options() }).await.unwrap();
        assert!(store.sealing().rotate_master().await.unwrap() > 0);
        assert_eq!(find_all(&store, owner, "xylophone").await, ["xylophone money"]);
    }

    async fn an_index_of_a_text_that_has_changed_meanwhile_is_refused(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 0).await;
        let id = transcript(&store, owner, "en", &["the old words"]).await;
        let task = store.search().claim(LEASE).await.unwrap().unwrap();
        assert_eq!((task.transcript, task.account, task.attempts), (id, owner, 0));
        assert_eq!(store.search().claim(LEASE).await.unwrap(), None, "it is claimed");
        let index = index_of(&store, &task, None).await;
        let edit = TranscriptEdit { segments: vec![SegmentEdit { position: 0, text: "other".into() }], ..Default::default() };
        store.transcripts().edit(owner, id, &edit).await.unwrap();
        assert!(matches!(store.search().index(&task, &index).await, Err(Error::LeaseLost)));
        assert!(matches!(store.search().renew(&task, LEASE).await, Err(Error::LeaseLost)));
        assert_eq!(find_all(&store, owner, "old").await, Vec::<String>::new());
        assert_eq!(index_all(&store, None).await, 1);
        assert_eq!(find_all(&store, owner, "other").await, ["other"]);

        // Deleted while it is indexed.
        let id = transcript(&store, owner, "en", &["a third"]).await;
        let task = store.search().claim(LEASE).await.unwrap().unwrap();
        let index = index_of(&store, &task, None).await;
        store.transcripts().delete(owner, id).await.unwrap();
        assert!(matches!(store.search().index(&task, &index).await, Err(Error::LeaseLost)));
        assert_eq!(rows(&place).await, (1, 1));
        let wrong = NewIndex { model: Some(MODEL.into()), ..index };
        assert!(matches!(store.search().index(&task, &wrong).await, Err(Error::Invalid(_))), "a vector is missing");
    }

    async fn a_claim_that_its_process_left_is_given_to_another(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 0).await;
        transcript(&store, owner, "en", &["some words"]).await;
        let lost = store.search().claim(LEASE).await.unwrap().unwrap();
        place.clock.advance(Duration::from_secs(50));
        store.search().renew(&lost, LEASE).await.unwrap();
        place.clock.advance(Duration::from_secs(50));
        assert_eq!(store.search().claim(LEASE).await.unwrap(), None);
        place.clock.advance(Duration::from_secs(11));
        let task = store.search().claim(LEASE).await.unwrap().unwrap();
        let index = index_of(&store, &task, None).await;
        assert!(matches!(store.search().index(&lost, &index).await, Err(Error::LeaseLost)));
        // What failed is tried again, later.
        store.search().retry(&task, Duration::from_secs(30)).await.unwrap();
        assert_eq!(store.search().claim(LEASE).await.unwrap(), None);
        place.clock.advance(Duration::from_secs(31));
        let task = store.search().claim(LEASE).await.unwrap().unwrap();
        assert_eq!(task.attempts, 1);
        store.search().index(&task, &index).await.unwrap();
        assert_eq!(find_all(&store, owner, "words").await, ["some words"]);
    }

    async fn two_processes_index_each_transcript_once(place: Place) {
        let (one, two) = (place.open().await, place.open().await);
        let owner = account(&one, 0).await;
        for number in 0..12 {
            transcript(&one, owner, "en", &[&format!("number {number}"), "words"]).await;
        }
        let (first, second) = tokio::join!(index_all(&one, None), index_all(&two, None));
        assert_eq!(first + second, 12);
        assert_eq!(rows(&place).await, (12, 24));
        assert_eq!(find_all(&one, owner, "words").await.len(), 12);
        one.close().await;
        two.close().await;
    }

    async fn vectors_follow_when_a_model_is_installed_and_forgotten_transcripts_are_found(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 0).await;
        transcript(&store, owner, "en", &["money matters"]).await;
        let queued = completed(&store, owner).await;
        assert_eq!(index_all(&store, None).await, 2);
        assert_eq!(store.search().reconcile(1, None).await.unwrap(), 0);
        assert_eq!(store.search().reconcile(1, Some(MODEL)).await.unwrap(), 2);
        assert_eq!(find_all(&store, owner, "money").await, ["money matters"], "it is found by its words meanwhile");
        assert_eq!(index_all(&store, Some(MODEL)).await, 2);
        assert_eq!(store.search().nearest(owner, MODEL, &vector("money"), &SearchFilter::default(), 1).await.unwrap().len(), 1);
        // The model is gone: the vectors stay.
        assert_eq!(store.search().reconcile(1, None).await.unwrap(), 0);
        assert_eq!(store.search().reconcile(2, Some(MODEL)).await.unwrap(), 2, "another version of the passages");
        index_all(&store, Some(MODEL)).await;
        // As an earlier version leaves it that runs beside this one.
        run_sql(&place.database, &format!("DELETE FROM search_documents WHERE transcript_id = {queued}")).await;
        assert_eq!(store.search().reconcile(1, Some(MODEL)).await.unwrap(), 1);
        assert_eq!(index_all(&store, Some(MODEL)).await, 1);
        assert_eq!(find_all(&store, owner, "morning").await, ["Good morning everyone."]);
    }

    async fn a_restored_backup_can_be_searched(place: Place) {
        let store = place.open_sealed(KEY).await;
        let owner = account(&store, 0).await;
        transcript(&store, owner, "en", &["xylophone money"]).await;
        index_all(&store, Some(MODEL)).await;
        let folder = tempfile::tempdir().unwrap();
        store.backup(&place.database, &folder.path().join("backup"), |_| {}).await.unwrap();
        store.close().await;
        let new = if place.database.starts_with("sqlite:") { Place::sqlite() } else { Place::postgres().await };
        let options = Options { master_keys: MasterKeys::new(MasterKey::new(KEY)), ..new.options() };
        restore(&folder.path().join("backup"), options, RestoreOptions::default()).await.unwrap();
        let store = new.open_sealed(KEY).await;
        assert_eq!(find_all(&store, owner, "xylophone").await, ["xylophone money"]);
        assert_eq!(store.search().nearest(owner, MODEL, &vector("money"), &SearchFilter::default(), 9).await.unwrap().len(), 1);
        assert_eq!(store.integrity().check_database().await.unwrap(), Vec::<String>::new());
        store.close().await;
    }
}

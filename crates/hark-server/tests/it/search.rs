//! `GET /v1/search`: over transcripts that the indexer of a running server has indexed.

use hark_server::{InstantEngine, Role};
use hark_store::{NewTranscript, Plan, TranscriptId};
use hark_transcript::{Segment, TranscriptionResult};
use serde_json::{Value, json as value};

use crate::server::{Client, Server, config, eventually, json, real_engine, refusal};

/// A completed transcript; each text is a segment of a speaker of its own.
async fn transcript(server: &Server, client: &Client, title: &str, texts: &[&str]) -> TranscriptId {
    let segments: Vec<Segment> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| Segment {
            start: index as f64 * 10.0,
            end: index as f64 * 10.0 + 8.0,
            text: (*text).to_owned(),
            speaker: Some(format!("SPEAKER_0{index}")),
            ..Segment::default()
        })
        .collect();
    let result = TranscriptionResult { language: "en".into(), duration: 40.0, segments, ..Default::default() };
    let new = NewTranscript { title: title.into(), source_type: "api".into(), ..NewTranscript::default() };
    server.store.transcripts().save(client.account.unwrap(), &new, &result, None).await.unwrap().0
}

fn encoded(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn search(client: &Client, query: &str, more: &str) -> Value {
    json(client.get(&format!("/v1/search?q={}{more}", encoded(query))).await, 200).await
}

/// Waits until everything of the account is indexed.
async fn indexed(client: &Client) {
    eventually("everything is indexed", async || {
        let answer = search(client, "x", "&mode=text").await;
        (answer["pending"] == 0).then_some(())
    })
    .await;
}

fn titles(answer: &Value) -> Vec<&str> {
    answer["hits"].as_array().unwrap().iter().map(|hit| hit["title"].as_str().unwrap()).collect()
}

/// The highlighted parts of the first hit.
fn highlighted(answer: &Value) -> Vec<String> {
    let hit = &answer["hits"][0];
    let text: Vec<char> = hit["text"].as_str().unwrap().chars().collect();
    let place = |one: &Value| one["start"].as_u64().unwrap() as usize..one["end"].as_u64().unwrap() as usize;
    hit["highlights"].as_array().unwrap().iter().map(|one| text[place(one)].iter().collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn words_and_phrases_are_found_with_their_place_and_only_by_their_owner() {
    let server = Server::start().await;
    let (client, other) = (server.account(Plan::Pro).await, server.account(Plan::Free).await);
    let trip = ["Größe matters, said Zoë.", "We saw the old harbour and two harbours more."];
    let id = transcript(&server, &client, "Trip", &trip).await;
    transcript(&server, &client, "Board", &["The budget of the harbour was approved.", "Thank you."]).await;
    indexed(&client).await;

    let answer = search(&client, "Harbour", "").await;
    assert_eq!((&answer["mode"], &answer["indexed"], &answer["more"]), (&value!("text"), &value!(2), &value!(false)));
    // Twice in the one, once in the other.
    assert_eq!(titles(&answer), ["Trip", "Board"]);
    let hit = &answer["hits"][0];
    assert_eq!((&hit["transcript_id"], &hit["segment_order"]), (&value!(id.0), &value!(0)));
    assert_eq!(
        (&hit["start_time"], &hit["end_time"], &hit["speaker"]),
        (&value!(0.0), &value!(18.0), &value!("SPEAKER_00"))
    );
    assert_eq!(highlighted(&answer), ["harbour", "harbours"]);
    assert_eq!(hit["highlights"][0]["start_time"], 10.0, "the segment in which it stands");
    assert!(hit["score"].as_f64().unwrap() > answer["hits"][1]["score"].as_f64().unwrap());

    assert_eq!(titles(&search(&client, "\"harbour was approved\"", "").await), ["Board"]);
    assert_eq!(titles(&search(&client, "\"approved was\" harbour", "").await), Vec::<&str>::new());
    assert_eq!(highlighted(&search(&client, "zoe grosse", "").await), ["Zoë"]);
    assert_eq!(titles(&search(&client, "harbour", &format!("&transcript_id={id}")).await), ["Trip"]);
    assert_eq!(titles(&search(&client, "harbour", "&language=de").await), Vec::<&str>::new());
    assert_eq!(titles(&search(&client, "harbour", "&created_after=2020-01-01").await).len(), 2);
    assert_eq!(titles(&search(&client, "harbour", "&created_before=2020-01-01").await), Vec::<&str>::new());
    let first = search(&client, "harbour", "&limit=1").await;
    assert_eq!((titles(&first), &first["more"]), (vec!["Trip"], &value!(true)));
    let second = search(&client, "harbour", "&limit=1&offset=1").await;
    assert_eq!((titles(&second), &second["more"]), (vec!["Board"], &value!(false)));
    // Operators of full-text queries are words like others.
    for hostile in ["\" OR 1 --", "terms:*", "NEAR(a b)", "a & !b | (c", "'; DROP TABLE search_passages", "?!"] {
        assert_eq!(titles(&search(&client, hostile, "").await), Vec::<&str>::new(), "{hostile}");
    }
    let theirs = search(&other, "harbour", "").await;
    assert_eq!((titles(&theirs), &theirs["indexed"]), (Vec::new(), &value!(0)));
    refusal(other.get(&format!("/v1/search?q=harbour&transcript_id={id}")).await, 404).await;
    refusal(server.anonymous().get("/v1/search?q=harbour").await, 401).await;
    let long = "x".repeat(1001);
    for wrong in [
        "",
        "q=",
        "q=%20",
        "q=x&limit=0",
        "q=x&limit=101",
        "q=x&offset=-1",
        "q=x&mode=other",
        "q=%00",
        &format!("q={long}"),
    ] {
        refusal(client.get(&format!("/v1/search?{wrong}")).await, 400).await;
    }
    // Without an embedding model nothing is compared by meaning.
    refusal(client.get("/v1/search?q=harbour&mode=meaning").await, 503).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_is_indexed_again_and_a_deleted_transcript_is_found_no_more() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let id = transcript(&server, &client, "Trip", &["We saw the harbour."]).await;
    indexed(&client).await;
    assert_eq!(titles(&search(&client, "harbour", "").await), ["Trip"]);
    let change = value!({"title": "Trip home", "segments": [{"index": 0, "text": "We saw the station."}], "speaker_names": {"SPEAKER_00": "Ann"}});
    let path = format!("/v1/transcripts/{id}");
    json(client.request(reqwest::Method::PATCH, &path).json(&change).send().await.unwrap(), 200).await;
    indexed(&client).await;
    let found = search(&client, "station", "").await;
    assert_eq!((titles(&found), &found["hits"][0]["speaker"]), (vec!["Trip home"], &value!("Ann")));
    assert_eq!(titles(&search(&client, "harbour", "").await), Vec::<&str>::new());
    json(client.request(reqwest::Method::DELETE, &path).send().await.unwrap(), 200).await;
    let gone = search(&client, "station", "").await;
    assert_eq!((titles(&gone), &gone["indexed"], &gone["pending"]), (Vec::new(), &value!(0), &value!(0)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transcripts_that_were_completed_without_an_indexer_are_indexed_by_the_next_server() {
    let engine = InstantEngine::default();
    let folder = tempfile::tempdir().unwrap();
    let clock = hark_store::Clock::system();
    let server = Server::in_folder(folder, config(), engine, clock.clone(), Role::Account).await;
    let client = server.account(Plan::Pro).await;
    transcript(&server, &client, "Trip", &["We saw the harbour."]).await;
    assert_eq!(search(&client, "harbour", "").await["pending"], 1);
    let folder = server.stop().await;
    let server = Server::in_folder(folder, config(), InstantEngine::default(), clock, Role::All).await;
    let client = client.at(&server);
    indexed(&client).await;
    assert_eq!(titles(&search(&client, "harbour", "").await), ["Trip"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn what_says_the_same_in_other_words_is_found_by_its_meaning() {
    let server = Server::with(config(), real_engine()).await;
    let client = server.account(Plan::Pro).await;
    transcript(
        &server,
        &client,
        "Office",
        &["The invoice must be paid by Friday, otherwise the supplier stops deliveries."],
    )
    .await;
    transcript(&server, &client, "Zoo", &["Penguins live in the southern hemisphere and eat fish."]).await;
    transcript(&server, &client, "Kitchen", &["Chop the onions and fry them slowly in butter."]).await;
    indexed(&client).await;
    let answer = search(&client, "When do we have to settle the bill?", "&mode=meaning").await;
    assert_eq!((&answer["mode"], titles(&answer)[0]), (&value!("meaning"), "Office"));
    assert!(!titles(&answer).contains(&"Zoo"), "{answer}");
    assert_eq!(answer["hits"][0]["highlights"], value!([]));
    assert_eq!(titles(&search(&client, "birds of Antarctica", "&mode=meaning").await)[0], "Zoo");
    // Words and meanings together: what both find comes first.
    let both = search(&client, "onions for dinner", "").await;
    assert_eq!((&both["mode"], titles(&both)[0]), (&value!("all"), "Kitchen"));
    assert_eq!(highlighted(&both), ["onions"]);
    assert_eq!(titles(&search(&client, "settle bill", "&mode=text").await), Vec::<&str>::new());
    server.stop().await;
}

//! What is stored with a transcript because it was made of it.

use hark_store::{Plan, TranscriptId};
use reqwest::Method;
use serde_json::json as value;

use crate::server::{Server, hum, json, refusal};

#[tokio::test]
async fn what_was_made_of_a_transcript_is_listed_and_read() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let sent = client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    let id: i64 = sent.headers()["x-transcript-id"].to_str().unwrap().parse().unwrap();
    let path = format!("/v1/transcripts/{id}/results");
    assert_eq!(json(client.get(&path).await, 200).await, value!({"results": []}));

    let (account, about, store) = (client.account.unwrap(), TranscriptId(id), &server.store);
    let summary = value!({"summary": "They met.", "style": "brief", "model": "small"});
    for (kind, body) in [
        ("summary:brief", &summary),
        ("waveform", &value!([])),
        ("embedding:x", &value!({})),
        ("summary:odd", &value!(7)),
    ] {
        store.transcripts().store_derived(account, about, kind, body.to_string().as_bytes()).await.unwrap();
    }
    // One about all transcripts, one without an answer, one with two.
    let of_all = store.chats().begin(account, None).await.unwrap();
    store.chats().add(account, None, &of_all, "of all?", "yes").await.unwrap();
    store.chats().begin(account, about).await.unwrap();
    let chat = store.chats().begin(account, about).await.unwrap();
    for (question, answer) in [("who?", "they"), ("when?", "then")] {
        store.chats().add(account, about, &chat, question, answer).await.unwrap();
    }

    let listed = json(client.get(&path).await, 200).await;
    let mut ids: Vec<_> = listed["results"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [format!("chat:{chat}").as_str(), "summary:brief", "summary:odd"]);
    let made = json(client.get(&format!("{path}/summary:brief")).await, 200).await;
    assert_eq!((&made["kind"], &made["name"], &made["turns"]), (&value!("summary"), &value!("brief"), &value!(null)));
    assert_eq!(made["answer"], value!({"summary": "They met.", "style": "brief", "model": "small", "cached": true}));
    let talk = json(client.get(&format!("{path}/chat:{chat}")).await, 200).await;
    let turns: Vec<_> =
        talk["turns"].as_array().unwrap().iter().map(|turn| (&turn["question"], &turn["answer"])).collect();
    assert_eq!(turns, [(&value!("who?"), &value!("they")), (&value!("when?"), &value!("then"))]);
    assert_eq!(client.credits(&server).await, 599, "reading costs nothing");

    // What can't be read any more is made again by the request that makes it; others are no results.
    for absent in
        ["summary:odd", "summary:detailed", "waveform", "translation:pt", &format!("chat:{of_all}"), "chat:x", "%00"]
    {
        refusal(client.get(&format!("{path}/{absent}")).await, 404).await;
    }
    let edit = value!({"segments": [{"index": 0, "text": "something else"}]});
    client.request(Method::PATCH, &format!("/v1/transcripts/{id}")).json(&edit).send().await.unwrap();
    let left = json(client.get(&path).await, 200).await;
    assert_eq!(left["results"].as_array().unwrap().len(), 1, "only the conversation is not of the old text: {left}");
}

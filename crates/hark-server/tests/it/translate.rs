//! `POST /v1/translate` with real models.

use hark_store::Plan;
use serde_json::{Value, json as value};

use crate::server::{Server, config, json, real_engine_with, refusal};

async fn server() -> Server {
    let models = ["lid-176", "firefox-en-pt", "firefox-pt-en"];
    Server::with(config(), real_engine_with(hark_server::LanguageOptions::default(), &models)).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn texts_are_translated_in_their_order_and_their_language_is_found_out() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let body = value!({"text": "The meeting begins at 10:30 on Monday.", "target_language": "pt"});
    let answer = json(client.post("/v1/translate", body).await, 200).await;
    assert_eq!((&answer["source_language"], &answer["target_language"]), (&value!("en"), &value!("pt")));
    let text = answer["translated_text"].as_str().unwrap();
    assert!(text.to_lowercase().contains("reunião") && text.contains("10:30"), "{text}");
    assert_eq!(client.credits(&server).await, before - 1);

    let texts = ["Good morning, everybody.", "Bom dia a todos, como estão vocês?", "Where is the library?"];
    let answer = json(client.post("/v1/translate", value!({"texts": texts, "target": "pt-BR"})).await, 200).await;
    let translations = answer["translations"].as_array().unwrap();
    let sources: Vec<&Value> = translations.iter().map(|one| &one["source_language"]).collect();
    assert_eq!(sources, ["en", "pt", "en"]);
    assert_eq!(translations[1]["translated_text"], texts[1], "what is in the language already stays as it is");
    let last = translations[2]["translated_text"].as_str().unwrap();
    assert!(last.to_lowercase().contains("biblioteca"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn what_can_not_be_translated_is_refused_with_what_can_and_costs_nothing() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let listed = json(client.get("/v1/languages?for=translation").await, 200).await;
    let codes: Vec<&str> =
        listed["languages"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"en") && codes.contains(&"pt"), "{codes:?}");
    assert!(
        listed["pairs"].as_array().unwrap().contains(&value!({"from": "en", "to": "pt", "model": "firefox-en-pt"}))
    );
    let body = value!({"text": "Good morning, everybody.", "target": "fi"});
    let message = refusal(client.post("/v1/translate", body).await, 503).await;
    assert!(message.contains("en to pt"), "{message}");
    let message = refusal(client.post("/v1/translate", value!({"text": "…!?", "target": "pt"})).await, 400).await;
    assert!(message.contains("source_language"), "{message}");
    crate::server::eventually("the credits come back", async || {
        (client.credits(&server).await == before).then_some(())
    })
    .await;
}

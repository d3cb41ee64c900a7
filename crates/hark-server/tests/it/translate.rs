//! `POST /v1/translate` and translations of transcripts with real models.

use hark_server::LanguageOptions;
use hark_store::{NewTranscript, Plan, TranscriptId};
use hark_transcript::{Segment, TranscriptionResult};
use serde_json::{Value, json as value};

use crate::language;
use crate::server::{Client, Server, config, json, real_engine_with, refusal};

async fn server() -> Server {
    let models = ["lid-176", "firefox-en-pt", "firefox-pt-en"];
    // Whether the machine has a language model makes no difference.
    let language = LanguageOptions { translation_languages: Some(Vec::new()), ..LanguageOptions::default() };
    Server::with(config(), real_engine_with(language, &models)).await
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
    assert_eq!(listed["multilingual"], value!([]));
    let body = value!({"text": "Good morning, everybody.", "target": "xx"});
    let message = refusal(client.post("/v1/translate", body).await, 400).await;
    assert!(message.contains("\"xx\"") && message.contains("/v1/languages"), "{message}");
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn the_language_model_translates_what_no_translation_model_does() {
    let codes = ["de", "en", "pt"].map(str::to_owned).to_vec();
    let options = LanguageOptions { translation_languages: Some(codes.clone()), ..language::options() };
    let engine = real_engine_with(options, &["lid-176", "firefox-en-pt", language::MODEL]);
    let server = Server::with(language::with_timeout(600.0), engine).await;
    let client = server.account(Plan::Pro).await;
    let listed = json(client.get("/v1/languages?for=translation").await, 200).await;
    assert_eq!(listed["multilingual"], value!([{"model": language::MODEL, "languages": codes}]));
    for (target, model) in [("pt", "firefox-en-pt"), ("de", language::MODEL)] {
        let body = value!({"text": "Room 4711 is closed.\n\nPlease write to ann@example.org.", "source": "en", "target": target});
        let answer = json(client.post("/v1/translate", body).await, 200).await;
        assert_eq!(answer["model"], model);
        let text = answer["translated_text"].as_str().unwrap();
        // The tiny model's German is none; what must survive does.
        assert!(text.contains("4711") && text.contains("\n\n") && text.contains("ann@example.org"), "{target}: {text}");
    }
    let message =
        refusal(client.post("/v1/translate", value!({"text": "Hello.", "source": "en", "target": "fi"})).await, 503)
            .await;
    assert!(message.contains("en to pt"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn opus_mt_translates_its_pair() {
    let engine = real_engine_with(LanguageOptions::default(), &["lid-176", "opus-mt-en-fr"]);
    let server = Server::with(config(), engine).await;
    let client = server.account(Plan::Pro).await;
    let listed = json(client.get("/v1/languages?for=translation").await, 200).await;
    let pair = value!({"from": "en", "to": "fr", "model": "opus-mt-en-fr"});
    assert!(listed["pairs"].as_array().unwrap().contains(&pair), "{listed}");
    let body = value!({"text": "I don’t know who was at the meeting in room 4711 on Monday.", "target": "fr"});
    let answer = json(client.post("/v1/translate", body).await, 200).await;
    assert_eq!((&answer["model"], &answer["source_language"]), (&value!("opus-mt-en-fr"), &value!("en")));
    let text = answer["translated_text"].as_str().unwrap();
    assert!(text.contains("réunion") && text.contains("4711") && text.contains("lundi"), "{text}");
}

async fn patch(client: &Client, path: &str, body: Value) -> reqwest::Response {
    client.request(reqwest::Method::PATCH, path).json(&body).send().await.unwrap()
}

/// A transcript of two speakers, of which one says a sentence over three segments.
async fn transcript(server: &Server, client: &Client) -> TranscriptId {
    let spoken = [
        ("Ann", "When the meeting was over,"),
        ("Ann", "everybody went to the library"),
        ("Ann", "and read 12 books. The end."),
        ("Bob", "Good morning, everybody."),
    ];
    let segment = |(index, (speaker, text)): (usize, &(&str, &str))| Segment {
        start: index as f64 * 3.0,
        end: index as f64 * 3.0 + 3.0,
        text: (*text).to_owned(),
        speaker: Some((*speaker).to_owned()),
        ..Segment::default()
    };
    let segments: Vec<Segment> = spoken.iter().enumerate().map(segment).collect();
    let text = segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" ");
    let language = "en".to_owned();
    let result = TranscriptionResult { text, language, duration: 12.0, segments, ..TranscriptionResult::default() };
    let new = NewTranscript {
        title: "talk.mp3".to_owned(),
        source_type: "api".to_owned(),
        language: "en".to_owned(),
        model: "whisper-base".to_owned(),
    };
    server.store.transcripts().save(client.account.unwrap(), &new, &result, None).await.unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_transcript_is_translated_once_and_exported_in_its_new_language_until_its_text_changes() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let id = transcript(&server, &client).await.0;
    let before = client.credits(&server).await;
    let path = format!("/v1/transcripts/{id}/translate");
    let export = format!("/v1/transcripts/{id}/export");
    let message = refusal(client.get(&format!("{export}/srt?language=pt")).await, 409).await;
    assert!(message.contains(&format!("POST {path}")), "{message}");

    let body = value!({"target_language": "pt-BR"});
    let first = json(client.post(&path, body.clone()).await, 200).await;
    assert_eq!((&first["language"], &first["source_language"]), (&value!("pt"), &value!("en")));
    assert_eq!((&first["model"], &first["cached"]), (&value!("firefox-en-pt"), &value!(false)));
    let segments = first["segments"].as_array().unwrap();
    let times: Vec<f64> = segments.iter().map(|segment| segment["start"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, 3.0, 6.0, 9.0]);
    let speakers: Vec<&str> = segments.iter().map(|segment| segment["speaker"].as_str().unwrap()).collect();
    assert_eq!(speakers, ["Ann", "Ann", "Ann", "Bob"]);
    let texts: Vec<String> = segments.iter().map(|segment| segment["text"].as_str().unwrap().to_lowercase()).collect();
    assert!(texts.iter().all(|text| !text.is_empty()), "{texts:?}");
    assert!(texts[0].contains("reunião") && texts[..3].concat().contains("biblioteca"), "{texts:?}");
    assert!(texts[2].contains("12") && texts[3].contains("bom dia"), "{texts:?}");
    assert_eq!(client.credits(&server).await, before - 1);

    let again = json(client.post(&path, body.clone()).await, 200).await;
    assert_eq!((&again["cached"], &again["segments"]), (&value!(true), &first["segments"]));
    let stored = json(client.get(&format!("/v1/transcripts/{id}/results/translation:pt")).await, 200).await;
    assert_eq!((&stored["answer"], &stored["kind"]), (&again, &value!("translation")));
    assert_eq!(client.credits(&server).await, before - 1, "what was made before costs nothing");
    json(client.post(&path, value!({"target_language": "pt", "force": true})).await, 200).await;
    assert_eq!(client.credits(&server).await, before - 2);

    let response = client.get(&format!("{export}/srt?language=pt")).await;
    let name = response.headers()["content-disposition"].to_str().unwrap().to_owned();
    assert!(name.contains("filename=\"talk.pt.srt\""), "{name}");
    let srt = response.text().await.unwrap();
    assert!(srt.contains("00:00:00,000 --> ") && srt.to_lowercase().contains("biblioteca"), "{srt}");
    assert!(srt.lines().all(|line| line.chars().count() <= 42), "{srt}");
    for format in ["txt", "vtt", "json", "csv", "docx", "pdf"] {
        assert_eq!(client.get(&format!("{export}/{format}?language=pt")).await.status(), 200, "{format}");
    }
    let exported = json(client.get(&format!("{export}/json?language=pt")).await, 200).await;
    assert_eq!((&exported["language"], &exported["text"]), (&value!("pt"), &first["text"]));
    assert!(exported["segments"].as_array().unwrap().iter().all(|segment| segment["words"] == value!([])));
    let original = json(client.get(&format!("{export}/json?language=en")).await, 200).await;
    assert!(original["text"].as_str().unwrap().contains("library"));
    refusal(client.get(&format!("{export}/srt?language=p%2F")).await, 400).await;

    let renamed = value!({"speaker_names": {"Bob": "Robert"}});
    json(patch(&client, &format!("/v1/transcripts/{id}"), renamed).await, 200).await;
    let again = json(client.post(&path, body.clone()).await, 200).await;
    assert_eq!((&again["cached"], &again["segments"][3]["speaker"]), (&value!(true), &value!("Robert")));
    let edited = value!({"segments": [{"index": 3, "text": "Where is the library?"}]});
    json(patch(&client, &format!("/v1/transcripts/{id}"), edited).await, 200).await;
    refusal(client.get(&format!("{export}/srt?language=pt")).await, 409).await;
    let again = json(client.post(&path, body).await, 200).await;
    assert_eq!(again["cached"], false);
    assert!(again["segments"][3]["text"].as_str().unwrap().to_lowercase().contains("biblioteca"));
    let stranger = server.account(Plan::Pro).await;
    refusal(stranger.post(&path, value!({"target_language": "pt"})).await, 404).await;
    refusal(client.post(&path, value!({"target_language": " "})).await, 400).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_translation_of_a_text_that_was_edited_meanwhile_is_not_shown() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let id = transcript(&server, &client).await;
    let path = format!("/v1/transcripts/{}/translate", id.0);
    json(client.post(&path, value!({"target_language": "pt"})).await, 200).await;
    let account = client.account.unwrap();
    let stale = server.store.transcripts().derived(account, id, "translation:pt").await.unwrap().unwrap();
    let edited = value!({"segments": [{"index": 3, "text": "Where is the library?"}]});
    json(patch(&client, &format!("/v1/transcripts/{}", id.0), edited).await, 200).await;
    // As a translation leaves it that began before the edit and ends behind it.
    server.store.transcripts().store_derived(account, id, "translation:pt", &stale).await.unwrap();
    refusal(client.get(&format!("/v1/transcripts/{}/export/srt?language=pt", id.0)).await, 409).await;
    let answer = json(client.post(&path, value!({"target_language": "pt"})).await, 200).await;
    assert_eq!(answer["cached"], false);
}

//! Real speech through the real engine.

use serde_json::Value;

use crate::server::{Server, config, json, real_engine, refusal, talk, telephone_call};
use hark_server::{Models as _, Voices as _};
use hark_store::Plan;

fn assert_heard(text: &str) {
    let heard = text.to_lowercase();
    // The first sentence of this synthetic voice lies between texts for the model; rounding settles which.
    let words = ["going", "market", "buy", "apples", "bread"];
    let missing: Vec<_> = words.iter().filter(|word| !heard.contains(*word)).collect();
    assert!(missing.is_empty(), "{missing:?} not heard in: {text}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_recording_becomes_words_with_times_that_can_be_read_back_exported_and_deleted() {
    let server = Server::with(config(), real_engine()).await;
    let client = server.account(Plan::Free).await;
    let response = client.transcribe("/v1/transcribe", talk(), &[("model", "base")]).send().await.unwrap();
    assert_eq!(response.headers()["x-model"], "whisper-base");
    let id = response.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    let result = json(response, 200).await;
    assert_heard(result["text"].as_str().unwrap());
    assert_eq!(result["language"], "en");
    let seconds = result["duration"].as_f64().unwrap();
    assert!((3.0..12.0).contains(&seconds), "{seconds}");
    let mut last = 0.0;
    for word in result["segments"].as_array().unwrap().iter().flat_map(|segment| segment["words"].as_array().unwrap()) {
        let (start, end) = (word["start"].as_f64().unwrap(), word["end"].as_f64().unwrap());
        assert!(last <= start && start <= end && end <= seconds + 0.1, "{word} after {last}");
        last = start;
    }
    assert!(last > 1.0, "words have times");
    assert_eq!(client.credits(&server).await, 599);

    let detail = json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await;
    assert_eq!(detail["text"], result["text"]);
    assert_eq!(detail["segments"], result["segments"]);
    assert_eq!(detail["status"], "completed");
    assert_eq!(detail["title"], "talk.wav");
    let words = detail["word_count"].as_i64().unwrap();
    assert!((12..25).contains(&words), "{words} words");
    let state = json(server.anonymous().get(&format!("/v1/transcripts/{id}/status")).await, 200).await;
    assert_eq!((&state["status"], &state["progress"]), (&Value::from("completed"), &Value::from(100)));
    let usage = json(client.get("/v1/usage").await, 200).await;
    assert_eq!(usage["summary"]["total_words"], words);
    assert_eq!(usage["summary"]["credits_remaining"], 599);

    for (format, start) in [("txt", ""), ("srt", "1\n00:00:"), ("vtt", "WEBVTT"), ("json", "{"), ("csv", "")] {
        let file = client.get(&format!("/v1/transcripts/{id}/export/{format}")).await;
        assert_eq!(file.status(), 200);
        let disposition = file.headers()["content-disposition"].to_str().unwrap().to_owned();
        assert!(disposition.contains(&format!("filename=\"talk.{format}\"")), "{disposition}");
        let text = file.text().await.unwrap();
        assert!(text.starts_with(start), "{text}");
        assert_heard(&text);
    }

    assert_eq!(
        json(client.request(reqwest::Method::DELETE, &format!("/v1/transcripts/{id}")).send().await.unwrap(), 200)
            .await["ok"],
        true
    );
    assert_eq!(client.get(&format!("/v1/transcripts/{id}")).await.status(), 404);
    assert_eq!(client.get(&format!("/v1/transcripts/{id}/status")).await.status(), 404);
    let blobs = walk(&server.folder.path().join("blobs"));
    assert!(blobs.is_empty(), "the recording is still there: {blobs:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn several_recordings_at_once_share_one_engine_and_formats_are_as_asked() {
    let server = Server::with(config(), real_engine()).await;
    let client = server.account(Plan::Pro).await;
    let send = |format: &'static str| {
        let client = client.clone();
        async move {
            let fields = [("model", "whisper-base"), ("response_format", format), ("language", "en")];
            let response = client.transcribe("/v1/transcribe", talk(), &fields).send().await.unwrap();
            let media = response.headers()["content-type"].to_str().unwrap().to_owned();
            (media, response.text().await.unwrap())
        }
    };
    let (txt, srt, vtt) = tokio::join!(send("txt"), send("srt"), send("vtt"));
    assert_eq!(txt.0, "text/plain; charset=utf-8");
    assert_eq!(srt.0, "application/x-subrip; charset=utf-8");
    assert_eq!(vtt.0, "text/vtt; charset=utf-8");
    for (_, text) in [&txt, &srt, &vtt] {
        assert_heard(text);
    }
    assert!(srt.1.starts_with("1\n00:00:") && vtt.1.starts_with("WEBVTT"));
    let bare = client
        .transcribe("/v1/transcribe", talk(), &[("model", "base"), ("word_timestamps", "false"), ("prompt", "A walk.")])
        .send()
        .await
        .unwrap();
    let bare = json(bare, 200).await;
    assert!(bare["segments"].as_array().unwrap().iter().all(|segment| segment["words"] == Value::Array(Vec::new())));
    assert_eq!(client.credits(&server).await, 596);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn speakers_are_told_apart_counted_and_renamed() {
    let server = Server::with(config(), real_engine()).await;
    let client = server.account(Plan::Pro).await;
    let call = telephone_call();
    let send = |fields: &[(&'static str, &'static str)]| {
        let fields = [&[("model", "base")], fields].concat();
        client.transcribe("/v1/transcribe", call.clone(), &fields).send()
    };
    let response = send(&[]).await.unwrap();
    let id = response.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    let result = json(response, 200).await;
    assert_eq!(result["speakers"], serde_json::json!(["SPEAKER_00", "SPEAKER_01"]));
    assert!(result["segments"].as_array().unwrap().iter().all(|segment| segment["speaker"].is_string()));
    let detail = json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await;
    assert_eq!((&detail["num_speakers"], &detail["segments"]), (&Value::from(2), &result["segments"]));

    let path = format!("/v1/transcripts/{id}");
    for (query, name) in [("", "SPEAKER_01: "), ("?unnamed_speaker=Speaker", "Speaker 2: ")] {
        let file = client.get(&format!("{path}/export/txt{query}")).await.text().await.unwrap();
        assert!(file.contains(name), "{query}: {file}");
    }
    refusal(client.get(&format!("{path}/export/txt?unnamed_speaker=a%0Ab")).await, 400).await;
    let names = serde_json::json!({ "speaker_names": { "SPEAKER_00": "Diane", "SPEAKER_01": "Sheila" } });
    json(client.request(reqwest::Method::PATCH, &path).json(&names).send().await.unwrap(), 200).await;
    for (format, mark) in
        [("txt", "Diane: "), ("srt", "Sheila: "), ("vtt", "<v Sheila>"), ("csv", ",Diane,"), ("json", "\"Diane\"")]
    {
        let file = client.get(&format!("{path}/export/{format}")).await.text().await.unwrap();
        assert!(file.contains(mark) && !file.contains("SPEAKER_"), "{format}: {file}");
    }

    let one = json(send(&[("speakers", "1")]).await.unwrap(), 200).await;
    assert_eq!(one["speakers"], serde_json::json!(["SPEAKER_00"]));
    let off = json(send(&[("diarize", "false")]).await.unwrap(), 200).await;
    assert_eq!(off["speakers"], serde_json::json!([]));
    let fields = [("model", "base"), ("response_format", "diarized_json")];
    let openai = client.transcribe("/v1/audio/transcriptions", call.clone(), &fields).send().await.unwrap();
    let openai = json(openai, 200).await;
    let speakers = openai["segments"].as_array().unwrap().iter().map(|segment| segment["speaker"].as_str().unwrap());
    assert_eq!(speakers.collect::<std::collections::BTreeSet<_>>(), ["A", "B"].into());
    server.stop().await;
}

/// Every file below a folder.
pub(crate) fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => files.extend(walk(&path)),
            // The id of the store stays.
            path if path.ends_with("hark-store.json") => {}
            path => files.push(path),
        }
    }
    files
}

#[test]
#[ignore = "needs models"]
fn what_the_engine_offers_to_jobs_is_what_it_resolves() {
    let engine = real_engine();
    let offered = engine.capabilities();
    let names = ["large-v3-turbo", "small", "base", "whisper-base", "whisper-1", "whisper-huge", "none", ""];
    for name in names {
        let need = hark_store::Need::Model(name.to_owned()).to_string();
        assert_eq!(offered.cover([need.as_str()].into_iter()), engine.resolve(name).is_ok(), "{name}");
    }
    assert!(engine.resolve("base").is_ok() && engine.resolve("whisper-huge").is_err());
    let identify = hark_store::Need::Capability("identify").to_string();
    assert_eq!(offered.cover([identify.as_str()].into_iter()), engine.check_voices().is_ok());
}

//! The shape of the interface: paths, lists, health, the document, headers.

use hark_server::{Config, InstantEngine};
use hark_store::Plan;
use reqwest::Method;
use serde_json::{Value, json as value};

use crate::server::{Server, config, json, real_engine, refusal};

/// Every operation of the contract.
const OPERATIONS: [(&str, &str); 43] = [
    ("post", "/v1/transcribe"),
    ("get", "/v1/stream"),
    ("post", "/v1/summarize"),
    ("post", "/v1/translate"),
    ("post", "/v1/analyze"),
    ("post", "/v1/generate"),
    ("post", "/v1/enhance-audio"),
    ("post", "/v1/tts"),
    ("post", "/v1/embed"),
    ("get", "/v1/models"),
    ("get", "/v1/languages"),
    ("get", "/health"),
    ("get", "/v1/credits"),
    ("get", "/v1/account"),
    ("put", "/v1/account"),
    ("get", "/v1/usage"),
    ("get", "/v1/cloud"),
    ("get", "/v1/transcripts"),
    ("get", "/v1/transcripts/{id}"),
    ("patch", "/v1/transcripts/{id}"),
    ("delete", "/v1/transcripts/{id}"),
    ("get", "/v1/transcripts/{id}/export/{format}"),
    ("get", "/v1/transcripts/{id}/status"),
    ("post", "/v1/transcripts/{id}/summarize"),
    ("post", "/v1/transcripts/{id}/analyze"),
    ("post", "/v1/transcripts/{id}/generate"),
    ("post", "/v1/transcripts/{id}/chat"),
    ("get", "/v1/keys"),
    ("post", "/v1/keys"),
    ("delete", "/v1/keys/{id}"),
    ("get", "/v1/account/ledger"),
    ("get", "/v1/admin/accounts"),
    ("patch", "/v1/admin/accounts/{id}"),
    ("get", "/v1/admin/queue"),
    ("post", "/v1/admin/queue/{job}/retry"),
    ("delete", "/v1/admin/queue/{job}"),
    ("get", "/v1/admin/models"),
    ("post", "/v1/admin/models/{name}"),
    ("get", "/v1/sample"),
    ("post", "/v1/uploads"),
    ("get", "/v1/uploads/{id}"),
    ("put", "/v1/uploads/{id}"),
    ("delete", "/v1/uploads/{id}"),
];

#[tokio::test]
async fn the_document_names_every_operation_and_refers_to_nothing_that_is_not_there() {
    let server = Server::start().await;
    let document = json(server.anonymous().get("/openapi.json").await, 200).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for (method, path) in OPERATIONS {
        let operation = &document["paths"][path][method];
        assert!(operation.is_object(), "{method} {path} is not documented");
        let error = &operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(error, "#/components/schemas/Error", "{method} {path}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!(response["description"].is_string(), "{method} {path} {status} is not described");
        }
    }
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} is not there");
    }
    let page = server.anonymous().get("/docs").await;
    assert!(page.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    let page = page.text().await.unwrap();
    assert!(page.contains("/v1/transcripts/{id}/export/{format}"));
    assert!(
        !page.contains("<script") && !page.contains("http://") && !page.contains("https://"),
        "the page is self-contained"
    );
}

fn collect_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                found.push(reference.clone());
            }
            map.values().for_each(|value| collect_references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_path_is_the_same_with_a_slash_at_its_end() {
    let server = Server::start().await;
    let client = server.account(Plan::Enterprise).await;
    for (method, path) in OPERATIONS {
        let path =
            path.replace("{id}", "123456").replace("{format}", "txt").replace("{job}", "7").replace("{name}", "none");
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let plain = client.request(method.clone(), &path).send().await.unwrap();
        let slashed = client.request(method.clone(), &format!("{path}/")).send().await.unwrap();
        assert_eq!(plain.status(), slashed.status(), "{method} {path}");
        assert_ne!(plain.status(), 405, "{method} {path}");
        let (plain, slashed): (Value, Value) = (plain.json().await.unwrap(), slashed.json().await.unwrap());
        if method == Method::GET {
            assert_eq!(plain, slashed, "{path}");
        }
    }
}

#[tokio::test]
async fn what_needs_a_model_that_is_not_there_checks_the_request_and_then_says_so() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let good = [
        ("/v1/summarize", value!({"text": "a"})),
        ("/v1/summarize", value!({"text": "a", "style": "bullet_points"})),
        ("/v1/translate", value!({"text": "a", "target_language": "es"})),
        ("/v1/translate", value!({"texts": ["a", "b"], "target": "es", "source": "en"})),
        ("/v1/analyze", value!({"text": "a", "type": "pii_redact"})),
        ("/v1/generate", value!({"text": "a", "type": "newsletter"})),
        ("/v1/embed", value!({"text": "a"})),
        ("/v1/embed", value!({"texts": ["a"]})),
    ];
    for (path, body) in good {
        let message = refusal(client.post(path, body).await, 503).await;
        assert!(message.contains("this server has no") && message.contains("model"), "{path}: {message}");
    }
    let bad = [
        ("/v1/summarize", value!({"text": " "})),
        ("/v1/translate", value!({"text": "a"})),
        ("/v1/translate", value!({"text": "a", "texts": ["b"], "target": "es"})),
        ("/v1/analyze", value!({"text": "a", "type": "mood"})),
        ("/v1/generate", value!({"text": "", "type": "quiz"})),
        ("/v1/embed", value!({"texts": []})),
    ];
    for (path, body) in bad {
        refusal(client.post(path, body).await, 400).await;
    }
    for (path, body) in
        [("/v1/summarize", value!({"text": "a"})), ("/v1/generate", value!({"text": "a", "type": "quiz"}))]
    {
        refusal(server.anonymous().post(path, body).await, 401).await;
    }
    refusal(server.anonymous().post("/v1/embed", value!({"text": "a"})).await, 503).await;
    let speak = |text: String| {
        let sample = reqwest::multipart::Part::bytes(vec![1; 100]).file_name("me.wav");
        let form = reqwest::multipart::Form::new().text("text", text).part("reference", sample).text("consent", "true");
        client.request(Method::POST, "/v1/tts").multipart(form).send()
    };
    refusal(speak("hello".into()).await.unwrap(), 503).await;
    // The form is not read where nobody would speak it.
    refusal(speak("ä".repeat(2001)).await.unwrap(), 503).await;
    let nothing = reqwest::multipart::Form::new().text("x", "y");
    refusal(client.request(Method::POST, "/v1/enhance-audio").multipart(nothing).send().await.unwrap(), 400).await;
    assert_eq!(client.credits(&server).await, 600);
}

#[tokio::test]
#[ignore = "needs models"]
async fn models_and_languages_are_listed_as_both_descriptions_have_them() {
    let server = Server::with(config(), real_engine()).await;
    let models = json(server.anonymous().get("/v1/models").await, 200).await;
    let models = models["models"].as_array().unwrap();
    let named =
        |id: &str| models.iter().find(|model| model["id"] == id).unwrap_or_else(|| panic!("{id} is not listed"));
    assert_eq!(models[0]["id"], "large-v3-turbo");
    for (id, tier, paid_only) in
        [("large-v3-turbo", "free", false), ("large-v3", "premium", true), ("svc-ai-enhanced", "premium", true)]
    {
        let model = named(id);
        assert_eq!((&model["tier"], &model["paid_only"]), (&value!(tier), &value!(paid_only)));
        for key in ["name", "provider", "license", "speed"] {
            assert!(model[key].as_str().is_some_and(|text| !text.is_empty()), "{id} has no {key}");
        }
        assert_eq!(model["languages"], 100);
    }
    assert_eq!(named("whisper-base")["installed"], true);
    assert!(models.iter().all(|model| model["id"] != "silero-vad"));
    let languages = json(server.anonymous().get("/v1/languages").await, 200).await;
    let languages = languages["languages"].as_array().unwrap();
    assert_eq!(languages.len(), 100);
    assert!(languages.contains(&value!({"code": "de", "name": "German", "native_name": "Deutsch"})));
    let health = json(server.anonymous().get("/health").await, 200).await;
    assert_eq!((&health["status"], &health["gpu_available"]), (&value!("ok"), &value!(false)));
    assert_eq!(health["gpu"]["queue_length"], 0);
    assert!(health["gpu_name"].as_str().unwrap().starts_with("cpu"));
}

#[tokio::test]
async fn answers_carry_an_id_compress_and_may_be_read_by_pages_of_other_origins() {
    let server = Server::start().await;
    let client = server.anonymous();
    let given = client.request(Method::GET, "/v1/models").header("X-Request-Id", "trace-17").send().await.unwrap();
    assert_eq!(given.headers()["x-request-id"], "trace-17");
    let forged = client.request(Method::GET, "/v1/models").header("X-Request-Id", "a b\"c").send().await.unwrap();
    assert_eq!(forged.headers()["x-request-id"].len(), 32);
    let zipped = client.request(Method::GET, "/openapi.json").header("Accept-Encoding", "gzip").send().await.unwrap();
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let asked = client
        .request(Method::OPTIONS, "/v1/transcribe")
        .header("Origin", "https://app.example.com")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization")
        .send()
        .await
        .unwrap();
    assert_eq!(asked.headers()["access-control-allow-origin"], "*");
    assert!(asked.headers()["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
}

#[tokio::test]
async fn metrics_have_a_port_of_their_own_and_count_requests() {
    let config = Config { metrics_listen: Some("127.0.0.1:0".parse().unwrap()), ..config() };
    let server = Server::with(config, InstantEngine::default()).await;
    let client = server.account(Plan::Free).await;
    client.get("/v1/account").await;
    client.get("/v1/transcripts/17").await;
    let url = format!("http://{}/metrics", server.metrics_address());
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    let one = "hark_request_seconds_count{route=\"/v1/account\",method=\"GET\",status=\"200\"} 1";
    assert!(text.contains(one), "{text}");
    assert!(text.contains("route=\"/v1/transcripts/{id}\",method=\"GET\",status=\"404\""), "{text}");
    assert!(text.contains("hark_queue_length 0"));
    assert_eq!(client.get("/metrics").await.status(), 404);
}

//! `POST /v1/embed` and `POST /v1/embeddings` with the real model.

use hark_store::Plan;
use serde_json::{Value, json as value};

use crate::server::{Server, config, json, real_engine, refusal};

fn vectors(answer: &Value, key: &str) -> Vec<Vec<f64>> {
    let numbers = |vector: &Value| vector.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    answer[key].as_array().unwrap().iter().map(numbers).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn texts_become_vectors_that_say_how_alike_they_are() {
    let server = Server::with(config(), real_engine()).await;
    let client = server.account(Plan::Free).await;
    let texts = [
        "The invoice must be paid by Friday.",
        "Payment of the bill is due at the end of the week.",
        "Penguins live in the southern hemisphere.",
    ];
    let answer = json(client.post("/v1/embed", value!({"texts": texts})).await, 200).await;
    assert_eq!((&answer["dimensions"], &answer["model"]), (&value!(384), &value!("all-minilm-l6-v2")));
    let found = vectors(&answer, "embeddings");
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [384; 3]);
    for vector in &found {
        assert!((dot(vector, vector) - 1.0).abs() < 1e-4, "vectors have length 1");
    }
    let (alike, unlike) = (dot(&found[0], &found[1]), dot(&found[0], &found[2]));
    assert!(alike > 0.5 && unlike < 0.2, "{alike} and {unlike}");

    // One text, without an account, in both forms of the contract.
    for body in [value!({"text": texts[2]}), value!({"text": [texts[2]]})] {
        let answer = json(server.anonymous().post("/v1/embed", body).await, 200).await;
        assert!(dot(&vectors(&answer, "embeddings")[0], &found[2]) > 0.9999);
    }
    let many: Vec<&str> = std::iter::repeat_n("a", 65).collect();
    assert!(refusal(server.anonymous().post("/v1/embed", value!({"texts": many})).await, 400).await.contains("64"));
    json(client.post("/v1/embed", value!({"texts": many})).await, 200).await;
    let many: Vec<&str> = std::iter::repeat_n("a", 2049).collect();
    assert!(refusal(client.post("/v1/embed", value!({"texts": many})).await, 400).await.contains("2048"));
    assert_eq!(client.credits(&server).await, 600, "it costs nothing");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn openai_clients_get_the_same_vectors_in_their_form() {
    let server = Server::with(config(), real_engine()).await;
    let client = server.account(Plan::Free).await;
    let own = json(client.post("/v1/embed", value!({"text": "hello world"})).await, 200).await;
    let own = &vectors(&own, "embeddings")[0];
    let body = value!({"input": ["hello world", "x"], "model": "text-embedding-3-small", "dimensions": 384});
    let answer = json(client.post("/v1/embeddings", body).await, 200).await;
    assert_eq!((&answer["object"], &answer["data"][1]["index"]), (&value!("list"), &value!(1)));
    // [CLS] hello world [SEP], [CLS] x [SEP]
    assert_eq!(answer["usage"], value!({"prompt_tokens": 7, "total_tokens": 7}));
    let float: Vec<f64> =
        answer["data"][0]["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert!(dot(&float, own) > 0.9999);
    let body = value!({"input": "hello world", "model": "x", "encoding_format": "base64"});
    let answer = json(client.post("/v1/embeddings", body).await, 200).await;
    // 384 numbers of four bytes.
    assert_eq!(answer["data"][0]["embedding"].as_str().unwrap().len(), 384 * 4 / 3 * 4);
    let body = value!({"input": "hello world", "model": "x", "dimensions": 100});
    let refused = client.post("/v1/embeddings", body).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.text().await.unwrap().contains("384"));
}

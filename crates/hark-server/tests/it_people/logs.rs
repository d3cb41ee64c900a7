//! Everything that is logged at the finest level, searched for what must not be there.

use hark_server::{Config, InstantEngine, Webhooks};
use reqwest::Method;
use serde_json::json as value;

use crate::log;
use crate::server::{Server, config, hum, json};
use crate::visitor::Visitor;

#[tokio::test]
async fn no_password_key_session_or_token_is_ever_logged() {
    let webhooks = Webhooks { enabled: true, ..Webhooks::default() };
    let server = Server::with(Config { webhooks, ..config() }, InstantEngine::default()).await;
    let mut visitor = Visitor::new(&server);
    let (password, wrong) = ("unlogged-password-1", "unlogged-password-2");
    let answer = visitor.post("/v1/auth/signup", value!({"email": "ann@example.com", "password": password})).await;
    visitor.remember(answer).await;
    let session = visitor.cookie.clone().unwrap().replace("hark_session=", "");
    let csrf = visitor.csrf.clone().unwrap();
    visitor.post("/v1/auth/signin", value!({"email": "ann@example.com", "password": wrong})).await;
    visitor.post("/v1/auth/signin", value!({"email": "ann@example.com", "password": [wrong]})).await;
    let token =
        visitor.post("/v1/auth/signin", value!({"email": "ann@example.com", "password": password, "token": true}));
    let token = json(token.await, 200).await["token"].as_str().unwrap().to_owned();
    let key =
        json(visitor.post("/v1/keys", value!({"name": "CI"})).await, 201).await["key"].as_str().unwrap().to_owned();
    let signing = json(visitor.get("/v1/webhooks/secret").await, 200).await["secret"].as_str().unwrap().to_owned();
    for secret in [&key, &token] {
        let with = |method: Method, path: &str| visitor.bare(method, path).bearer_auth(secret);
        assert_eq!(with(Method::GET, "/v1/account").send().await.unwrap().status(), 200);
        let form = reqwest::multipart::Form::new().part("file", reqwest::multipart::Part::bytes(hum(1.0)));
        let sent = with(Method::POST, "/v1/transcribe").multipart(form).send().await.unwrap();
        assert_eq!(sent.status(), 200);
    }
    let unknown = format!("svc_{}", "5".repeat(64));
    visitor.bare(Method::GET, "/v1/account").bearer_auth(&unknown).send().await.unwrap();
    visitor.get(&format!("/v1/auth/confirm?token=cnf_{}", "6".repeat(64))).await;
    visitor.get(&format!("/v1/shared/{}", "7".repeat(32))).await;
    let hash = server
        .store
        .accounts()
        .password_hash(server.store.accounts().by_email("ann@example.com").await.unwrap().id)
        .await;
    let hash = hash.unwrap().unwrap();
    visitor.post("/v1/auth/signout", value!({})).await;
    server.stop().await;

    let log = log::so_far();
    assert!(log.contains("signed in") && log.contains("TRACE"), "the log is complete: {} bytes", log.len());
    assert!(log.contains("INSERT INTO keys"), "statements are logged at this level");
    let whole = [password, wrong, &session, &csrf, &token, &key, &signing, &hash, &unknown];
    for secret in whole {
        assert!(!log.contains(secret), "{secret} was logged");
        // A part that is enough to guess the rest counts too; the prefix of 12 characters is public.
        let part = &secret[secret.len() - 16.min(secret.len())..];
        assert!(!log.contains(part), "the end of {secret} was logged");
    }
    for part in ["666666666666", "777777777777"] {
        assert!(!log.contains(part), "a secret in an address was logged");
    }
}

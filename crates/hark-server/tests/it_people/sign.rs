//! Signing up, in and out, and what a cookie may do.

use std::time::Duration;

use hark_server::InstantEngine;
use hark_store::{Clock, DAY, Plan};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json as value;

use crate::server::{Server, config, hum, json, refusal};
use crate::visitor::{PASSWORD, Visitor};

#[tokio::test]
async fn who_signs_up_is_signed_in_by_a_cookie_that_scripts_and_other_sites_do_not_get() {
    let server = Server::start().await;
    let mut visitor = Visitor::new(&server);
    let nobody = json(visitor.get("/v1/auth/session").await, 200).await;
    assert_eq!(nobody, value!({"signed_in": false, "sign_up": true}));
    let answer =
        visitor.post("/v1/auth/signup", value!({"email": "Ann@example.com", "password": PASSWORD, "lang": "de"})).await;
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    for attribute in ["hark_session=ses_", "; HttpOnly", "; SameSite=Lax", "; Path=/", "; Max-Age=2592000"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "this connection is plain");
    let body = visitor.remember(answer).await;
    assert_eq!((&body["account"]["email"], &body["account"]["lang"]), (&value!("Ann@example.com"), &value!("de")));
    assert_eq!((&body["account"]["credits"], &body["account"]["is_confirmed"]), (&value!(600), &value!(true)));
    assert!(body.get("token").is_none());

    let session = json(visitor.get("/v1/auth/session").await, 200).await;
    assert_eq!(session["signed_in"], true);
    assert_eq!(session["csrf_token"], body["csrf_token"]);
    assert_eq!(session["account"]["email"], "Ann@example.com");
    assert!(!session.to_string().contains("ses_"));
    for path in ["/v1/account", "/v1/usage", "/v1/transcripts", "/v1/keys/", "/v1/credits"] {
        let answer = visitor.get(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.headers()["ratelimit-limit"], "600", "{path}");
    }
}

#[tokio::test]
async fn a_cookie_alone_changes_nothing() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let other = Visitor::sign_up(&server, "bob@example.com").await;
    let key = value!({"name": "CI"});
    let post = |request: reqwest::RequestBuilder| request.json(&key).send();
    assert!(refusal(post(visitor.bare(Method::POST, "/v1/keys")).await.unwrap(), 403).await.contains("X-CSRF-Token"));
    let forged = visitor.bare(Method::POST, "/v1/keys").header("x-csrf-token", other.csrf.clone().unwrap());
    refusal(post(forged).await.unwrap(), 403).await;
    for (name, content) in [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
        let elsewhere = visitor.bare(Method::POST, "/v1/keys").header("x-csrf-token", visitor.csrf.clone().unwrap());
        refusal(post(elsewhere.header(name, content)).await.unwrap(), 403).await;
    }
    for (method, path) in
        [(Method::PUT, "/v1/account"), (Method::DELETE, "/v1/keys/1"), (Method::POST, "/v1/auth/signout")]
    {
        refusal(visitor.bare(method, path).json(&value!({})).send().await.unwrap(), 403).await;
    }
    assert_eq!(json(visitor.get("/v1/keys").await, 200).await["keys"], value!([]));
    json(visitor.post("/v1/keys", key.clone()).await, 201).await;
    let key = json(visitor.get("/v1/keys").await, 200).await["keys"][0]["id"].clone();
    let gone = visitor.request(Method::DELETE, &format!("/v1/keys/{key}")).send().await.unwrap();
    assert_eq!(json(gone, 200).await, value!({"ok": true}));
}

#[tokio::test]
async fn a_session_is_no_bearer_and_a_bearer_is_no_session() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let session = visitor.cookie.clone().unwrap().replace("hark_session=", "");
    let as_bearer = Visitor::new(&server).bare(Method::GET, "/v1/account").bearer_auth(&session).send().await.unwrap();
    refusal(as_bearer, 401).await;
    let client = server.account(Plan::Free).await;
    let mut fake = Visitor::new(&server);
    fake.cookie = Some(format!("hark_session={}", client.key.clone().unwrap()));
    refusal(fake.get("/v1/account").await, 401).await;
    assert_eq!(json(fake.get("/v1/auth/session").await, 200).await["signed_in"], false);
    // A key beside a cookie is what counts, and needs no token.
    let mixed = visitor.bare(Method::POST, "/v1/keys").bearer_auth(client.key.as_ref().unwrap()).send().await.unwrap();
    assert_eq!(mixed.status(), 201);
}

#[tokio::test]
async fn a_recording_sent_from_a_page_is_the_visitors() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let form = || Form::new().part("file", Part::bytes(hum(1.0)).file_name("talk.wav"));
    let forged = visitor.bare(Method::POST, "/v1/transcribe").multipart(form()).send().await.unwrap();
    refusal(forged, 403).await;
    let answer = visitor.request(Method::POST, "/v1/transcribe").multipart(form()).send().await.unwrap();
    let id = answer.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    json(answer, 200).await;
    let detail = json(visitor.get(&format!("/v1/transcripts/{id}")).await, 200).await;
    assert_eq!(detail["source_type"], "web");
    let export = visitor.get(&format!("/v1/transcripts/{id}/export/txt")).await;
    assert_eq!(export.text().await.unwrap().trim(), "nothing was heard");
}

#[tokio::test]
async fn signing_out_ends_the_session_and_takes_the_cookie() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let (mut second, answer) = Visitor::sign_in(&server, "ann@example.com", PASSWORD).await;
    second.remember(answer).await;
    assert_ne!(visitor.cookie, second.cookie);
    let answer = visitor.post("/v1/auth/signout", value!({})).await;
    assert!(answer.headers()["set-cookie"].to_str().unwrap().starts_with("hark_session=; "));
    assert_eq!(json(answer, 200).await, value!({"ok": true}));
    assert!(refusal(visitor.get("/v1/account").await, 401).await.contains("sign in again"));
    let stale = visitor.get("/v1/auth/session").await;
    assert!(stale.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(json(stale, 200).await["signed_in"], false);
    assert_eq!(second.get("/v1/account").await.status(), 200, "the other browser stays signed in");
}

#[tokio::test]
async fn a_session_ends_by_itself_after_a_month() {
    let clock = Clock::manual(DAY * 20_000);
    let server = Server::with_clock(config(), InstantEngine::default(), clock).await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    server.clock.advance(Duration::from_secs(30 * 86_400 - 1));
    assert_eq!(visitor.get("/v1/account").await.status(), 200);
    server.clock.advance(Duration::from_secs(1));
    // This process remembers a credential for some seconds of real time.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(visitor.get("/v1/account").await.status(), 401);
}

#[tokio::test]
async fn a_token_is_given_on_request_and_can_be_given_back() {
    let server = Server::start().await;
    Visitor::sign_up(&server, "ann@example.com").await;
    let visitor = Visitor::new(&server);
    let body = value!({"email": "ann@example.com", "password": PASSWORD, "token": true});
    let answer = visitor.post("/v1/auth/signin", body).await;
    assert!(answer.headers().get("set-cookie").is_none());
    let token = json(answer, 200).await["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("usr_") && token.len() == 68);
    let with = |method: Method, path: &str| visitor.bare(method, path).bearer_auth(&token).send();
    assert_eq!(with(Method::GET, "/v1/account").await.unwrap().status(), 200);
    assert_eq!(with(Method::POST, "/v1/auth/signout").await.unwrap().status(), 200);
    refusal(with(Method::GET, "/v1/account").await.unwrap(), 401).await;
    let client = server.account(Plan::Free).await;
    let key = client.request(Method::POST, "/v1/auth/signout").send().await.unwrap();
    assert!(refusal(key, 403).await.contains("DELETE /v1/keys"));
}

#[tokio::test]
async fn sign_ups_that_make_no_sense_are_refused_and_an_address_is_one_account() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    for (email, password) in [
        ("nonsense", PASSWORD),
        ("bob@example.com", "short"),
        ("bob@example.com", "bob@example.com"),
        ("bob@example.com\r\nX: y", PASSWORD),
        ("", PASSWORD),
    ] {
        let answer =
            Visitor::new(&server).post("/v1/auth/signup", value!({"email": email, "password": password})).await;
        refusal(answer, 400).await;
    }
    let again = visitor.post("/v1/auth/signup", value!({"email": "ANN@example.com", "password": PASSWORD})).await;
    refusal(again, 409).await;
    let form = visitor.request(Method::POST, "/v1/auth/signin").body("email=ann@example.com&password=x");
    refusal(form.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap(), 415).await;
    let elsewhere =
        Visitor::new(&server).bare(Method::POST, "/v1/auth/signup").header("origin", "https://evil.example");
    let elsewhere = elsewhere.json(&value!({"email": "eve@example.com", "password": PASSWORD})).send().await.unwrap();
    refusal(elsewhere, 403).await;

    let closed = hark_server::Config { sign_up: false, ..config() };
    let server = Server::with(closed, InstantEngine::default()).await;
    let answer = Visitor::new(&server).post("/v1/auth/signup", value!({"email": "a@b.cc", "password": PASSWORD})).await;
    refusal(answer, 403).await;
    assert_eq!(json(Visitor::new(&server).get("/v1/auth/session").await, 200).await["sign_up"], false);
}

#[tokio::test]
async fn the_cookie_is_secure_where_a_trusted_proxy_says_https() {
    for (trusted, secure) in [("127.0.0.0/8", true), ("10.0.0.0/8", false)] {
        let config = hark_server::Config { trusted_proxies: vec![trusted.parse().unwrap()], ..config() };
        let server = Server::with(config, InstantEngine::default()).await;
        let body = value!({"email": "ann@example.com", "password": PASSWORD});
        let request = Visitor::new(&server).bare(Method::POST, "/v1/auth/signup").header("x-forwarded-proto", "https");
        let answer = request.json(&body).send().await.unwrap();
        assert_eq!(answer.headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"), secure, "{trusted}");
    }
}

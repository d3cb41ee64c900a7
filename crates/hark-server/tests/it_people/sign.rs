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
async fn a_key_that_a_page_asks_for_twice_with_one_name_is_made_once() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let ask = async |visitor: &Visitor| {
        let request = visitor.request(Method::POST, "/v1/keys").header("Idempotency-Key", "k1");
        request.json(&value!({"name": "CI"})).send().await.unwrap()
    };
    let first = json(ask(&visitor).await, 201).await;
    assert_eq!(first, json(ask(&visitor).await, 201).await);
    assert_eq!(json(visitor.get("/v1/keys").await, 200).await["keys"].as_array().unwrap().len(), 1);
    // Another session can't open the answer: to it the name is taken.
    let (mut second, answer) = Visitor::sign_in(&server, "ann@example.com", PASSWORD).await;
    second.remember(answer).await;
    refusal(ask(&second).await, 422).await;
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
    // A header that nobody checks is no way around: it says nothing about who sent the request.
    for path in ["/v1/auth/signup", "/v1/auth/signin"] {
        for (name, content) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
            let request = Visitor::new(&server).bare(Method::POST, path).header(name, content).bearer_auth("anything");
            let body = value!({"email": "ann@example.com", "password": PASSWORD, "token": true});
            refusal(request.json(&body).send().await.unwrap(), 403).await;
        }
    }
    // A token that holds may be used by a page of another site that was given it.
    let body = value!({"email": "ann@example.com", "password": PASSWORD, "token": true});
    let token = json(visitor.post("/v1/auth/signin", body).await, 200).await["token"].as_str().unwrap().to_owned();
    let sign_out = |token: &str| {
        let request = Visitor::new(&server).bare(Method::POST, "/v1/auth/signout").bearer_auth(token);
        request.header("origin", "https://app.example").send()
    };
    refusal(sign_out(&token.replace("usr_", "svc_")).await.unwrap(), 401).await;
    assert_eq!(sign_out(&token).await.unwrap().status(), 200);

    let closed = hark_server::Config { sign_up: Some(false), ..config() };
    let server = Server::with(closed, InstantEngine::default()).await;
    let answer = Visitor::new(&server).post("/v1/auth/signup", value!({"email": "a@b.cc", "password": PASSWORD})).await;
    refusal(answer, 403).await;
    assert_eq!(json(Visitor::new(&server).get("/v1/auth/session").await, 200).await["sign_up"], false);
}

#[tokio::test]
async fn where_strangers_reach_the_server_sign_up_is_closed_or_gives_nothing() {
    let open = hark_server::Config { listen: "0.0.0.0:0".parse().unwrap(), ..config() };
    let server = Server::with(open.clone(), InstantEngine::default()).await;
    let body = value!({"email": "ann@example.com", "password": PASSWORD});
    refusal(Visitor::new(&server).post("/v1/auth/signup", body.clone()).await, 403).await;
    assert_eq!(json(Visitor::new(&server).get("/v1/auth/session").await, 200).await["sign_up"], false);
    let wanted = hark_server::Config { sign_up: Some(true), ..open };
    let server = Server::with(wanted.clone(), InstantEngine::default()).await;
    let answer = Visitor::new(&server).post("/v1/auth/signup", body.clone()).await;
    assert_eq!(json(answer, 201).await["account"]["credits"], 0);
    let generous = hark_server::Config { sign_up_credits: Some(7), ..wanted };
    let server = Server::with(generous, InstantEngine::default()).await;
    let answer = Visitor::new(&server).post("/v1/auth/signup", body).await;
    assert_eq!(json(answer, 201).await["account"]["credits"], 7);
}

#[tokio::test]
async fn an_address_and_the_networks_around_it_make_so_many_accounts_a_day() {
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let config = hark_server::Config { trusted_proxies, sign_up: Some(true), sign_ups_per_day: Some(1), ..config() };
    let server = Server::with_clock(config, InstantEngine::default(), Clock::manual(DAY * 20_000)).await;
    let mut number = 0;
    let mut sign_up = async |from: &str| {
        number += 1;
        let request = Visitor::new(&server).bare(Method::POST, "/v1/auth/signup").header("x-forwarded-for", from);
        let body = value!({"email": format!("{number}@example.com"), "password": PASSWORD});
        request.json(&body).send().await.unwrap()
    };
    assert_eq!(sign_up("192.0.2.1").await.status(), 201);
    let refused = sign_up("192.0.2.1").await;
    assert_eq!(refused.headers()["retry-after"], "86400");
    refusal(refused, 429).await;
    assert_eq!(sign_up("192.0.2.2").await.status(), 201);
    for household in 0..4 {
        assert_eq!(sign_up(&format!("2001:db8:1:{household}::1")).await.status(), 201);
    }
    assert_eq!(sign_up("2001:db8:1:4::1").await.status(), 429, "the fifth household of a /56");
    assert_eq!(sign_up("2001:db8:1:100::1").await.status(), 201);
    server.clock.advance(Duration::from_secs(86_400));
    assert_eq!(sign_up("192.0.2.1").await.status(), 201);
}

#[tokio::test]
async fn the_cookie_is_secure_where_a_trusted_proxy_says_https() {
    for (trusted, secure) in [("127.0.0.0/8", true), ("10.0.0.0/8", false)] {
        let trusted_proxies = vec![trusted.parse().unwrap()];
        let config = hark_server::Config { trusted_proxies, sign_up: Some(true), ..config() };
        let server = Server::with(config, InstantEngine::default()).await;
        let body = value!({"email": "ann@example.com", "password": PASSWORD});
        let request = Visitor::new(&server).bare(Method::POST, "/v1/auth/signup").header("x-forwarded-proto", "https");
        let answer = request.json(&body).send().await.unwrap();
        assert_eq!(answer.headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"), secure, "{trusted}");
    }
}

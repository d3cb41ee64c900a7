//! What a key may do, from where, for how long and for how much.

use std::time::Duration;

use hark_api::DateTime;
use hark_server::{Config, InstantEngine};
use hark_store::{Clock, Plan};
use reqwest::Method;
use serde_json::{Value, json as value};

use crate::server::{Client, Server, config, eventually, hum, json, refusal};

async fn key(client: &Client, wanted: Value) -> (Client, Value) {
    let made = json(client.post("/v1/keys", wanted).await, 201).await;
    (client.with_key(made["key"].as_str().unwrap()), made)
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say_and_nothing_else() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let (transcribe, _) = key(&client, value!({"scopes": ["transcribe"]})).await;
    let (read, _) = key(&client, value!({"scopes": ["read", "read"]})).await;
    let (manage, _) = key(&client, value!({"scopes": ["manage"]})).await;
    let send = |client: &Client| client.transcribe("/v1/transcribe", hum(1.0), &[]).send();
    let sent = send(&transcribe).await.unwrap();
    assert_eq!(sent.status(), 200);
    let path = format!("/v1/transcripts/{}", sent.headers()["x-transcript-id"].to_str().unwrap());
    for (other, scope) in [(&read, "transcribe"), (&manage, "transcribe")] {
        let message = refusal(send(other).await.unwrap(), 403).await;
        assert!(message.contains(&format!("`{scope}`")), "{message}");
    }
    assert_eq!(read.get(&path).await.status(), 200);
    assert_eq!(read.get("/v1/account/").await.status(), 200);
    refusal(transcribe.get(&path).await, 403).await;
    refusal(manage.get(&path).await, 403).await;
    // Work on a transcript tells of it: that takes both.
    refusal(transcribe.post(&format!("{path}/chat"), value!({"question": "who?"})).await, 403).await;
    for other in [&transcribe, &read] {
        assert!(refusal(other.post("/v1/keys", value!({})).await, 403).await.contains("`manage`"));
        refusal(other.request(Method::DELETE, &path).send().await.unwrap(), 403).await;
    }
    for all in [&transcribe, &read, &manage] {
        assert_eq!(all.get("/v1/credits").await.status(), 200);
    }
    // A key makes no key that may do more than itself.
    refusal(manage.post("/v1/keys", value!({})).await, 403).await;
    let (second, _) = key(&manage, value!({"scopes": ["manage"]})).await;
    assert_eq!(second.request(Method::DELETE, &path).send().await.unwrap().status(), 200);
    let listed = json(client.get("/v1/keys").await, 200).await;
    assert_eq!(listed["keys"][1]["scopes"], value!(["manage"]));
    assert_eq!(listed["keys"][4]["scopes"], value!(["transcribe", "read", "manage"]), "the default");
    for wrong in [value!([]), value!(["admin"]), value!("read")] {
        refusal(client.post("/v1/keys", value!({"scopes": wrong})).await, 400).await;
    }
}

#[tokio::test]
async fn a_key_ends_when_it_should() {
    let clock = Clock::manual(DateTime::parse("2030-05-17T12:00:00Z").unwrap().0);
    let server = Server::with_clock(config(), InstantEngine::default(), clock).await;
    let client = server.account(Plan::Free).await;
    let (short, made) = key(&client, value!({"expires_at": "2030-05-17T13:00:00Z"})).await;
    assert_eq!(made["expires_at"], "2030-05-17T13:00:00Z");
    assert_eq!(short.get("/v1/account").await.status(), 200);
    server.clock.advance(Duration::from_secs(3600));
    eventually("the key to end", async || (short.get("/v1/account").await.status() == 401).then_some(())).await;
    assert_eq!(json(client.get("/v1/keys").await, 200).await["keys"][0]["is_active"], false);
    refusal(client.post("/v1/keys", value!({"expires_at": "2030-05-17T13:00:00Z"})).await, 400).await;
    refusal(client.post("/v1/keys", value!({"expires_at": "soon"})).await, 400).await;
}

#[tokio::test]
async fn a_key_works_only_from_where_it_may() {
    let config = Config { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..config() };
    let server = Server::with(config, InstantEngine::default()).await;
    let client = server.account(Plan::Free).await;
    let wanted = value!({"allowed_addresses": ["192.0.2.7", "2001:db8:1:2::3/48"]});
    let (bound, _) = key(&client, wanted).await;
    let from = async |address: &str| {
        let request = bound.request(Method::GET, "/v1/account").header("x-forwarded-for", address);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!((from("192.0.2.7").await, from("2001:db8:1:ffff::1").await), (200, 200));
    assert_eq!((from("192.0.2.8").await, from("2001:db8:2::1").await), (403, 403));
    let listed = json(client.get("/v1/keys").await, 200).await;
    assert_eq!(listed["keys"][0]["allowed_addresses"], value!(["192.0.2.7/32", "2001:db8:1::/48"]));
    for wrong in ["example.com", "192.0.2.0/33", ""] {
        refusal(client.post("/v1/keys", value!({"allowed_addresses": [wrong]})).await, 400).await;
    }
}

#[tokio::test]
async fn a_key_that_is_rolled_over_has_two_secrets_for_a_while() {
    let clock = Clock::manual(DateTime::parse("2030-05-17T12:00:00Z").unwrap().0);
    let server = Server::with_clock(config(), InstantEngine::default(), clock).await;
    let client = server.account(Plan::Free).await;
    let (old, made) = key(&client, value!({"name": "CI"})).await;
    let path = format!("/v1/keys/{}", made["id"]);
    let roll = async |body: Value| client.post(&format!("{path}/roll"), body).await;
    let rolled = json(roll(value!({"grace_seconds": 60})).await, 200).await;
    assert_eq!((&rolled["id"], &rolled["name"]), (&made["id"], &made["name"]));
    assert_eq!(rolled["previous_valid_until"], "2030-05-17T12:01:00Z");
    let new = client.with_key(rolled["key"].as_str().unwrap());
    assert_eq!(old.get("/v1/account").await.status(), 200);
    assert_eq!(new.get("/v1/account").await.status(), 200);
    server.clock.advance(Duration::from_secs(60));
    eventually("the old secret to end", async || (old.get("/v1/account").await.status() == 401).then_some(())).await;
    assert_eq!(new.get("/v1/account").await.status(), 200);
    // Without a grace the secret before ends at once; without a word it has a day.
    let third = json(roll(value!({"grace_seconds": 0})).await, 200).await;
    assert_eq!(new.get("/v1/account").await.status(), 401);
    let fourth = json(client.request(Method::POST, &format!("{path}/roll")).send().await.unwrap(), 200).await;
    assert_eq!(fourth["previous_valid_until"], "2030-05-18T12:01:00Z");
    assert_eq!(client.with_key(third["key"].as_str().unwrap()).get("/v1/account").await.status(), 200);
    for wrong in [-1, 30 * 86_400 + 1] {
        refusal(roll(value!({"grace_seconds": wrong})).await, 400).await;
    }
    client.request(Method::DELETE, &path).send().await.unwrap();
    for secret in [&third["key"], &fourth["key"]] {
        assert_eq!(
            client.with_key(secret.as_str().unwrap()).get("/v1/account").await.status(),
            401,
            "both are revoked"
        );
    }
    refusal(roll(value!({})).await, 404).await;
}

#[tokio::test]
async fn a_key_spends_no_more_than_it_may_until_its_limit_is_raised() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let (bound, made) = key(&client, value!({"spending_limit": 2})).await;
    let send = |seconds: f64| bound.transcribe("/v1/transcribe", hum(seconds), &[]).send();
    refusal(send(121.0).await.unwrap(), 429).await;
    assert_eq!(send(61.0).await.unwrap().status(), 200);
    let refused = send(1.0).await.unwrap();
    assert!(refused.headers().contains_key("retry-after"));
    assert!(refusal(refused, 429).await.contains("may spend 2 credits and has spent 2"));
    assert_eq!(client.credits(&server).await, 598);
    let path = format!("/v1/keys/{}", made["id"]);
    let change = value!({"spending_limit": 3, "name": "raised", "rate_limit": 100});
    let changed = json(client.request(Method::PATCH, &path).json(&change).send().await.unwrap(), 200).await;
    assert_eq!(
        (&changed["spending_limit"], &changed["name"], &changed["rate_limit"]),
        (&value!(3), &value!("raised"), &value!(100))
    );
    assert_eq!(changed["monthly_limit_minutes"], 5000, "what was not said stays");
    assert_eq!(send(1.0).await.unwrap().status(), 200);
    refusal(client.request(Method::PATCH, &path).json(&value!({"rate_limit": 0})).send().await.unwrap(), 400).await;
}

//! Requests a minute, transcriptions at once, minutes a month, use without an account.

use std::time::Duration;

use hark_api::DateTime;
use hark_server::{Anonymous, Config, InstantEngine, Limits};
use hark_store::{Clock, KeyKind, NewKey, Plan};
use reqwest::Response;

use crate::server::{Client, Server, config, eventually, hum, json, refusal};

/// A day at noon.
fn noon() -> Clock {
    Clock::manual(DateTime::parse("2030-05-17T12:00:00Z").unwrap().0)
}

fn number(response: &Response, header: &str) -> i64 {
    response.headers()[header].to_str().unwrap().parse().unwrap()
}

async fn with_key(server: &Server, client: &Client, key: NewKey) -> Client {
    let (_, secret) = server.store.keys().create(client.account.unwrap(), &key).await.unwrap();
    client.with_key(secret.reveal())
}

#[tokio::test]
async fn a_key_has_its_requests_a_minute_and_every_answer_says_how_many_are_left() {
    let server = Server::with_clock(config(), InstantEngine::default(), noon()).await;
    let client = server.account(Plan::Free).await;
    let client = with_key(&server, &client, NewKey { rate_limit: 5, ..NewKey::new(KeyKind::Service, "five") }).await;
    for left in (0..5).rev() {
        let response = client.get("/v1/account").await;
        assert_eq!((response.status().as_u16(), number(&response, "ratelimit-limit")), (200, 5));
        assert_eq!(number(&response, "ratelimit-remaining"), left);
        assert!(number(&response, "ratelimit-reset") > 0);
    }
    let refused = client.get("/v1/transcripts/1").await;
    assert_eq!(number(&refused, "retry-after"), 12);
    assert_eq!(number(&refused, "ratelimit-remaining"), 0);
    refusal(refused, 429).await;
    server.clock.advance(Duration::from_secs(12));
    let response = client.get("/v1/transcripts/1").await;
    assert!(response.headers().contains_key("ratelimit-limit"), "errors carry it too");
    assert_eq!(response.status(), 404);
    assert_eq!(client.get("/v1/keys").await.status(), 429);
}

#[tokio::test]
async fn an_account_has_so_many_transcriptions_at_once_as_its_tier() {
    let server = Server::with(config(), InstantEngine { takes: Duration::from_secs(30) }).await;
    for (plan, at_once) in [(Plan::Free, 2), (Plan::Pro, 5)] {
        let client = server.account(plan).await;
        let send = || client.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send();
        for _ in 0..at_once {
            assert_eq!(send().await.unwrap().status(), 202);
        }
        let refused = send().await.unwrap();
        assert!(number(&refused, "retry-after") > 0);
        assert_eq!(number(&refused, "ratelimit-limit"), at_once);
        let body = json(refused, 429).await;
        assert_eq!(body["upgrade"] == true, plan == Plan::Free, "{body}");
        assert_eq!(client.credits(&server).await, 600 - at_once);
    }
}

#[tokio::test]
async fn uploads_under_way_count_as_transcriptions_at_once() {
    let server = Server::start().await;
    let anonymous = server.anonymous();
    let (sender, body) = crate::uploads::open_form(b"RIFF");
    let uploading = tokio::spawn(crate::uploads::send_form(anonymous.clone(), body));
    eventually("the second to be refused", async || {
        let second = anonymous.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
        (second.status() == 429).then_some(())
    })
    .await;
    drop(sender);
    let _ = uploading.await;
}

#[tokio::test]
async fn a_name_makes_no_room_for_more_at_once() {
    let server = Server::with(config(), InstantEngine { takes: Duration::from_secs(30) }).await;
    let anonymous = server.anonymous();
    let first = tokio::spawn(anonymous.transcribe("/v1/transcribe", hum(1.0), &[]).send());
    let begun = async || (server.store.addresses().anonymous_jobs().await.unwrap() == 1).then_some(());
    eventually("the first to be accepted", begun).await;
    // The body never ends: only an answer to the head comes.
    let (_sender, body) = crate::uploads::open_form(b"RIFF");
    let second = anonymous.request(reqwest::Method::POST, "/v1/transcribe").header("Idempotency-Key", "another");
    let second = second.header("Content-Type", "multipart/form-data; boundary=XyZ").body(body).send().await.unwrap();
    assert!(refusal(second, 429).await.contains("at once"));
    first.abort();
}

#[tokio::test]
async fn a_key_has_its_minutes_a_month() {
    let clock = noon();
    let server = Server::with_clock(config(), InstantEngine::default(), clock).await;
    let client = server.account(Plan::Free).await;
    let key = NewKey { monthly_limit_minutes: 2, ..NewKey::new(KeyKind::Service, "two minutes") };
    let client = with_key(&server, &client, key).await;
    assert_eq!(client.transcribe("/v1/transcribe", hum(61.0), &[]).send().await.unwrap().status(), 200);
    let refused = client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    let wait = number(&refused, "retry-after");
    assert_eq!(wait, 14 * 86_400 + 43_200, "until the first of June");
    assert!(refusal(refused, 429).await.contains("2 minutes a month"));
    assert_eq!(client.credits(&server).await, 598);
    server.clock.advance(Duration::from_secs(wait as u64));
    assert_eq!(client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_address_without_an_account_has_its_day() {
    let clock = noon();
    let server = Server::with_clock(config(), InstantEngine::default(), clock).await;
    let client = server.anonymous();
    let send = || client.transcribe("/v1/transcribe", hum(1.0), &[]).send();
    for _ in 0..3 {
        assert_eq!(send().await.unwrap().status(), 200);
    }
    let refused = send().await.unwrap();
    assert_eq!(number(&refused, "retry-after"), 43_200, "until midnight");
    let body = json(refused, 429).await;
    assert_eq!(body["upgrade"], true);
    let account = server.account(Plan::Free).await;
    assert_eq!(account.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap().status(), 200);
    server.clock.advance(Duration::from_secs(43_200));
    assert_eq!(send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn anonymous_use_may_be_counted_in_minutes_or_switched_off() {
    let anonymous = Anonymous { limit: "2 minutes".parse().unwrap(), ..Anonymous::default() };
    let server = Server::with(Config { anonymous, ..config() }, InstantEngine::default()).await;
    let client = server.anonymous();
    assert_eq!(client.transcribe("/v1/transcribe", hum(61.0), &[]).send().await.unwrap().status(), 200);
    let left = json(client.get("/v1/credits").await, 200).await;
    assert_eq!(left, serde_json::json!({"daily_limit": 2, "used_today": 2, "remaining_today": 0}));
    refusal(client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap(), 429).await;
    let off = Anonymous { enabled: false, ..Anonymous::default() };
    let server = Server::with(Config { anonymous: off, ..config() }, InstantEngine::default()).await;
    refusal(server.anonymous().transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap(), 401).await;
}

#[tokio::test]
async fn who_has_nothing_left_is_told_before_the_upload() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    server.store.ledger().adjust(client.account.unwrap(), -600, "").await.unwrap();
    // The body never ends: only an answer to the head comes.
    let (_sender, body) = crate::uploads::open_form(b"RIFF");
    refusal(crate::uploads::send_form(client, body).await.unwrap(), 402).await;
    let anonymous = server.anonymous();
    for _ in 0..3 {
        assert_eq!(anonymous.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap().status(), 200);
    }
    let (_sender, body) = crate::uploads::open_form(b"RIFF");
    refusal(crate::uploads::send_form(anonymous, body).await.unwrap(), 429).await;
}

#[tokio::test]
async fn an_ipv6_customer_is_not_thousands_of_callers() {
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let anonymous = Anonymous { limit: "1 transcription".parse().unwrap(), ..Anonymous::default() };
    let server = Server::with(Config { trusted_proxies, anonymous, ..config() }, InstantEngine::default()).await;
    let client = server.anonymous();
    let send = async |address: String| {
        let request = client.transcribe("/v1/transcribe", hum(1.0), &[]).header("X-Forwarded-For", address);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(send("2001:db8:1:100::1".into()).await, 200);
    assert_eq!(send("2001:db8:1:100::2".into()).await, 429, "the same household");
    for household in 1..4 {
        assert_eq!(send(format!("2001:db8:1:10{household}::1")).await, 200);
    }
    assert_eq!(send("2001:db8:1:104::1".into()).await, 429, "the fifth household of a /56");
    for network in 2..5 {
        for household in 0..4 {
            assert_eq!(send(format!("2001:db8:1:{network}0{household}::1")).await, 200);
        }
    }
    assert_eq!(send("2001:db8:1:900::1".into()).await, 429, "the fifth /56 of a /48");
    assert_eq!(send("2001:db8:2:900::1".into()).await, 200);
}

#[tokio::test]
async fn anonymous_work_is_bounded_in_all() {
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let limits = Limits { anonymous_at_once: 2, ..Limits::default() };
    let engine = InstantEngine { takes: Duration::from_secs(30) };
    let server = Server::with(Config { trusted_proxies, limits, ..config() }, engine).await;
    let client = server.anonymous();
    let send = |number: u8| {
        let request = client.transcribe("/v1/transcribe", hum(1.0), &[]);
        request.header("X-Forwarded-For", format!("192.0.2.{number}")).send()
    };
    let first = [tokio::spawn(send(1)), tokio::spawn(send(2))];
    let refused = eventually("the third to be refused", async || {
        if server.store.addresses().anonymous_jobs().await.unwrap() < 2 {
            return None;
        }
        Some(send(3).await.unwrap())
    })
    .await;
    assert!(number(&refused, "retry-after") > 0);
    refusal(refused, 503).await;
    let account = server.account(Plan::Free).await;
    let sent = account.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send().await.unwrap();
    assert_eq!(sent.status(), 202, "those with an account have their own bound");
    first.iter().for_each(|task| task.abort());
}

#[tokio::test]
async fn an_address_has_so_many_connections() {
    use tokio::io::AsyncReadExt as _;
    let limits = Limits { connections_per_address: 2, ..Limits::default() };
    let server = Server::with(Config { limits, ..config() }, InstantEngine::default()).await;
    let connect = || tokio::net::TcpStream::connect(server.address);
    let held = [connect().await.unwrap(), connect().await.unwrap()];
    let mut answer = String::new();
    connect().await.unwrap().read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("\r\nretry-after: "), "{answer}");
    assert!(answer.ends_with("{\"error\":\"too many connections from this address: close some first\"}"), "{answer}");
    drop(held);
    eventually("a connection to be taken", async || {
        let answer = server.anonymous().request(reqwest::Method::GET, "/v1/languages").send().await;
        answer.is_ok_and(|answer| answer.status() == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_body_that_trickles_or_is_one_too_many_is_refused() {
    let limits = Limits { body_grace: hark_server::Seconds(0.2), body_bytes_per_address: 100_000, ..Limits::default() };
    let server = Server::with(Config { limits, ..config() }, InstantEngine::default()).await;
    let client = server.account(Plan::Pro).await;
    let (sender, body) = crate::uploads::open_form(b"RIFF");
    let trickle = tokio::spawn(async move {
        while sender.send(Ok(bytes::Bytes::from_static(b"a"))).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let answer = crate::uploads::send_form(client.clone(), body).await.unwrap();
    assert!(refusal(answer, 408).await.contains("too slowly"));
    trickle.abort();
    // A recording of a few seconds is larger than all that may be under way from one address.
    let refused = client.transcribe("/v1/transcribe", hum(10.0), &[]).send().await.unwrap();
    assert!(number(&refused, "retry-after") > 0);
    refusal(refused, 429).await;
    assert_eq!(client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn ids_can_not_be_tried_out() {
    let limits = Limits { status_rate: 5, ..Limits::default() };
    let server = Server::with_clock(Config { limits, ..config() }, InstantEngine::default(), noon()).await;
    let client = server.account(Plan::Free).await;
    let sent = client.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send().await.unwrap();
    let id = json(sent, 202).await["id"].as_i64().unwrap();
    assert!((1..1 << 53).contains(&id), "{id} is no safe integer");
    for _ in 0..5 {
        assert_eq!(server.anonymous().get("/v1/transcripts/7/status").await.status(), 404);
    }
    let refused = server.anonymous().get(&format!("/v1/transcripts/{id}/status")).await;
    assert_eq!(number(&refused, "retry-after"), 12);
    refusal(refused, 429).await;
    server.clock.advance(Duration::from_secs(12));
    assert_eq!(server.anonymous().get(&format!("/v1/transcripts/{id}/status")).await.status(), 200);
}

#[tokio::test]
async fn a_forwarded_address_counts_only_behind_a_proxy_of_ours() {
    let used = async |config: Config| {
        let server = Server::with(config, InstantEngine::default()).await;
        let client = server.anonymous();
        let send = |address: &'static str| {
            client.transcribe("/v1/transcribe", hum(1.0), &[]).header("X-Forwarded-For", address).send()
        };
        assert_eq!(send("203.0.113.1").await.unwrap().status(), 200);
        let other = client.request(reqwest::Method::GET, "/v1/credits").header("X-Forwarded-For", "203.0.113.2");
        json(other.send().await.unwrap(), 200).await["used_today"].as_i64().unwrap()
    };
    assert_eq!(used(config()).await, 1, "a stranger can't choose its address");
    let trusting = Config { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..config() };
    assert_eq!(used(trusting).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_locks_no_key_out() {
    let clock = hark_store::Clock::system();
    let server = Server::with_clock(config(), InstantEngine::default(), clock.clone()).await;
    let client = server.account(Plan::Free).await;
    let client = with_key(&server, &client, NewKey { rate_limit: 5, ..NewKey::new(KeyKind::Service, "five") }).await;
    assert_eq!(client.get("/v1/account").await.status(), 200);
    for step in [-3_600_000_000, 7_200_000_000, -86_400_000_000] {
        clock.step(step);
        let response = client.get("/v1/account").await;
        assert_eq!(response.status(), 200, "after a step of {} s", step / 1_000_000);
        assert!(number(&response, "ratelimit-reset") <= 60);
    }
}

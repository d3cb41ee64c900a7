//! Passwords: who guesses learns nothing and is slowed down; who changes one is alone afterwards.

use std::time::{Duration, Instant};

use hark_server::InstantEngine;
use hark_store::{Clock, DAY, NewAccount, Plan};
use reqwest::Method;
use serde_json::json as value;

use crate::server::{Server, config, json, refusal};
use crate::visitor::{PASSWORD, Visitor};

#[tokio::test]
async fn an_unknown_address_and_a_wrong_password_get_the_same_answer_after_the_same_time() {
    let server = Server::start().await;
    Visitor::sign_up(&server, "ann@example.com").await;
    server.store.accounts().create(&NewAccount::new("nopassword@example.com", Plan::Free)).await.unwrap();
    let emails = ["ann@example.com", "nobody@example.com", "nopassword@example.com", "not an address"];
    let mut answers = Vec::new();
    let mut times = [Duration::MAX; 4];
    // In turns, so that whatever else the machine does meets all of them.
    for _ in 0..8 {
        for (email, best) in emails.iter().zip(&mut times) {
            let begun = Instant::now();
            let (_, answer) = Visitor::sign_in(&server, email, "a wrong password").await;
            *best = begun.elapsed().min(*best);
            answers.push(refusal(answer, 401).await);
        }
    }
    answers.dedup();
    assert_eq!(answers, ["the email address or the password is not right"]);
    // Other work of the machine makes a request longer, never shorter: each must take at least what a hash computes.
    let computed = || -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        stat.split(' ').next().unwrap().parse().unwrap()
    };
    let begun = computed();
    hark_server::hash_password("ann@example.com", PASSWORD).unwrap();
    let hashing = Duration::from_nanos(computed() - begun);
    assert!(times.iter().all(|time| *time > hashing / 2), "{times:?}, of which hashing is {hashing:?}");
}

#[tokio::test]
async fn guessing_at_an_account_is_slowed_down_and_stops_for_nobody_else() {
    let server = Server::with_clock(config(), InstantEngine::default(), Clock::manual(DAY * 20_000)).await;
    Visitor::sign_up(&server, "ann@example.com").await;
    Visitor::sign_up(&server, "bob@example.com").await;
    for _ in 0..11 {
        let (_, answer) = Visitor::sign_in(&server, "Ann@Example.com", "a wrong password").await;
        assert_eq!(answer.status(), 401);
    }
    let (_, answer) = Visitor::sign_in(&server, "ann@example.com", PASSWORD).await;
    assert_eq!(answer.headers()["retry-after"], "3");
    refusal(answer, 429).await;
    let (_, answer) = Visitor::sign_in(&server, "bob@example.com", PASSWORD).await;
    assert_eq!(answer.status(), 200);
    server.clock.advance(Duration::from_secs(3));
    let (_, answer) = Visitor::sign_in(&server, "ann@example.com", PASSWORD).await;
    assert_eq!(answer.status(), 200);
    // The right password gives all tries back.
    for _ in 0..10 {
        assert_eq!(Visitor::sign_in(&server, "ann@example.com", "a wrong password").await.1.status(), 401);
    }
}

#[tokio::test]
async fn whose_password_is_guessed_at_is_not_locked_out() {
    let config =
        hark_server::Config { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], sign_up: Some(true), ..config() };
    let server = Server::with_clock(config, InstantEngine::default(), Clock::manual(DAY * 20_000)).await;
    let send = async |path: &str, from: &str, password: &str, cookie: &str| {
        let request = Visitor::new(&server).bare(Method::POST, path).header("x-forwarded-for", from);
        let body = value!({"email": "ann@example.com", "password": password});
        request.header("cookie", cookie).json(&body).send().await.unwrap()
    };
    let answer = send("/v1/auth/signup", "192.0.2.1", PASSWORD, "").await;
    assert_eq!(answer.status(), 201);
    let cookies = answer.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap().to_owned());
    let device = cookies.into_iter().find(|cookie| cookie.starts_with("hark_device=")).unwrap();
    assert!(device.contains("; HttpOnly") && device.contains("; SameSite=Lax"), "{device}");
    let device = device.split(';').next().unwrap().to_owned();
    // Somebody guesses from very many addresses, and from the very network of the owner.
    let sign_in = "/v1/auth/signin";
    let mut refused = 0;
    for number in 0..110 {
        let from = format!("198.51.100.{number}");
        refused += usize::from(send(sign_in, &from, "a wrong password", "").await.status() == 429);
    }
    for _ in 0..15 {
        refused += usize::from(send(sign_in, "192.0.2.1", "a wrong password", "").await.status() == 429);
    }
    assert!(refused > 8, "the guesser was refused {refused} times");
    assert_eq!(send(sign_in, "203.0.113.7", PASSWORD, "").await.status(), 429, "nothing tells it from the guesser");
    assert_eq!(send(sign_in, "192.0.2.1", PASSWORD, &device).await.status(), 200, "a browser that signed in before");
    assert_eq!(send(sign_in, "203.0.113.7", PASSWORD, &device).await.status(), 200, "also from elsewhere");
    let forged = device.replace('.', ".0");
    assert_eq!(send(sign_in, "203.0.113.8", PASSWORD, &forged).await.status(), 429);
    // From the address that signed in before, only what was tried there counts.
    server.clock.advance(Duration::from_secs(900));
    for number in 0..5 {
        let from = format!("198.51.100.{number}");
        send(sign_in, &from, "a wrong password", "").await;
    }
    assert_eq!(send(sign_in, "192.0.2.1", PASSWORD, "").await.status(), 200);
}

#[tokio::test]
async fn an_address_that_guesses_at_many_accounts_is_slowed_down() {
    let config = hark_server::Config { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..config() };
    let server = Server::with_clock(config, InstantEngine::default(), Clock::manual(DAY * 20_000)).await;
    let guess = async |from: &str, number: usize| {
        let body = value!({"email": format!("{number}@example.com"), "password": "a wrong password"});
        let request = Visitor::new(&server).bare(Method::POST, "/v1/auth/signin").header("x-forwarded-for", from);
        request.json(&body).send().await.unwrap().status().as_u16()
    };
    for number in 0..50 {
        assert_eq!(guess("192.0.2.1", number).await, 401);
    }
    assert_eq!(guess("192.0.2.1", 50).await, 401, "held for a second");
    assert_eq!(guess("192.0.2.1", 51).await, 429);
    assert_eq!(guess("192.0.2.2", 52).await, 401);
    server.clock.advance(Duration::from_secs(3));
    assert_eq!(guess("192.0.2.1", 53).await, 401);
    assert_eq!(guess("192.0.2.1", 54).await, 429);
}

#[tokio::test]
async fn many_who_sign_in_at_once_all_get_their_turn() {
    let server = Server::start().await;
    Visitor::sign_up(&server, "ann@example.com").await;
    let all = (0..9).map(|_| {
        let visitor = Visitor::new(&server);
        tokio::spawn(async move {
            visitor.post("/v1/auth/signin", value!({"email": "ann@example.com", "password": PASSWORD})).await.status()
        })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap(), 200);
    }
}

#[tokio::test]
async fn a_new_password_signs_out_everybody_else() {
    let server = Server::start().await;
    let mut visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let (mut elsewhere, answer) = Visitor::sign_in(&server, "ann@example.com", PASSWORD).await;
    elsewhere.remember(answer).await;
    let token =
        visitor.post("/v1/auth/signin", value!({"email": "ann@example.com", "password": PASSWORD, "token": true}));
    let token = json(token.await, 200).await["token"].as_str().unwrap().to_owned();
    let key = json(visitor.post("/v1/keys", value!({})).await, 201).await["key"].as_str().unwrap().to_owned();
    let with = async |secret: &str| {
        let answer = Visitor::new(&server).bare(Method::GET, "/v1/account").bearer_auth(secret).send().await.unwrap();
        answer.status().as_u16()
    };
    assert_eq!(
        (with(&token).await, with(&key).await, elsewhere.get("/v1/account").await.status().as_u16()),
        (200, 200, 200)
    );

    let change = |current: &str, new: &str| value!({"current_password": current, "new_password": new});
    refusal(visitor.post("/v1/auth/password", change("a wrong password", "another horse")).await, 403).await;
    refusal(visitor.post("/v1/auth/password", change(PASSWORD, "short")).await, 400).await;
    let before = visitor.cookie.clone();
    let answer = visitor.post("/v1/auth/password", change(PASSWORD, "another horse")).await;
    assert_eq!(answer.status(), 200);
    visitor.remember(answer).await;
    assert_ne!(visitor.cookie, before);
    assert_eq!(visitor.get("/v1/account").await.status(), 200);
    assert_eq!(
        (with(&token).await, with(&key).await, elsewhere.get("/v1/account").await.status().as_u16()),
        (401, 200, 401)
    );
    let old = Visitor { cookie: before, ..visitor.clone() };
    assert_eq!(old.get("/v1/account").await.status(), 401);
    assert_eq!(Visitor::sign_in(&server, "ann@example.com", PASSWORD).await.1.status(), 401);
    assert_eq!(Visitor::sign_in(&server, "ann@example.com", "another horse").await.1.status(), 200);
}

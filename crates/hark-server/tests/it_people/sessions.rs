//! Where somebody is signed in, a forgotten password, and the log of who did what.

use hark_store::{NewAccount, Plan};
use reqwest::Method;
use serde_json::{Value, json as value};

use crate::mail::{PostOffice, server_with, unfolded};
use crate::server::{Server, eventually, json, refusal};
use crate::visitor::{PASSWORD, Visitor};

async fn sign_in(server: &Server, password: &str) -> Visitor {
    let (mut visitor, answer) = Visitor::sign_in(server, "ann@example.com", password).await;
    visitor.remember(answer).await;
    visitor
}

#[tokio::test]
async fn sessions_are_listed_and_ended_one_by_one_or_all_others_at_once() {
    let server = Server::start().await;
    let first = Visitor::sign_up(&server, "ann@example.com").await;
    let body = value!({"email": "ann@example.com", "password": PASSWORD});
    let request = Visitor::new(&server).bare(Method::POST, "/v1/auth/signin").header("user-agent", "Browser 7");
    let mut second = Visitor::new(&server);
    second.remember(request.json(&body).send().await.unwrap()).await;
    let third = sign_in(&server, PASSWORD).await;
    let token = value!({"email": "ann@example.com", "password": PASSWORD, "token": true});
    let token = json(first.post("/v1/auth/signin", token).await, 200).await["token"].as_str().unwrap().to_owned();
    let stranger = Visitor::sign_up(&server, "bob@example.com").await;

    let list = json(second.get("/v1/auth/sessions").await, 200).await;
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 4, "{list}");
    assert_eq!((&sessions[0]["kind"], &sessions[1]["kind"]), (&value!("token"), &value!("session")));
    let current: Vec<&Value> = sessions.iter().filter(|session| session["is_current"] == true).collect();
    assert_eq!((current.len(), &current[0]["user_agent"]), (1, &value!("Browser 7")));
    assert!(!list.to_string().contains("ses_") && !list.to_string().contains("usr_"));

    let path = format!("/v1/auth/sessions/{}", sessions[1]["id"]);
    refusal(stranger.request(Method::DELETE, &path).send().await.unwrap(), 404).await;
    refusal(second.bare(Method::DELETE, &path).send().await.unwrap(), 403).await;
    assert_eq!(json(second.request(Method::DELETE, &path).send().await.unwrap(), 200).await, value!({"ok": true}));
    refusal(third.get("/v1/account").await, 401).await;
    refusal(second.request(Method::DELETE, &path).send().await.unwrap(), 404).await;
    assert_eq!(first.get("/v1/account").await.status(), 200);

    json(second.request(Method::DELETE, "/v1/auth/sessions").send().await.unwrap(), 200).await;
    refusal(first.get("/v1/account").await, 401).await;
    let with_token = Visitor::new(&server).bare(Method::GET, "/v1/account").bearer_auth(token).send().await.unwrap();
    refusal(with_token, 401).await;
    assert_eq!(second.get("/v1/account").await.status(), 200);
    assert_eq!(stranger.get("/v1/account").await.status(), 200);
}

#[tokio::test]
async fn a_forgotten_password_is_replaced_by_a_link_that_works_once() {
    let office = PostOffice::open().await;
    let server = server_with(&office).await;
    let hash = hark_server::hash_password("ann@example.com", PASSWORD).unwrap();
    let new = NewAccount { password_hash: Some(hash), ..NewAccount::new("ann@example.com", Plan::Free) };
    server.store.accounts().create(&new).await.unwrap();
    let old = sign_in(&server, PASSWORD).await;
    let visitor = Visitor::new(&server);
    let ask = async |email: &str| json(visitor.post("/v1/auth/reset", value!({"email": email})).await, 202).await;
    // The answer tells nobody who has an account.
    assert_eq!(ask("nobody@example.com").await, ask("ANN@example.com").await);
    let (to, mail) = office.mails(1).await.remove(0);
    assert_eq!(to, "ann@example.com");
    let mail = unfolded(&mail);
    let token = mail.split("/v1/auth/reset#").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    assert!(token.starts_with("rst_"), "{mail}");
    let page = visitor.get("/v1/auth/reset").await;
    assert_eq!(page.headers()["referrer-policy"], "no-referrer");
    assert!(page.text().await.unwrap().contains("new password"));

    let set = |token: &str, password: &str| {
        visitor
            .request(Method::POST, "/v1/auth/reset/confirm")
            .json(&value!({"token": token, "new_password": password}))
    };
    refusal(set(&token, "short").send().await.unwrap(), 400).await;
    refusal(set("rst_1", "another horse").send().await.unwrap(), 400).await;
    let elsewhere = visitor.bare(Method::POST, "/v1/auth/reset/confirm").header("origin", "https://evil.example");
    let body = value!({"token": &token, "new_password": "another horse"});
    let elsewhere = elsewhere.bearer_auth("anything").json(&body).send().await.unwrap();
    refusal(elsewhere, 403).await;
    assert_eq!(json(set(&token, "another horse").send().await.unwrap(), 200).await, value!({"ok": true}));
    refusal(set(&token, "a third horse").send().await.unwrap(), 400).await;
    refusal(old.get("/v1/account").await, 401).await;
    assert_eq!(Visitor::sign_in(&server, "ann@example.com", PASSWORD).await.1.status(), 401);
    let visitor = sign_in(&server, "another horse").await;
    let log = json(visitor.get("/v1/audit").await, 200).await.to_string();
    assert!(log.contains("password.reset_requested") && log.contains("\"password.reset\""), "{log}");
    assert!(!log.contains("rst_"));

    // Without mail there is nothing to send.
    let server = Server::start().await;
    let answer = Visitor::new(&server).post("/v1/auth/reset", value!({"email": "ann@example.com"})).await;
    refusal(answer, 403).await;
}

#[tokio::test]
async fn the_audit_log_tells_its_account_what_was_done_and_by_whom() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let stranger = Visitor::sign_up(&server, "bob@example.com").await;
    Visitor::sign_in(&server, "ann@example.com", "a wrong password").await;
    let made = json(visitor.post("/v1/keys", value!({"name": "CI"})).await, 201).await;
    let (id, secret) = (made["id"].clone(), made["key"].as_str().unwrap().to_owned());
    json(visitor.post(&format!("/v1/keys/{id}/roll"), value!({})).await, 200).await;
    json(visitor.request(Method::DELETE, &format!("/v1/keys/{id}")).send().await.unwrap(), 200).await;
    let log = json(visitor.get("/v1/audit?per_page=3").await, 200).await;
    let events = |log: &Value| -> Vec<String> {
        log["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(events(&log), ["key.revoked", "key.rolled", "key.created"]);
    assert_eq!((&log["total"], &log["events"][0]["subject"]), (&value!(5), &value!(format!("key {id}"))));
    assert_eq!(log["events"][0]["actor"], "account");
    let rest = json(visitor.get("/v1/audit?per_page=3&page=2").await, 200).await;
    assert_eq!(events(&rest), ["session.refused", "account.created"]);
    assert_eq!(
        (&rest["events"][0]["actor"], &rest["events"][0]["address"]),
        (&value!("visitor"), &value!("127.0.0.1"))
    );
    assert!(!log.to_string().contains(&secret[12..]) && !rest.to_string().contains("wrong password"));
    let others = json(stranger.get("/v1/audit").await, 200).await;
    assert_eq!(events(&others), ["account.created"]);

    // Who manages others reads everything, nobody else does.
    refusal(visitor.get("/v1/admin/audit").await, 403).await;
    let admin = NewAccount { is_admin: true, ..NewAccount::new("admin@example.com", Plan::Free) };
    let admin = server.store.accounts().create(&admin).await.unwrap().id;
    let key = hark_store::NewKey::new(hark_store::KeyKind::Service, "admin");
    let (_, secret) = server.store.keys().create(admin, &key).await.unwrap();
    let as_admin = async |path: &str| {
        let request = Visitor::new(&server).bare(Method::GET, path).bearer_auth(secret.reveal());
        json(request.send().await.unwrap(), 200).await
    };
    let all = as_admin("/v1/admin/audit?per_page=100").await;
    assert_eq!(all["total"], 6, "{all}");
    let ann = all["events"].as_array().unwrap().iter().find(|event| event["event"] == "key.created").unwrap();
    let own = as_admin(&format!("/v1/admin/audit?account={}", ann["account_id"])).await;
    assert_eq!(own["total"], 5);
    refusal(visitor.get("/v1/audit?per_page=101").await, 400).await;
    refusal(Visitor::new(&server).get("/v1/audit").await, 401).await;
}

#[tokio::test]
async fn addresses_leave_the_log_before_its_entries_do() {
    let clock = hark_store::Clock::manual(hark_store::DAY * 20_000);
    let server = Server::with_clock(crate::server::config(), hark_server::InstantEngine::default(), clock).await;
    Visitor::sign_up(&server, "ann@example.com").await;
    let log = async || server.store.audit().page(None, 1, 10).await.unwrap();
    assert!(log().await.entries[0].address.is_some());
    server.clock.advance(std::time::Duration::from_secs(91 * 86_400));
    let day = std::time::Duration::from_secs(86_400);
    server.store.audit().expire(day * 400, day * 90).await.unwrap();
    assert_eq!(log().await.entries[0].address, None);
    server.clock.advance(day * 310);
    eventually("the entry to go", async || {
        server.store.audit().expire(day * 400, day * 90).await.unwrap();
        log().await.entries.is_empty().then_some(())
    })
    .await;
}

//! Taking everything along, and leaving.

use hark_store::{Error, Plan};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json as value};

use crate::server::{Server, hum, json, refusal};
use crate::visitor::{PASSWORD, Visitor};

async fn transcribe(visitor: &Visitor) {
    let form = Form::new().part("file", Part::bytes(hum(1.0)).file_name("talk.wav"));
    let answer = visitor.request(Method::POST, "/v1/transcribe").multipart(form).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn an_export_holds_everything_that_the_account_has_and_no_secret() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let key = json(visitor.post("/v1/keys", value!({"name": "CI"})).await, 201).await;
    transcribe(&visitor).await;
    transcribe(&visitor).await;
    let other = Visitor::sign_up(&server, "bob@example.com").await;
    transcribe(&other).await;
    let answer = visitor.get("/v1/account/export").await;
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let text = answer.text().await.unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!((count("account"), count("key"), count("transcript"), count("end")), (1, 1, 2, 1));
    assert_eq!(lines[0]["email"], "ann@example.com");
    let sum: i64 =
        lines.iter().filter(|line| line["type"] == "ledger").map(|line| line["amount"].as_i64().unwrap()).sum();
    assert_eq!(sum, lines[0]["credits"].as_i64().unwrap());
    let transcript = lines.iter().find(|line| line["type"] == "transcript").unwrap();
    assert_eq!(transcript["text"], "nothing was heard");
    assert!(lines.iter().any(|line| line["type"] == "audit" && line["event"] == "account.exported"));
    assert_eq!(lines.last().unwrap()["type"], "end");
    assert!(!text.contains("bob@example.com"));
    assert!(!text.contains(&key["key"].as_str().unwrap()[12..]) && !text.contains("argon2"));
}

#[tokio::test]
async fn an_account_is_deleted_by_its_owner_with_everything_that_is_its() {
    let server = Server::start().await;
    let visitor = Visitor::sign_up(&server, "ann@example.com").await;
    let other = Visitor::sign_up(&server, "bob@example.com").await;
    transcribe(&visitor).await;
    transcribe(&other).await;
    let id = server.store.accounts().by_email("ann@example.com").await.unwrap().id;
    let delete = async |body: Value| visitor.request(Method::DELETE, "/v1/account").json(&body).send().await.unwrap();
    refusal(delete(value!({})).await, 400).await;
    refusal(delete(value!({"confirmation": "ann@example.com"})).await, 400).await;
    refusal(delete(value!({"password": "a wrong password"})).await, 403).await;
    let forged = visitor.bare(Method::DELETE, "/v1/account").json(&value!({"password": PASSWORD}));
    refusal(forged.send().await.unwrap(), 403).await;
    let recordings = || std::fs::read_dir(server.folder.path().join("blobs")).unwrap().count();
    let before = recordings();
    let answer = delete(value!({"password": PASSWORD})).await;
    assert!(answer.headers()["set-cookie"].to_str().unwrap().starts_with("hark_session=; "));
    assert_eq!(json(answer, 200).await, value!({"ok": true}));
    assert!(matches!(server.store.accounts().get(id).await, Err(Error::NotFound(_))));
    refusal(visitor.get("/v1/account").await, 401).await;
    assert_eq!(Visitor::sign_in(&server, "ann@example.com", PASSWORD).await.1.status(), 401);
    assert!(recordings() <= before);
    // The log keeps that it happened, and no longer from where.
    let log = server.store.audit().page(Some(id), 1, 10).await.unwrap();
    assert_eq!(log.entries[0].event, "account.deleted");
    assert!(log.entries.iter().all(|entry| entry.address.is_none()));
    assert_eq!(json(other.get("/v1/transcripts").await, 200).await["total"], 1);
}

#[tokio::test]
async fn an_account_without_a_password_is_deleted_with_its_address_and_one_that_manages_others_not_at_all() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let email = json(client.get("/v1/account").await, 200).await["email"].as_str().unwrap().to_owned();
    let delete = async |body: Value| client.request(Method::DELETE, "/v1/account").json(&body).send().await.unwrap();
    refusal(delete(value!({"confirmation": "other@example.com"})).await, 400).await;
    refusal(client.request(Method::DELETE, "/v1/account").send().await.unwrap(), 400).await;
    json(delete(value!({"confirmation": email})).await, 200).await;
    refusal(client.get("/v1/account").await, 401).await;
    let admin = server.account(Plan::Free).await;
    let change = hark_store::AccountChange { is_admin: Some(true), ..Default::default() };
    let account = server.store.accounts().change(admin.account.unwrap(), &change).await.unwrap();
    let body = value!({"confirmation": account.email});
    refusal(admin.request(Method::DELETE, "/v1/account").json(&body).send().await.unwrap(), 403).await;
}

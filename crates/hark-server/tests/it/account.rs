//! Account, credits, usage, keys, transcripts as their owner manages them.

use hark_store::{NewInstance, Plan};
use reqwest::Method;
use serde_json::{Value, json as value};

use crate::server::{Client, Server, hum, json, refusal};

async fn transcribed(client: &Client, fields: &[(&str, &str)]) -> i64 {
    let response = client.transcribe("/v1/transcribe", hum(1.0), fields).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.headers()["x-transcript-id"].to_str().unwrap().parse().unwrap()
}

async fn patch(client: &Client, id: i64, change: Value) -> reqwest::Response {
    client.request(Method::PATCH, &format!("/v1/transcripts/{id}")).json(&change).send().await.unwrap()
}

#[tokio::test]
async fn an_account_shows_itself_and_keeps_its_choice_of_mails() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let account = json(client.get("/v1/account").await, 200).await;
    assert_eq!(account["plan"], "pro");
    assert_eq!(account["is_plan_active"], true);
    assert_eq!(account["credits"], 600);
    assert_eq!(account["next_billing_date"], Value::Null);
    assert!(account["created_at"].as_str().unwrap().ends_with('Z'));
    let update = value!({"email_preferences": {"newsletter": true, "usage_alerts": false}});
    let put = client.request(Method::PUT, "/v1/account/").json(&update).send().await.unwrap();
    assert_eq!(json(put, 200).await, value!({"ok": true, "updated": ["newsletter", "usage_alerts"]}));
    let mails = &json(client.get("/v1/account").await, 200).await["email_preferences"];
    assert_eq!(mails["newsletter"], true);
    assert_eq!(mails["usage_alerts"], false);
    assert_eq!(mails["marketing"], false);
    for wrong in [value!({}), value!({"email_preferences": {"newsletter": "yes"}}), value!([])] {
        refusal(client.request(Method::PUT, "/v1/account").json(&wrong).send().await.unwrap(), 400).await;
    }
    let credits = json(client.get("/v1/credits").await, 200).await;
    assert_eq!(credits, value!({"plan": "pro", "credits": 600, "is_active": true}));
}

#[tokio::test]
async fn usage_counts_what_was_transcribed_even_after_it_is_deleted() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let id = transcribed(&client, &[]).await;
    client.request(Method::DELETE, &format!("/v1/transcripts/{id}")).send().await.unwrap();
    let usage = json(client.get("/v1/usage?days=7").await, 200).await;
    assert_eq!(usage["period_days"], 7);
    assert_eq!(usage["summary"]["total_transcripts"], 1);
    assert_eq!(usage["summary"]["total_words"], 3);
    assert_eq!(usage["summary"]["credits_remaining"], 599);
    assert_eq!(usage["daily"].as_array().unwrap().len(), 1);
    assert_eq!(usage["daily"][0]["date"].as_str().unwrap().len(), 10);
}

#[tokio::test]
async fn a_key_is_shown_once_works_and_stops_working_when_revoked() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let created = client.request(Method::POST, "/v1/keys/").send().await.unwrap();
    let created = json(created, 201).await;
    let key = created["key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("svc_") && key.len() == 68, "{key}");
    assert_eq!(created["prefix"], key[..12]);
    let second = client.with_key(&key);
    assert_eq!(second.get("/v1/account").await.status(), 200);
    let named = client.post("/v1/keys", value!({"name": "CI", "rate_limit": 7, "monthly_limit_minutes": 9})).await;
    json(named, 201).await;
    let list = json(client.get("/v1/keys").await, 200).await;
    let keys = list["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 3);
    assert_eq!(
        (&keys[0]["name"], &keys[0]["rate_limit"], &keys[0]["monthly_limit_minutes"]),
        (&value!("CI"), &value!(7), &value!(9))
    );
    assert_eq!(keys[1]["rate_limit"], 60);
    assert_eq!(keys[1]["monthly_limit_minutes"], 5000);
    assert!(!list.to_string().contains(&key), "the whole key is never listed");

    let path = format!("/v1/keys/{}", created["id"]);
    assert_eq!(json(client.request(Method::DELETE, &path).send().await.unwrap(), 200).await, value!({"ok": true}));
    refusal(second.get("/v1/account").await, 401).await;
    refusal(client.request(Method::DELETE, &path).send().await.unwrap(), 404).await;
    for wrong in [
        value!({"rate_limit": 0}),
        value!({"rate_limit": "60"}),
        value!({"rate_limit": 60.5}),
        value!(["CI", 60, 5000]),
        value!({"monthly_limit_minutes": -1}),
        value!({"name": "n".repeat(201)}),
    ] {
        refusal(client.post("/v1/keys", wrong).await, 400).await;
    }
}

#[tokio::test]
async fn a_key_asked_for_twice_with_one_name_is_made_once_and_kept_readable_for_nobody() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let ask = async |name: &str| {
        let request =
            client.request(Method::POST, "/v1/keys").header("Idempotency-Key", "k1").json(&value!({"name": name}));
        request.send().await.unwrap()
    };
    let (first, second) = (json(ask("a").await, 201).await, json(ask("a").await, 201).await);
    assert_eq!(first, second);
    assert_eq!(json(client.get("/v1/keys").await, 200).await["keys"].as_array().unwrap().len(), 2);
    refusal(ask("b").await, 422).await;
    let secret = first["key"].as_str().unwrap()[20..].to_owned();
    let folder = server.stop().await;
    for file in std::fs::read_dir(folder.path()).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(
            !bytes.windows(secret.len()).any(|window| window == secret.as_bytes()),
            "{:?} holds the key",
            file.path()
        );
    }
}

#[tokio::test]
async fn private_cloud_is_for_those_who_have_it() {
    let server = Server::start().await;
    let client = server.account(Plan::Business).await;
    assert_eq!(json(client.get("/v1/cloud").await, 402).await["upgrade"], true);
    let instance = NewInstance {
        name: "north".into(),
        region: "eu".into(),
        status: "running".into(),
        gpu: "H200".into(),
        base_url: "https://north.example.com".into(),
    };
    server.store.instances().add(client.account.unwrap(), &instance).await.unwrap();
    let cloud = json(client.get("/v1/cloud/").await, 200).await;
    assert_eq!(cloud["instances"][0]["name"], "north");
    assert_eq!(cloud["instances"][0]["base_url"], "https://north.example.com");
}

#[tokio::test]
async fn transcripts_are_listed_in_pages_and_by_filter() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let mut ids = Vec::new();
    for language in ["en", "de", "en"] {
        ids.push(transcribed(&client, &[("language", language)]).await);
    }
    ids.reverse();
    let listed = async |query: &str| {
        let page = json(client.get(&format!("/v1/transcripts{query}")).await, 200).await;
        let ids: Vec<i64> =
            page["transcripts"].as_array().unwrap().iter().map(|one| one["id"].as_i64().unwrap()).collect();
        (ids, page["total"].as_i64().unwrap())
    };
    assert_eq!(listed("").await, (ids.clone(), 3));
    assert_eq!(listed("/?per_page=2").await, (ids[..2].to_vec(), 3));
    assert_eq!(listed("?per_page=2&page=2").await, (ids[2..].to_vec(), 3));
    assert_eq!(listed("?language=de").await, (vec![ids[1]], 1));
    assert_eq!(listed("?status=completed").await.1, 3);
    assert_eq!(listed("?status=failed").await.1, 0);
    assert_eq!(listed("?created_after=2020-01-01&created_before=2999-01-01T00:00:00Z").await.1, 3);
    assert_eq!(listed("?created_before=2020-01-01").await.1, 0);
    assert_eq!(listed("?page=9223372036854775807").await.0, Vec::<i64>::new());
}

#[tokio::test]
async fn a_transcript_is_renamed_corrected_shared_and_hidden_again() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let id = transcribed(&client, &[]).await;
    let change =
        value!({"title": "  Talk ", "shared": true, "segments": [{"index": 0, "text": "something was heard"}]});
    let changed = json(patch(&client, id, change).await, 200).await;
    assert_eq!(changed["title"], "Talk");
    assert_eq!(changed["text"], "something was heard");
    let token = changed["share_token"].as_str().unwrap().to_owned();
    let shared = json(server.anonymous().get(&format!("/v1/shared/{token}")).await, 200).await;
    assert_eq!(shared["text"], "something was heard");
    assert!(shared.get("id").is_none());
    assert_eq!(json(client.get("/v1/transcripts").await, 200).await["transcripts"][0]["share_token"], token);
    for wrong in [
        value!({"title": ""}),
        value!({"segments": [{"index": 5, "text": "x"}]}),
        value!({"speaker_names": {"SPEAKER_09": "Ann"}}),
        value!({"shared": "yes"}),
    ] {
        refusal(patch(&client, id, wrong).await, 400).await;
    }
    let hidden = json(patch(&client, id, value!({"shared": false})).await, 200).await;
    assert_eq!(hidden["share_token"], Value::Null);
    refusal(server.anonymous().get(&format!("/v1/shared/{token}")).await, 404).await;
    refusal(patch(&client, id, value!({"rotate_share_token": true})).await, 409).await;
    // The old address is dead for ever; a leaked one is replaced without hiding the page in between.
    let again = json(patch(&client, id, value!({"shared": true})).await, 200).await["share_token"].clone();
    refusal(server.anonymous().get(&format!("/v1/shared/{token}")).await, 404).await;
    let rotated =
        json(patch(&client, id, value!({"rotate_share_token": true})).await, 200).await["share_token"].clone();
    assert!(again != token.as_str() && again != rotated && rotated.is_string());
    refusal(server.anonymous().get(&format!("/v1/shared/{}", again.as_str().unwrap())).await, 404).await;
    json(server.anonymous().get(&format!("/v1/shared/{}", rotated.as_str().unwrap())).await, 200).await;
}

#[tokio::test]
async fn a_shared_transcript_is_a_page_for_browsers_while_sharing_is_on() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let id = transcribed(&client, &[]).await;
    let change =
        value!({"title": "<b>Talk</b> 😀", "shared": true, "segments": [{"index": 0, "text": "1 < 2 & \"so\""}]});
    let token = json(patch(&client, id, change).await, 200).await["share_token"].as_str().unwrap().to_owned();
    let anybody = server.anonymous();
    let open = async |accept: &str| {
        anybody.request(Method::GET, &format!("/s/{token}")).header("accept", accept).send().await.unwrap()
    };
    let page = open("text/html,application/xhtml+xml;q=0.9").await;
    assert_eq!(page.status(), 200);
    let header = |name: &str| page.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    assert!(header("x-robots-tag").contains("noindex") && header("cache-control") == "no-store");
    let html = page.text().await.unwrap();
    assert!(html.contains("<h1 dir=\"auto\">&lt;b&gt;Talk&lt;/b&gt; 😀</h1>"), "{html}");
    assert!(html.contains("1 &lt; 2 &amp; &quot;so&quot;") && !html.contains("<b>"), "{html}");

    json(patch(&client, id, value!({"shared": false})).await, 200).await;
    let gone = open("text/html").await;
    assert_eq!(
        (gone.status().as_u16(), gone.headers()["content-type"].to_str().unwrap()),
        (404, "text/html; charset=utf-8")
    );
    let html = gone.text().await.unwrap();
    assert!(html.contains("<h1>There is nothing here</h1>") && !html.contains("Talk"), "{html}");
    refusal(open("application/json").await, 404).await;
}

#[tokio::test]
async fn an_edit_refuses_what_no_file_should_hold() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let id = transcribed(&client, &[]).await;
    for wrong in [
        value!({"segments": [{"index": 0, "text": "a\u{0}b"}]}),
        value!({"segments": [{"index": 0, "text": "a\u{1b}[2J"}]}),
        value!({"title": "a\u{0}b"}),
        value!({"speaker_names": {"SPEAKER_00": "  "}}),
        value!({"speaker_names": {"SPEAKER_00": "An\nn"}}),
    ] {
        let why = refusal(patch(&client, id, wrong).await, 400).await;
        assert!(["control", "visible", "U+0000"].iter().any(|word| why.contains(word)), "{why}");
    }
    let lines = value!({"segments": [{"index": 0, "text": "two\nlines"}]});
    assert_eq!(json(patch(&client, id, lines).await, 200).await["text"], "two\nlines");
}

#[tokio::test]
async fn what_needs_a_completed_transcript_says_so() {
    let slow = hark_server::InstantEngine { takes: std::time::Duration::from_secs(30) };
    let server = Server::with(crate::server::config(), slow).await;
    let client = server.account(Plan::Free).await;
    let accepted = client.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send().await.unwrap();
    let id = json(accepted, 202).await["id"].as_i64().unwrap();
    refusal(client.get(&format!("/v1/transcripts/{id}/export/txt")).await, 400).await;
    refusal(client.post(&format!("/v1/transcripts/{id}/summarize"), value!({})).await, 400).await;
    assert_eq!(json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await["text"], "");
    // Deleting calls the work off and gives the credits back.
    client.request(Method::DELETE, &format!("/v1/transcripts/{id}")).send().await.unwrap();
    assert_eq!(client.credits(&server).await, 600);
}

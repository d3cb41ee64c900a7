//! What accounts that manage others may do, the ledger of an account, and the recording to try.

use std::path::Path;

use hark_models::{Catalogue, ModelStore};
use hark_server::{
    Config, InstantEngine, JobSettings, LanguageOptions, NoModelsEngine, Role, SpeechEngine, SpeechOptions,
};
use hark_store::{AccountChange, Clock, FaultKind, Plan};
use reqwest::Method;
use serde_json::{Value, json as value};

use crate::document::operations;
use crate::server::{Client, Server, config, eventually, hum, json, real_options, refusal};

async fn admin(server: &Server) -> Client {
    let client = server.account(Plan::Free).await;
    let change = AccountChange { is_admin: Some(true), ..AccountChange::default() };
    server.store.accounts().change(client.account.unwrap(), &change).await.unwrap();
    client
}

async fn patch(client: &Client, account: i64, change: Value) -> reqwest::Response {
    client.request(Method::PATCH, &format!("/v1/admin/accounts/{account}")).json(&change).send().await.unwrap()
}

/// The newest events of the audit log: what, by whom, about which account, about what.
async fn audited(admin: &Client) -> Vec<(String, String, i64, String, String)> {
    let log = json(admin.get("/v1/admin/audit?per_page=100").await, 200).await;
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    let events = log["events"].as_array().unwrap().iter().map(|event| {
        let account = event["account_id"].as_i64().unwrap();
        (text(event, "event"), text(event, "actor"), account, text(event, "subject"), text(event, "detail"))
    });
    events.collect()
}

#[tokio::test]
async fn the_ledger_is_shown_by_pages_newest_first() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let sent = client.transcribe("/v1/transcribe", hum(61.0), &[]).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let page = json(client.get("/v1/account/ledger?per_page=3").await, 200).await;
    let kinds = |page: &Value| -> Vec<(String, i64)> {
        let entries = page["entries"].as_array().unwrap().iter();
        entries.map(|entry| (entry["kind"].as_str().unwrap().to_owned(), entry["amount"].as_i64().unwrap())).collect()
    };
    let expected = [("charge", -2), ("release", 2), ("hold", -2)].map(|(kind, amount)| (kind.to_owned(), amount));
    assert_eq!(kinds(&page), expected);
    assert_eq!((&page["total"], &page["page"], &page["per_page"]), (&value!(4), &value!(1), &value!(3)));
    let rest = json(client.get("/v1/account/ledger?per_page=3&page=2").await, 200).await;
    assert_eq!(kinds(&rest), [("grant".to_owned(), 600)]);
    assert!(page["entries"][0]["reference"].as_str().unwrap().starts_with("job:"));
    let other = server.account(Plan::Free).await;
    assert_eq!(json(other.get("/v1/account/ledger").await, 200).await["total"], 1);
    for wrong in ["page=0", "per_page=0", "per_page=101", "page=x"] {
        refusal(client.get(&format!("/v1/account/ledger?{wrong}")).await, 400).await;
    }
    refusal(server.anonymous().get("/v1/account/ledger").await, 401).await;
}

#[tokio::test]
async fn only_an_account_that_manages_others_is_let_in() {
    let server = Server::start().await;
    let (admin, client) = (admin(&server).await, server.account(Plan::Enterprise).await);
    let document = json(server.anonymous().get("/openapi.json").await, 200).await;
    let mut count = 0;
    for operation in operations(&document).iter().filter(|operation| operation.path.starts_with("/v1/admin/")) {
        let path = operation.path.replace("{id}", "1").replace("{job}", "1").replace("{name}", "silero-vad");
        let method: Method = operation.method.parse().unwrap();
        refusal(client.request(method.clone(), &path).send().await.unwrap(), 403).await;
        refusal(server.anonymous().request(method, &path).send().await.unwrap(), 401).await;
        count += 1;
    }
    assert_eq!(count, 9);
    // A key of an admin needs the scopes as well.
    for (scopes, status) in [(value!(["read"]), 403), (value!(["read", "manage"]), 200)] {
        let key = json(admin.post("/v1/keys", value!({"scopes": scopes})).await, 201).await;
        let key = admin.with_key(key["key"].as_str().unwrap());
        let answer = key.get("/v1/admin/accounts").await;
        assert_eq!(answer.status().as_u16(), status, "{scopes}");
        assert_eq!(answer.headers().get("cache-control").map(|value| value.to_str().unwrap()), Some("no-store"));
    }
}

#[tokio::test]
async fn accounts_are_listed_newest_first_and_found_by_a_part_of_their_address() {
    let server = Server::start().await;
    let admin = admin(&server).await;
    for name in ["Ann_B@example.org", "annxb@example.org", "100%@example.org"] {
        server.store.accounts().create(&hark_store::NewAccount::new(name, Plan::Pro)).await.unwrap();
    }
    let found = async |query: &str| {
        let page = json(admin.get(&format!("/v1/admin/accounts{query}")).await, 200).await;
        let accounts = page["accounts"].as_array().unwrap().iter();
        let emails: Vec<String> = accounts.map(|account| account["email"].as_str().unwrap().to_owned()).collect();
        (emails, page["total"].as_i64().unwrap())
    };
    let (all, total) = found("").await;
    assert_eq!((all.len(), total, all[0].as_str()), (4, 4, "100%@example.org"));
    assert_eq!(found("?q=ANN_").await, (vec!["Ann_B@example.org".to_owned()], 1));
    assert_eq!(found("?q=100%25").await.1, 1);
    assert_eq!(found("?q=%25%25").await.1, 0);
    assert_eq!(found("?q=org&per_page=2&page=2").await, (vec!["Ann_B@example.org".to_owned()], 3));
    let sent = admin.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let page = json(admin.get("/v1/admin/accounts?page=4&per_page=1").await, 200).await;
    let first = &page["accounts"][0];
    assert_eq!(
        (&first["transcripts"], &first["is_admin"], &first["plan"]),
        (&value!(1), &value!(true), &value!("free"))
    );
    refusal(admin.get(&format!("/v1/admin/accounts?q={}", "a".repeat(255))).await, 400).await;
}

#[tokio::test]
async fn plan_and_credits_are_changed_together_or_not_at_all_and_the_audit_log_says_by_whom() {
    let server = Server::start().await;
    let (admin, client) = (admin(&server).await, server.account(Plan::Free).await);
    let id = client.account.unwrap().0;
    let change = value!({"plan": "business", "is_plan_active": true, "credits": 50, "note": "for the wait"});
    let changed = json(patch(&admin, id, change).await, 200).await;
    assert_eq!(
        (&changed["plan"], &changed["is_plan_active"], &changed["credits"]),
        (&value!("business"), &value!(true), &value!(650))
    );
    // It holds at once, for keys that were seen before, too.
    assert_eq!(
        json(client.get("/v1/credits").await, 200).await,
        value!({"plan": "business", "credits": 650, "is_active": true})
    );
    let taken = json(patch(&admin, id, value!({"credits": -650.0})).await, 200).await;
    assert_eq!((&taken["credits"], &taken["plan"]), (&value!(0), &value!("business")));
    let by = |event: &str, detail: &str| (event.to_owned(), "admin".to_owned(), id, String::new(), detail.to_owned());
    assert_eq!(
        audited(&admin).await,
        [by("credits.changed", "-650: "), by("credits.changed", "+50: for the wait"), by("plan.changed", "business")]
    );
    let entries = json(client.get("/v1/account/ledger?per_page=2").await, 200).await;
    assert_eq!(
        (&entries["entries"][0]["kind"], &entries["entries"][1]["note"]),
        (&value!("adjust"), &value!("for the wait"))
    );
    for wrong in [
        value!({"plan": "anonymous"}),
        value!({"plan": "gold"}),
        value!({"plan": "pro", "credits": -1}),
        value!({"credits": 1_000_000_001}),
        value!({"credits": "5"}),
        value!({"note": "n".repeat(501)}),
    ] {
        refusal(patch(&admin, id, wrong).await, 400).await;
    }
    let same = json(patch(&admin, id, value!({})).await, 200).await;
    assert_eq!(
        (&same["plan"], &same["credits"]),
        (&value!("business"), &value!(0)),
        "nothing of a refused change stays"
    );
    assert_eq!(audited(&admin).await.len(), 3);
    refusal(patch(&admin, 999_999, value!({"credits": 1})).await, 404).await;
    refusal(patch(&admin, server.store.anonymous_account().0, value!({"credits": 1})).await, 404).await;
}

#[tokio::test]
async fn the_queue_is_shown_and_failed_jobs_are_retried_or_dropped() {
    // No worker takes a job but this test.
    let config = Config { jobs: JobSettings { max_attempts: 1, ..JobSettings::default() }, ..config() };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::in_folder(folder, config, InstantEngine::default(), Clock::system(), Role::Account).await;
    let (admin, client) = (admin(&server).await, server.account(Plan::Pro).await);
    let send = async || {
        let sent = client.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send().await.unwrap();
        json(sent, 202).await["id"].as_i64().unwrap()
    };
    let fail = async || {
        let lease =
            server.store.jobs().claim_any("test", std::time::Duration::from_secs(30)).await.unwrap().unwrap().lease;
        server.store.jobs().fail(&lease, FaultKind::Internal, "it broke").await.unwrap();
        lease.job.0
    };
    send().await;
    let first = fail().await;
    let transcript = send().await;
    let second = fail().await;
    send().await;
    server.store.jobs().claim_any("test", std::time::Duration::from_secs(30)).await.unwrap().unwrap();
    send().await;
    let queue = json(admin.get("/v1/admin/queue").await, 200).await;
    assert_eq!((&queue["queued"], &queue["running"], &queue["failed"]), (&value!(1), &value!(1), &value!(2)));
    assert!(queue["oldest_wait_seconds"].as_f64().unwrap() < 60.0);
    let jobs = queue["jobs"].as_array().unwrap();
    let states: Vec<&str> = jobs.iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["running", "failed", "failed", "queued"]);
    assert_eq!(
        (&jobs[1]["id"], &jobs[2]["id"], &jobs[2]["transcript_id"]),
        (&value!(first), &value!(second), &value!(transcript))
    );
    assert_eq!(
        (&jobs[1]["error"], &jobs[1]["error_kind"], &jobs[1]["attempts"]),
        (&value!("it broke"), &value!("internal"), &value!(1))
    );
    assert_eq!(
        (&jobs[1]["kind"], &jobs[1]["account_id"], &jobs[1]["duration"]),
        (&value!("transcribe"), &value!(client.account.unwrap().0), &value!(1.0))
    );

    let waiting = jobs[3]["id"].as_i64().unwrap();
    let retry =
        async |job: i64| admin.request(Method::POST, &format!("/v1/admin/queue/{job}/retry")).send().await.unwrap();
    let drop_job =
        async |job: i64| admin.request(Method::DELETE, &format!("/v1/admin/queue/{job}")).send().await.unwrap();
    assert_eq!(json(retry(first).await, 200).await, value!({"ok": true}));
    assert_eq!(json(drop_job(second).await, 200).await, value!({"ok": true}));
    for (answer, status) in [
        (retry(waiting).await, 409),
        (drop_job(waiting).await, 409),
        (drop_job(second).await, 404),
        (retry(second).await, 404),
    ] {
        refusal(answer, status).await;
    }
    let queue = json(admin.get("/v1/admin/queue").await, 200).await;
    assert_eq!((&queue["queued"], &queue["running"], &queue["failed"]), (&value!(2), &value!(1), &value!(0)));
    assert_eq!(json(client.get(&format!("/v1/transcripts/{transcript}")).await, 200).await["status"], "failed");
    let owner = client.account.unwrap().0;
    let by = |event: &str, job: i64| (event.to_owned(), "admin".to_owned(), owner, format!("job {job}"), String::new());
    assert_eq!(audited(&admin).await, [by("job.dropped", second), by("job.retried", first)]);
}

/// The real engine over an empty folder of models, with a catalogue of two more: one whose files are there, and one whose are not what they should be.
fn engine(folder: &Path) -> SpeechEngine {
    let there = folder.join("there");
    std::fs::create_dir(&there).unwrap();
    std::fs::write(there.join("ggml-small.bin"), b"weights").unwrap();
    let entry = |name: &str, hash: &str| {
        format!(
            "[[model]]\nname = \"{name}\"\ntitle = \"A model\"\nrole = \"transcription\"\ndescription = \"for a test\"\nlicence = \"MIT\"\n\
             format = \"ggml\"\nsize_bytes = 7\n[[model.source]]\nkind = \"folder\"\npath = \"{}\"\n\
             files = [{{ name = \"ggml-small.bin\", size = 7, sha256 = \"{hash}\" }}]\n",
            there.display()
        )
    };
    let good = entry("test-good", "GOOD");
    let bad = entry("test-bad", &"0".repeat(64));
    let file = folder.join("catalogue.toml");
    std::fs::write(&file, format!("version = 1\n{good}{bad}").replace("GOOD", &sha256(b"weights"))).unwrap();
    let options = real_options(LanguageOptions::default(), folder.join("models"));
    SpeechEngine::new(SpeechOptions { catalogue: Catalogue::with_user_file(&file).unwrap(), ..options })
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn the_catalogue_is_listed_and_a_model_is_pulled_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(config(), engine(folder.path())).await;
    let admin = admin(&server).await;
    let model = async |name: &str| {
        let list = json(admin.get("/v1/admin/models").await, 200).await;
        list["models"].as_array().unwrap().iter().find(|model| model["name"] == name).unwrap().clone()
    };
    let known = model("test-good").await;
    let expected = value!({"name": "test-good", "title": "A model", "role": "transcription", "description": "for a test", "bytes": 7,
        "license": "MIT", "license_note": "", "is_default": false, "installed": false, "pulling": false});
    assert_eq!(known, expected);
    assert_eq!(model("all-minilm-l6-v2").await["role"], "text-embedding");
    let pull =
        async |name: &str| admin.request(Method::POST, &format!("/v1/admin/models/{name}")).send().await.unwrap();
    assert_eq!(json(pull("test-good").await, 202).await["name"], "test-good");
    eventually("the model", async || (model("test-good").await["installed"] == true).then_some(())).await;
    assert!(ModelStore::new(folder.path().join("models")).installed("test-good").is_some());
    refusal(pull("test-good").await, 409).await;
    refusal(pull("no-such-model").await, 404).await;
    refusal(pull("..%2Fthere").await, 404).await;
    json(pull("test-bad").await, 202).await;
    let error =
        eventually("the end of the pull", async || model("test-bad").await["error"].as_str().map(str::to_owned)).await;
    assert!(error.contains("hash"), "{error}");
    let about = admin.account.unwrap().0;
    let by =
        |name: &str| ("model.pulled".to_owned(), "admin".to_owned(), about, format!("model {name}"), String::new());
    assert_eq!(audited(&admin).await, [by("test-bad"), by("test-good")]);
}

#[tokio::test]
async fn the_recording_to_try_is_there_for_everybody_where_it_is_installed() {
    let server = Server::with(config(), NoModelsEngine).await;
    refusal(server.anonymous().get("/v1/sample").await, 404).await;
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("models").join("test-sounds-moonshine");
    std::fs::create_dir_all(&package).unwrap();
    let recording = hum(10.0);
    std::fs::write(package.join("beckett.wav"), &recording).unwrap();
    let file = value!({"name": "beckett.wav", "size": recording.len(), "sha256": sha256(&recording)});
    let manifest = value!({"name": "test-sounds-moonshine", "format": "wav", "licence": "MIT", "licence_note": "", "source": "test",
        "installed_at": "2026-01-01T00:00:00Z", "files": [file]});
    std::fs::write(package.join(hark_models::MANIFEST_NAME), manifest.to_string()).unwrap();
    let server = Server::with(config(), engine(folder.path())).await;
    let answer = server.anonymous().get("/v1/sample").await;
    assert_eq!(answer.status(), 200);
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "audio/wav");
    assert_eq!(header("content-length"), recording.len().to_string());
    assert_eq!(header("cache-control"), "public, max-age=86400");
    assert_eq!(answer.bytes().await.unwrap(), recording);
}

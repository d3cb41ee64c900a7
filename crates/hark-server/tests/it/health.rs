//! `/health`, `/health/live` and `/health/ready`: what they say while something is missing, and that they say it in time.

use std::time::{Duration, Instant};

use hark_server::{InstantEngine, Role};
use hark_store::{Clock, Plan};
use serde_json::json as value;

use crate::server::{Server, config, json};

#[tokio::test]
async fn a_server_that_has_what_it_needs_is_alive_and_ready() {
    let server = Server::start().await;
    let client = server.anonymous();
    assert_eq!(json(client.get("/health/live").await, 200).await, value!({"status": "alive"}));
    let checks = value!({"database": "ok", "integrity": "ok", "disk": "ok", "recordings": "ok", "models": "ok"});
    let ready = json(client.get("/health/ready").await, 200).await;
    assert_eq!(ready, value!({"status": "ready", "checks": checks}));
    assert_eq!(json(client.get("/health").await, 200).await["status"], "ok");
    let left: Vec<_> = std::fs::read_dir(server.folder.path().join("blobs/incoming")).unwrap().collect();
    assert!(left.is_empty(), "a probe was left: {left:?}");
}

#[tokio::test]
async fn a_role_is_asked_only_for_what_it_needs() {
    let server = Server::with_role(Role::Account).await;
    let ready = json(server.anonymous().get("/health/ready").await, 200).await;
    assert!(ready["checks"].get("models").is_none(), "{ready}");
}

#[tokio::test]
async fn too_little_space_and_missing_recordings_are_named_without_internals() {
    let config = hark_server::Config { min_free_disk_mb: u64::MAX, ..config() };
    let server = Server::with(config, InstantEngine::default()).await;
    std::fs::remove_dir_all(server.folder.path().join("blobs")).unwrap();
    std::fs::write(server.folder.path().join("blobs"), "not a folder").unwrap();
    let client = server.anonymous();
    let answer = client.get("/health/ready").await;
    assert!(answer.headers().contains_key("retry-after"));
    let body = json(answer, 503).await;
    assert_eq!(body["checks"]["disk"], "failed");
    assert_eq!(body["checks"]["recordings"], "failed");
    assert_eq!(body["checks"]["database"], "ok");
    assert_eq!(body["error"], "not ready: disk, recordings");
    assert!(!body.to_string().contains(&server.folder.path().display().to_string()), "{body}");
    // Accounts and transcripts are still served.
    assert_eq!(json(client.get("/health").await, 200).await["status"], "degraded");
    assert_eq!(client.get("/health/live").await.status(), 200);
    // What was missing is back: no restart.
    std::fs::remove_file(server.folder.path().join("blobs")).unwrap();
    std::fs::create_dir_all(server.folder.path().join("blobs/incoming")).unwrap();
    let begun = Instant::now();
    while json(client.get("/health/ready").await, 503).await["checks"]["recordings"] != "ok" {
        assert!(begun.elapsed() < Duration::from_secs(60), "recordings stay failed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_replaced_database_file_is_503_and_nothing_is_written_to_the_old_one() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let path = server.folder.path().join("hark.db");
    let aside = server.folder.path().join("aside.db");
    assert_eq!(client.get("/health/ready").await.status(), 200);
    std::fs::rename(&path, &aside).unwrap();
    let refused = client.post("/v1/keys", value!({"name": "lost"})).await;
    assert!(refused.headers().contains_key("retry-after"));
    json(refused, 503).await;
    let begun = Instant::now();
    while client.get("/health/ready").await.status() != 503 {
        assert!(begun.elapsed() < Duration::from_secs(60), "readiness does not notice");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.get("/health").await.status(), 503);
    assert_eq!(client.get("/health/live").await.status(), 200);
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(client.post("/v1/keys", value!({"name": "kept"})).await.status(), 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn requests_get_503_soon_while_postgres_is_unreachable_and_work_when_it_is_back() {
    let postgres = hark_postgres::new_server().await.unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let server =
        Server::over(&postgres.address(), folder, config(), InstantEngine::default(), Clock::system(), Role::All).await;
    let client = server.account(Plan::Pro).await;
    assert_eq!(client.post("/v1/keys", value!({"name": "before"})).await.status(), 201);
    postgres.stop().unwrap();
    for path in ["/v1/transcripts", "/v1/keys", "/health", "/health/ready"] {
        let begun = Instant::now();
        let answer = client.get(path).await;
        // 5 s are promised; a busy machine may take longer, but not the 30 s of a hang.
        assert!(begun.elapsed() < Duration::from_secs(20), "{path}: {:?}", begun.elapsed());
        assert!(answer.headers().contains_key("retry-after"), "{path}");
        let body = json(answer, 503).await;
        assert!(body["error"].as_str().is_some_and(|text| !text.contains("postgres")), "{path}: {body}");
    }
    assert_eq!(client.get("/health/live").await.status(), 200);
    postgres.start().await.unwrap_or_else(|error| panic!("{error}"));
    let begun = Instant::now();
    while client.get("/health/ready").await.status() != 200 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not become ready again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.post("/v1/keys", value!({"name": "after"})).await.status(), 201);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn nul_is_a_clear_400_on_every_path_that_takes_text() {
    let database = hark_postgres::new_database().await.unwrap_or_else(|error| panic!("{error}"));
    for database in [None, Some(database)] {
        let folder = tempfile::tempdir().unwrap();
        let database = database.unwrap_or_else(|| format!("sqlite://{}", folder.path().join("hark.db").display()));
        let engine = InstantEngine::default();
        let server = Server::over(&database, folder, config(), engine, Clock::system(), Role::All).await;
        let (anyone, client) = (server.anonymous(), server.account(Plan::Pro).await);
        let person = value!({"email": "a\u{0}b@example.com", "password": "correct horse battery staple"});
        for path in ["/v1/auth/signup", "/v1/auth/signin"] {
            let body = json(anyone.post(path, person.clone()).await, 400).await;
            assert!(body["error"].as_str().unwrap().contains("NUL"), "{path}: {body}");
        }
        for path in ["/v1/transcripts/%00/status", "/v1/shared/a%00b", "/v1/models/a%00b"] {
            json(anyone.get(path).await, 404).await;
        }
        for path in ["/v1/transcripts?language=a%00b", "/v1/transcripts?status=%00", "/v1/languages?for=%00"] {
            json(client.get(path).await, 400).await;
        }
        json(client.post("/v1/keys", value!({"name": "a\u{0}b"})).await, 400).await;
        let form = client.transcribe("/v1/transcribe", vec![0; 64], &[("prompt", "a\u{0}b")]);
        json(form.send().await.unwrap(), 400).await;
        server.stop().await;
    }
}

//! The list of the processes that share a database.

use hark_server::{InstantEngine, NoModelsEngine, Role, Service};
use hark_store::{AccountChange, Clock, Plan, Store};
use serde_json::{Value, json as value};

use crate::server::{Client, Server, config, eventually, json};

async fn nodes(admin: &Client) -> Vec<Value> {
    let list = json(admin.get("/v1/admin/nodes").await, 200).await;
    list["nodes"].as_array().unwrap().clone()
}

/// A server, its administrator, and the service of a second process over the same database and recordings.
async fn two_processes(database: &str, folder: tempfile::TempDir) -> (Server, Client, Service, Store) {
    let blobs = folder.path().join("blobs").display().to_string();
    let engine = InstantEngine::default();
    let server = Server::over(database, folder, config(), engine, Clock::system(), Role::All).await;
    let admin = server.account(Plan::Free).await;
    let change = AccountChange { is_admin: Some(true), ..AccountChange::default() };
    server.store.accounts().change(admin.account.unwrap(), &change).await.unwrap();
    let store = Store::open(hark_store::Options::new(database, blobs)).await.unwrap();
    let service =
        Service::start(store.clone(), NoModelsEngine, config(), Role::Account, Clock::system()).await.unwrap();
    (server, admin, service, store)
}

async fn each_sees_the_other(database: &str, folder: tempfile::TempDir) {
    let (server, admin, service, store) = two_processes(database, folder).await;
    let both = eventually("both processes to be listed", async || {
        let found = nodes(&admin).await;
        (found.len() == 2).then_some(found)
    })
    .await;
    let by_role = |role: &str| both.iter().find(|node| node["role"] == role).unwrap_or_else(|| panic!("{both:?}"));
    let (own, other) = (by_role("all"), by_role("account"));
    assert_eq!((&own["is_current"], &other["is_current"]), (&value!(true), &value!(false)));
    assert_eq!(own["address"], server.address.to_string());
    assert_eq!(other["address"], service.address().to_string());
    assert_eq!((&own["workers"], &other["workers"]), (&value!(8), &value!(0)), "one of them runs no jobs");
    assert_eq!((&own["device"], &other["device"]), (&value!("none (instant)"), &Value::Null));
    for node in &both {
        assert_eq!((&node["is_responding"], &node["is_draining"]), (&value!(true), &value!(false)), "{node}");
        assert!(node["memory_bytes"].as_u64().unwrap() > 1_000_000, "{node}");
        assert!(node["cores"].as_u64().unwrap() > 0 && node["load_average"].is_f64(), "{node}");
        assert!(!node["host"].as_str().unwrap().is_empty() && node["version"].is_string(), "{node}");
        assert!(node["started_at"].as_str().unwrap() <= node["last_seen"].as_str().unwrap(), "{node}");
    }
    service.stop().await;
    store.close().await;
    let left = nodes(&admin).await;
    assert_eq!(left.len(), 1, "a process that ends leaves the list at once: {left:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_over_one_sqlite_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("hark.db").display());
    each_sees_the_other(&database, folder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn two_processes_over_one_postgres_see_each_other() {
    let database = hark_postgres::new_database().await.unwrap_or_else(|error| panic!("{error}"));
    each_sees_the_other(&database, tempfile::tempdir().unwrap()).await;
}

#[tokio::test]
async fn a_process_that_was_killed_is_listed_as_silent() {
    let clock = Clock::manual(1_768_478_400_000_000);
    let server = Server::with_clock(config(), InstantEngine::default(), clock.clone()).await;
    let admin = server.account(Plan::Free).await;
    let change = AccountChange { is_admin: Some(true), ..AccountChange::default() };
    server.store.accounts().change(admin.account.unwrap(), &change).await.unwrap();
    let killed = hark_store::Heartbeat {
        id: "killed".into(),
        host: "other".into(),
        address: "10.0.0.2:8600".into(),
        version: "9.9.9".into(),
        role: "gpu".into(),
        started_at: clock.now(),
        state: r#"{"workers": 4, "of a later version": [1]}"#.into(),
    };
    server.store.nodes().beat(&killed).await.unwrap();
    let found = async || {
        let found = nodes(&admin).await;
        found.into_iter().find(|node| node["id"] == "killed").map(|node| (node["is_responding"].clone(), node))
    };
    let (is_responding, node) = found().await.unwrap();
    assert_eq!((is_responding, &node["workers"], &node["models"]), (value!(true), &value!(4), &value!([])));
    clock.advance(std::time::Duration::from_secs(40));
    assert_eq!(found().await.unwrap().0, value!(false));
    clock.advance(hark_store::NODE_KEPT);
    assert!(found().await.is_none());
}

//! Ends and beginnings: stopping in order, and going on after it.

use std::time::{Duration, Instant};

use hark_server::{Config, InstantEngine, Role, Seconds, Service};
use hark_store::{Clock, Plan};

use crate::server::{Server, config, eventually, hum, json};

fn slow(seconds: u64) -> InstantEngine {
    InstantEngine { takes: Duration::from_secs(seconds) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_service_gives_its_work_back_and_the_next_one_does_it_once() {
    let quick = Config { drain_timeout: Seconds(0.3), ..config() };
    let server = Server::with(quick, slow(60)).await;
    let client = server.account(Plan::Free).await;
    let accepted = client.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send().await.unwrap();
    let id = json(accepted, 202).await["id"].as_i64().unwrap();
    eventually("work to begin", async || (server.store.jobs().queue_length().await.unwrap() == 0).then_some(())).await;
    let begun = Instant::now();
    let folder = server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(10));

    let server = Server::in_folder(folder, config(), slow(0), Clock::system(), Role::All).await;
    let client = client.at(&server);
    eventually("completion", async || {
        let state = json(client.get(&format!("/v1/transcripts/{id}/status")).await, 200).await;
        (state["status"] == "completed").then_some(())
    })
    .await;
    assert_eq!(client.credits(&server).await, 599);
    assert!(server.store.ledger().check().await.unwrap().is_empty());
    let ledger = server.store.ledger().entries(client.account.unwrap(), 100).await.unwrap();
    assert_eq!(ledger.iter().filter(|entry| entry.kind == hark_store::EntryKind::Charge).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stops_lets_requests_under_way_end() {
    let server = Server::with(config(), InstantEngine { takes: Duration::from_secs(1) }).await;
    let client = server.account(Plan::Free).await;
    let under_way = {
        let client = client.clone();
        tokio::spawn(async move { client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap() })
    };
    eventually("work to begin", async || {
        let page = json(client.get("/v1/transcripts").await, 200).await;
        (page["transcripts"][0]["status"] == "processing").then_some(())
    })
    .await;
    let url = client.url("/health");
    server.stop().await;
    assert_eq!(under_way.await.unwrap().status(), 200);
    assert!(reqwest::get(url).await.is_err(), "nobody is let in any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_whose_worker_died_is_done_by_another_process_and_charged_once() {
    // This process takes requests only; whoever works on them shares its store.
    let server = Server::with_role(Role::Account).await;
    let client = server.account(Plan::Free).await;
    let waits = {
        let client = client.clone();
        tokio::spawn(async move { client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap() })
    };
    let dead = eventually("a job to claim", async || {
        server.store.jobs().claim_any("dead", Duration::from_millis(300)).await.unwrap()
    })
    .await;
    let worker = Service::start(server.store.clone(), slow(0), config(), Role::Gpu, Clock::system());
    let worker = worker.await.unwrap();
    let response = waits.await.unwrap();
    assert_eq!(json(response, 200).await["text"], "nothing was heard");
    let late = server.store.jobs().complete(&dead.lease, &Default::default(), 1, false).await;
    assert!(matches!(late, Err(hark_store::Error::LeaseLost)), "the dead can't charge again");
    assert_eq!(client.credits(&server).await, 599);
    worker.stop().await;
}

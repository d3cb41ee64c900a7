use std::time::Duration;

use hark_store::{Heartbeat, NODE_KEPT};

use crate::support::{START, on_both};

fn heartbeat(id: &str, host: &str, state: &str) -> Heartbeat {
    Heartbeat {
        id: id.into(),
        host: host.into(),
        address: "0.0.0.0:8600".into(),
        version: "0.1.0".into(),
        role: "all".into(),
        started_at: START,
        state: state.into(),
    }
}

on_both! {
    async fn processes_that_share_a_database_see_each_other_until_they_are_silent(place: Place) {
        // Two processes: each has a store of its own over the same database.
        let (store, other) = (place.open().await, place.open().await);
        store.nodes().beat(&heartbeat("one", "b", "busy")).await.unwrap();
        other.nodes().beat(&heartbeat("two", "a", "idle")).await.unwrap();
        store.nodes().beat(&heartbeat("one", "b", "idle")).await.unwrap();
        let names = async || {
            let nodes = other.nodes().list().await.unwrap().into_iter();
            nodes.map(|node| (node.heartbeat.id, node.heartbeat.state)).collect::<Vec<_>>()
        };
        let both = [("two".to_owned(), "idle".to_owned()), ("one".to_owned(), "idle".to_owned())];
        assert_eq!(names().await, both, "by machine, each once, with its last word");
        other.nodes().remove("two").await.unwrap();
        assert_eq!(names().await, both[1..]);
        store.close().await;
        other.close().await;
    }
    async fn a_silent_process_is_listed_for_a_while_and_then_removed_by_the_others(place: Place) {
        let store = place.open().await;
        store.nodes().beat(&heartbeat("one", "a", "")).await.unwrap();
        place.clock.advance(NODE_KEPT / 2);
        store.nodes().beat(&heartbeat("two", "b", "")).await.unwrap();
        let silent: Vec<_> = store.nodes().list().await.unwrap().into_iter().map(|node| node.silent_for).collect();
        assert_eq!(silent, [NODE_KEPT / 2, Duration::ZERO]);
        place.clock.advance(NODE_KEPT / 2);
        let listed = store.nodes().list().await.unwrap();
        assert_eq!(listed.iter().map(|node| node.heartbeat.id.as_str()).collect::<Vec<_>>(), ["two"]);
        assert_eq!(rows(&place).await, 2);
        store.nodes().beat(&heartbeat("two", "b", "")).await.unwrap();
        assert_eq!(rows(&place).await, 1, "the next heartbeat of another removes it");
        store.close().await;
    }
}

async fn rows(place: &crate::support::Place) -> i64 {
    use sqlx::Connection as _;
    let sql = "SELECT count(*) FROM nodes";
    if place.database.starts_with("sqlite:") {
        let mut connection = sqlx::SqliteConnection::connect(&place.database).await.unwrap();
        let rows = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    } else {
        let mut connection = sqlx::PgConnection::connect(&place.database).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    }
}

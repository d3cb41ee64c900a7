//! The service is killed at random moments under load, on both databases; whatever is left must add up. `hark bench service kills`
//! does it, as people may; 200 kills of each are in docs/operators/reliability.md.

use std::process::Command;

use serde_json::Value;

fn kill_ten_times(database: &str) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("kills.json");
    let done = Command::new(env!("CARGO_BIN_EXE_hark-bench"))
        .args(["service", "kills", "--kills", "10", "--databases", database, "--json"])
        .arg(&json)
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let report = &report["kills"][0];
    assert_eq!(report["wrong"], serde_json::json!([]), "{said}");
    // Where nothing was under way, nothing was shown.
    let at_least = |what: &str, least: u64| assert!(report[what].as_u64().unwrap() >= least, "{what}: {said}");
    at_least("promised", 5);
    at_least("completed", 3);
    at_least("charges", 3);
    at_least("broken", 3);
    eprintln!("{said}");
}

#[test]
fn kills_of_a_service_over_sqlite_lose_and_double_nothing() {
    kill_ten_times("sqlite");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn kills_of_a_service_over_postgres_lose_and_double_nothing() {
    kill_ten_times("postgres");
}

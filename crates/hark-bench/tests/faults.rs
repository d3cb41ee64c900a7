//! Faults happen to a service that people use, on both databases; everything must work again and add up. `hark bench service faults` does it, as people
//! may.

use std::process::Command;

use serde_json::Value;

/// Faults of these kinds, each once.
fn survives(database: &str, kinds: &str) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("faults.json");
    let rounds = kinds.split(',').count().to_string();
    let done = Command::new(env!("CARGO_BIN_EXE_hark-bench"))
        .args(["service", "faults", "--databases", database, "--kinds", kinds, "--faults", &rounds])
        .args(["--longest", "4", "--json"])
        .arg(&json)
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let report = &report["faults"][0];
    assert_eq!(report["wrong"], serde_json::json!([]), "{said}");
    // Where nothing was under way, nothing was shown.
    let at_least = |what: &Value, least: u64| assert!(what.as_u64().unwrap() >= least, "{what} < {least}: {said}");
    for what in ["promised", "completed", "charges"] {
        at_least(&report[what], 3);
    }
    at_least(&report["live"]["sessions"], 2);
    at_least(&report["live"]["seconds_stored"], 1);
    eprintln!("{said}");
}

#[test]
fn faults_around_a_service_over_sqlite_end_with_their_cause() {
    survives("sqlite", "disk,database,recordings,clock,kill");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn faults_around_a_service_over_postgres_end_with_their_cause() {
    survives("postgres", "disk,database,recordings,clock,models,kill");
}

#[test]
#[ignore = "needs an S3 server: tests/s3/install"]
fn a_bucket_that_is_gone_ends_with_its_cause_over_sqlite() {
    survives("sqlite", "bucket");
}

#[test]
#[ignore = "needs PostgreSQL and an S3 server: tests/s3/install"]
fn a_bucket_that_is_gone_ends_with_its_cause_over_postgres() {
    survives("postgres", "bucket");
}

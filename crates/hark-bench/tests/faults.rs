//! Faults happen to a service that people use, on both databases; everything must work again and add up. `hark bench service faults` does it, as people
//! may. Not here, because they leave a stray file behind (docs/operators/reliability.md): `recordings`, `clock` and `models`.

use std::process::Command;

use serde_json::Value;

/// Kinds of faults, each once and one more by chance.
fn survives(database: &str, kinds: &str) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("faults.json");
    let rounds = (kinds.split(',').count() + 1).to_string();
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
    let at_least = |what: &str, least: u64| assert!(report[what].as_u64().unwrap() >= least, "{what}: {said}");
    at_least("promised", 3);
    at_least("completed", 3);
    at_least("charges", 3);
    eprintln!("{said}");
}

#[test]
fn faults_around_a_service_over_sqlite_end_with_their_cause() {
    survives("sqlite", "disk,database,kill");
}

#[test]
fn faults_around_a_service_over_postgres_end_with_their_cause() {
    survives("postgres", "disk,database,kill");
}

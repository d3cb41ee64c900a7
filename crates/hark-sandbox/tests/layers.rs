//! The layers of the kernel on which the tests run. What they deny is tried where programs are confined: in `hark-media` and `hark-say`.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Stdio;

use hark_sandbox::Confinement;

#[test]
fn this_kernel_gives_every_layer_that_it_says() {
    let layers = hark_sandbox::layers();
    let is_active = |name: &str| layers.iter().any(|layer| layer.name == name && layer.is_active);
    assert!(is_active("resource-limits") && is_active("system-call-filter"), "{layers:?}");
}

#[test]
fn a_program_reads_the_folders_that_it_is_given_and_no_others() {
    let (given, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&given, &other] {
        std::fs::write(folder.path().join("words"), "hello").unwrap();
    }
    let program = Path::new("/bin/cat").canonicalize().unwrap();
    let read = |path: &Path| {
        let mut command = hark_sandbox::command(&program);
        command.arg(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let missing = other.path().join("missing");
        let confinement = Confinement {
            program: &program,
            input: None,
            readable: &[given.path().to_owned(), missing],
            cpu_seconds: 10,
            memory_bytes: 1 << 30,
        };
        hark_sandbox::spawn(command, &confinement).unwrap().wait_with_output().unwrap()
    };
    assert_eq!(read(&given.path().join("words")).stdout, b"hello");
    if hark_sandbox::layers().iter().any(|layer| layer.name == "landlock" && layer.is_active) {
        let denied = read(&other.path().join("words"));
        assert!(!denied.status.success() && denied.stdout.is_empty(), "{denied:?}");
    }
}

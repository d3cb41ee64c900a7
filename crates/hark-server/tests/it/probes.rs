//! Uploads whose length is looked up: what is refused by it, and that nothing of it stays.

use std::process::Command;

use hark_server::{Config, InstantEngine};
use hark_store::Plan;
use reqwest::Method;
use reqwest::multipart::{Form, Part};

use crate::server::{Client, Server, config, eventually, refusal};

/// Days of silence between short sounds in a few kilobytes, without a length: whoever wants to know it has to decode it.
pub(crate) fn slow() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.mkv");
    let gap = "asetnsamples=1600,asetpts='PTS+floor(T)*35000/TB'";
    let made = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-f", "lavfi", "-i", "sine=r=48000:d=30", "-af", gap])
        .args(["-c:a", "libopus", "-b:a", "16k"])
        .arg(&path)
        .status();
    assert!(made.expect("ffmpeg is not there: `./hark test` installs what tests need").success());
    let mut bytes = std::fs::read(path).unwrap();
    // The length (EBML id 4489, eight bytes) becomes a void element of the same size.
    let at = bytes.windows(3).position(|window| window == [0x44, 0x89, 0x88]).unwrap();
    bytes[at..at + 2].copy_from_slice(&[0xec, 0x89]);
    bytes
}

/// Decoders that read a recording of this server.
pub(crate) fn decoders(server: &Server) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let reads_ours = |process: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(process.path().join("comm"));
        let input = std::fs::read_link(process.path().join("fd/0"));
        name.is_ok_and(|name| name.trim() == "ffmpeg")
            && input.is_ok_and(|input| input.starts_with(server.folder.path()))
    };
    processes.filter(reads_ours).count()
}

async fn probes_running(server: &Server) -> i64 {
    let url = format!("http://{}/metrics", server.metrics_address());
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    text.lines().find_map(|line| line.strip_prefix("hark_probes_running ")).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ffmpeg"]
async fn a_probe_ends_with_the_client_that_asked_for_it() {
    let config = Config { metrics_listen: Some("127.0.0.1:0".parse().unwrap()), ..config() };
    let server = Server::with(config, InstantEngine::default()).await;
    let slow = slow();
    // With credits for all of it, so that counting ends with the client and not before.
    let mut accounts = Vec::new();
    for _ in 0..8 {
        accounts.push(server.account_with(Plan::Free, 1_000_000).await);
    }
    let send = |client: &Client| tokio::spawn(client.transcribe("/v1/transcribe", slow.clone(), &[]).send());
    let clients: Vec<_> = accounts.iter().map(send).collect();
    eventually("two probes at once", async || (decoders(&server) >= 2).then_some(())).await;
    assert!(probes_running(&server).await >= 1);
    for client in clients {
        client.abort();
    }
    eventually("the end of all decoders", async || (decoders(&server) == 0).then_some(())).await;
    eventually("the end of all probes", async || (probes_running(&server).await == 0).then_some(())).await;
    assert_eq!(server.store.jobs().queue_length().await.unwrap(), 0, "a recording of nobody was accepted");

    // The same for a clip whose voice is to be learned.
    let form = || Form::new().text("name", "Ann").part("file", Part::bytes(slow.clone()).file_name("voice.mkv"));
    let enroll = |client: &Client| tokio::spawn(client.request(Method::POST, "/v1/speakers").multipart(form()).send());
    let clients: Vec<_> = accounts.iter().map(enroll).collect();
    eventually("a clip that is decoded", async || (decoders(&server) >= 1).then_some(())).await;
    eventually("it counts among the probes", async || (probes_running(&server).await >= 1).then_some(())).await;
    for client in clients {
        client.abort();
    }
    eventually("the end of all decoders", async || (decoders(&server) == 0).then_some(())).await;
    eventually("the end of all probes", async || (probes_running(&server).await == 0).then_some(())).await;
}

#[tokio::test]
async fn a_recording_that_fits_no_day_is_not_told_to_come_back_tomorrow() {
    let anonymous = hark_server::Anonymous { limit: "10 minutes".parse().unwrap(), ..Default::default() };
    let server = Server::with(Config { anonymous, ..config() }, InstantEngine::default()).await;
    let mut wav = Vec::new();
    hark_media::write_wav(&mut wav, &vec![0.1; 15 * 60 * 2000], 2000).unwrap();
    let response = server.anonymous().transcribe("/v1/transcribe", wav, &[]).send().await.unwrap();
    assert!(!response.headers().contains_key("retry-after"));
    let message = refusal(response, 413).await;
    assert!(message.contains("15 minutes") && message.contains("the 10 a day"), "{message}");
}

#[tokio::test]
#[ignore = "needs ffmpeg"]
async fn what_a_decoder_says_about_a_file_is_told_in_our_words() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let playlist = b"ffconcat version 1.0\n#\x01\nfile '/etc/passwd'\n".to_vec();
    let response = client.transcribe("/v1/transcribe", playlist, &[]).send().await.unwrap();
    let message = refusal(response, 400).await;
    assert_eq!(message, "not an audio or video format that can be read (its content is of no known format)");
}

//! Noise reduction of real speech by the real model, over the service.

use std::process::Command;

use hark_models::ModelStore;
use hark_store::Plan;

use crate::enhance::{decoded, wav};
use crate::server::{Server, config, json, real_engine_with};

const SECONDS: usize = 12;

async fn server() -> Server {
    Server::with(config(), real_engine_with(hark_server::LanguageOptions::default(), &["deepfilternet3"])).await
}

/// Seconds of a reader in a quiet room, at 48 kHz.
fn clean() -> Vec<f32> {
    let path = ModelStore::default_dir().join("test-sounds-moonshine").join("two_cities.wav");
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|_| panic!("{} is not there: `./hark test` installs what tests need", path.display()));
    let (samples, channels) = decoded(&bytes);
    assert_eq!(channels, 1);
    samples[..SECONDS * 48_000 + 123].to_vec()
}

/// White noise, so many dB below `speech`.
fn noise(speech: &[f32], snr: f64) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state) / 2f64.powi(31) - 1.0
    };
    let noise: Vec<f64> = speech.iter().map(|_| next()).collect();
    let power = |samples: &mut dyn Iterator<Item = f64>| samples.map(|sample| sample * sample).sum::<f64>();
    let ratio = power(&mut speech.iter().map(|sample| f64::from(*sample))) / power(&mut noise.iter().copied());
    let scale = (ratio / 10f64.powf(snr / 10.0)).sqrt();
    noise.into_iter().map(|sample| (sample * scale) as f32).collect()
}

fn sum(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// How far the distortion of an estimate lies below the reference in it, in dB (SI-SDR).
fn si_sdr(reference: &[f32], estimate: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let scale = dot(reference, estimate) / dot(reference, reference);
    let target = scale * scale * dot(reference, reference);
    let distortion: f64 =
        reference.iter().zip(estimate).map(|(r, e)| (f64::from(*e) - scale * f64::from(*r)).powi(2)).sum();
    10.0 * (target / distortion).log10()
}

/// Integrated loudness in LUFS (EBU R128), by ffmpeg.
fn loudness(samples: &[f32]) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wav");
    std::fs::write(&path, wav(samples, 48_000, 1)).unwrap();
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-hide_banner", "-nostats", "-i"]).arg(&path);
    let output = ffmpeg.args(["-af", "ebur128", "-f", "null", "-"]).output();
    let report = String::from_utf8(output.expect("this test needs ffmpeg: install it").stderr).unwrap();
    let summary = report.rsplit_once("Integrated loudness:").expect("a summary").1;
    let value = summary.split_once("I:").unwrap().1.trim().split(' ').next().unwrap();
    value.parse().unwrap_or_else(|_| panic!("{summary}"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models and ffmpeg"]
async fn noise_goes_and_speech_keeps_its_place_its_length_and_its_loudness() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let clean = clean();
    let noisy = sum(&clean, &noise(&clean, 5.0));
    let send = async |samples: &[f32], channels: u16, fields: &[(&str, &str)], accept: &str| {
        let request = client.transcribe("/v1/enhance-audio", wav(samples, 48_000, channels), fields);
        let response = request.header("accept", accept).send().await.unwrap();
        let status = response.status();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let bytes = response.bytes().await.unwrap();
        assert_eq!(
            (status.as_u16(), kind.as_str()),
            (200, accept),
            "{}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(300)])
        );
        bytes
    };
    let (enhanced, channels) = decoded(&send(&noisy, 1, &[], "audio/wav").await);
    assert_eq!((enhanced.len(), channels), (noisy.len(), 1), "as long as it was, to the sample");
    let (before, after) = (si_sdr(&clean, &noisy), si_sdr(&clean, &enhanced));
    assert!(after - before > 8.0, "SI-SDR rose from {before:.1} to {after:.1} dB");
    let (of_clean, of_enhanced) = (loudness(&clean), loudness(&enhanced));
    assert!((of_clean - of_enhanced).abs() <= 0.5, "{of_clean} LUFS became {of_enhanced}");

    // Channels are enhanced by themselves: the noisy one is on the left, the right one is silent.
    let both: Vec<f32> = noisy.iter().flat_map(|sample| [*sample, 0.0]).collect();
    let flac = send(&both, 2, &[], "audio/flac").await;
    assert!(flac.starts_with(b"fLaC"));
    let (both, channels) = decoded(&flac);
    assert_eq!((both.len(), channels), (2 * noisy.len(), 2));
    let left: Vec<f32> = both.iter().step_by(2).copied().collect();
    let of_left = si_sdr(&enhanced, &left);
    assert!(of_left > 50.0, "{of_left} dB");
    assert!(both.iter().skip(1).step_by(2).all(|sample| sample.abs() < 1e-4), "the silent channel");

    // With a limit of 6 dB half of the noise's amplitude stays.
    let (little, _) = decoded(&send(&noisy, 1, &[("strength", "6")], "audio/wav").await);
    let limited = si_sdr(&clean, &little);
    assert!(limited > before + 3.0 && limited < after, "{limited:.1} dB between {before:.1} and {after:.1}");
    let (same, _) = decoded(&send(&noisy, 1, &[("strength", "0")], "audio/wav").await);
    let untouched = si_sdr(&noisy, &same);
    assert!(untouched > 50.0, "{untouched} dB");
    for (accept, start) in [("audio/mpeg", &b"ID3"[..]), ("audio/ogg", b"OggS")] {
        let sound = send(&noisy, 1, &[], accept).await;
        let is_mpeg = sound[0] == 0xff && sound[1] & 0xe0 == 0xe0;
        assert!(sound.starts_with(start) || accept == "audio/mpeg" && is_mpeg, "{accept}");
        let length = decoded(&sound).0.len();
        assert!(length.abs_diff(noisy.len()) < 5_000, "{accept}: {length}");
    }
    assert_eq!(client.credits(&server).await, 600 - 6, "six calls of less than a minute");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_model_that_is_there_is_offered_to_jobs_and_its_failures_are_told() {
    use hark_server::{Enhance as _, Models as _};
    let engine = real_engine_with(hark_server::LanguageOptions::default(), &["deepfilternet3"]);
    let need = hark_store::Need::Capability("enhance").to_string();
    assert!(engine.check_enhance().is_ok() && engine.capabilities().cover([need.as_str()].into_iter()));
    let server = Server::with(config(), engine).await;
    let client = server.account(Plan::Free).await;
    // More channels than MP3 has: known only once the job decodes it.
    let three = wav(&vec![0.1; 3 * 48_000], 48_000, 3);
    let sent = client.transcribe("/v1/enhance-audio?async=true", three, &[]).header("accept", "audio/mpeg");
    let id = json(sent.send().await.unwrap(), 202).await["id"].as_i64().unwrap();
    let failed = crate::server::eventually("its failure", async || {
        let state = json(client.get(&format!("/v1/enhancements/{id}")).await, 200).await;
        (state["status"] == "failed").then_some(state)
    })
    .await;
    assert!(failed["error"].as_str().unwrap().contains("3 channels"), "{failed}");
    assert!(failed["expires_at"].is_string());
    assert_eq!(client.credits(&server).await, 600);
}

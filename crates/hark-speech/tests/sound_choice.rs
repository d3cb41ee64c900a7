//! Which sound is transcribed. Needs whisper-tiny, silero-vad and a reading.

use std::io::Cursor;
use std::path::PathBuf;

use hark_media::{SAMPLE_RATE, Source};
use hark_speech::{Compute, LoadOptions, Request, Transcriber, VoiceActivity};

fn models() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    set("HARK_MODELS").unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").expect("a home").join(".cache"));
        cache.join("hark/models")
    })
}

/// Forty seconds of a reading.
fn reading() -> Vec<f32> {
    let path = models().join("test-sounds-moonshine/two_cities.wav");
    let mut stream =
        hark_media::AudioStream::open(Source::Path(path), &Default::default()).expect("`./hark test` installs it");
    let mut samples = Vec::new();
    while samples.len() < 40 * SAMPLE_RATE as usize && stream.read(&mut samples).expect("sound") > 0 {}
    samples
}

/// Chords with overtones that change every two seconds, a plucked melody and a beat.
fn music(length: usize) -> Vec<f32> {
    let rate = SAMPLE_RATE as f32;
    let mut random = 1u32;
    let mut noise = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random as f32 / (u32::MAX / 2) as f32 - 1.0
    };
    let tone = |time: f32, hertz: f32| -> f32 {
        (1..=4).map(|n| (time * hertz * n as f32 * std::f32::consts::TAU).sin() / (n * n) as f32).sum()
    };
    let sample = |at: usize| {
        let (time, in_beat) = (at as f32 / rate, (at % 8000) as f32 / rate);
        let root = [220.0, 174.6, 261.6, 196.0][at / 32_000 % 4];
        let chord = tone(time, root) + tone(time, 1.25 * root) + tone(time, 1.5 * root);
        let melody = tone(time, root * [2.0, 2.5, 3.0][at / 8000 * 7 % 3]);
        0.05 * chord
            + 0.08 * tone(time, root / 2.0)
            + 0.12 * melody * (-3.0 * in_beat).exp()
            + 0.15 * noise() * (-40.0 * in_beat).exp()
    };
    (0..length).map(sample).collect()
}

fn level(samples: &[f32]) -> f32 {
    (samples.iter().map(|x| x * x).sum::<f32>() / samples.len() as f32).sqrt()
}

fn words(transcriber: &Transcriber, samples: &[f32], vad: VoiceActivity) -> usize {
    let mut wav = Cursor::new(Vec::new());
    hark_media::write_wav(&mut wav, samples, SAMPLE_RATE).expect("memory has room");
    let request = Request { language: Some("en".into()), vad, ..Request::default() };
    let source = Source::Reader(Box::new(Cursor::new(wav.into_inner())));
    let done = transcriber.transcribe(source, &request, &mut |_| {}).expect("the recording is heard");
    done.result.text.split_whitespace().count()
}

#[test]
#[ignore = "needs models"]
fn speech_under_loud_music_is_transcribed_unless_only_certain_speech_is_wanted_and_music_alone_is_not() {
    let mut options = LoadOptions::new(models().join("whisper-tiny"), models().join("silero-vad"));
    options.compute = Some(Compute::from_options(Some(2), None));
    let transcriber = Transcriber::load(&options).expect("`./hark test` installs the models that tests need");
    let (speech, music) = (reading(), music(40 * SAMPLE_RATE as usize));
    // The music is 6 dB louder.
    let gain = 2.0 * level(&speech) / level(&music);
    let mixed: Vec<f32> = speech.iter().zip(&music).map(|(speech, music)| 0.4 * (speech + gain * music)).collect();
    let heard = |vad| words(&transcriber, &mixed, vad);
    let (strict, gentle, off) = (heard(VoiceActivity::Strict), heard(VoiceActivity::Gentle), heard(VoiceActivity::Off));
    assert!(off > strict + 20, "all sound has {off} words, speech for sure {strict}");
    assert!(gentle > strict, "with certain text of the rest {gentle}, speech for sure {strict}");
    assert_eq!(words(&transcriber, &music, VoiceActivity::Gentle), 0);
}

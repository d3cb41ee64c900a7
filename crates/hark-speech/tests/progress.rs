//! How far a transcription is and what was decoded so far, told while it goes on. Needs whisper-tiny, silero-vad and a recorded conversation.

use std::io::Cursor;
use std::path::PathBuf;

use hark_media::Source;
use hark_speech::{Compute, LoadOptions, Request, Transcriber};
use hark_transcript::Segment;

fn models() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    set("HARK_MODELS").unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").expect("a home").join(".cache"));
        cache.join("hark/models")
    })
}

/// Conversations joined to a recording of some minutes.
fn recording() -> Vec<u8> {
    let mut samples = Vec::new();
    for name in ["dev00", "dev01", "sample"].into_iter().cycle().take(10) {
        let path = models().join(format!("test-sounds-meetings/{name}.wav"));
        let mut stream =
            hark_media::AudioStream::open(Source::Path(path), &Default::default()).expect("`./hark test` installs it");
        while stream.read(&mut samples).expect("sound") > 0 {}
    }
    let mut wav = Cursor::new(Vec::new());
    hark_media::write_wav(&mut wav, &samples, hark_media::SAMPLE_RATE).expect("memory has room");
    wav.into_inner()
}

#[test]
#[ignore = "needs models"]
fn progress_is_the_share_of_sound_that_is_done_and_moves_while_windows_are_decoded_together() {
    let mut options = LoadOptions::new(models().join("whisper-tiny"), models().join("silero-vad"));
    options.compute = Some(Compute::from_options(Some(2), None));
    let transcriber = Transcriber::load(&options).expect("`./hark test` installs the models that tests need");
    let request = Request { language: Some("en".into()), ..Request::default() };
    let begun = std::time::Instant::now();
    let mut told: Vec<(f64, f64)> = Vec::new();
    let mut drafts: Vec<Vec<Segment>> = vec![Vec::new()];
    let source = Source::Reader(Box::new(Cursor::new(recording())));
    let done = transcriber
        .transcribe(source, &request, &mut |so_far| {
            let total = so_far.audio_total.expect("a WAV file says how long it is");
            told.push((so_far.audio_done / total, begun.elapsed().as_secs_f64()));
            if so_far.segments.len() != drafts[drafts.len() - 1].len() {
                drafts.push(so_far.segments.to_vec());
            }
        })
        .expect("the recording is heard");
    let took = begun.elapsed().as_secs_f64();
    assert!(done.result.duration > 200.0, "{}", done.result.duration);
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0), "it never falls: {told:?}");
    assert!((told.last().unwrap().0 - 1.0).abs() < 0.01, "all of it is done in the end: {told:?}");
    // It is told every tenth of a second: a fast machine decodes more than a tenth of the sound meanwhile, but never most of what it decodes together.
    for pair in told.windows(2) {
        assert!(pair[1].0 - pair[0].0 < 0.3, "nothing between {:?} and {:?}: {told:?}", pair[0], pair[1]);
    }
    for tenth in 1..10 {
        let (from, to) = (f64::from(tenth - 1) / 10.0, f64::from(tenth) / 10.0);
        let reached = |share: f64| told.iter().find(|told| told.0 >= share).map_or(took, |told| told.1);
        let lasted = reached(to) - reached(from);
        assert!(lasted < 0.6 * took, "from {from} to {to} it took {lasted:.1} of {took:.1} s: {told:?}");
    }
    // What was decoded is told on the way, in order of time, and in the end it is what is in the transcript.
    assert!(drafts.len() > 5, "{}", drafts.len());
    for pair in drafts.windows(2) {
        assert!(pair[0].len() < pair[1].len(), "it only grows");
        assert!(pair[1].windows(2).all(|segments| segments[0].end <= segments[1].start), "{:?}", pair[1]);
        assert!(pair[1].iter().all(|segment| segment.speaker.is_none() && segment.words.is_empty()));
        let texts: Vec<&str> = pair[1].iter().map(|segment| segment.text.as_str()).collect();
        assert!(pair[0].iter().all(|segment| texts.contains(&segment.text.as_str())), "{texts:?}");
    }
    let text = |segments: &[Segment]| segments.iter().map(|segment| segment.text.clone()).collect::<Vec<_>>();
    assert_eq!(text(&drafts[drafts.len() - 1]), text(&done.result.segments));
}

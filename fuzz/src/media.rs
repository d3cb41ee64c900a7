//! Recordings: what the decoders in this process read, at most a minute of sound; nothing is given to ffmpeg.

use std::io::Cursor;
use std::sync::Once;

use hark_media::{AudioStream, Limits, MediaError, Options, SAMPLE_RATE, Source};

/// A panic of Symphonia is caught by hark-media and becomes an error; libFuzzer's own hook would end the process before that. One that
/// is not caught still ends it.
fn let_caught_panics_pass() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            if !panic.location().is_some_and(|place| place.file().contains("symphonia")) {
                eprintln!("{panic}");
            }
        }));
    });
}

/// Opens bytes as a recording and reads it to its end.
pub fn media(data: &[u8]) {
    let_caught_panics_pass();
    let limits = Limits { max_seconds: Some(60.0), spool_bytes: 1 << 20, ..Limits::default() };
    let options = Options { ffmpeg: Some("/nonexistent/ffmpeg".into()), limits, ..Options::default() };
    let Ok(mut stream) = AudioStream::open(Source::Reader(Box::new(Cursor::new(data.to_vec()))), &options) else {
        return;
    };
    let info = stream.info().clone();
    assert!(info.sample_rate > 0 && info.channels > 0 && info.audio_tracks > 0, "{info:?}");
    let (mut block, mut samples) = (Vec::new(), 0);
    loop {
        block.clear();
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(count) => {
                assert_eq!(count, block.len());
                assert!(block.iter().all(|sample| sample.is_finite()), "a sample is no number");
                samples += count;
            }
            Err(MediaError::TooLong { .. }) => break,
            Err(_) => return,
        }
        assert!(samples <= 62 * SAMPLE_RATE as usize, "{samples} samples of at most a minute");
    }
}

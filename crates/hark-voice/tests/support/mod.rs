//! What the tests of voices share: installed models, reference clips, and a file in memory.

use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hark_media::{Options, Source, decode_all, write_wav};
use hark_models::ModelStore;
use hark_voice::{Reference, SpeechRequest, VoiceChoice};

/// The folder of an installed model.
pub fn model(name: &str) -> PathBuf {
    let folder = ModelStore::default_dir().join(name);
    assert!(folder.is_dir(), "{} is not there: `./hark test` installs what tests need", folder.display());
    folder
}

/// A request with nothing special.
pub fn request<'a>(text: &'a str, voice: VoiceChoice<'a>) -> SpeechRequest<'a> {
    SpeechRequest { text, max_characters: 2000, language: None, voice, speed: 1.0, is_streamed: false }
}

/// A part of a conversation of two on the telephone: from 10.6 to 14.6 s the one speaks, then the other, and alone from 21.8 to 27.8 s.
pub fn reference(from: f64, to: f64) -> Reference {
    let source = Source::Path(model("test-sounds-meetings").join("sample.wav"));
    let samples = decode_all(source, &Options::default()).unwrap().0;
    let at = |seconds: f64| (seconds * 16_000.0) as usize;
    of_samples(&samples[at(from)..at(to)])
}

/// A clip of samples at 16 kHz.
pub fn of_samples(samples: &[f32]) -> Reference {
    let mut wav = Vec::new();
    write_wav(&mut wav, samples, 16_000).unwrap();
    Reference::read(Source::Reader(Box::new(Cursor::new(wav))), &Options::default()).unwrap()
}

/// A file in memory that is read after it was handed over.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

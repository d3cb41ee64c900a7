//! Kokoro from its folder: the network and its voices.

use std::path::Path;
use std::sync::Arc;

use hark_compute::Compute;
use hark_compute::conv1d::Precision;

use crate::TtsError;
use crate::model::{SpeechModel, Voice, VoiceKind};
use crate::network::{Network, SAMPLE_RATE, STYLE_WIDTH};
use crate::phonemes::{self, MAX_PHONEMES};

/// Speeds that still sound like speech.
const SPEEDS: std::ops::RangeInclusive<f32> = 0.5..=2.0;
/// The graph's file.
const MODEL: &str = "model.onnx";
/// The voices' folder.
const VOICES: &str = "voices";
/// Numbers of a voice: a style vector for each length of a sentence.
pub(crate) const VOICE_LEN: usize = MAX_PHONEMES * STYLE_WIDTH;

/// The Kokoro network with its voices.
pub struct Synthesizer {
    compute: Compute,
    network: Network,
    voices: Vec<Voice>,
}

impl Synthesizer {
    /// Loads `model.onnx` and `voices/*.bin` of a folder, to run on the threads and kernels of `compute`.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, TtsError> {
        let voices = read_voices(&folder.join(VOICES))?;
        let network = Network::open(&folder.join(MODEL), Precision::Bf16)?;
        Ok(Synthesizer { compute: compute.clone(), network, voices })
    }

    /// Bytes of weights and voices.
    pub fn memory(&self) -> u64 {
        self.network.memory() + (self.voices.len() * VOICE_LEN * 4) as u64
    }
}

impl SpeechModel for Synthesizer {
    fn sample_rate(&self) -> u32 {
        SAMPLE_RATE
    }

    fn voices(&self) -> &[Voice] {
        &self.voices
    }

    fn max_phonemes(&self) -> usize {
        MAX_PHONEMES
    }

    fn speak(
        &self,
        phonemes: &str,
        voice: &Voice,
        speed: f32,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<f32>, TtsError> {
        let ids = phonemes::encode(phonemes)?;
        if !SPEEDS.contains(&speed) {
            return Err(TtsError::Speed { speed });
        }
        if voice.numbers.len() != VOICE_LEN {
            return Err(TtsError::ForeignVoice { name: voice.name().to_owned() });
        }
        // A voice has a style for each length of a sentence.
        let style = &voice.numbers[(ids.len() - 3) * STYLE_WIDTH..][..STYLE_WIDTH];
        self.network.run(&self.compute, &ids, style, speed, is_cancelled)
    }
}

/// The voices of a folder by name.
fn read_voices(folder: &Path) -> Result<Vec<Voice>, TtsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TtsError::Unreadable { path, source }
    };
    let mut voices = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
        let path = entry.map_err(unreadable(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".bin"));
        let Some(name) = name else { continue };
        let bytes = std::fs::read(&path).map_err(unreadable(&path))?;
        let malformed = |what: String| TtsError::Malformed { path: path.clone(), what };
        if bytes.len() != VOICE_LEN * 4 {
            return Err(malformed(format!("a voice has {} bytes, this file {}", VOICE_LEN * 4, bytes.len())));
        }
        let numbers: Arc<[f32]> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if !numbers.iter().all(|number| number.is_finite()) {
            return Err(malformed("it holds numbers that are not finite".to_owned()));
        }
        voices.push(Voice { name: name.into(), kind: VoiceKind::Preset, numbers });
    }
    if voices.is_empty() {
        return Err(TtsError::Malformed { path: folder.to_owned(), what: "there are no voices in it".to_owned() });
    }
    voices.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(voices)
}

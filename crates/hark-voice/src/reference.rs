//! Reference clips: a few seconds of one person's speech, which a voice is cloned from or matched to.

use hark_media::{MediaError, Options, Resampler, SAMPLE_RATE, Source, decode_all};
use sha2::{Digest, Sha256};

use crate::VoiceError;

/// Least and most seconds of a clip (contract, `POST /v1/tts`).
pub const SHORTEST_REFERENCE: f64 = 3.0;
/// See [`SHORTEST_REFERENCE`].
pub const LONGEST_REFERENCE: f64 = 10.0;
/// By how much a clip may miss its limits: containers round, and encoders pad.
const TOLERANCE: f64 = 0.1;
/// Samples of a second of a clip that is cloned.
const WIDE_RATE: u32 = hark_clone::SAMPLE_RATE;
/// A sample from here on is at full scale; resampling moves clipped ones a little.
const FULL_SCALE: f32 = 0.985;
/// The share of samples at full scale from which a clip counts as clipped. Speech whose peaks are normalized to full scale has some ten in a
/// second, clipped speech hundreds.
const CLIPPED: f64 = 0.005;

/// A clip that was decoded and whose length and level are sound. It is kept nowhere: it goes with this value.
pub struct Reference {
    /// 16 kHz mono, for the networks that compare voices.
    pub(crate) samples: Vec<f32>,
    /// At [`WIDE_RATE`], for the network that clones them.
    pub(crate) wide: Vec<f32>,
    /// By which voices that were matched to it are found again.
    pub(crate) hash: [u8; 32],
}

/// A clip identifies a person, so it is never logged.
impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reference")
    }
}

impl Reference {
    /// Decodes a clip in any format and checks its length and level; blocks meanwhile. Of the options it heeds limits, deadline and cancel token.
    pub fn read(source: Source, media: &Options) -> Result<Self, VoiceError> {
        let mut options = media.clone();
        options.rate = WIDE_RATE;
        options.limits.max_seconds = Some(LONGEST_REFERENCE + TOLERANCE);
        let (wide, ..) = decode_all(source, &options).map_err(|error| match error {
            MediaError::TooLong { .. } => VoiceError::ReferenceTooLong,
            error => VoiceError::UnreadableReference(error),
        })?;
        let (mut samples, mut narrow) = (Vec::new(), Resampler::between(WIDE_RATE, SAMPLE_RATE));
        narrow.push(&wide, &mut samples);
        narrow.finish(&mut samples);
        Self::of_samples(samples, wide)
    }

    fn of_samples(samples: Vec<f32>, wide: Vec<f32>) -> Result<Self, VoiceError> {
        let seconds = samples.len() as f64 / f64::from(SAMPLE_RATE);
        if !(SHORTEST_REFERENCE - TOLERANCE..=LONGEST_REFERENCE + TOLERANCE).contains(&seconds) {
            return Err(VoiceError::ReferenceLength { seconds });
        }
        let loud = samples.iter().filter(|sample| sample.abs() >= FULL_SCALE).count();
        let share = loud as f64 / samples.len() as f64;
        if share > CLIPPED {
            return Err(VoiceError::ReferenceClipped { percent: 100.0 * share });
        }
        let mut hash = Sha256::new();
        samples.iter().for_each(|sample| hash.update(sample.to_le_bytes()));
        Ok(Reference { hash: hash.finalize().into(), samples, wide })
    }

    /// A hash of the samples, by which requests with the same clip are recognized.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(seconds: f64, level: f32) -> Vec<f32> {
        let count = (seconds * f64::from(SAMPLE_RATE)) as usize;
        (0..count).map(|at| (level * (at as f32 * 0.07).sin()).clamp(-1.0, 1.0)).collect()
    }

    fn wav(samples: &[f32]) -> Source {
        let mut bytes = Vec::new();
        hark_media::write_wav(&mut bytes, samples, SAMPLE_RATE).unwrap();
        Source::Reader(Box::new(std::io::Cursor::new(bytes)))
    }

    #[test]
    fn a_clip_is_three_to_ten_seconds_long_and_not_clipped() {
        let read = |samples: &[f32]| Reference::read(wav(samples), &Options::default());
        for seconds in [2.95, 3.0, 10.0, 10.05] {
            assert!(read(&tone(seconds, 0.7)).is_ok(), "{seconds}");
        }
        let short = read(&tone(2.0, 0.7)).unwrap_err();
        assert_eq!(short.to_string(), "the reference clip is 2.0 s long: send 3 to 10 s");
        for seconds in [10.3, 60.0] {
            let long = read(&tone(seconds, 0.7)).unwrap_err().to_string();
            assert!(long.contains("3 to 10 s"), "{long}");
        }
        let clipped = read(&tone(5.0, 3.0)).unwrap_err();
        assert!(matches!(clipped, VoiceError::ReferenceClipped { percent } if percent > 50.0), "{clipped}");
        // One peak at full scale is a loud clip, no damaged one.
        let mut loud = tone(5.0, 0.7);
        loud[1000] = 1.0;
        assert!(read(&loud).is_ok());
        let broken = Source::Reader(Box::new(std::io::Cursor::new(b"no sound".to_vec())));
        assert_eq!(Reference::read(broken, &Options::default()).unwrap_err().fault(), crate::Fault::Reference);
    }

    #[test]
    fn equal_clips_have_equal_hashes_and_show_nothing() {
        let of = |level: f32| Reference::of_samples(tone(4.0, level), Vec::new()).unwrap();
        let (one, other) = (of(0.5), of(0.6));
        assert_ne!(one.hash(), other.hash());
        assert_eq!(one.hash(), of(0.5).hash());
        assert_eq!(format!("{one:?}"), "Reference");
    }
}

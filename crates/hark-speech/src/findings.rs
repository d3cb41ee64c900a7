//! What was heard of a recording besides its words, to say why a transcript has none.

/// Sound whose loudest sample stays below this is silent: −80 dB of full scale.
const SILENT: f32 = 1e-4;
/// Sound whose loudest sample stays below this is very quiet: −40 dB.
const VERY_QUIET: f32 = 0.01;

/// What was heard so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Findings {
    /// Samples that were read.
    samples: u64,
    /// The loudest of them, where 1 is full scale.
    peak: f32,
    /// Windows with speech, by voice activity detection.
    windows: usize,
}

impl Findings {
    /// Takes note of samples.
    pub(crate) fn hear(&mut self, samples: &[f32]) {
        self.samples += samples.len() as u64;
        self.peak = samples.iter().fold(self.peak, |peak, sample| peak.max(sample.abs()));
    }

    /// Takes note of a window with speech.
    pub(crate) fn add_window(&mut self) {
        self.windows += 1;
    }

    /// What was heard of both: the channels of one recording.
    pub(crate) fn with(self, other: Findings) -> Findings {
        Findings {
            samples: self.samples.max(other.samples),
            peak: self.peak.max(other.peak),
            windows: self.windows + other.windows,
        }
    }

    /// Why there are no words.
    pub(crate) fn why_no_words(&self) -> String {
        let decibels = 20.0 * self.peak.log10();
        match self {
            Findings { samples: 0, .. } => "no words: the recording holds no sound".to_owned(),
            Findings { peak, .. } if *peak < SILENT => "no words: the sound is silent from beginning to end".to_owned(),
            Findings { windows: 0, peak, .. } if *peak < VERY_QUIET => {
                format!("no words: no speech was found; the sound is very quiet, {decibels:.0} dB at its loudest")
            }
            Findings { windows: 0, .. } => "no words: no speech was found in the sound".to_owned(),
            _ => "no words: something like speech was found, but no words could be made out".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(level: f32, windows: usize) -> String {
        let mut findings = Findings::default();
        findings.hear(&[0.0, -level, level / 2.0]);
        (0..windows).for_each(|_| findings.add_window());
        findings.why_no_words()
    }

    #[test]
    fn silence_quiet_sound_and_sound_without_words_have_reasons_of_their_own() {
        assert!(Findings::default().why_no_words().contains("holds no sound"));
        assert!(heard(0.000_01, 0).contains("silent"));
        assert!(heard(0.001, 0).contains("very quiet, -60 dB"));
        assert!(heard(0.3, 0).ends_with("no speech was found in the sound"));
        assert!(heard(0.3, 2).contains("no words could be made out"));
    }

    #[test]
    fn a_recording_is_as_loud_as_its_loudest_channel() {
        let (mut left, mut right) = (Findings::default(), Findings::default());
        left.hear(&[0.0; 4]);
        right.hear(&[0.5; 4]);
        assert!(left.with(right).why_no_words().contains("no speech was found in the sound"));
    }
}

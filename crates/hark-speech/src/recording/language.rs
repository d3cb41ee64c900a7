//! The language of a recording and of its windows.

use std::sync::Arc;

use hark_media::SAMPLE_RATE;
use hark_whisper::decode::{DecodeOptions, Language, Outcome};

use super::{Done, Purpose, Recording};
use crate::SpeechError;
use crate::languages::{HeardLanguage, SURE};
use crate::scheduler::Meter;

/// Where the first window is not sure of the language, it is that of this many windows together.
const MAX_VOTERS: usize = 5;

impl Recording<'_> {
    /// How the language of a new window is determined.
    pub(super) fn window_language(&self) -> Language {
        match &self.language {
            Some((code, _)) if !self.request.multilingual => Language::Known(code.clone()),
            // Without anything else to go by, the likeliest is taken at once.
            _ if !self.request.multilingual && self.prior.usual.is_none() => Language::Detect { sure_from: 0.0 },
            _ => Language::Detect { sure_from: SURE },
        }
    }

    /// Submits the windows whose language was not sure, in the likeliest by what is known meanwhile.
    pub(super) fn settle_languages(&mut self) {
        for (window, probabilities) in std::mem::take(&mut self.unsure) {
            let Some((code, probability)) = self.prior.choose(&probabilities) else { continue };
            if self.language.is_none() {
                self.language = Some((code.clone(), probability));
            }
            let is_conditioned = self.request.condition_on_previous;
            self.start(window, Language::Known(code), Purpose::FirstLook, is_conditioned);
        }
    }

    /// Detects the language from the waiting windows: the first alone if its probability is high, else several together.
    pub(super) fn detect_language(&mut self) -> Result<(), SpeechError> {
        if self.language.is_some() || self.request.multilingual || self.awaiting_language.len() < 2 {
            return Ok(());
        }
        let options =
            Arc::new(DecodeOptions { language: Language::Detect { sure_from: f32::INFINITY }, ..self.options.clone() });
        while self.voters < self.awaiting_language.len().min(MAX_VOTERS) {
            self.submit(self.voters, &self.awaiting_language[self.voters], Arc::clone(&options), Meter::default());
            let (_, outcome) = loop {
                if let Some(reply) = self.receive()? {
                    break reply;
                }
            };
            self.voters += 1;
            if let Outcome::Languages(probabilities) = outcome {
                for (code, probability) in probabilities {
                    *self.votes.entry(code).or_default() += probability;
                }
            }
            let shares = self.votes.iter().map(|(code, votes)| (code.clone(), votes / self.voters as f32));
            let shares: Vec<(String, f32)> = shares.collect();
            let Some((code, share)) = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)).cloned() else {
                continue;
            };
            let all_voted = self.voters == MAX_VOTERS || self.at_end && self.voters == self.awaiting_language.len();
            if share >= SURE {
                self.language = Some((code, share));
                break;
            }
            if all_voted {
                self.language = self.prior.choose(&shares);
                break;
            }
        }
        Ok(())
    }

    /// The language of the recording: of several the one that most is said in.
    pub(super) fn main_language(&mut self) -> (String, f32) {
        let most = self.prior.seconds.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(code, _)| code.clone());
        match most.filter(|_| self.request.multilingual) {
            Some(code) => {
                let probability = |done: &&Done| done.decoded.language_probability;
                let of_code = self.done.iter().filter(|done| done.decoded.language == code);
                let best = of_code.max_by(|a, b| probability(a).total_cmp(&probability(b)));
                let best = best.as_ref().map_or(0.0, probability);
                (code, best)
            }
            None => self.language.take().unwrap_or_default(),
        }
    }

    /// The languages that the windows sound like.
    pub(super) fn languages_heard(&self) -> Vec<HeardLanguage> {
        let seconds = |sample: u64| sample as f64 / f64::from(SAMPLE_RATE);
        let heard = self.done.iter().filter_map(|done| {
            let (code, probability) = done.decoded.heard.clone()?;
            Some(HeardLanguage { from: seconds(done.samples.0), to: seconds(done.samples.1), code, probability })
        });
        heard.collect()
    }
}

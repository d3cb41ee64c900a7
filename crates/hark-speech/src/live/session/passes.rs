//! Decoding passes of a live session: when they start, and which words they make final.

use std::ops::Range;
use std::sync::Arc;

use hark_media::SAMPLE_RATE;
use hark_transcript::Lane;
use hark_whisper::backend::Reencode;
use hark_whisper::decode::{DecodeOptions, Decoded, Language, Outcome};

use super::{LiveSession, Pass, TimedWord, samples, seconds};
use crate::live::repetition::first_repetition;
use crate::scheduler::{Meter, WindowRequest};
use crate::segments::ends_sentence;

/// Audio kept before speech: the network detects soft onsets a little late.
const LEAD_IN: u64 = SAMPLE_RATE as u64 * 2 / 5;
/// Audio after the last speech that the last pass of an utterance must include.
const TAIL: u64 = SAMPLE_RATE as u64 / 5;
/// Samples of an encoder frame: 20 ms.
const SAMPLES_PER_FRAME: u64 = SAMPLE_RATE as u64 / 50;
/// The maximum audio of a pass.
const MAX_PASS_SAMPLES: u64 = SAMPLE_RATE as u64 * 28;
/// Seconds of speech after the last word that count as missed, at the end of an utterance…
const MISSED_SPEECH_AT_END: f64 = 1.2;
/// …and during it.
const MISSED_SPEECH: f64 = 2.5;
/// The language is fixed by a pass with at least this probability, or at the end of an utterance.
const LANGUAGE_THRESHOLD: f32 = 0.8;

impl LiveSession {
    /// The end of the buffered audio.
    pub(super) fn audio_end(&self) -> u64 {
        self.audio_start + self.audio.len() as u64
    }

    /// Drops audio without speech.
    pub(super) fn drop_silence(&mut self) {
        if self.endpointer.is_open() || self.pass.is_some() {
            return;
        }
        let keep_from = self.endpointer.speech_start().min(self.audio_end()).saturating_sub(LEAD_IN);
        if self.final_words.is_empty() {
            self.drop_until(keep_from);
        } else if self.endpointer.silence() >= samples(self.policy.max_pause) {
            // After a long pause the next utterance is decoded without this one.
            self.advance_to(keep_from, self.final_words.len());
        }
    }

    pub(super) fn drop_until(&mut self, sample: u64) {
        let count = (sample.saturating_sub(self.audio_start) as usize).min(self.audio.len());
        self.audio.drain(..count);
        self.audio_start += count as u64;
    }

    /// Starts a pass if one is due, or ends the utterance or the session if none is needed.
    pub(super) fn next_pass(&mut self) {
        let end = self.audio_end();
        if !self.endpointer.is_open() {
            self.flushing = false;
            if self.finishing && !self.awaiting_speakers {
                self.emit_final_words(true);
                self.awaiting_speakers = true;
                match &self.speakers {
                    Some(speakers) => speakers.finish(),
                    None => self.end(None),
                }
            }
            return;
        }
        let silence = self.endpointer.silence() >= samples(self.policy.end_silence);
        let over = silence || self.flushing || self.finishing;
        let spoken_until = (self.endpointer.speech_end() + TAIL).min(end);
        if over && self.decoded_until >= spoken_until {
            if !self.redecode_missed_speech() {
                self.end_utterance();
            }
            return self.next_pass();
        }
        let is_truncated = end - self.audio_start > MAX_PASS_SAMPLES;
        let until = if is_truncated { self.audio_start + MAX_PASS_SAMPLES } else { end };
        let interval = self.policy.interval.max(self.pass_latency);
        let fresh = until.saturating_sub(self.decoded_until.max(self.endpointer.speech_start()));
        if over || is_truncated || fresh >= samples(interval) {
            self.start_pass(until, over && !is_truncated, is_truncated);
        }
    }

    /// Samples of silence to insert before the audio: a session that begins with speech gets as much as is kept before
    /// other speech, like a file.
    pub(super) fn leading_silence(&mut self) -> u64 {
        let lead = *self.leading_silence.get_or_insert(LEAD_IN.saturating_sub(self.endpointer.speech_start()));
        if self.audio_start == 0 { lead } else { 0 }
    }

    pub(super) fn start_pass(&mut self, until: u64, is_last: bool, is_truncated: bool) {
        let lead = self.leading_silence();
        let (mel, frames) =
            self.transcriber.spectrogram(lead as usize, &self.audio[..(until - self.audio_start) as usize]);
        let language = match &self.language {
            Some(code) => Language::Known(code.clone()),
            None => Language::Detect { sure_from: 0.0 },
        };
        let mut prompt = self.options.prompt.clone();
        prompt.extend(&self.prompt_tokens);
        let prefix = self.final_words.iter().flat_map(|word| &word.tokens).copied().collect();
        let mut options = DecodeOptions { language, prompt, prefix, ..self.options.clone() };
        if is_last || is_truncated {
            // No later pass can correct a doubtful text, so fall back to higher temperatures.
            options.temperatures = DecodeOptions::default().temperatures;
        }
        let changed_frames = self.changed_frames(until, lead);
        self.transcriber.scheduler.submit(WindowRequest {
            owner: self.owner,
            lane: Lane::Live,
            mel: mel.into(),
            frames,
            reencode: Some(Reencode { key: self.owner, changed: changed_frames }),
            options: Arc::new(options),
            cancelled: Arc::clone(&self.cancelled),
            tag: 0,
            reply: Arc::clone(&self.reply),
            meter: Meter::default(),
        });
        self.pass = Some(Pass { samples: (self.audio_start, until), lead, is_last, is_truncated });
    }

    /// Frames that a pass over the audio up to `until` must encode; `None` for all, if the audio starts
    /// elsewhere than that of the last pass.
    pub(super) fn changed_frames(&mut self, until: u64, lead: u64) -> Option<Range<usize>> {
        let frame = |sample: u64| ((sample + lead).saturating_sub(self.audio_start) / SAMPLES_PER_FRAME) as usize;
        let known = self.encoded.filter(|&(first, before)| first == self.audio_start && before <= until);
        self.encoded = Some((self.audio_start, until));
        known.map(|(_, before)| {
            let from = before.saturating_sub(samples(self.policy.reencode_before));
            frame(from)..frame(until + samples(self.policy.encode_after)) + 1
        })
    }

    pub(super) fn handle_outcome(&mut self, outcome: Outcome) {
        let Some(pass) = self.pass.take() else { return };
        self.pass_latency = seconds(self.audio_end() - pass.samples.1);
        self.decoded_until = pass.samples.1;
        let Outcome::Decoded(decoded) = outcome else { return };
        if self.language.is_none()
            && (decoded.language_probability >= LANGUAGE_THRESHOLD || pass.is_last)
            && !decoded.text.is_empty()
        {
            self.language = Some(decoded.language.clone());
        }
        // A repetitive text is ignored; the next pass may be better.
        if decoded.compression <= self.options.compression_ratio_threshold || pass.is_last || pass.is_truncated {
            self.finalize_words(&pass, &decoded);
        }
        if self.break_repetition() {
            return;
        }
        if pass.is_truncated {
            // The audio continues from the word that may have been split.
            let split = if self.interim_words.len() > 1 { self.interim_words.pop() } else { None };
            self.finalize_interim_words();
            let at = split.map_or(pass.samples.1, |word| samples(word.start).min(pass.samples.1));
            self.emit_final_words(true);
            self.advance_to(at, self.final_words.len());
            self.decoded_until = self.audio_start;
        } else {
            self.emit_final_words(false);
            self.trim_utterance();
        }
        self.emit_partial();
    }

    /// If the text is repetitive, the decoder has lost the audio: decodes what follows the first repetition by itself, without
    /// the text before it as the prompt. Returns whether it was repetitive.
    pub(super) fn break_repetition(&mut self) -> bool {
        let words = || self.final_words.iter().chain(&self.interim_words);
        let Some(round) = first_repetition(words().map(|word| word.text.as_str())) else { return false };
        let end = words().take(round.end).last().map_or(0, |word| samples(word.end));
        self.interim_words.truncate(round.end.saturating_sub(self.final_words.len()));
        self.finalize_interim_words();
        self.emit_final_words(false);
        // The times of such words are unreliable: advance by at least this much.
        self.advance_to(end.max(self.audio_start + LEAD_IN), self.final_words.len());
        self.prompt_tokens.clear();
        self.decoded_until = self.audio_start;
        self.emit_partial();
        true
    }

    /// Takes over the words of a pass: those that end long enough before the end of its audio become final.
    pub(super) fn finalize_words(&mut self, pass: &Pass, decoded: &Decoded) {
        let words = self.new_words(pass, decoded);
        let end = seconds(pass.samples.1);
        self.interim_words = words;
        // A word waits for the next pass and for the duration of that pass.
        let policy = &self.policy;
        let waits = policy.interval.max(self.pass_latency) + self.pass_latency;
        let hold = (policy.emit_within - waits).clamp(policy.min_hold, policy.max_hold);
        let is_sure = |word: &TimedWord| end - word.end >= hold;
        let mut count = self.interim_words.iter().take_while(|word| is_sure(word)).count();
        if count == self.interim_words.len() && !pass.is_last {
            // The last word of the text may still be the beginning of another.
            count = count.saturating_sub(1);
        }
        self.final_words.extend(self.interim_words.drain(..count));
    }

    /// The words of a pass after the final ones.
    pub(super) fn new_words(&self, pass: &Pass, decoded: &Decoded) -> Vec<TimedWord> {
        let known: usize = self.final_words.iter().map(|word| word.tokens.len()).sum();
        let at = |time: f64| (seconds(pass.samples.0) + time - seconds(pass.lead)).max(0.0);
        let mut words = Vec::new();
        for word in decoded.words.iter().filter(|word| word.tokens.end > known) {
            let tokens = word.tokens.start.max(known)..word.tokens.end;
            let tokens = decoded.tokens.get(tokens).unwrap_or_default().to_vec();
            // Of a word that began in the final text only the rest is new: its punctuation.
            let is_rest = word.tokens.start < known;
            words.push(TimedWord {
                text: if is_rest { self.transcriber.tokenizer.decode(&tokens) } else { word.text.clone() },
                tokens,
                start: at(if is_rest { word.end } else { word.start }),
                end: at(word.end),
                confidence: word.probability,
            });
        }
        words
    }

    /// Makes all words of the last pass final.
    pub(super) fn finalize_interim_words(&mut self) {
        self.final_words.append(&mut self.interim_words);
    }

    /// If there is speech after the last word that the text misses, decodes the audio after the text by itself; returns whether
    /// there is.
    pub(super) fn redecode_missed_speech(&mut self) -> bool {
        let over = self.endpointer.silence() >= samples(self.policy.end_silence) || self.flushing || self.finishing;
        let Some(last) = self.interim_words.last().or(self.final_words.last()) else { return false };
        let missed = self.endpointer.speech_between(samples(last.end), self.decoded_until);
        if missed < samples(if over { MISSED_SPEECH_AT_END } else { MISSED_SPEECH }) {
            return false;
        }
        let from = samples(last.end + 0.1).max(self.endpointer.speech_start().saturating_sub(LEAD_IN));
        self.finalize_interim_words();
        self.emit_final_words(true);
        self.advance_to(from, self.final_words.len());
        self.decoded_until = self.audio_start;
        true
    }

    /// Ends the utterance after its last pass.
    pub(super) fn end_utterance(&mut self) {
        self.finalize_interim_words();
        self.emit_final_words(true);
        self.emit_partial();
        if self.flushing || self.finishing {
            self.advance_to(self.audio_end(), self.final_words.len());
        }
        self.endpointer.close();
        self.flushing = false;
        self.drop_silence();
    }

    /// Drops the audio before `sample` and its first `words` final words, which become the prompt.
    pub(super) fn advance_to(&mut self, sample: u64, words: usize) {
        self.drop_until(sample);
        self.prompt_tokens.extend(self.final_words.drain(..words).flat_map(|word| word.tokens));
        self.emitted_words = self.emitted_words.saturating_sub(words);
        self.prompt_tokens.drain(..self.prompt_tokens.len().saturating_sub(self.policy.max_prompt_tokens));
    }

    /// Cuts off the final beginning of a long utterance.
    pub(super) fn trim_utterance(&mut self) {
        if self.redecode_missed_speech() {
            return;
        }
        let length = seconds(self.decoded_until.saturating_sub(self.audio_start));
        if length < self.policy.trim_from {
            return;
        }
        let next_start = |index: usize| {
            let next = self.final_words.get(index + 1).or(self.interim_words.first());
            next.map_or(self.final_words[index].end, |next| next.start)
        };
        let emitted = self.emitted_words;
        let keep_from = seconds(self.decoded_until) - self.policy.trim_keep;
        let ends = |index: &usize| ends_sentence(&self.final_words[*index].text);
        let early = (0..emitted).rfind(|index| ends(index) && self.final_words[*index].end <= keep_from);
        let sentence = early.or_else(|| (0..emitted).rfind(ends));
        // Without the end of a sentence: at the longest pause of the second half.
        let anywhere = || {
            (emitted / 2..emitted).max_by(|&a, &b| {
                let pause = |index: usize| next_start(index) - self.final_words[index].end;
                pause(a).total_cmp(&pause(b))
            })
        };
        let at = sentence.or_else(|| if length >= self.policy.trim_anywhere_from { anywhere() } else { None });
        if let Some(index) = at {
            let middle = (self.final_words[index].end + next_start(index)) / 2.0;
            self.advance_to(samples(middle), index + 1);
        }
    }
}

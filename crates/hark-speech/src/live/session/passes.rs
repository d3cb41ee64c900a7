//! When a live session looks at its sound, and which words a look settles.

use std::ops::Range;
use std::sync::Arc;

use hark_media::SAMPLE_RATE;
use hark_transcript::Lane;
use hark_whisper::backend::Again;
use hark_whisper::decode::{DecodeOptions, Decoded, Language, Outcome};

use super::{LiveSession, Pass, TimedWord, samples, seconds};
use crate::live::repetition::first_repetition;
use crate::scheduler::{Meter, WindowRequest};
use crate::segments::ends_sentence;

/// Sound kept before speech: the network notices soft beginnings a little late.
const LEAD: u64 = SAMPLE_RATE as u64 * 2 / 5;
/// Sound behind the last speech that the last pass of an utterance must have heard.
const TAIL: u64 = SAMPLE_RATE as u64 / 5;
/// Samples of a position of the encoder: 20 ms.
const SAMPLES_A_FRAME: u64 = SAMPLE_RATE as u64 / 50;
/// The longest stretch of sound that a pass looks at.
const MAX_SOUND: u64 = SAMPLE_RATE as u64 * 28;
/// Seconds of speech behind the last word of an utterance's text that are taken for passed over…
const MISSED_AT_END: f64 = 1.2;
/// …and while the utterance goes on.
const MISSED: f64 = 2.5;
/// A language is settled by a pass that is this sure, or by the end of an utterance.
const SURE: f32 = 0.8;

impl LiveSession {
    /// The sample after the last that came.
    pub(super) fn last(&self) -> u64 {
        self.first + self.sound.len() as u64
    }

    /// Drops sound in which nobody speaks.
    pub(super) fn forget_silence(&mut self) {
        if self.ends.is_open() || self.pass.is_some() {
            return;
        }
        let keep_from = self.ends.began().min(self.last()).saturating_sub(LEAD);
        if self.settled.is_empty() {
            self.drop_until(keep_from);
        } else if self.ends.silence() >= samples(self.policy.longest_pause) {
            // What is said next has little to do with what was said.
            self.cut(keep_from, self.settled.len());
        }
    }

    pub(super) fn drop_until(&mut self, sample: u64) {
        let count = (sample.saturating_sub(self.first) as usize).min(self.sound.len());
        self.sound.drain(..count);
        self.first += count as u64;
    }

    /// Starts a pass if one is due, or ends an utterance or the session that needs none.
    pub(super) fn next_pass(&mut self) {
        let end = self.last();
        if !self.ends.is_open() {
            self.flushing = false;
            if self.finishing && !self.awaiting_speakers {
                self.emit_settled(true);
                self.awaiting_speakers = true;
                match &self.speakers {
                    Some(speakers) => speakers.finish(),
                    None => self.end(None),
                }
            }
            return;
        }
        let silence = self.ends.silence() >= samples(self.policy.end_silence);
        let over = silence || self.flushing || self.finishing;
        let spoken_until = (self.ends.ended() + TAIL).min(end);
        if over && self.looked_until >= spoken_until {
            if !self.revisit_missed_speech() {
                self.end_utterance();
            }
            return self.next_pass();
        }
        let is_cut = end - self.first > MAX_SOUND;
        let until = if is_cut { self.first + MAX_SOUND } else { end };
        let interval = self.policy.interval.max(self.took);
        let fresh = until.saturating_sub(self.looked_until.max(self.ends.began()));
        if over || is_cut || fresh >= samples(interval) {
            self.start_pass(until, over && !is_cut, is_cut);
        }
    }

    /// Samples of silence before the sound: a session that begins with speech at once is given as much as there is before
    /// any other speech, as a file is.
    pub(super) fn lead(&mut self) -> u64 {
        let lead = *self.lead.get_or_insert(LEAD.saturating_sub(self.ends.began()));
        if self.first == 0 { lead } else { 0 }
    }

    pub(super) fn start_pass(&mut self, until: u64, is_last: bool, is_cut: bool) {
        let lead = self.lead();
        let (mel, frames) = self.transcriber.spectrogram(lead as usize, &self.sound[..(until - self.first) as usize]);
        let language = match &self.language {
            Some(code) => Language::Known(code.clone()),
            None => Language::Detect { sure_from: 0.0 },
        };
        let mut prompt = self.options.prompt.clone();
        prompt.extend(&self.before);
        let prefix = self.settled.iter().flat_map(|word| &word.tokens).copied().collect();
        let mut options = DecodeOptions { language, prompt, prefix, ..self.options.clone() };
        if is_last || is_cut {
            // Nothing comes after it that could put a doubtful text right.
            options.temperatures = DecodeOptions::default().temperatures;
        }
        let changed = self.changed(until, lead);
        self.transcriber.scheduler.submit(WindowRequest {
            owner: self.owner,
            lane: Lane::Live,
            mel: mel.into(),
            frames,
            again: Some(Again { key: self.owner, changed }),
            options: Arc::new(options),
            cancelled: Arc::clone(&self.unwanted),
            tag: 0,
            reply: Arc::clone(&self.reply_to),
            meter: Meter::default(),
        });
        self.pass = Some(Pass { samples: (self.first, until), lead, is_last, is_cut });
    }

    /// Frames that a pass over the sound up to `until` must encode again; none for all of them, where the sound begins
    /// elsewhere than that of the last pass.
    pub(super) fn changed(&mut self, until: u64, lead: u64) -> Option<Range<usize>> {
        let frame = |sample: u64| ((sample + lead).saturating_sub(self.first) / SAMPLES_A_FRAME) as usize;
        let known = self.encoded.filter(|&(first, before)| first == self.first && before <= until);
        self.encoded = Some((self.first, until));
        known.map(|(_, before)| {
            let from = before.saturating_sub(samples(self.policy.encode_back));
            frame(from)..frame(until + samples(self.policy.encode_ahead)) + 1
        })
    }

    pub(super) fn absorb(&mut self, outcome: Outcome) {
        let Some(pass) = self.pass.take() else { return };
        self.took = seconds(self.last() - pass.samples.1);
        self.looked_until = pass.samples.1;
        let Outcome::Decoded(decoded) = outcome else { return };
        if self.language.is_none() && (decoded.language_probability >= SURE || pass.is_last) && !decoded.text.is_empty()
        {
            self.language = Some(decoded.language.clone());
        }
        // A text that repeats itself says nothing; the next pass may do better.
        if decoded.compression <= self.options.compression_ratio_threshold || pass.is_last || pass.is_cut {
            self.settle(&pass, &decoded);
        }
        if self.break_repetition() {
            return;
        }
        if pass.is_cut {
            // The sound goes on before the word that may have been cut in two.
            let halved = if self.loose.len() > 1 { self.loose.pop() } else { None };
            self.settle_loose();
            let at = halved.map_or(pass.samples.1, |word| samples(word.start).min(pass.samples.1));
            self.emit_settled(true);
            self.cut(at, self.settled.len());
            self.looked_until = self.first;
        } else {
            self.emit_settled(false);
            self.trim();
        }
        self.emit_partial();
    }

    /// A text that repeats itself has lost the sound: what was said behind the first repetition is decoded by itself, without
    /// the text that led into it. Says whether it was so.
    pub(super) fn break_repetition(&mut self) -> bool {
        let words = || self.settled.iter().chain(&self.loose);
        let Some(round) = first_repetition(words().map(|word| word.text.as_str())) else { return false };
        let end = words().take(round.end).last().map_or(0, |word| samples(word.end));
        self.loose.truncate(round.end.saturating_sub(self.settled.len()));
        self.settle_loose();
        self.emit_settled(false);
        // Times of such words are little worth: some sound is left behind in any case.
        self.cut(end.max(self.first + LEAD), self.settled.len());
        self.before.clear();
        self.looked_until = self.first;
        self.emit_partial();
        true
    }

    /// Takes a pass's words: settles those that are far enough behind the end of its sound.
    pub(super) fn settle(&mut self, pass: &Pass, decoded: &Decoded) {
        let words = self.new_words(pass, decoded);
        let end = seconds(pass.samples.1);
        self.loose = words;
        // A word waits for the pass that finds it far enough behind, and for the time that the pass takes.
        let policy = &self.policy;
        let waits = policy.interval.max(self.took) + self.took;
        let hold = (policy.emit_within - waits).clamp(policy.min_hold, policy.max_hold);
        let is_sure = |word: &TimedWord| end - word.end >= hold;
        let mut count = self.loose.iter().take_while(|word| is_sure(word)).count();
        if count == self.loose.len() && !pass.is_last {
            // What ends the text so far may yet be another word's beginning.
            count = count.saturating_sub(1);
        }
        self.settled.extend(self.loose.drain(..count));
    }

    /// The words behind the settled ones.
    pub(super) fn new_words(&self, pass: &Pass, decoded: &Decoded) -> Vec<TimedWord> {
        let known: usize = self.settled.iter().map(|word| word.tokens.len()).sum();
        let at = |time: f64| (seconds(pass.samples.0) + time - seconds(pass.lead)).max(0.0);
        let mut words = Vec::new();
        for word in decoded.words.iter().filter(|word| word.tokens.end > known) {
            let tokens = word.tokens.start.max(known)..word.tokens.end;
            let tokens = decoded.tokens.get(tokens).unwrap_or_default().to_vec();
            // Of a word that began in the settled text only the rest is new: its punctuation.
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

    /// Settles everything that the last pass decoded.
    pub(super) fn settle_loose(&mut self) {
        self.settled.append(&mut self.loose);
    }

    /// At the end of an utterance, or long after the last word: is there speech that the text misses? Then the sound behind
    /// the text is decoded by itself.
    pub(super) fn revisit_missed_speech(&mut self) -> bool {
        let over = self.ends.silence() >= samples(self.policy.end_silence) || self.flushing || self.finishing;
        let Some(last) = self.loose.last().or(self.settled.last()) else { return false };
        let unheard = self.ends.spoken_between(samples(last.end), self.looked_until);
        if unheard < samples(if over { MISSED_AT_END } else { MISSED }) {
            return false;
        }
        let cut = samples(last.end + 0.1).max(self.ends.began().saturating_sub(LEAD));
        self.settle_loose();
        self.emit_settled(true);
        self.cut(cut, self.settled.len());
        self.looked_until = self.first;
        true
    }

    /// The last pass of an utterance has heard all of it.
    pub(super) fn end_utterance(&mut self) {
        self.settle_loose();
        self.emit_settled(true);
        self.emit_partial();
        if self.flushing || self.finishing {
            self.cut(self.last(), self.settled.len());
        }
        self.ends.close();
        self.flushing = false;
        self.forget_silence();
    }

    /// Drops the sound before `sample` with its `words` settled words, which become the text before.
    pub(super) fn cut(&mut self, sample: u64, words: usize) {
        self.drop_until(sample);
        self.before.extend(self.settled.drain(..words).flat_map(|word| word.tokens));
        self.emitted_words = self.emitted_words.saturating_sub(words);
        self.before.drain(..self.before.len().saturating_sub(self.policy.max_prompt_tokens));
    }

    /// Cuts off the settled beginning of a long utterance.
    pub(super) fn trim(&mut self) {
        if self.revisit_missed_speech() {
            return;
        }
        let length = seconds(self.looked_until.saturating_sub(self.first));
        if length < self.policy.trim_from {
            return;
        }
        let next_start = |index: usize| {
            let next = self.settled.get(index + 1).or(self.loose.first());
            next.map_or(self.settled[index].end, |next| next.start)
        };
        let told = self.emitted_words;
        let keep_from = seconds(self.looked_until) - self.policy.keep_back;
        let ends = |index: &usize| ends_sentence(&self.settled[*index].text);
        let early = (0..told).rfind(|index| ends(index) && self.settled[*index].end <= keep_from);
        let sentence = early.or_else(|| (0..told).rfind(ends));
        // Without a sentence's end: at the longest pause of the later half.
        let anywhere = || {
            (told / 2..told).max_by(|&a, &b| {
                let pause = |index: usize| next_start(index) - self.settled[index].end;
                pause(a).total_cmp(&pause(b))
            })
        };
        let at = sentence.or_else(|| if length >= self.policy.trim_anywhere_from { anywhere() } else { None });
        if let Some(index) = at {
            let middle = (self.settled[index].end + next_start(index)) / 2.0;
            self.cut(samples(middle), index + 1);
        }
    }
}

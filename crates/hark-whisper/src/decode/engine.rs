//! The engine: many windows at once on one backend, each at its own place in its text.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::search::{Hypothesis, Plan, Search};
use super::timing::Untimed;
use super::{DecodeOptions, Decoded, Language, compression_ratio, start_sequence};
use crate::backend::{Admission, Again, AlignmentRequest, Ask, Backend, BackendError, Entry, Rules};
use crate::tokenizer::Tokenizer;

/// One window to decode.
pub struct Job {
    /// The caller's number for it.
    pub id: u64,
    /// Log-mel values, frame-major, 3000 frames.
    pub mel: Arc<[f32]>,
    /// Frames of 20 ms that hold sound; the rest of the window is padding.
    pub frames: usize,
    /// How to decode it.
    pub options: Arc<DecodeOptions>,
    /// A higher number is more urgent; a step can leave out the lower ones.
    pub lane: u8,
    /// Set for a window that is looked at more than once.
    pub again: Option<Again>,
}

/// What became of a job.
#[derive(Debug)]
pub enum Outcome {
    /// What was said.
    Decoded(Box<Decoded>),
    /// What was said; the times of its words are still to be computed, on any thread but the engine's: see
    /// [`Outcome::timed`].
    Untimed(Box<Untimed>),
    /// The language was to be detected and is not sure enough: the probabilities, likeliest first.
    Languages(Vec<(String, f32)>),
}

impl Outcome {
    /// The outcome with the times of its words.
    pub fn timed(self, tokenizer: &Tokenizer) -> Outcome {
        match self {
            Outcome::Untimed(untimed) => Outcome::Decoded(untimed.decoded(tokenizer)),
            other => other,
        }
    }
}

/// Where an engine's time went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Windows encoded, and how long that took.
    pub encoded: (u64, Duration),
    /// Steps over prompts, and how long they took.
    pub prompted: (u64, Duration),
    /// Steps over single tokens.
    pub stepped: (u64, Duration),
    /// Texts aligned with their sound.
    pub aligned: (u64, Duration),
}

/// Decodes jobs in the slots of a backend.
pub struct Engine<B: Backend> {
    backend: B,
    tokenizer: Arc<Tokenizer>,
    windows: Vec<Option<Window>>,
    /// Most tokens that the decoder can hold.
    context: usize,
    /// What the first row of each slot remembers of a window that may be looked at again.
    traces: Vec<Option<Trace>>,
    looks: u64,
    spent: Spent,
}

/// The prompt of the last look at a window: its keys and values stay in the slot's first row.
struct Trace {
    key: u64,
    /// Which look it was.
    look: u64,
    prompt: Vec<u32>,
    no_speech: f32,
}

/// The tokens at the end of a prompt that are put through the decoder in every look: some seconds of speech.
const PUT_AGAIN: usize = 12;

/// Tokens of texts that are aligned in one step at most, unless a single text has more: decoding goes on after no longer
/// than a step over a long prompt takes.
const ALIGNED_A_STEP: usize = 256;

/// Adds a piece of work that began at `since`.
fn add_up(work: &mut (u64, Duration), since: Instant) {
    work.0 += 1;
    work.1 += since.elapsed();
}

/// A window in its slot.
struct Window {
    job: Job,
    phase: Phase,
    /// Most tokens that the decoder can hold.
    context: usize,
    language: String,
    language_probability: f32,
    no_speech: f32,
    /// Temperatures not yet tried.
    temperatures: VecDeque<f32>,
    temperature: f32,
    /// The best refused result so far.
    refused: Option<Decoded>,
    /// How many tokens of the prompt the slot's first row remembers from the look before.
    known: usize,
}

enum Phase {
    Detecting,
    Prompting(Search),
    /// The prompt is in row 0; drawn hypotheses start from it in rows of their own.
    Spreading(Search),
    Searching(Search),
    /// Decoded; the text waits to be aligned with the sound.
    Aligning(Box<Untimed>),
}

impl<B: Backend> Engine<B> {
    /// An engine over `backend`.
    pub fn new(backend: B, tokenizer: Arc<Tokenizer>) -> Self {
        let windows = (0..backend.slots()).map(|_| None).collect();
        let traces = (0..backend.slots()).map(|_| None).collect();
        let context = backend.dims().n_text_ctx;
        Engine { backend, tokenizer, windows, context, traces, looks: 0, spent: Spent::default() }
    }

    /// The backend, for its name and sizes.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The tokenizer of the checkpoint.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Where the time went so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// How many windows are being decoded.
    pub fn live(&self) -> usize {
        self.windows.iter().flatten().count()
    }

    /// The highest lane that is being decoded.
    pub fn highest_lane(&self) -> Option<u8> {
        self.windows.iter().flatten().map(|window| window.job.lane).max()
    }

    /// How many more windows fit at present: the backend says how many it can take.
    pub fn free(&self) -> usize {
        self.backend.capacity().min(self.windows.len()).saturating_sub(self.live())
    }

    /// How many windows are best admitted together.
    pub fn batch(&self) -> usize {
        self.backend.encode_batch().max(1)
    }

    /// Whether the device answers.
    pub fn health(&mut self) -> Result<(), BackendError> {
        self.backend.health()
    }

    /// Gives back the memory of windows and workspaces; does nothing while a window is decoded.
    pub fn trim(&mut self) -> Result<(), BackendError> {
        if self.live() > 0 {
            return Ok(());
        }
        self.traces.iter_mut().for_each(|trace| *trace = None);
        self.backend.trim()
    }

    /// Encodes windows into free slots. Where it fails none of them is admitted; [`BackendError::keeps_windows`] says whether
    /// those that were there can go on.
    ///
    /// # Panics
    /// When there are fewer free slots than jobs.
    pub fn admit(&mut self, jobs: Vec<Job>) -> Result<(), BackendError> {
        let mut slots: Vec<usize> = Vec::with_capacity(jobs.len());
        for job in &jobs {
            slots.push(self.free_slot(job, &slots).expect("a free slot"));
        }
        let traces: Vec<Option<Trace>> = slots.iter().map(|&slot| self.traces[slot].take()).collect();
        let admissions: Vec<Admission> = jobs
            .iter()
            .zip(&slots)
            .map(|(job, &slot)| Admission { slot, mel: &job.mel, again: job.again.as_ref() })
            .collect();
        let begun = Instant::now();
        self.backend.encode(&admissions)?;
        self.spent.encoded.0 += jobs.len() as u64;
        self.spent.encoded.1 += begun.elapsed();
        for ((job, slot), trace) in jobs.into_iter().zip(slots).zip(traces) {
            self.windows[slot] = Some(self.window(job, trace));
        }
        Ok(())
    }

    /// A window whose sound is encoded, at its beginning.
    fn window(&self, job: Job, trace: Option<Trace>) -> Window {
        let temperatures = job.options.temperatures.iter().copied().collect();
        let mut window = Window {
            phase: Phase::Detecting,
            context: self.context,
            language: "en".to_owned(),
            language_probability: 1.0,
            no_speech: 0.0,
            temperatures,
            temperature: 0.0,
            refused: None,
            known: 0,
            // The values have done their work; what is kept of the job is small.
            job: Job { mel: Arc::new([]), ..job },
        };
        let known = match &window.job.options.language {
            Language::Known(code) => Some(code.clone()),
            Language::Detect { .. } if !self.tokenizer.is_multilingual() => Some("en".to_owned()),
            Language::Detect { .. } => None,
        };
        if let Some(code) = known {
            window.language = code;
            window.next_attempt(&self.tokenizer, self.backend.rows());
            if let Some(trace) = trace.filter(|trace| window.goes_on_from(trace)) {
                window.known = window.known_of(&trace.prompt, &self.tokenizer);
                window.no_speech = trace.no_speech;
            }
        }
        window
    }

    /// Where a window goes: to the slot that remembers it, or else to the first that remembers nothing that is likely to be
    /// looked at again. Every slot in use takes memory.
    fn free_slot(&self, job: &Job, taken: &[usize]) -> Option<usize> {
        let is_free = |slot: &usize| self.windows[*slot].is_none() && !taken.contains(slot);
        let free = || (0..self.windows.len()).filter(is_free);
        let look_of = |slot: usize| self.traces[slot].as_ref().map(|trace| trace.look);
        let is_recent = |look: &u64| look + 4 * self.windows.len() as u64 > self.looks;
        let known = job.again.as_ref().and_then(|again| {
            free().find(|&slot| self.traces[slot].as_ref().is_some_and(|trace| trace.key == again.key))
        });
        known.or_else(|| free().min_by_key(|&slot| look_of(slot).filter(is_recent)))
    }

    /// Drops the windows that `unwanted` names.
    pub fn drop_windows(&mut self, mut unwanted: impl FnMut(u64) -> bool) -> Result<(), BackendError> {
        for (slot, window) in self.windows.iter_mut().enumerate() {
            if window.as_ref().is_some_and(|window| unwanted(window.job.id)) {
                *window = None;
                self.backend.release(slot)?;
            }
        }
        Ok(())
    }

    /// How many different lanes are being decoded.
    pub fn lanes(&self) -> usize {
        let mut lanes: Vec<u8> = self.windows.iter().flatten().map(|window| window.job.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes.len()
    }

    /// Advances every window of `least_lane` and above by one token, aligns texts that are complete, and returns those that are
    /// done.
    ///
    /// # Errors
    /// Nothing that is being decoded may be trusted any more; the windows are to be decoded again by another engine.
    pub fn step(&mut self, least_lane: u8) -> Result<Vec<(u64, Outcome)>, BackendError> {
        let mut done = Vec::new();
        self.decode(least_lane, &mut done)?;
        self.align(least_lane, &mut done)?;
        Ok(done)
    }

    fn decode(&mut self, least_lane: u8, done: &mut Vec<(u64, Outcome)>) -> Result<(), BackendError> {
        let mut entries = Vec::new();
        let mut shares: Vec<(usize, usize)> = Vec::new();
        for (slot, window) in self.windows.iter_mut().enumerate() {
            let decodes =
                |window: &&mut Window| window.job.lane >= least_lane && !matches!(window.phase, Phase::Aligning(_));
            if let Some(window) = window.as_mut().filter(decodes) {
                let before = entries.len();
                window.entries(slot, &self.tokenizer, &mut entries);
                shares.push((slot, entries[before..].iter().filter(|entry| entry.ask.is_some()).count()));
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let answers = self.backend.step(&entries)?;
        if answers.len() != shares.iter().map(|(_, count)| count).sum::<usize>() {
            return Err(BackendError::Fault("a step has another number of answers than questions".to_owned()));
        }
        if !answers.iter().all(|answer| answer.is_sound()) {
            return Err(BackendError::Fault("the decoder's scores are not numbers".to_owned()));
        }
        let is_prompt = entries.iter().any(|entry| entry.ask.is_none());
        add_up(if is_prompt { &mut self.spent.prompted } else { &mut self.spent.stepped }, begun);
        let mut answers = answers.as_slice();
        for (slot, count) in shares {
            let (mine, rest) = answers.split_at(count);
            answers = rest;
            let Some(window) = &mut self.windows[slot] else {
                continue;
            };
            let is_prompted = matches!(window.phase, Phase::Prompting(_));
            let outcome = window.absorb(mine, &self.tokenizer, self.backend.rows());
            if let Some(again) = window.job.again.as_ref().filter(|_| is_prompted) {
                self.looks += 1;
                self.traces[slot] = Some(Trace {
                    key: again.key,
                    look: self.looks,
                    prompt: window.prompt(&self.tokenizer),
                    no_speech: window.no_speech,
                });
            }
            let outcome = match outcome {
                None => continue,
                Some(Outcome::Decoded(decoded)) if window.job.options.words => {
                    let (task, frames) = (window.job.options.task, window.job.frames);
                    match Untimed::new(decoded, &self.tokenizer, task, frames, self.context) {
                        Ok(untimed) => {
                            window.phase = Phase::Aligning(Box::new(untimed));
                            continue;
                        }
                        Err(decoded) => Outcome::Decoded(decoded),
                    }
                }
                Some(other) => other,
            };
            done.push((window.job.id, outcome));
            self.windows[slot] = None;
            self.backend.release(slot)?;
        }
        Ok(())
    }

    /// Aligns texts that are complete, those of the highest lanes first, as many as do not hold up decoding.
    fn align(&mut self, least_lane: u8, done: &mut Vec<(u64, Outcome)>) -> Result<(), BackendError> {
        let mut complete: Vec<(u8, usize, usize)> = self
            .windows
            .iter()
            .enumerate()
            .filter_map(|(slot, window)| match window {
                Some(Window { job, phase: Phase::Aligning(text), .. }) if job.lane >= least_lane => {
                    Some((job.lane, slot, text.tokens().len()))
                }
                _ => None,
            })
            .collect();
        if complete.is_empty() {
            return Ok(());
        }
        complete.sort_by_key(|&(lane, slot, _)| (std::cmp::Reverse(lane), slot));
        let mut tokens = 0;
        let fits = |&(_, _, count): &(u8, usize, usize)| {
            tokens += count;
            tokens <= ALIGNED_A_STEP || tokens == count
        };
        let slots: Vec<usize> = complete.into_iter().take_while(fits).map(|(_, slot, _)| slot).collect();
        let begun = Instant::now();
        let requests: Vec<AlignmentRequest> = slots
            .iter()
            .filter_map(|&slot| match &self.windows[slot] {
                Some(Window { job, phase: Phase::Aligning(text), .. }) => {
                    Some(AlignmentRequest { slot, tokens: text.tokens(), first: 0, frames: job.frames })
                }
                _ => None,
            })
            .collect();
        let scores = self.backend.align(&requests)?;
        if scores.len() != slots.len() {
            return Err(BackendError::Fault("an alignment has no scores".to_owned()));
        }
        self.spent.aligned.0 += slots.len() as u64;
        self.spent.aligned.1 += begun.elapsed();
        for (slot, scores) in slots.into_iter().zip(scores) {
            let Some(Window { job, phase: Phase::Aligning(mut text), .. }) = self.windows[slot].take() else {
                continue;
            };
            text.scores = scores;
            done.push((job.id, Outcome::Untimed(text)));
            self.backend.release(slot)?;
        }
        Ok(())
    }
}

impl Window {
    /// The prompt: earlier text where there is some, then the start sequence. It leaves room for a token.
    fn prompt(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let options = &self.job.options;
        let mut start = start_sequence(tokenizer, &self.language, options.task);
        if !options.timestamps {
            start.push(tokenizer.no_timestamps);
        }
        // The beginning of the text is given whole, unless it alone fills the context: then its end counts.
        let most = self.context.saturating_sub(start.len() + 2);
        let prefix = &options.prefix[options.prefix.len().saturating_sub(most)..];
        let mut tokens = Vec::new();
        if !options.prompt.is_empty() {
            // Half of the context is for the text; of a longer prompt the end counts.
            let most = (self.context / 2 - 1).saturating_sub(prefix.len());
            tokens.push(tokenizer.sot_prev);
            tokens.extend(&options.prompt[options.prompt.len().saturating_sub(most)..]);
        }
        tokens.extend(start);
        tokens.extend(prefix);
        tokens
    }

    /// Whether this is another look at the window of `trace`, which has only grown since.
    fn goes_on_from(&self, trace: &Trace) -> bool {
        self.job.again.as_ref().is_some_and(|again| again.key == trace.key && again.changed.is_some())
    }

    /// How many tokens of the prompt need not be put through the decoder again after `before`. The last few are: the sound
    /// that they were heard in has changed since. So is a prompt of which not even the start is known.
    fn known_of(&self, before: &[u32], tokenizer: &Tokenizer) -> usize {
        let prompt = self.prompt(tokenizer);
        let same = prompt.iter().zip(before).take_while(|(token, before)| token == before).count();
        let known = same.min(prompt.len().saturating_sub(PUT_AGAIN));
        if prompt[..known].contains(&tokenizer.sot) { known } else { 0 }
    }

    /// Starts over with the next temperature; false when none is left.
    fn next_attempt(&mut self, tokenizer: &Tokenizer, rows: usize) -> bool {
        let Some(temperature) = self.temperatures.pop_front() else {
            return false;
        };
        let options = &self.job.options;
        let width = if temperature > 0.0 { options.best_of } else { options.beam };
        let prompt_len = self.prompt(tokenizer).len();
        let plan = Plan {
            width: width.clamp(1, rows),
            temperature,
            timestamps: options.timestamps,
            goes_on: !options.prefix.is_empty(),
            max_tokens: options
                .max_tokens
                .saturating_sub(options.prefix.len())
                .min(self.context.saturating_sub(prompt_len))
                .max(1),
            last_time: tokenizer.timestamp_begin + self.job.frames as u32,
        };
        let seed = self.job.id.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ u64::from(temperature.to_bits());
        self.temperature = temperature;
        self.known = 0;
        self.phase = Phase::Prompting(Search::new(plan, prompt_len, seed));
        true
    }

    fn entries(&mut self, slot: usize, tokenizer: &Tokenizer, out: &mut Vec<Entry>) {
        let prompt = match &self.phase {
            Phase::Detecting => vec![tokenizer.sot],
            _ => self.prompt(tokenizer),
        };
        let entry = |row: usize, position: usize, ask: Option<Ask>| Entry {
            slot,
            row,
            parent: 0,
            position,
            token: prompt[position],
            ask,
        };
        let nothing = Ask { rules: Rules::default(), best: 0, draw: None, no_speech: true, languages: false };
        let last = prompt.len() - 1;
        match &mut self.phase {
            Phase::Detecting => out.push(entry(0, 0, Some(Ask { languages: true, ..nothing }))),
            Phase::Prompting(search) => {
                let asks = search.first_asks(tokenizer);
                let spreads = asks.len() > 1;
                for position in self.known..last + usize::from(!spreads) {
                    let is_start = prompt[position] == tokenizer.sot;
                    let ask = if position == last { Some(asks[0]) } else { is_start.then_some(nothing) };
                    out.push(entry(0, position, ask));
                }
            }
            Phase::Spreading(search) => {
                for (row, ask) in search.first_asks(tokenizer).into_iter().enumerate() {
                    out.push(entry(row, last, Some(ask)));
                }
            }
            Phase::Searching(search) => search.entries(slot, tokenizer, out),
            Phase::Aligning(_) => {}
        }
    }

    /// Takes the answers to the entries; returns the outcome when the window is done.
    fn absorb(&mut self, answers: &[crate::backend::Answer], tokenizer: &Tokenizer, rows: usize) -> Option<Outcome> {
        match std::mem::replace(&mut self.phase, Phase::Detecting) {
            Phase::Detecting => {
                let mut heard: Vec<(String, f32)> = tokenizer
                    .languages()
                    .iter()
                    .map(|code| (*code).to_owned())
                    .zip(answers[0].languages.iter().copied())
                    .collect();
                heard.sort_by(|a, b| b.1.total_cmp(&a.1));
                let Language::Detect { sure_from } = self.job.options.language else {
                    return None;
                };
                if heard.is_empty() || heard[0].1 < sure_from {
                    return Some(Outcome::Languages(heard));
                }
                (self.language, self.language_probability) = heard.swap_remove(0);
                self.next_attempt(tokenizer, rows);
                None
            }
            Phase::Prompting(mut search) => {
                // The first answer is the start token's, unless it is known; the last one the prompt's end, unless it is
                // asked anew.
                let mut answers = answers;
                if let Some((start, rest)) = answers.split_first().filter(|_| self.known == 0) {
                    self.no_speech = start.no_speech;
                    answers = rest;
                }
                if !answers.is_empty() {
                    search.begin(answers, tokenizer);
                    self.settle(search, tokenizer, rows)
                } else {
                    self.phase = Phase::Spreading(search);
                    None
                }
            }
            Phase::Spreading(mut search) => {
                search.begin(answers, tokenizer);
                self.settle(search, tokenizer, rows)
            }
            Phase::Searching(mut search) => {
                search.absorb(answers, tokenizer);
                self.settle(search, tokenizer, rows)
            }
            Phase::Aligning(text) => {
                self.phase = Phase::Aligning(text);
                None
            }
        }
    }

    /// Goes on searching, or checks the result and takes it, or tries the next temperature.
    fn settle(&mut self, search: Search, tokenizer: &Tokenizer, rows: usize) -> Option<Outcome> {
        if !search.is_done() {
            self.phase = Phase::Searching(search);
            return None;
        }
        let decoded = self.decoded(search.best(), tokenizer);
        let options = &self.job.options;
        let repeats = decoded.compression > options.compression_ratio_threshold;
        let doubtful = decoded.mean_logprob < options.logprob_threshold;
        let silent = decoded.no_speech > options.no_speech_threshold && doubtful;
        if silent {
            return Some(Outcome::Decoded(Box::new(Decoded {
                tokens: Vec::new(),
                log_probs: Vec::new(),
                text: String::new(),
                ..decoded
            })));
        }
        if !repeats && !doubtful {
            return Some(Outcome::Decoded(Box::new(decoded)));
        }
        // Of refused results keep the likeliest that does not repeat itself.
        let better = self.refused.as_ref().is_none_or(|other| {
            let key =
                |result: &Decoded| (result.compression <= options.compression_ratio_threshold, result.mean_logprob);
            key(&decoded).partial_cmp(&key(other)) == Some(std::cmp::Ordering::Greater)
        });
        if better {
            self.refused = Some(decoded);
        }
        if self.next_attempt(tokenizer, rows) {
            return None;
        }
        self.refused.take().map(|decoded| Outcome::Decoded(Box::new(decoded)))
    }

    fn decoded(&self, best: Option<Hypothesis>, tokenizer: &Tokenizer) -> Decoded {
        let mut tokens = self.job.options.prefix.clone();
        let mut log_probs = vec![0.0; tokens.len()];
        let mut mean_logprob = f32::NEG_INFINITY;
        if let Some(best) = best {
            mean_logprob = best.mean_logprob();
            tokens.extend(best.tokens);
            log_probs.extend(best.log_probs);
        }
        let text_tokens: Vec<u32> = tokens.iter().copied().filter(|&token| token < tokenizer.eot).collect();
        let text = tokenizer.decode(&text_tokens).trim().to_owned();
        Decoded {
            language: self.language.clone(),
            language_probability: self.language_probability,
            compression: compression_ratio(&text),
            log_probs: log_probs[..tokens.len()].to_vec(),
            tokens,
            text,
            mean_logprob,
            no_speech: self.no_speech,
            temperature: self.temperature,
            words: Vec::new(),
        }
    }
}

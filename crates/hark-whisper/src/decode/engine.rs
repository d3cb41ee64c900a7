//! The engine: decodes many windows in one batch, each at its own position in its text.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::timing::{Heads, Untimed};
use super::window::{CachedPrompt, Phase, Window};
use super::{DecodeOptions, Decoded};
use crate::backend::{Admission, AlignmentRequest, Backend, BackendError, Reencode};
use crate::tokenizer::Tokenizer;

/// One window to decode.
pub struct Job {
    /// The caller's number for it.
    pub id: u64,
    /// Log-mel values, frame-major, 3000 frames.
    pub mel: Arc<[f32]>,
    /// Frames of 20 ms with audio; the rest of the window is padding.
    pub frames: usize,
    /// How to decode it.
    pub options: Arc<DecodeOptions>,
    /// Priority: a higher number is more urgent; a step can skip lower ones.
    pub lane: u8,
    /// Set for a window that is decoded repeatedly while it grows (live audio).
    pub reencode: Option<Reencode>,
}

/// The outcome of a job.
#[derive(Debug)]
pub enum Outcome {
    /// The text.
    Decoded(Box<Decoded>),
    /// The text; its word times are still to be computed, on any thread but the engine's: see [`Outcome::timed`].
    Untimed(Box<Untimed>),
    /// The detected language is not certain enough: the probabilities, likeliest first.
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

/// Counts and times of an engine's work.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EngineStats {
    /// Encoded windows.
    pub encoded: (u64, Duration),
    /// Steps over prompts.
    pub prompted: (u64, Duration),
    /// Steps over single tokens.
    pub stepped: (u64, Duration),
    /// Texts aligned with the audio.
    pub aligned: (u64, Duration),
}

impl std::ops::Add for EngineStats {
    type Output = EngineStats;

    fn add(self, other: EngineStats) -> EngineStats {
        let add = |one: (u64, Duration), other: (u64, Duration)| (one.0 + other.0, one.1 + other.1);
        EngineStats {
            encoded: add(self.encoded, other.encoded),
            prompted: add(self.prompted, other.prompted),
            stepped: add(self.stepped, other.stepped),
            aligned: add(self.aligned, other.aligned),
        }
    }
}

/// Decodes jobs in the slots of a backend.
pub struct Engine<B: Backend> {
    backend: B,
    tokenizer: Arc<Tokenizer>,
    windows: Vec<Option<Window>>,
    /// Maximum tokens of the decoder.
    context: usize,
    /// The prompt whose KV cache is in the first row of each slot, of a window that may be decoded again.
    cached: Vec<Option<CachedPrompt>>,
    decodes: u64,
    stats: EngineStats,
}

/// Maximum tokens aligned in one step, unless a single text has more: bounds the pause of decoding to that of a step over a
/// long prompt.
const MAX_ALIGNED_PER_STEP: usize = 256;

/// Counts a unit of work that started at `since`.
fn add_work(work: &mut (u64, Duration), since: Instant) {
    work.0 += 1;
    work.1 += since.elapsed();
}

impl<B: Backend> Engine<B> {
    /// An engine over `backend`.
    pub fn new(backend: B, tokenizer: Arc<Tokenizer>) -> Self {
        let windows = (0..backend.slots()).map(|_| None).collect();
        let cached = (0..backend.slots()).map(|_| None).collect();
        let context = backend.dims().n_text_ctx;
        Engine { backend, tokenizer, windows, context, cached, decodes: 0, stats: EngineStats::default() }
    }

    /// The backend, for its name and sizes.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The tokenizer of the checkpoint.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Counts and times so far.
    pub fn stats(&self) -> EngineStats {
        self.stats
    }

    /// The number of windows being decoded.
    pub fn live(&self) -> usize {
        self.windows.iter().flatten().count()
    }

    /// The highest lane that is being decoded.
    pub fn highest_lane(&self) -> Option<u8> {
        self.windows.iter().flatten().map(|window| window.job.lane).max()
    }

    /// How many more windows can be admitted, limited by the backend's capacity.
    pub fn free(&self) -> usize {
        self.backend.capacity().min(self.windows.len()).saturating_sub(self.live())
    }

    /// The best number of windows to admit together.
    pub fn batch(&self) -> usize {
        self.backend.encode_batch().max(1)
    }

    /// Checks the device.
    pub fn health(&mut self) -> Result<(), BackendError> {
        self.backend.health()
    }

    /// Frees the memory of windows and workspaces; does nothing while a window is decoded.
    pub fn trim(&mut self) -> Result<(), BackendError> {
        if self.live() > 0 {
            return Ok(());
        }
        self.cached.iter_mut().for_each(|cached| *cached = None);
        self.backend.trim()
    }

    /// Encodes windows into free slots. On error none of them is admitted; [`BackendError::keeps_windows`] says whether the
    /// others can continue.
    ///
    /// # Panics
    /// When there are fewer free slots than jobs.
    pub fn admit(&mut self, jobs: Vec<Job>) -> Result<(), BackendError> {
        let mut slots: Vec<usize> = Vec::with_capacity(jobs.len());
        for job in &jobs {
            slots.push(self.free_slot(job, &slots).expect("a free slot"));
        }
        let cached: Vec<Option<CachedPrompt>> = slots.iter().map(|&slot| self.cached[slot].take()).collect();
        let admissions: Vec<Admission> = jobs
            .iter()
            .zip(&slots)
            .map(|(job, &slot)| Admission { slot, mel: &job.mel, reencode: job.reencode.as_ref() })
            .collect();
        let started = Instant::now();
        self.backend.encode(&admissions)?;
        self.stats.encoded.0 += jobs.len() as u64;
        self.stats.encoded.1 += started.elapsed();
        for ((job, slot), cached) in jobs.into_iter().zip(slots).zip(cached) {
            self.windows[slot] = Some(Window::new(job, cached, &self.tokenizer, self.context, self.backend.rows()));
        }
        Ok(())
    }

    /// The slot for a window: the one with its cached prompt, or else the first without a recently used one. Low slots are
    /// preferred, since every slot in use takes memory.
    fn free_slot(&self, job: &Job, taken: &[usize]) -> Option<usize> {
        let is_free = |slot: &usize| self.windows[*slot].is_none() && !taken.contains(slot);
        let free = || (0..self.windows.len()).filter(is_free);
        let look_of = |slot: usize| self.cached[slot].as_ref().map(|cached| cached.look);
        let is_recent = |look: &u64| look + 4 * self.windows.len() as u64 > self.decodes;
        let known = job.reencode.as_ref().and_then(|reencode| {
            free().find(|&slot| self.cached[slot].as_ref().is_some_and(|cached| cached.key == reencode.key))
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

    /// Advances every window of `min_lane` and above by one token, aligns complete texts, and returns the finished windows.
    ///
    /// # Errors
    /// The state of all windows is lost; they must be decoded again by another engine.
    pub fn step(&mut self, min_lane: u8) -> Result<Vec<(u64, Outcome)>, BackendError> {
        let mut done = Vec::new();
        self.decode(min_lane, &mut done)?;
        self.align(min_lane, &mut done)?;
        Ok(done)
    }

    fn decode(&mut self, min_lane: u8, done: &mut Vec<(u64, Outcome)>) -> Result<(), BackendError> {
        let mut entries = Vec::new();
        let mut shares: Vec<(usize, usize)> = Vec::new();
        for (slot, window) in self.windows.iter_mut().enumerate() {
            let decodes =
                |window: &&mut Window| window.job.lane >= min_lane && !matches!(window.phase, Phase::Aligning(_));
            if let Some(window) = window.as_mut().filter(decodes) {
                let before = entries.len();
                window.entries(slot, &self.tokenizer, &mut entries);
                shares.push((slot, entries[before..].iter().filter(|entry| entry.query.is_some()).count()));
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let answers = self.backend.step(&entries)?;
        if answers.len() != shares.iter().map(|(_, count)| count).sum::<usize>() {
            return Err(BackendError::Fault("a step has another number of answers than questions".to_owned()));
        }
        if !answers.iter().all(|answer| answer.has_no_nan()) {
            return Err(BackendError::Fault("the decoder's scores are not numbers".to_owned()));
        }
        let is_prompt = entries.iter().any(|entry| entry.query.is_none());
        add_work(if is_prompt { &mut self.stats.prompted } else { &mut self.stats.stepped }, started);
        let mut answers = answers.as_slice();
        for (slot, count) in shares {
            let (own, rest) = answers.split_at(count);
            answers = rest;
            let Some(window) = &mut self.windows[slot] else {
                continue;
            };
            let is_prompted = matches!(window.phase, Phase::Prompting(_));
            let outcome = window.absorb(own, &self.tokenizer, self.backend.rows());
            if let Some(reencode) = window.job.reencode.as_ref().filter(|_| is_prompted) {
                self.decodes += 1;
                self.cached[slot] = Some(CachedPrompt {
                    key: reencode.key,
                    look: self.decodes,
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

    /// Aligns complete texts, those of the highest lanes first, up to [`MAX_ALIGNED_PER_STEP`] tokens.
    fn align(&mut self, min_lane: u8, done: &mut Vec<(u64, Outcome)>) -> Result<(), BackendError> {
        let mut complete: Vec<(u8, usize, usize)> = self
            .windows
            .iter()
            .enumerate()
            .filter_map(|(slot, window)| match window {
                Some(Window { job, phase: Phase::Aligning(text), .. }) if job.lane >= min_lane => {
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
            tokens <= MAX_ALIGNED_PER_STEP || tokens == count
        };
        let slots: Vec<usize> = complete.into_iter().take_while(fits).map(|(_, slot, _)| slot).collect();
        let started = Instant::now();
        let requests: Vec<AlignmentRequest> = slots
            .iter()
            .filter_map(|&slot| match &self.windows[slot] {
                Some(Window { job, phase: Phase::Aligning(text), .. }) => {
                    Some(AlignmentRequest { slot, tokens: text.tokens(), first: 0, frames: job.frames })
                }
                _ => None,
            })
            .collect();
        let leading: Vec<usize> = slots
            .iter()
            .filter_map(|&slot| match &self.windows[slot] {
                Some(Window { phase: Phase::Aligning(text), .. }) => Some(text.leading()),
                _ => None,
            })
            .collect();
        let heads: Vec<Heads> = match self.backend.agree(&requests, &leading)? {
            Some(agreements) => agreements.into_iter().map(Heads::Agreement).collect(),
            None => self.backend.align(&requests)?.into_iter().map(Heads::Scores).collect(),
        };
        if heads.len() != slots.len() {
            return Err(BackendError::Fault("an alignment has no scores".to_owned()));
        }
        self.stats.aligned.0 += slots.len() as u64;
        self.stats.aligned.1 += started.elapsed();
        for (slot, heads) in slots.into_iter().zip(heads) {
            let Some(Window { job, phase: Phase::Aligning(mut text), .. }) = self.windows[slot].take() else {
                continue;
            };
            text.heads = heads;
            done.push((job.id, Outcome::Untimed(text)));
            self.backend.release(slot)?;
        }
        Ok(())
    }
}

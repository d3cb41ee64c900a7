//! The engine's thread: admits requests, computes steps, hands out tokens.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hark_compute::Compute;
use hark_compute::attention::paged::PAGE;
use hark_compute::quantized::FEW_ROWS;
use hark_transcript::Lane;

use super::draft::spare_rows;
use super::pacing::{ChunkSize, MIXED_STEP, PROMPT_STEP, Pacer, share_rows};
use super::prefix::PrefixCache;
use super::queue::{Queue, Waiting};
use super::sequence::{Choice, Running, pages_of};
use super::{EngineLimits, EngineStats, Request, Shared};
use crate::grammar::TokenTrie;
use crate::{BatchRow, KvCache, LmError, Model, TokenMask, Workspace};

/// What a generated token counts in the fairness between owners, in tokens of a prompt: computing it alone takes longer.
const GENERATED_WEIGHT: u64 = 4;
/// One owner, and the bulk lane, leave this part of sequences and pages to others.
const LEFT_TO_OTHERS: usize = 4;
/// Rows that a product of many rows computes together.
const ROW_BLOCK: usize = 32;

/// What a request has in a step.
struct Part {
    /// Its place among the running requests.
    index: usize,
    /// Its next tokens that are not computed yet.
    count: usize,
    /// Tokens behind those that may come next.
    draft: Vec<u32>,
}

/// What the engine's thread owns.
pub(super) struct Runner {
    model: Arc<Model>,
    cache: KvCache,
    prefixes: PrefixCache,
    workspace: Workspace,
    shared: Arc<Shared>,
    limits: EngineLimits,
    queue: Queue,
    running: Vec<Running>,
    /// Made for the first request with a grammar.
    trie: Option<TokenTrie>,
    mask: TokenMask,
    pacer: Pacer,
    chunk: ChunkSize,
    stats: EngineStats,
}

impl Runner {
    pub(super) fn new(model: Arc<Model>, cache: KvCache, shared: Arc<Shared>, limits: EngineLimits) -> Self {
        let mask = TokenMask::none(model.config.vocabulary);
        let stats = EngineStats { total_pages: cache.total_pages(), ..EngineStats::default() };
        let runner = Runner {
            model,
            cache,
            prefixes: PrefixCache::default(),
            workspace: Workspace::default(),
            shared,
            limits,
            queue: Queue::default(),
            running: Vec::new(),
            trie: None,
            mask,
            pacer: Pacer::default(),
            chunk: ChunkSize::default(),
            stats,
        };
        runner.shared.inbox().stats = EngineStats { free_pages: stats.total_pages, ..stats };
        runner
    }

    /// Serves until the engine is dropped. Whatever happens, every request gets an end.
    pub(super) fn run(mut self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.serve()));
        if let Err(panic) = &outcome {
            tracing::error!(error = panic_message(panic.as_ref()), "lm.engine_failed");
        }
        let mut inbox = self.shared.inbox();
        inbox.has_ended = true;
        inbox.waiting = 0;
        let arrived = std::mem::take(&mut inbox.arrived);
        drop(inbox);
        for mut waiting in arrived.into_iter().chain(self.queue.drain()) {
            waiting.output.end(Err(LmError::Stopped));
        }
        for mut running in self.running.drain(..) {
            running.fail(LmError::Stopped);
            running.end();
        }
    }

    fn serve(&mut self) {
        while self.receive() {
            self.queue.drop_closed();
            self.remove_finished();
            self.admit();
            // What was admitted waits no longer, so others may.
            self.publish_stats();
            if !self.running.is_empty() {
                self.step();
                self.remove_finished();
                self.publish_stats();
            }
        }
    }

    /// Takes new requests; waits for one while there is nothing to do. False when the engine is to stop.
    fn receive(&mut self) -> bool {
        let mut inbox = self.shared.inbox();
        loop {
            if self.shared.is_closing.load(Ordering::SeqCst) {
                return false;
            }
            if !inbox.arrived.is_empty() || self.queue.len() > 0 || !self.running.is_empty() {
                break;
            }
            inbox = self.shared.wake.wait(inbox).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let arrived = std::mem::take(&mut inbox.arrived);
        drop(inbox);
        for waiting in arrived {
            let running = &self.running;
            self.queue.push(waiting, |owner| running.iter().any(|running| running.owner == owner));
        }
        true
    }

    fn publish_stats(&mut self) {
        self.stats.running = self.running.len();
        self.stats.free_pages = self.cache.free_pages();
        self.stats.cached_pages = self.prefixes.evictable(&self.cache);
        let mut inbox = self.shared.inbox();
        inbox.waiting = inbox.arrived.len() + self.queue.len();
        inbox.stats = self.stats;
    }

    /// Ends what has an outcome, and what nobody wants; their pages are free or belong to the prefix cache.
    fn remove_finished(&mut self) {
        let mut index = 0;
        while index < self.running.len() {
            if !self.running[index].is_finished() && !self.running[index].is_closed() {
                index += 1;
                continue;
            }
            let running = self.running.remove(index);
            self.cache.remove(running.sequence);
            // Its pages count as used now.
            self.prefixes.find(running.owner, &running.tokens);
            running.end();
        }
    }

    /// Pages that running requests have not taken yet and may take.
    fn outstanding_pages(&self) -> usize {
        let outstanding =
            |running: &Running| running.reserved_pages().saturating_sub(self.cache.usable_pages(running.sequence));
        self.running.iter().map(outstanding).sum()
    }

    /// Whether admitting a request leaves enough to other owners and to more urgent lanes.
    fn leaves_room(&self, request: &Request) -> bool {
        let part_for_one = |all: usize| all - all / LEFT_TO_OTHERS;
        let of_owner = || self.running.iter().filter(|running| running.owner == request.owner);
        let of_bulk = self.running.iter().filter(|running| running.lane == Lane::Bulk).count();
        let sequences = part_for_one(self.limits.max_sequences.max(1));
        let pages = of_owner().map(Running::reserved_pages).sum::<usize>() + pages_of(request);
        let has_pages = pages <= part_for_one(self.cache.total_pages()) || of_owner().next().is_none();
        of_owner().count() < sequences && (request.lane > Lane::Bulk || of_bulk < sequences) && has_pages
    }

    /// Tokens of prompts that an owner's running requests still have to compute.
    fn pending_prompts(&self, owner: u64) -> u64 {
        let of_owner = self.running.iter().filter(|running| running.owner == owner);
        of_owner.map(|running| running.pending_prompt() as u64).sum()
    }

    /// Begins requests while the pages for their prompts and answers can be had: no request runs out of pages later.
    fn admit(&mut self) {
        while self.running.len() < self.limits.max_sequences.max(1) {
            let next = self.queue.next(|request| self.leaves_room(request), |owner| self.pending_prompts(owner));
            let Some(index) = next else { return };
            let request = self.queue.get(index);
            let prefix = self.prefixes.find(request.owner, &request.prompt);
            let needed = pages_of(request).saturating_sub(prefix.full_pages());
            let sequence = self.cache.create_from(&prefix.pages, prefix.length);
            let available = self.cache.free_pages() + self.prefixes.evictable(&self.cache);
            if available < self.outstanding_pages() + needed {
                self.cache.remove(sequence);
                if !self.running.is_empty() {
                    return;
                }
                let mut refused = self.queue.remove(index);
                refused.output.end(Err(LmError::CacheFull { pages: self.cache.total_pages() }));
                continue;
            }
            let Waiting { request, output, .. } = self.queue.remove(index);
            if request.grammar.is_some() && self.trie.is_none() {
                self.trie = Some(TokenTrie::new(self.model.tokenizer()));
            }
            let mut running = Running::new(request, output, sequence, prefix.length, prefix.key);
            running.append_forced(self.model.tokenizer());
            self.stats.cached_tokens += running.cached_tokens() as u64;
            self.running.push(running);
        }
    }

    /// Lets prompts go on from what others computed since they were admitted: questions to one text at the same time read it once.
    fn adopt_prefixes(&mut self) {
        let Runner { running, prefixes, cache, stats, .. } = self;
        for running in running.iter_mut().filter(|running| !running.is_finished() && !running.is_answering()) {
            let prefix = prefixes.find(running.owner, &running.tokens);
            // For less than a page of others it does not give up what it computed of that page.
            if prefix.full_pages() * PAGE <= running.computed {
                continue;
            }
            let sequence = cache.create_from(&prefix.pages, prefix.length);
            cache.remove(running.sequence);
            stats.cached_tokens += running.adopt(sequence, prefix.length, prefix.key) as u64;
        }
    }

    /// What each request has in the next step: all answers, then prompts as far as they fit. Rows that cost nearly nothing are for drafts of answers.
    fn compose(&self) -> Vec<Part> {
        let mut order: Vec<usize> =
            (0..self.running.len()).filter(|index| !self.running[*index].is_finished()).collect();
        order.sort_by_key(|index| {
            let running = &self.running[*index];
            (!running.is_answering(), Reverse(running.lane), self.queue.served(running.owner), *index)
        });
        let is_mixed = order.first().is_some_and(|index| self.running[*index].is_answering());
        let rows = match is_mixed {
            true => self.chunk.rows(MIXED_STEP, self.limits.mixed_prompt_rows),
            false => self.chunk.rows(PROMPT_STEP, self.limits.prompt_rows),
        };
        let prompts = order.iter().map(|index| &self.running[*index]).filter(|running| !running.is_answering());
        let prompts: Vec<(Lane, usize)> = prompts.map(|running| (running.lane, running.pending())).collect();
        let mut shares = share_rows(&prompts, rows).into_iter();
        let mut batch = Vec::new();
        for index in order {
            let running = &self.running[index];
            let count = if running.is_answering() { running.pending() } else { shares.next().unwrap_or(0) };
            if count > 0 {
                batch.push(Part { index, count, draft: Vec::new() });
            }
        }
        let mut spare = match self.limits.drafts {
            true => spare_rows(batch.iter().map(|part| part.count).sum(), FEW_ROWS, ROW_BLOCK),
            false => 0,
        };
        let is_answer = |part: &Part| self.running[part.index].is_answering();
        let mut answers = batch.iter().filter(|part| is_answer(part)).count();
        for part in batch.iter_mut().filter(|part| is_answer(part)) {
            part.draft = self.running[part.index].draft(spare.div_ceil(answers)).to_vec();
            spare -= part.draft.len();
            answers -= 1;
        }
        batch
    }

    /// The rows of a batch.
    fn rows(&self, batch: &[Part]) -> Vec<BatchRow> {
        let mut rows = Vec::new();
        for Part { index, count, draft } in batch {
            let running = &self.running[*index];
            let own = running.computed..running.computed + count;
            rows.extend(own.map(|position| BatchRow {
                sequence: running.sequence,
                token: running.tokens[position],
                wants_logits: position + 1 == running.tokens.len(),
            }));
            let drafted = |token: &u32| BatchRow { sequence: running.sequence, token: *token, wants_logits: true };
            rows.extend(draft.iter().map(drafted));
        }
        rows
    }

    /// Computes one batch and appends a token to every answer in it.
    fn step(&mut self) {
        self.adopt_prefixes();
        let batch = self.compose();
        if batch.is_empty() {
            return;
        }
        let rows = self.rows(&batch);
        let new_pages = |Part { index, count, draft }: &Part| {
            let running = &self.running[*index];
            let usable = self.cache.usable_pages(running.sequence);
            (running.computed + count + draft.len()).div_ceil(PAGE).saturating_sub(usable)
        };
        let wanted = batch.iter().map(new_pages).sum();
        self.prefixes.evict(&mut self.cache, wanted);
        let lane = batch.iter().map(|part| self.running[part.index].lane).max().unwrap_or_default();
        let model = Arc::clone(&self.model);
        let Runner { workspace, cache, running, shared, pacer, .. } = &mut *self;
        let give_way = GiveWay::new(&model.compute, pacer, lane);
        let is_cancelled = || {
            give_way.between_layers(&shared.is_closing);
            shared.is_closing.load(Ordering::SeqCst) || batch.iter().all(|part| running[part.index].is_closed())
        };
        let began = Instant::now();
        let outcome =
            catch_unwind(AssertUnwindSafe(|| model.forward(workspace, cache, &rows, &is_cancelled).map(|_| ())));
        // The logits come behind the last layer.
        give_way.count_work();
        let (elapsed, paused) = (began.elapsed(), give_way.paused.get());
        self.stats.forward_micros += elapsed.as_micros() as u64;
        self.stats.paused_micros += paused.as_micros() as u64;
        match outcome {
            Ok(Ok(())) => {
                self.chunk.observe(rows.len(), elapsed.saturating_sub(paused));
                self.advance(&batch);
            }
            Ok(Err(LmError::Cancelled)) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, requests = batch.len(), "lm.step_failed");
                batch.iter().for_each(|part| self.running[part.index].fail(copy_of(&error)));
            }
            Err(panic) => {
                let message = panic_message(panic.as_ref());
                tracing::error!(error = message, requests = batch.len(), "lm.step_panicked");
                // What the batch left in its workspace is not used again.
                self.workspace = Workspace::default();
                batch.iter().for_each(|part| self.running[part.index].fail(LmError::Panicked(message.to_owned())));
            }
        }
    }

    /// Chooses the next tokens, counts what was computed, keeps full pages.
    fn advance(&mut self, batch: &[Part]) {
        let (began, vocabulary) = (Instant::now(), self.model.config.vocabulary);
        self.stats.steps += 1;
        let Runner { model, workspace, cache, prefixes, running, queue, trie, mask, stats, .. } = self;
        let mut logits = workspace.logits().chunks_exact(vocabulary);
        for Part { index, count, draft } in batch {
            let running = &mut running[*index];
            let before = running.tokens.len();
            let of_prompt = running.add_computed(*count) as u64;
            stats.prompt_tokens += of_prompt;
            if running.pending() == 0 {
                let logits: Vec<&[f32]> = logits.by_ref().take(1 + draft.len()).collect();
                let trie = if running.has_grammar() { trie.as_ref() } else { None };
                let mut choice = Choice { tokenizer: model.tokenizer(), trie, mask: &mut *mask };
                let accepted = running.choose_with_draft(&mut choice, &logits, draft);
                stats.drafted_tokens += draft.len() as u64;
                stats.accepted_tokens += accepted as u64;
                // What was drafted and not chosen is forgotten; the sequence is there.
                let _ = cache.truncate(running.sequence, running.computed);
            }
            while let Some((number, tokens, parent)) = running.next_full_page() {
                let Some(page) = cache.pages(running.sequence).ok().and_then(|pages| pages.get(number)).copied() else {
                    break;
                };
                let key = prefixes.insert(cache, parent, tokens, page);
                running.page_kept(key);
            }
            let generated = (running.tokens.len() - before) as u64;
            stats.generated_tokens += generated;
            queue.charge(running.owner, of_prompt + generated * GENERATED_WEIGHT);
        }
        stats.choice_micros += began.elapsed().as_micros() as u64;
    }
}

/// Lets other models go first between layers: pauses while they compute and the pacer is in debt.
struct GiveWay<'a> {
    compute: &'a Compute,
    pacer: RefCell<&'a mut Pacer>,
    lane: Lane,
    resumed: Cell<Instant>,
    paused: Cell<Duration>,
}

/// How often it is asked whether others still compute.
const PAUSE_STEP: Duration = Duration::from_micros(500);

impl<'a> GiveWay<'a> {
    fn new(compute: &'a Compute, pacer: &'a mut Pacer, lane: Lane) -> Self {
        let (resumed, paused) = (Cell::new(Instant::now()), Cell::new(Duration::ZERO));
        GiveWay { compute, pacer: RefCell::new(pacer), lane, resumed, paused }
    }

    /// Counts the work since the last pause; returns the time.
    fn count_work(&self) -> Instant {
        let now = Instant::now();
        self.pacer.borrow_mut().worked(now.saturating_duration_since(self.resumed.replace(now)), self.lane);
        now
    }

    fn between_layers(&self, is_closing: &AtomicBool) {
        let mut before = self.count_work();
        let mut pacer = self.pacer.borrow_mut();
        while pacer.is_in_debt() && self.compute.is_foreground_active() && !is_closing.load(Ordering::SeqCst) {
            std::thread::sleep(PAUSE_STEP);
            let now = Instant::now();
            pacer.paused(now - before);
            self.paused.set(self.paused.get() + (now - before));
            before = now;
        }
        self.resumed.set(before);
    }
}

/// The error again, for the next request of a batch.
fn copy_of(error: &LmError) -> LmError {
    match error {
        LmError::NotFinite => LmError::NotFinite,
        LmError::CacheFull { pages } => LmError::CacheFull { pages: *pages },
        LmError::ContextFull { length, limit } => LmError::ContextFull { length: *length, limit: *limit },
        LmError::OutOfMemory { what, bytes } => LmError::OutOfMemory { what, bytes: *bytes },
        other => LmError::Invalid(other.to_string()),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

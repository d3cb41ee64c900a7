//! A request that is being computed.

use hark_compute::attention::paged::PAGE;
use hark_transcript::Lane;

use super::draft::Drafter;
use super::{Finish, Output, Request, TokenUsage};
use crate::grammar::{Matcher, TokenTrie};
use crate::{LmError, Sampler, SequenceId, TokenDecoder, TokenMask, Tokenizer};

/// The most tokens of a grammar's fixed text that are appended at once; a sequence with no more to compute counts as answering.
const MAX_FORCED: usize = 32;

/// A running request: its tokens, how far they are computed, and where its text goes.
pub(super) struct Running {
    pub(super) owner: u64,
    pub(super) lane: Lane,
    pub(super) sequence: SequenceId,
    /// Prompt, then answer.
    pub(super) tokens: Vec<u32>,
    /// How many of them are in the KV cache.
    pub(super) computed: usize,
    prompt: usize,
    /// How many of the prompt the prefix cache had.
    cached: usize,
    max_tokens: usize,
    /// Full pages that the prefix cache knows, and the key of the last.
    kept_pages: usize,
    prefix_key: u64,
    sampler: Sampler,
    drafter: Drafter,
    decoder: TokenDecoder,
    matcher: Option<Matcher>,
    output: Box<dyn Output>,
    /// Set when nothing more is to be computed.
    outcome: Option<Result<Finish, LmError>>,
}

/// What sequences need to choose tokens.
pub(super) struct Choice<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    /// There is one if a sequence has a grammar.
    pub(super) trie: Option<&'a TokenTrie>,
    pub(super) mask: &'a mut TokenMask,
}

/// Pages that prompt and answer of a request take.
pub(super) fn pages_of(request: &Request) -> usize {
    (request.prompt.len() + request.max_tokens).div_ceil(PAGE)
}

impl Running {
    /// Begins a request on a sequence that has the first `cached` tokens of its prompt.
    pub(super) fn new(
        request: Request,
        output: Box<dyn Output>,
        sequence: SequenceId,
        cached: usize,
        prefix_key: u64,
    ) -> Self {
        let Request { prompt: tokens, sampling, grammar, max_tokens, owner, lane } = request;
        Running {
            owner,
            lane,
            sequence,
            computed: cached,
            prompt: tokens.len(),
            tokens,
            cached,
            max_tokens,
            kept_pages: cached / PAGE,
            prefix_key,
            sampler: Sampler::new(sampling),
            drafter: Drafter::default(),
            decoder: TokenDecoder::default(),
            matcher: grammar.map(Matcher::new),
            output,
            outcome: None,
        }
    }

    /// Tokens that are not computed yet.
    pub(super) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Tokens of the prompt that are not computed yet.
    pub(super) fn pending_prompt(&self) -> usize {
        self.prompt.saturating_sub(self.computed)
    }

    /// At most `most` tokens that may come next, within the room that was reserved for the answer.
    pub(super) fn draft(&self, most: usize) -> &[u32] {
        // The last token that the answer may have is not computed.
        let room = (self.prompt + self.max_tokens).saturating_sub(self.tokens.len() + 1);
        self.drafter.draft(&self.tokens, most.min(room))
    }

    /// Chooses the next tokens by the logits behind the last token and behind each drafted one, as far as the draft is what is chosen. Returns how many of
    /// the drafted tokens are part of the answer now: they are computed.
    pub(super) fn choose_with_draft(&mut self, choice: &mut Choice, logits: &[&[f32]], draft: &[u32]) -> usize {
        let mut accepted = 0;
        while let Some(logits) = logits.get(accepted) {
            let before = self.tokens.len();
            self.choose(choice, logits);
            let chosen = &self.tokens[before..];
            let alike = chosen.iter().zip(&draft[accepted..]).take_while(|(one, other)| one == other).count();
            let is_all = alike == chosen.len() && !chosen.is_empty();
            accepted += alike;
            if !is_all || self.is_finished() {
                break;
            }
        }
        self.computed += accepted;
        self.drafter.observe(draft.len(), accepted);
        accepted
    }

    /// Counts tokens as computed and returns how many of them are of the prompt.
    pub(super) fn add_computed(&mut self, count: usize) -> usize {
        let of_prompt = count.min(self.pending_prompt());
        self.computed += count;
        of_prompt
    }

    /// Goes on from a sequence that others have computed as far as `length`, and returns how many tokens that saves.
    pub(super) fn adopt(&mut self, sequence: SequenceId, length: usize, prefix_key: u64) -> usize {
        let saved = length - self.computed;
        self.sequence = sequence;
        self.computed = length;
        self.kept_pages = length / PAGE;
        self.prefix_key = prefix_key;
        self.cached = (self.cached + saved).min(self.prompt);
        saved
    }

    /// Whether it waits for the next token of its answer, not for its prompt.
    pub(super) fn is_answering(&self) -> bool {
        self.computed >= self.prompt || self.pending() <= MAX_FORCED
    }

    /// Pages that it may take in all.
    pub(super) fn reserved_pages(&self) -> usize {
        (self.prompt + self.max_tokens).div_ceil(PAGE)
    }

    pub(super) fn cached_tokens(&self) -> usize {
        self.cached
    }

    pub(super) fn has_grammar(&self) -> bool {
        self.matcher.is_some()
    }

    /// Whether nobody wants the answer.
    pub(super) fn is_closed(&self) -> bool {
        self.output.is_closed()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.outcome.is_some()
    }

    pub(super) fn fail(&mut self, error: LmError) {
        self.outcome = Some(Err(error));
    }

    /// The next full page that was computed and is not known to the prefix cache: its number, its tokens and the key before it.
    pub(super) fn next_full_page(&self) -> Option<(usize, &[u32; PAGE], u64)> {
        let end = (self.kept_pages + 1) * PAGE;
        let tokens = self.tokens[..self.computed].get(end - PAGE..end)?.first_chunk()?;
        Some((self.kept_pages, tokens, self.prefix_key))
    }

    /// The prefix cache knows that page now.
    pub(super) fn page_kept(&mut self, key: u64) {
        self.kept_pages += 1;
        self.prefix_key = key;
    }

    /// Tokens of the answer so far.
    fn completion(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Chooses the next token by its logits, and appends it with the fixed text that its grammar has behind it.
    fn choose(&mut self, choice: &mut Choice, logits: &[f32]) {
        let mask = match (&self.matcher, choice.trie) {
            (Some(matcher), Some(trie)) => {
                trie.mask(matcher, choice.mask);
                if matcher.is_complete() {
                    choice.tokenizer.ends().iter().for_each(|token| choice.mask.allow(*token));
                }
                Some(&*choice.mask)
            }
            _ => None,
        };
        let Some(token) = self.sampler.sample(logits, &self.tokens, mask) else {
            self.fail(LmError::Schema("no token of the vocabulary continues the answer".to_owned()));
            return;
        };
        if choice.tokenizer.is_end(token) || choice.tokenizer.is_control(token) {
            self.outcome = Some(Ok(Finish::Stop));
            return;
        }
        self.append(choice.tokenizer, token);
        self.append_forced(choice.tokenizer);
    }

    /// Appends the text that its grammar allows no choice about.
    pub(super) fn append_forced(&mut self, tokenizer: &Tokenizer) {
        if self.is_finished() {
            return;
        }
        let Some(matcher) = &self.matcher else { return };
        let forced = matcher.forced();
        let text = match std::str::from_utf8(&forced.bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&forced.bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        let mut tokens = tokenizer.encode_continuation(text);
        if !forced.is_end {
            // The model may prefer a longer token to the last.
            tokens.pop();
        }
        for token in tokens.into_iter().take(MAX_FORCED) {
            if self.is_finished() {
                return;
            }
            self.append(tokenizer, token);
        }
    }

    fn append(&mut self, tokenizer: &Tokenizer, token: u32) {
        self.tokens.push(token);
        let piece = self.decoder.push(tokenizer, token);
        if !piece.is_empty() {
            self.output.text(piece);
        }
        let mut is_complete = false;
        if let Some(matcher) = &mut self.matcher {
            if !matcher.accept(tokenizer.bytes(token)) {
                self.fail(LmError::Schema("a token did not fit the grammar".to_owned()));
                return;
            }
            is_complete = matcher.is_complete();
            if matcher.is_end() {
                self.outcome = Some(Ok(Finish::Stop));
                return;
            }
        }
        if self.completion() >= self.max_tokens {
            self.outcome = Some(Ok(if is_complete { Finish::Stop } else { Finish::Length }));
        }
    }

    /// Sends the end of the answer.
    pub(super) fn end(mut self) {
        let usage =
            TokenUsage { prompt: self.prompt as u64, cached: self.cached as u64, completion: self.completion() as u64 };
        let outcome = self.outcome.take().unwrap_or(Err(LmError::Cancelled));
        if outcome.is_ok() {
            let rest = std::mem::take(&mut self.decoder).finish();
            if !rest.is_empty() {
                self.output.text(rest);
            }
        }
        self.output.end(outcome.map(|finish| (finish, usage)));
    }
}

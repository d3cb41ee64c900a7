//! The KV cache: pages of 32 positions, shared between sequences that begin alike.

use hark_compute::attention::paged::{KvLayout, PAGE};
use hark_compute::buffer::Buffer;

use crate::{Config, LmError};

/// A sequence of a [`KvCache`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceId(usize);

/// The pages of one sequence.
struct Sequence {
    pages: Vec<u32>,
    length: usize,
}

/// Keys and values of all sequences.
///
/// A page belongs to as many sequences as its count says. It is written only while it belongs to one: a sequence that appends
/// to a shared page gets a copy of it first.
pub struct KvCache {
    layout: KvLayout,
    memory: Buffer<u16>,
    /// Sequences that use each page.
    counts: Vec<u32>,
    free: Vec<u32>,
    sequences: Vec<Option<Sequence>>,
    context: usize,
}

impl KvCache {
    /// A cache for so many positions of a model's sequences, taken together; memory is touched as it is used.
    pub fn new(config: &Config, positions: usize) -> Result<Self, LmError> {
        let layout = KvLayout { layers: config.layers, kv_heads: config.kv_heads, head_dim: config.head_dim };
        let pages = positions.div_ceil(PAGE).min(u32::MAX as usize);
        let bytes = (pages as u64).saturating_mul(layout.page_elements() as u64).saturating_mul(2);
        let elements = usize::try_from(bytes / 2).ok().filter(|_| bytes <= 1 << 46);
        let memory =
            elements.and_then(Buffer::try_zeroed).ok_or(LmError::OutOfMemory { what: "the KV cache", bytes })?;
        let free = (0..pages as u32).rev().collect();
        Ok(KvCache { layout, memory, counts: vec![0; pages], free, sequences: Vec::new(), context: config.context })
    }

    /// Bytes that a cache for so many positions takes.
    pub fn bytes_for(config: &Config, positions: usize) -> u64 {
        let layout = KvLayout { layers: config.layers, kv_heads: config.kv_heads, head_dim: config.head_dim };
        (positions.div_ceil(PAGE) as u64).saturating_mul(layout.page_elements() as u64 * 2)
    }

    /// Pages of the cache.
    pub fn total_pages(&self) -> usize {
        self.counts.len()
    }

    /// Pages that no sequence uses.
    pub fn free_pages(&self) -> usize {
        self.free.len()
    }

    /// A sequence without tokens.
    pub fn create(&mut self) -> SequenceId {
        self.insert(Sequence { pages: Vec::new(), length: 0 })
    }

    fn insert(&mut self, sequence: Sequence) -> SequenceId {
        let place = self.sequences.iter().position(Option::is_none).unwrap_or_else(|| {
            self.sequences.push(None);
            self.sequences.len() - 1
        });
        self.sequences[place] = Some(sequence);
        SequenceId(place)
    }

    fn get(&self, id: SequenceId) -> Result<&Sequence, LmError> {
        let sequence = self.sequences.get(id.0).and_then(Option::as_ref);
        sequence.ok_or_else(|| LmError::Invalid(format!("there is no sequence {}", id.0)))
    }

    /// Tokens of a sequence.
    pub fn length(&self, id: SequenceId) -> Result<usize, LmError> {
        Ok(self.get(id)?.length)
    }

    /// A sequence that begins with the first `length` tokens of another and shares its pages.
    pub fn fork(&mut self, id: SequenceId, length: usize) -> Result<SequenceId, LmError> {
        let from = self.get(id)?;
        if length > from.length {
            return Err(LmError::Invalid(format!("the sequence has {} tokens, not {length}", from.length)));
        }
        let pages = from.pages[..length.div_ceil(PAGE)].to_vec();
        pages.iter().for_each(|page| self.counts[*page as usize] += 1);
        Ok(self.insert(Sequence { pages, length }))
    }

    /// Forgets all tokens of a sequence but the first `length`.
    pub fn truncate(&mut self, id: SequenceId, length: usize) -> Result<(), LmError> {
        self.get(id)?;
        if let Some(Some(sequence)) = self.sequences.get_mut(id.0) {
            sequence.length = sequence.length.min(length);
            let keep = sequence.length.div_ceil(PAGE);
            let gone = sequence.pages.split_off(keep.min(sequence.pages.len()));
            gone.into_iter().for_each(|page| self.release_page(page));
        }
        Ok(())
    }

    /// Ends a sequence; pages that nobody else uses are free again.
    pub fn remove(&mut self, id: SequenceId) {
        if let Some(sequence) = self.sequences.get_mut(id.0).and_then(Option::take) {
            sequence.pages.into_iter().for_each(|page| self.release_page(page));
        }
    }

    /// A sequence of the first `length` tokens of pages that are in use; it shares them.
    pub(crate) fn create_from(&mut self, pages: &[u32], length: usize) -> SequenceId {
        debug_assert_eq!(pages.len(), length.div_ceil(PAGE), "every page has a token of it");
        pages.iter().for_each(|page| self.retain_page(*page));
        self.insert(Sequence { pages: pages.to_vec(), length })
    }

    /// The page that the next token of a sequence goes to, where it has one and shares it: it is copied first.
    fn page_to_copy(&self, sequence: &Sequence) -> Option<u32> {
        sequence.pages.get(sequence.length / PAGE).copied().filter(|page| self.counts[*page as usize] > 1)
    }

    /// Pages of a sequence that it need not take again to go on.
    pub(crate) fn usable_pages(&self, id: SequenceId) -> usize {
        let usable = |sequence: &Sequence| sequence.pages.len() - usize::from(self.page_to_copy(sequence).is_some());
        self.get(id).map_or(0, usable)
    }

    /// How often a page is used.
    pub(crate) fn page_uses(&self, page: u32) -> u32 {
        self.counts[page as usize]
    }

    /// Uses a page that is in use once more.
    pub(crate) fn retain_page(&mut self, page: u32) {
        debug_assert!(self.counts[page as usize] > 0, "a free page has no contents");
        self.counts[page as usize] += 1;
    }

    /// Ends one use of a page.
    pub(crate) fn release_page(&mut self, page: u32) {
        self.counts[page as usize] -= 1;
        if self.counts[page as usize] == 0 {
            self.free.push(page);
        }
    }

    fn allocate(&mut self) -> Result<u32, LmError> {
        let page = self.free.pop().ok_or(LmError::CacheFull { pages: self.counts.len() })?;
        self.counts[page as usize] = 1;
        Ok(page)
    }

    /// Makes room for `count` more tokens; a shared page that they would be written to is copied. On an error nothing that
    /// the sequence holds has changed.
    pub(crate) fn reserve(&mut self, id: SequenceId, count: usize) -> Result<(), LmError> {
        let sequence = self.get(id)?;
        let (length, held) = (sequence.length, sequence.pages.len());
        let wanted = length.checked_add(count).filter(|wanted| *wanted <= self.context);
        let Some(wanted) = wanted else {
            return Err(LmError::ContextFull { length: length.saturating_add(count), limit: self.context });
        };
        let last = self.page_to_copy(sequence);
        if wanted.div_ceil(PAGE).saturating_sub(held) + usize::from(last.is_some()) > self.free.len() {
            return Err(LmError::CacheFull { pages: self.counts.len() });
        }
        if let Some(shared) = last {
            let own = self.allocate()?;
            let elements = self.layout.page_elements();
            let from = shared as usize * elements;
            self.memory.copy_within(from..from + elements, own as usize * elements);
            self.release_page(shared);
            self.sequence_mut(id).pages[length / PAGE] = own;
        }
        for _ in held..wanted.div_ceil(PAGE) {
            let page = self.allocate()?;
            self.sequence_mut(id).pages.push(page);
        }
        Ok(())
    }

    /// The sequence, which exists.
    fn sequence_mut(&mut self, id: SequenceId) -> &mut Sequence {
        self.sequences[id.0].as_mut().expect("the sequence was there a moment ago")
    }

    /// Counts tokens whose keys and values were written.
    pub(crate) fn commit(&mut self, id: SequenceId, count: usize) {
        self.sequence_mut(id).length += count;
    }

    /// The layout of a page.
    pub(crate) fn layout(&self) -> &KvLayout {
        &self.layout
    }

    /// The pages of a sequence.
    pub(crate) fn pages(&self, id: SequenceId) -> Result<&[u32], LmError> {
        Ok(&self.get(id)?.pages)
    }

    /// The memory of all pages.
    pub(crate) fn memory(&self) -> &[u16] {
        &self.memory
    }

    /// Writes keys and values (halves, all KV heads) of a layer at a position that has a page.
    pub(crate) fn store(&mut self, id: SequenceId, layer: usize, position: usize, keys: &[u16], values: &[u16]) {
        let page = self.sequence_mut(id).pages[position / PAGE] as usize;
        debug_assert_eq!(self.counts[page], 1, "a shared page is never written");
        let elements = self.layout.page_elements();
        let page = &mut self.memory[page * elements..(page + 1) * elements];
        self.layout.store(page, layer, position % PAGE, keys, values);
    }
}

//! The prefix cache: full pages of earlier sequences, found by the tokens before and in them. Of the page behind them a sequence
//! may share the beginning.
//!
//! A page's key is a hash of its tokens and of the key of the page before it, so it stands for the whole text up to its end. The first
//! key of a chain is that of the owner: nobody can tell by the time of an answer what others have asked.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hark_compute::attention::paged::PAGE;

use crate::KvCache;

/// Pages that stay after their sequences, each used once by this cache.
#[derive(Default)]
pub(super) struct PrefixCache {
    /// Its keys are random, so nobody can make up texts whose hashes are equal.
    hasher: RandomState,
    entries: HashMap<u64, Entry>,
    /// The keys of the pages behind each page.
    children: HashMap<u64, Vec<u64>>,
    clock: u64,
}

/// What is known of a text's beginning.
pub(super) struct Prefix {
    /// Its pages; the last may have tokens of another text behind the prefix.
    pub(super) pages: Vec<u32>,
    /// Tokens of the prefix.
    pub(super) length: usize,
    /// The key of the last page that is full of them.
    pub(super) key: u64,
}

impl Prefix {
    /// Pages that are full of its tokens.
    pub(super) fn full_pages(&self) -> usize {
        self.length / PAGE
    }
}

struct Entry {
    page: u32,
    parent: u64,
    tokens: [u32; PAGE],
    last_used: u64,
}

impl PrefixCache {
    /// The key that the texts of an owner begin with.
    pub(super) fn root(&self, owner: u64) -> u64 {
        self.hasher.hash_one(("owner", owner))
    }

    fn key(&self, parent: u64, tokens: &[u32; PAGE]) -> u64 {
        self.hasher.hash_one((parent, tokens))
    }

    /// The longest known prefix, without the last token, whose logits are wanted.
    pub(super) fn find(&mut self, owner: u64, tokens: &[u32]) -> Prefix {
        let (mut pages, mut keys, mut parent) = (Vec::new(), Vec::new(), self.root(owner));
        let known = tokens.split_last().map_or(&[][..], |(_, before)| before);
        for tokens in known.as_chunks::<PAGE>().0 {
            let key = self.key(parent, tokens);
            let Some(entry) = self.entries.get(&key) else { break };
            if entry.parent != parent || entry.tokens != *tokens {
                break;
            }
            pages.push(entry.page);
            keys.push(key);
            parent = key;
        }
        let mut length = pages.len() * PAGE;
        if let Some((key, alike)) = self.most_alike(parent, &known[length..]) {
            pages.extend(self.entries.get(&key).map(|entry| entry.page));
            keys.push(key);
            length += alike;
        }
        // Later pages are evicted first: they are of no use without those before them.
        for key in keys.iter().rev() {
            self.clock += 1;
            if let Some(entry) = self.entries.get_mut(key) {
                entry.last_used = self.clock;
            }
        }
        Prefix { pages, length, key: parent }
    }

    /// The page behind the one with key `parent` that begins with the most of these tokens, and how many they are.
    fn most_alike(&self, parent: u64, tokens: &[u32]) -> Option<(u64, usize)> {
        let alike = |key: &u64| {
            let entry = self.entries.get(key).filter(|entry| entry.parent == parent)?;
            Some((*key, entry.tokens.iter().zip(tokens).take_while(|(one, other)| one == other).count()))
        };
        let known = self.children.get(&parent)?.iter().filter_map(alike);
        known.max_by_key(|(_, alike)| *alike).filter(|(_, alike)| *alike > 0)
    }

    /// Keeps a full page behind the one with key `parent`, unless a page with these tokens is known; returns its key.
    pub(super) fn insert(&mut self, cache: &mut KvCache, parent: u64, tokens: &[u32; PAGE], page: u32) -> u64 {
        let key = self.key(parent, tokens);
        if let std::collections::hash_map::Entry::Vacant(place) = self.entries.entry(key) {
            self.clock += 1;
            cache.retain_page(page);
            place.insert(Entry { page, parent, tokens: *tokens, last_used: self.clock });
            self.children.entry(parent).or_default().push(key);
        }
        key
    }

    /// Pages that only this cache uses.
    pub(super) fn evictable(&self, cache: &KvCache) -> usize {
        self.entries.values().filter(|entry| cache.page_uses(entry.page) == 1).count()
    }

    /// Gives up the pages that were not used for longest, until the cache has `wanted` free ones or none is left.
    pub(super) fn evict(&mut self, cache: &mut KvCache, wanted: usize) {
        let missing = wanted.saturating_sub(cache.free_pages());
        if missing == 0 {
            return;
        }
        // A few more at once, so that the next steps need not search.
        let count = missing + cache.total_pages() / 32;
        let unused = self.entries.iter().filter(|(_, entry)| cache.page_uses(entry.page) == 1);
        let mut oldest: Vec<(u64, u64)> = unused.map(|(key, entry)| (entry.last_used, *key)).collect();
        if count < oldest.len() {
            oldest.select_nth_unstable(count);
            oldest.truncate(count);
        }
        for (_, key) in oldest {
            let Some(entry) = self.entries.remove(&key) else { continue };
            cache.release_page(entry.page);
            if let std::collections::hash_map::Entry::Occupied(mut siblings) = self.children.entry(entry.parent) {
                siblings.get_mut().retain(|sibling| *sibling != key);
                if siblings.get().is_empty() {
                    siblings.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, Config, RopeStyle};
    use hark_compute::row_ops::Gate;

    fn cache(pages: usize) -> KvCache {
        let config = Config {
            architecture: Architecture::Llama,
            layers: 1,
            width: 32,
            feed_forward: 32,
            heads: 1,
            kv_heads: 1,
            head_dim: 32,
            vocabulary: 10,
            context: 10_000,
            norm_epsilon: 1e-5,
            rope_base: 1e4,
            rope_factor: 1.0,
            rope_dims: 32,
            rope_style: RopeStyle::Halves,
            local_rope_base: 1e4,
            rope_magnitude: 1.0,
            original_context: 10_000,
            activation: Gate::Silu,
            embedding_scale: 1.0,
            attention_scale: 1.0,
            attention_softcap: None,
            logit_softcap: None,
            window: None,
            window_pattern: 1,
        };
        KvCache::new(&config, pages * PAGE).expect("there is memory")
    }

    /// Computes nothing, but keeps all full pages of a sequence with these tokens.
    fn keep(prefixes: &mut PrefixCache, cache: &mut KvCache, owner: u64, tokens: &[u32]) {
        let sequence = cache.create();
        cache.reserve(sequence, tokens.len()).expect("there is room");
        cache.commit(sequence, tokens.len());
        let mut parent = prefixes.root(owner);
        for (index, tokens) in tokens.as_chunks::<PAGE>().0.iter().enumerate() {
            let page = cache.pages(sequence).expect("it is there")[index];
            parent = prefixes.insert(cache, parent, tokens, page);
        }
        cache.remove(sequence);
        prefixes.find(owner, tokens);
    }

    /// Full pages of the longest prefix, and its tokens.
    fn found(prefixes: &mut PrefixCache, owner: u64, tokens: &[u32]) -> (usize, usize) {
        let prefix = prefixes.find(owner, tokens);
        (prefix.full_pages(), prefix.length)
    }

    #[test]
    fn the_longest_prefix_is_found_and_only_by_its_owner() {
        let (mut prefixes, mut cache) = (PrefixCache::default(), cache(8));
        let tokens: Vec<u32> = (0..100).collect();
        keep(&mut prefixes, &mut cache, 1, &tokens);
        assert_eq!(cache.free_pages(), 5, "three full pages stay, the fourth does not");
        assert_eq!(found(&mut prefixes, 1, &tokens), (3, 96));
        assert_eq!(found(&mut prefixes, 1, &tokens[..96]), (2, 95), "the last token has to be computed");
        assert_eq!(found(&mut prefixes, 2, &tokens), (0, 0), "another owner");
        let mut other = tokens.clone();
        other[40] = 7;
        assert_eq!(found(&mut prefixes, 1, &other), (1, 40), "the second page differs from its ninth token on");
        assert_eq!(found(&mut prefixes, 1, &tokens[32..]), (0, 0), "a page stands for everything before it");
    }

    #[test]
    fn the_page_that_shares_most_of_the_rest_is_found_until_it_is_evicted() {
        let (mut prefixes, mut cache) = (PrefixCache::default(), cache(8));
        let text = |question: &[u32]| -> Vec<u32> { (0..32).chain(question.iter().copied()).chain(500..540).collect() };
        keep(&mut prefixes, &mut cache, 1, &text(&[100, 101, 102, 103]));
        keep(&mut prefixes, &mut cache, 1, &text(&[100, 101, 200, 201]));
        assert_eq!(found(&mut prefixes, 1, &text(&[100, 101, 102, 300])), (1, 35));
        assert_eq!(found(&mut prefixes, 1, &text(&[100, 101, 200, 300])), (1, 35));
        assert_eq!(found(&mut prefixes, 1, &text(&[100, 300])), (1, 33));
        assert_eq!(found(&mut prefixes, 1, &text(&[300])), (1, 32));
        assert_eq!(prefixes.find(1, &text(&[300])).pages.len(), 1, "a page without a token of it is none of it");
        let all = cache.total_pages();
        prefixes.evict(&mut cache, all);
        assert_eq!(cache.free_pages(), all);
        assert!(prefixes.children.is_empty());
        assert_eq!(found(&mut prefixes, 1, &text(&[100])), (0, 0));
    }

    #[test]
    fn the_oldest_unused_pages_are_evicted_and_used_ones_stay() {
        let (mut prefixes, mut cache) = (PrefixCache::default(), cache(8));
        let first: Vec<u32> = (0..65).collect();
        let second: Vec<u32> = (100..165).collect();
        keep(&mut prefixes, &mut cache, 1, &first);
        keep(&mut prefixes, &mut cache, 1, &second);
        let Prefix { pages, length, .. } = prefixes.find(1, &first);
        assert_eq!((cache.free_pages(), prefixes.evictable(&cache)), (4, 4));
        let sequence = cache.create_from(&pages, length);
        assert_eq!(prefixes.evictable(&cache), 2);
        prefixes.evict(&mut cache, 5);
        assert_eq!(cache.free_pages(), 5);
        assert_eq!(found(&mut prefixes, 1, &second), (1, 32), "its later page went first");
        prefixes.evict(&mut cache, 8);
        assert_eq!((cache.free_pages(), found(&mut prefixes, 1, &first).0), (6, 2), "a running sequence uses these");
        cache.remove(sequence);
        let all = cache.total_pages();
        prefixes.evict(&mut cache, all);
        assert_eq!(cache.free_pages(), cache.total_pages());
    }
}

//! The prefix cache: full pages of earlier sequences, found by the tokens before and in them.
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
    clock: u64,
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

    /// The pages of the longest known prefix, without the last token, whose logits are wanted; and the key of the last page.
    pub(super) fn find(&mut self, owner: u64, tokens: &[u32]) -> (Vec<u32>, u64) {
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
        // Later pages are evicted first: they are of no use without those before them.
        for key in keys.iter().rev() {
            self.clock += 1;
            if let Some(entry) = self.entries.get_mut(key) {
                entry.last_used = self.clock;
            }
        }
        (pages, parent)
    }

    /// Keeps a full page behind the one with key `parent`, unless a page with these tokens is known; returns its key.
    pub(super) fn insert(&mut self, cache: &mut KvCache, parent: u64, tokens: &[u32; PAGE], page: u32) -> u64 {
        let key = self.key(parent, tokens);
        if let std::collections::hash_map::Entry::Vacant(place) = self.entries.entry(key) {
            self.clock += 1;
            cache.retain_page(page);
            place.insert(Entry { page, parent, tokens: *tokens, last_used: self.clock });
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
            if let Some(entry) = self.entries.remove(&key) {
                cache.release_page(entry.page);
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

    #[test]
    fn the_longest_prefix_is_found_and_only_by_its_owner() {
        let (mut prefixes, mut cache) = (PrefixCache::default(), cache(8));
        let tokens: Vec<u32> = (0..100).collect();
        keep(&mut prefixes, &mut cache, 1, &tokens);
        assert_eq!(cache.free_pages(), 5, "three full pages stay, the fourth does not");
        assert_eq!(prefixes.find(1, &tokens).0.len(), 3);
        assert_eq!(prefixes.find(1, &tokens[..96]).0.len(), 2, "the last token has to be computed");
        assert_eq!(prefixes.find(2, &tokens).0.len(), 0, "another owner");
        let mut other = tokens.clone();
        other[40] = 7;
        assert_eq!(prefixes.find(1, &other).0.len(), 1, "the second page differs");
        assert_eq!(prefixes.find(1, &tokens[32..]).0.len(), 0, "a page stands for everything before it");
    }

    #[test]
    fn the_oldest_unused_pages_are_evicted_and_used_ones_stay() {
        let (mut prefixes, mut cache) = (PrefixCache::default(), cache(8));
        let first: Vec<u32> = (0..65).collect();
        let second: Vec<u32> = (100..165).collect();
        keep(&mut prefixes, &mut cache, 1, &first);
        keep(&mut prefixes, &mut cache, 1, &second);
        let (pages, _) = prefixes.find(1, &first);
        assert_eq!((cache.free_pages(), prefixes.evictable(&cache)), (4, 4));
        let sequence = cache.create_from(&pages);
        assert_eq!(prefixes.evictable(&cache), 2);
        prefixes.evict(&mut cache, 5);
        assert_eq!(cache.free_pages(), 5);
        assert_eq!(prefixes.find(1, &second).0.len(), 1, "its later page went first");
        prefixes.evict(&mut cache, 8);
        assert_eq!((cache.free_pages(), prefixes.find(1, &first).0.len()), (6, 2), "a running sequence uses these");
        cache.remove(sequence);
        let all = cache.total_pages();
        prefixes.evict(&mut cache, all);
        assert_eq!(cache.free_pages(), cache.total_pages());
    }
}

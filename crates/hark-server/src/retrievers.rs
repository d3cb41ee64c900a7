//! Indexes of long transcripts that were asked about lately, in memory.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};

use hark_store::TranscriptId;
use hark_text::Source;
use hark_text::retrieve::Retriever;

/// Bytes of all indexes together: some hundred hours of speech with their vectors.
const MAX_BYTES: usize = 64 << 20;

/// A transcript as it was when it was indexed: another text is another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TextVersion {
    transcript: TranscriptId,
    hash: u64,
}

impl TextVersion {
    pub(crate) fn of(transcript: TranscriptId, source: &Source) -> Self {
        let mut hash = DefaultHasher::new();
        source.text().hash(&mut hash);
        source.speakers().hash(&mut hash);
        TextVersion { transcript, hash: hash.finish() }
    }
}

/// Indexes by text version, the least recently used of which is dropped first.
#[derive(Default)]
pub(crate) struct Retrievers(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_version: HashMap<TextVersion, Entry>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
}

struct Entry {
    retriever: Arc<Retriever>,
    bytes: usize,
    used: u64,
}

impl Retrievers {
    pub(crate) fn get(&self, version: &TextVersion) -> Option<Arc<Retriever>> {
        let mut entries = self.lock();
        entries.clock += 1;
        let now = entries.clock;
        let entry = entries.by_version.get_mut(version)?;
        entry.used = now;
        Some(Arc::clone(&entry.retriever))
    }

    pub(crate) fn insert(&self, version: TextVersion, retriever: Arc<Retriever>) {
        let mut entries = self.lock();
        entries.clock += 1;
        let (used, bytes) = (entries.clock, retriever.bytes());
        if bytes > MAX_BYTES {
            return;
        }
        // The version of a text before an edit is of no use any more.
        let stale: Vec<TextVersion> =
            entries.by_version.keys().filter(|other| other.transcript == version.transcript).copied().collect();
        stale.iter().for_each(|version| entries.remove(version));
        while entries.bytes + bytes > MAX_BYTES {
            let oldest = entries.by_version.iter().min_by_key(|(_, entry)| entry.used).map(|(version, _)| *version);
            let Some(oldest) = oldest else { break };
            entries.remove(&oldest);
        }
        entries.bytes += bytes;
        entries.by_version.insert(version, Entry { retriever, bytes, used });
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Entries {
    fn remove(&mut self, version: &TextVersion) {
        if let Some(entry) = self.by_version.remove(version) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(text: &str, numbers: usize) -> (Source, Arc<Retriever>) {
        let source = Source::from_text(text);
        let retriever = Retriever::new(&source).with_vectors(vec![vec![0.0; numbers]]);
        (source, Arc::new(retriever))
    }

    #[test]
    fn an_edit_and_a_newer_transcript_replace_what_was_kept() {
        let retrievers = Retrievers::default();
        let third = MAX_BYTES / 4 / 3;
        let mut versions = Vec::new();
        for id in 1..=4 {
            let (source, retriever) = index("The same text for all.", third);
            let version = TextVersion::of(TranscriptId(id), &source);
            retrievers.insert(version, retriever);
            versions.push(version);
            // The first is used all the time.
            assert!(retrievers.get(&versions[0]).is_some(), "{id}");
        }
        let kept: Vec<bool> = versions.iter().map(|version| retrievers.get(version).is_some()).collect();
        assert_eq!(kept, [true, false, false, true]);
        let (source, retriever) = index("An edited text.", 1);
        let edited = TextVersion::of(TranscriptId(1), &source);
        retrievers.insert(edited, retriever);
        assert!(retrievers.get(&edited).is_some() && retrievers.get(&versions[0]).is_none());
        let (source, retriever) = index("Too large.", MAX_BYTES);
        let large = TextVersion::of(TranscriptId(9), &source);
        retrievers.insert(large, retriever);
        assert!(retrievers.get(&large).is_none() && retrievers.get(&edited).is_some());
    }
}

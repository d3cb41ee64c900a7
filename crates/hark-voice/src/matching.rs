//! Voices that resemble a reference clip.
//!
//! The clip is checked for speech and for a single voice, then `hark-tts` searches for a voice by speaker embeddings. Which voices were found is remembered by the
//! hash of the clip, in memory and for as long as the models are loaded.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use hark_media::{CancelToken, SAMPLE_RATE};
use hark_speakers::Embedder;
use hark_speakers::cluster::{Cluster, Embedding, average_linkage, centred, cut_into, dot};
use hark_speech::Compute;
use hark_speech::vad::{SAMPLES_PER_PROBABILITY, SileroVad, VadStream};
use hark_tts::{EmbedSpeech, MatchReport, SearchBudget, SpeechModel, Voice, VoiceMatcher};

use crate::VoiceError;
use crate::listened;
use crate::reference::Reference;
use crate::voices::PresetVoice;

/// The probability from which 32 ms count as speech.
const IS_SPEECH: f32 = 0.5;
/// Least seconds of speech in a clip.
const LEAST_SPEECH: f64 = 2.0;
/// Seconds of a piece that is embedded, and from one to the next.
const PIECE: f64 = 1.5;
const HOP: f64 = 0.5;
/// Least pieces of a second voice: two and a half seconds.
const LEAST_PIECES: usize = 3;
/// Below this cosine similarity two groups of pieces are of two people. Five clips of one person had 0.68 and more, six of two people 0.48 and less
/// (readings and a telephone call).
const OTHER_VOICE: f32 = 0.55;
/// Tries after which a search ends even within its time.
const MOST_TRIES: usize = 200;
/// Voices that are remembered.
const REMEMBERED: usize = 64;

/// A voice that was found for a clip.
#[derive(Debug, Clone)]
pub(crate) struct MatchedVoice {
    pub(crate) voice: Voice,
    pub(crate) report: MatchReport,
}

/// What compares voices, loaded with the first reference.
pub(crate) struct SharedMatching {
    compute: Compute,
    /// The networks of voice activity and of speaker embeddings.
    folders: Option<(PathBuf, PathBuf)>,
    /// The speech model, whose voices are compared.
    model: PathBuf,
    loaded: Mutex<Option<Arc<Matching>>>,
}

impl SharedMatching {
    pub(crate) fn new(compute: &Compute, folders: Option<(PathBuf, PathBuf)>, model: PathBuf) -> Self {
        SharedMatching { compute: compute.clone(), folders, model, loaded: Mutex::default() }
    }

    pub(crate) fn get(&self) -> Result<Arc<Matching>, VoiceError> {
        let (vad, embedding) = self.folders.as_ref().ok_or(VoiceError::NoMatching)?;
        let mut loaded = lock(&self.loaded);
        if let Some(matching) = &*loaded {
            return Ok(Arc::clone(matching));
        }
        let matching = Arc::new(Matching::load(&self.compute, vad, embedding, &self.model)?);
        Ok(Arc::clone(loaded.insert(matching)))
    }
}

/// What compares voices.
pub(crate) struct Matching {
    /// The speech model and the network of speaker embeddings.
    folders: [PathBuf; 2],
    vad: Arc<SileroVad>,
    embedder: Arc<Mutex<Embedder>>,
    /// By the language whose voices they know; each has listened to them once.
    matchers: Mutex<BTreeMap<&'static str, VoiceMatcher>>,
    found: Mutex<VecDeque<(FoundKey, Arc<MatchedVoice>)>>,
}

/// The clip and the language whose voices were searched.
type FoundKey = ([u8; 32], &'static str);

/// How often a wait for a lock looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(20);

/// Waits for a lock that another search holds for seconds, unless it is called off.
fn lock_unless<'a, T>(mutex: &'a Mutex<T>, is_cancelled: &dyn Fn() -> bool) -> Result<MutexGuard<'a, T>, VoiceError> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if is_cancelled() => return Err(VoiceError::Cancelled),
            Err(TryLockError::WouldBlock) => std::thread::sleep(GLANCE),
        }
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a panic only buffers are in an unknown state, and the next call overwrites them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Matching {
    fn load(compute: &Compute, vad: &Path, embedding: &Path, model: &Path) -> Result<Self, VoiceError> {
        Ok(Matching {
            folders: [model, embedding].map(Path::to_owned),
            vad: Arc::new(SileroVad::load(vad)?),
            embedder: Arc::new(Mutex::new(Embedder::load(embedding, compute)?)),
            matchers: Mutex::default(),
            found: Mutex::default(),
        })
    }

    /// The voice for a clip, from memory or searched for as long as `time`. `own` is the code of the language whose own voices are candidates beside the English ones.
    pub(crate) fn find(
        &self,
        model: &dyn SpeechModel,
        reference: &Reference,
        own: &'static str,
        time: Duration,
        cancel: &CancelToken,
    ) -> Result<Arc<MatchedVoice>, VoiceError> {
        let key = (reference.hash, own);
        if let Some(found) = self.remembered(&key) {
            return Ok(found);
        }
        self.check(&reference.samples)?;
        let is_cancelled = || cancel.is_cancelled();
        // One search at a time: each uses all threads.
        let mut matchers = lock_unless(&self.matchers, &is_cancelled)?;
        if let Some(found) = self.remembered(&key) {
            return Ok(found);
        }
        if is_cancelled() {
            return Err(VoiceError::Cancelled);
        }
        if !matchers.contains_key(own) {
            let is_candidate = |voice: &&Voice| {
                PresetVoice::of_name(voice.name())
                    .is_some_and(|one| one.language.starts_with("en") || one.language == own)
            };
            let candidates: Vec<Voice> = model.voices().iter().filter(is_candidate).cloned().collect();
            let matcher = self.matcher(model, candidates, own, &is_cancelled)?;
            matchers.insert(own, matcher);
        }
        let Some(matcher) = matchers.get_mut(own) else { return Err(VoiceError::NoMatching) };
        let seed = u64::from_le_bytes(*reference.hash.first_chunk().unwrap_or(&[0; 8]));
        let budget = SearchBudget { time, tries: MOST_TRIES };
        let (voice, report) = matcher.match_voice(model, &reference.samples, budget, seed, &is_cancelled)?;
        let found = Arc::new(MatchedVoice { voice, report });
        let mut all = lock(&self.found);
        all.push_back((key, Arc::clone(&found)));
        if all.len() > REMEMBERED {
            all.pop_front();
        }
        Ok(found)
    }

    /// Knows what the candidates sound like: from the file beside the model, or by listening to each.
    fn matcher(
        &self,
        model: &dyn SpeechModel,
        candidates: Vec<Voice>,
        own: &'static str,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<VoiceMatcher, VoiceError> {
        let file = listened::path(&self.folders[0], &self.folders[1], &candidates);
        if let Some(embeddings) = listened::read(&file, candidates.len()) {
            return Ok(VoiceMatcher::with_embeddings(candidates, embeddings, self.embed()));
        }
        let begun = Instant::now();
        let matcher = VoiceMatcher::new(model, candidates, self.embed(), is_cancelled)?;
        tracing::info!(language = own, seconds = begun.elapsed().as_secs_f64(), "voice.listened");
        if let Err(error) = listened::write(&file, matcher.embeddings()) {
            tracing::debug!(%error, "voice.not_remembered");
        }
        Ok(matcher)
    }

    fn remembered(&self, key: &FoundKey) -> Option<Arc<MatchedVoice>> {
        let all = lock(&self.found);
        all.iter().find(|(one, _)| one == key).map(|(_, found)| Arc::clone(found))
    }

    fn embed(&self) -> EmbedSpeech {
        let embedder = Arc::clone(&self.embedder);
        // Without their mean, embeddings of strangers are near orthogonal.
        Box::new(move |pieces| lock(&embedder).embed(pieces).iter().map(|vector| centred(vector).to_vec()).collect())
    }

    /// Whether one person speaks in a clip, long enough.
    pub(crate) fn check(&self, samples: &[f32]) -> Result<(), VoiceError> {
        let speech = self.speech_of(samples);
        let found = speech.len() as f64 / f64::from(SAMPLE_RATE);
        if found < LEAST_SPEECH {
            return Err(VoiceError::ReferenceSpeech { found, needed: LEAST_SPEECH });
        }
        let (piece, hop) = ((PIECE * f64::from(SAMPLE_RATE)) as usize, (HOP * f64::from(SAMPLE_RATE)) as usize);
        let starts = (0..=speech.len().saturating_sub(piece)).step_by(hop);
        let pieces: Vec<&[f32]> = starts.map(|start| &speech[start..speech.len().min(start + piece)]).collect();
        let embedded: Vec<Embedding> = lock(&self.embedder).embed(&pieces).iter().map(centred).collect();
        match similarity_of_two(embedded) {
            Some(similarity) if similarity < OTHER_VOICE => Err(VoiceError::ReferenceVoices),
            _ => Ok(()),
        }
    }

    /// The samples of a clip in which somebody speaks.
    fn speech_of(&self, samples: &[f32]) -> Vec<f32> {
        let (mut stream, mut probabilities) = (VadStream::with_gain_control(&self.vad), Vec::new());
        stream.push(samples, &mut probabilities);
        stream.finish(&mut probabilities);
        let chunks = samples.chunks(SAMPLES_PER_PROBABILITY).zip(probabilities);
        chunks.filter(|(_, probability)| *probability >= IS_SPEECH).flat_map(|(chunk, _)| chunk).copied().collect()
    }
}

/// Cosine similarity of the two groups into which the pieces of a clip fall; none where no second group is large enough. Few pieces that are like no other, such as
/// those in which the voice changes, are left out.
fn similarity_of_two(mut pieces: Vec<Embedding>) -> Option<f32> {
    while pieces.len() >= 2 * LEAST_PIECES {
        let leaves: Vec<Cluster> = pieces.iter().map(|piece| Cluster::new(piece, HOP as f32)).collect();
        let groups = cut_into(&average_linkage(&leaves), leaves.len(), 2);
        let second = groups.iter().filter(|group| **group == 1).count();
        let (small, large) = if 2 * second <= groups.len() { (1, 0) } else { (0, 1) };
        let of = |wanted: usize| {
            let members = leaves.iter().zip(&groups).filter(move |(_, group)| **group == wanted).map(|(leaf, _)| leaf);
            members.cloned().reduce(|mut sum, leaf| {
                sum.merge(&leaf);
                sum
            })
        };
        let (few, many) = (of(small)?, of(large)?);
        if few.count >= LEAST_PIECES as f32 {
            return Some(dot(&few.centroid(), &many.centroid()));
        }
        pieces = pieces.iter().zip(&groups).filter(|(_, group)| **group == large).map(|(piece, _)| *piece).collect();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_speakers::EMBEDDING_WIDTH;

    /// A voice that points along an axis, and a little along another in each piece.
    fn voice(axis: usize, pieces: usize) -> Vec<Embedding> {
        let piece = |number: usize| {
            let mut vector = [0.0; EMBEDDING_WIDTH];
            vector[axis] = 0.8;
            vector[100 + number] = 0.6;
            vector
        };
        (0..pieces).map(piece).collect()
    }

    #[test]
    fn who_waits_for_another_search_can_be_called_off() {
        let (mutex, token) = (Mutex::new(()), CancelToken::default());
        let searching = lock(&mutex);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lock_unless(&mutex, &|| token.is_cancelled()).map(drop));
            token.cancel();
            assert!(matches!(waiting.join().unwrap(), Err(VoiceError::Cancelled)));
        });
        drop(searching);
        assert!(lock_unless(&mutex, &|| false).is_ok());
    }

    #[test]
    fn two_voices_are_told_apart_and_one_voice_or_a_cough_is_none() {
        let similarity = |parts: &[(usize, usize)]| {
            similarity_of_two(parts.iter().flat_map(|(axis, pieces)| voice(*axis, *pieces)).collect())
        };
        assert!(similarity(&[(0, 5), (1, 4)]).is_some_and(|found| found < OTHER_VOICE));
        assert!(similarity(&[(0, 3), (1, 3), (0, 3)]).is_some_and(|found| found < OTHER_VOICE));
        assert!(similarity(&[(0, 9)]).is_none_or(|found| found > 0.6));
        assert!(similarity(&[(0, 7), (1, 1)]).is_none_or(|found| found > 0.6));
        assert_eq!(similarity(&[(0, 2), (1, 2)]), None, "too little to tell");
    }
}

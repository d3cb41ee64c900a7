//! Times the search index over synthetic transcripts: `search_speed FOLDER [HOURS] [DATABASE]`. The folder must be empty; the store is sealed.
//!
//! An hour has 9,000 words of a vocabulary of 20,000 in which the frequency of a word falls with its rank, in 90 passages with random vectors.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use hark_store::{
    MasterKey, MasterKeys, NewAccount, NewIndex, NewPassage, NewTranscript, Options, Plan, SearchFilter, Store,
};
use hark_transcript::{Segment, TranscriptionResult, Word};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const SEGMENTS: usize = 360;
const WORDS: usize = 25;
const VOCABULARY: f64 = 20_000.0;

/// A generator of numbers from 0 to 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A word; the one of rank `n` comes with a probability of about 1/n.
    fn word(&mut self) -> String {
        format!("word{}", VOCABULARY.powf(self.next()) as u32)
    }

    fn vector(&mut self) -> Vec<f32> {
        let vector: Vec<f32> = (0..384).map(|_| self.next() as f32 - 0.5).collect();
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter().map(|x| x / norm).collect()
    }
}

fn hour(random: &mut Random) -> TranscriptionResult {
    let segments = (0..SEGMENTS).map(|at| {
        let start = at as f64 * 10.0;
        let words: Vec<Word> =
            (0..WORDS).map(|_| Word { word: random.word(), start, end: start + 0.3, confidence: 0.9 }).collect();
        let text = words.iter().map(|word| word.word.as_str()).collect::<Vec<_>>().join(" ");
        Segment { start, end: start + 10.0, text, words, ..Segment::default() }
    });
    TranscriptionResult { language: "en".into(), duration: 3600.0, segments: segments.collect(), ..Default::default() }
}

fn index(text: &TranscriptionResult, random: &mut Random) -> NewIndex {
    let passages: Vec<NewPassage> = text
        .segments
        .chunks(4)
        .enumerate()
        .map(|(at, segments)| NewPassage {
            first_segment: at as i64 * 4,
            last_segment: at as i64 * 4 + segments.len() as i64 - 1,
            text_offset: 0,
            text_length: i64::MAX / 2,
            terms: segments.iter().flat_map(|segment| segment.words.iter().map(|word| word.word.clone())).collect(),
        })
        .collect();
    let vectors = passages.iter().map(|_| random.vector()).collect();
    NewIndex { version: 1, passages, model: Some("random".into()), vectors }
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let millis = |at: usize| times[at].as_secs_f64() * 1000.0;
    println!("{name}: median {:.1} ms, longest {:.1} ms", millis(times.len() / 2), millis(times.len() - 1));
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: search_speed FOLDER [HOURS] [DATABASE]")?;
    let hours: usize = args.next().map_or(Ok(200), |hours| hours.parse())?;
    let database = args.next().unwrap_or_else(|| format!("sqlite://{folder}/hark.db"));
    let master_keys = MasterKeys::new(MasterKey::generate()?);
    let store = Store::open(Options { master_keys, ..Options::new(database, format!("{folder}/blobs")) }).await?;
    let account = store.accounts().create(&NewAccount::new("speed@example.org", Plan::Pro)).await?.id;
    let mut random = Random(42);
    let (mut times, mut claims) = (Vec::new(), Vec::new());
    for _ in 0..hours {
        let text = hour(&mut random);
        store.transcripts().save(account, &NewTranscript::default(), &text, None).await?;
        let index = index(&text, &mut random);
        let begun = Instant::now();
        let task = store.search().claim(Duration::from_secs(600)).await?.ok_or("nothing is due")?;
        claims.push(begun.elapsed());
        store.search().index(&task, &index).await?;
        times.push(begun.elapsed());
    }
    report("claim", claims);
    report("write the index of an hour", times);

    let filter = SearchFilter::default();
    let queries: [(&str, &[&str], &[&str]); 4] = [
        ("a rare word", &["word15000"], &[]),
        ("a frequent word", &["word2"], &[]),
        ("five words", &["word3", "word50", "word700", "word9000", "word120"], &[]),
        ("a phrase of three", &["word3", "word50", "word700"], &["word3", "word50", "word700"]),
    ];
    for (name, words, required) in queries {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (words, required) = (own(words), own(required));
        let (mut finding, mut reading, mut found) = (Vec::new(), Vec::new(), 0);
        for _ in 0..20 {
            let begun = Instant::now();
            let candidates = store.search().candidates(account, &words, &required, &filter, 200).await?;
            finding.push(begun.elapsed());
            let begun = Instant::now();
            found = store.search().passages(account, &candidates.passages).await?.len();
            reading.push(begun.elapsed());
        }
        report(&format!("candidates of {name}"), finding);
        report(&format!("text of {found} passages"), reading);
    }
    let mut times = Vec::new();
    for _ in 0..20 {
        let vector = random.vector();
        let begun = Instant::now();
        store.search().nearest(account, "random", &vector, &filter, 200).await?;
        times.push(begun.elapsed());
    }
    report("nearest of all vectors", times);
    store.close().await;
    let bytes = std::fs::metadata(format!("{folder}/hark.db")).map_or(0, |file| file.len());
    println!("database: {:.1} MB for {hours} h", bytes as f64 / 1e6);
    Ok(())
}

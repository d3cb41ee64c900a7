//! What a live session showed, word by word, and how late.

use serde::Serialize;

use crate::english;

/// A word of the recording and when it ends.
#[derive(Debug, Clone)]
pub struct TimedWord {
    /// The word as it was written.
    pub text: String,
    /// Seconds from the beginning of the recording.
    pub end: f64,
}

/// One word on the screen.
#[derive(Debug, Clone)]
struct Place {
    word: String,
    /// Since when it reads so.
    since: f64,
    /// When it was told as text that stays.
    stays: Option<f64>,
    /// How often it read otherwise before.
    rewrites: usize,
}

/// What a session showed: the words that stay and those that may change, by place.
#[derive(Debug, Default)]
pub struct Shown {
    places: Vec<Place>,
    settled: usize,
}

impl Shown {
    /// The words behind those that stay are now these.
    pub fn partial(&mut self, now: f64, text: &str) {
        self.show(now, &english::words(text));
    }

    /// These words come next and stay.
    pub fn text_that_stays(&mut self, now: f64, text: &str) {
        let words = english::words(text);
        // What the screen shows behind them stays there until the next partial text.
        let rest: Vec<String> = self.places[self.settled..].iter().skip(words.len()).map(|p| p.word.clone()).collect();
        self.show(now, &[words.clone(), rest].concat());
        for place in &mut self.places[self.settled..][..words.len()] {
            place.stays = Some(now);
        }
        self.settled += words.len();
    }

    /// Everything that is shown stays.
    pub fn settle_rest(&mut self, now: f64) {
        for place in &mut self.places[self.settled..] {
            place.stays = Some(now);
        }
        self.settled = self.places.len();
    }

    fn show(&mut self, now: f64, words: &[String]) {
        for (index, word) in words.iter().enumerate() {
            match self.places.get_mut(self.settled + index) {
                Some(place) if place.word == *word => {}
                Some(place) => {
                    *place = Place { word: word.clone(), since: now, stays: None, rewrites: place.rewrites + 1 };
                }
                None => self.places.push(Place { word: word.clone(), since: now, stays: None, rewrites: 0 }),
            }
        }
        // A word that is gone and comes back was rewritten.
        self.places.truncate(self.settled + words.len());
    }

    /// All words that stay.
    pub fn text(&self) -> String {
        self.places[..self.settled].iter().map(|place| place.word.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// The figures of several sessions together.
#[derive(Debug, Default)]
pub struct Gathered {
    seen: Vec<f64>,
    stays: Vec<f64>,
    rewrites: usize,
    words: usize,
}

/// How late words came, in seconds from their end.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Figures {
    /// Until a word was seen for good.
    pub seen_p50: f64,
    /// The same, 95 of 100.
    pub seen_p95: f64,
    /// Until it was told as text that stays.
    pub stays_p50: f64,
    /// The same, 95 of 100.
    pub stays_p95: f64,
    /// Times that a word read otherwise before, on average.
    pub rewrites: f64,
    /// Words that were found in the recording's transcript.
    pub words: usize,
}

impl Gathered {
    /// Takes a session's words that are also in the transcript of the whole recording.
    pub fn add(&mut self, shown: &Shown, offline: &[TimedWord]) {
        let said: Vec<(String, f64)> = offline
            .iter()
            .flat_map(|word| english::words(&word.text).into_iter().map(|text| (text, word.end)))
            .collect();
        let places = &shown.places[..shown.settled];
        for (place, end) in matched(places, &said) {
            self.seen.push(place.since - end);
            self.stays.extend(place.stays.map(|stays| stays - end));
            self.rewrites += place.rewrites;
            self.words += 1;
        }
    }

    /// The figures.
    pub fn figures(mut self) -> Figures {
        self.seen.sort_by(f64::total_cmp);
        self.stays.sort_by(f64::total_cmp);
        let at = |values: &[f64], share: f64| {
            let index = (values.len() as f64 * share) as usize;
            values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
        };
        Figures {
            seen_p50: at(&self.seen, 0.5),
            seen_p95: at(&self.seen, 0.95),
            stays_p50: at(&self.stays, 0.5),
            stays_p95: at(&self.stays, 0.95),
            rewrites: self.rewrites as f64 / self.words.max(1) as f64,
            words: self.words,
        }
    }
}

/// The words that both sides have, in order: a longest common subsequence.
fn matched<'a>(places: &'a [Place], said: &[(String, f64)]) -> Vec<(&'a Place, f64)> {
    let (rows, columns) = (places.len() + 1, said.len() + 1);
    let mut lengths = vec![0u32; rows * columns];
    for row in (0..places.len()).rev() {
        for column in (0..said.len()).rev() {
            lengths[row * columns + column] = if places[row].word == said[column].0 {
                lengths[(row + 1) * columns + column + 1] + 1
            } else {
                lengths[(row + 1) * columns + column].max(lengths[row * columns + column + 1])
            };
        }
    }
    let (mut row, mut column, mut pairs) = (0, 0, Vec::new());
    while row < places.len() && column < said.len() {
        if places[row].word == said[column].0 {
            pairs.push((&places[row], said[column].1));
            row += 1;
            column += 1;
        } else if lengths[(row + 1) * columns + column] >= lengths[row * columns + column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[(&str, f64)]) -> Vec<TimedWord> {
        words.iter().map(|&(text, end)| TimedWord { text: text.to_owned(), end }).collect()
    }

    #[test]
    fn a_word_is_seen_when_it_last_changed_and_stays_when_it_was_told() {
        let mut shown = Shown::default();
        shown.partial(1.0, "the quick crown");
        shown.partial(1.5, "the quick brown fox");
        shown.text_that_stays(2.5, "The quick brown");
        shown.partial(2.5, "fox");
        shown.text_that_stays(4.0, "fox.");
        assert_eq!(shown.text(), "the quick brown fox");
        let mut gathered = Gathered::default();
        gathered.add(&shown, &said(&[("The", 0.2), ("quick", 0.5), ("brown", 0.8), ("fox", 1.2)]));
        let mut seen = gathered.seen.clone();
        seen.iter_mut().for_each(|value| *value = (*value * 10.0).round() / 10.0);
        assert_eq!(seen, [0.8, 0.5, 0.7, 0.3]);
        let figures = gathered.figures();
        assert_eq!((figures.words, figures.rewrites), (4, 0.25));
        assert!((figures.stays_p95 - 2.8).abs() < 1e-9);
    }

    #[test]
    fn words_that_only_one_side_has_count_for_nothing() {
        let mut shown = Shown::default();
        shown.text_that_stays(3.0, "we really met them");
        let mut gathered = Gathered::default();
        gathered.add(&shown, &said(&[("We", 1.0), ("met", 1.5), ("them", 2.0), ("again", 2.5)]));
        assert_eq!(gathered.figures().words, 3);
    }
}

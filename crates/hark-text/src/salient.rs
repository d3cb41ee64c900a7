//! Sentences of a part that a summary should not leave out: amounts, dates, decisions and tasks.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::extract;
use crate::source::Source;
use crate::words::{self, TextIndex};

/// Characters of a sentence as it is shown to a model.
const MAX_CHARS: usize = 240;

/// Content words that a sentence must have: "Ten o'clock." says nothing alone.
const MIN_WORDS: usize = 4;

/// How many numbers of a sentence count.
const MAX_NUMBERS: usize = 3;

/// How much a word still counts that a chosen sentence has said.
const COVERED: f64 = 0.3;

const WORD_WEIGHT: f64 = 2.0;
const NUMBER_WEIGHT: f64 = 1.0;
const CUE_WEIGHT: f64 = 1.2;
const NAME_WEIGHT: f64 = 0.3;

/// How alike two sentences are of which one is enough.
const SAME: f64 = 0.6;

/// The share of its words that a text must have to tell a sentence without numbers.
const TOLD: f64 = 0.4;

/// Beginnings of words that tell of a decision, a condition, a task, a result or a point in time.
const CUES: &str = "agree decid decision approv resolv propos recommend require condition deadline vote carried accept reject refus prefer \
    cost price budget grant risk claim report cancel postpone delay open clos sign because january february march april june july august september october \
    november december monday tuesday wednesday thursday friday saturday sunday percent \
    beschl entschied entscheid vereinbar zustimm ablehn frist kosten preis termin auftrag montag dienstag mittwoch donnerstag freitag prozent \
    decidi acord aprob aprov rechaz plazo prazo precio preço custo coste presupuesto orçamento recomend lunes martes miércoles jueves viernes segunda terça \
    décid accept rejet délai coût prix recommand lundi mardi mercredi jeudi vendredi";

/// A sentence with much to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Salient {
    /// Its place among the chosen ones, from 0: those with most to say come first.
    pub(crate) rank: usize,
    pub(crate) speaker: Option<String>,
    /// As the source has it, shortened where it is very long.
    pub(crate) text: String,
}

/// The `count` of them with most to say, in their order.
pub(crate) fn most_salient(mut sentences: Vec<Salient>, count: usize) -> Vec<Salient> {
    let mut ranks: Vec<usize> = sentences.iter().map(|sentence| sentence.rank).collect();
    ranks.sort_unstable();
    if let Some(first_left_out) = ranks.get(count) {
        sentences.retain(|sentence| sentence.rank < *first_left_out);
    }
    sentences
}

impl Salient {
    /// As a line of a transcript.
    pub(crate) fn line(&self) -> String {
        self.with_speaker(self.text.clone())
    }

    /// As a quote.
    pub(crate) fn quote(&self) -> String {
        self.with_speaker(format!("“{}”", self.text))
    }

    fn with_speaker(&self, text: String) -> String {
        self.speaker.as_ref().map_or_else(|| text.clone(), |speaker| format!("{speaker}: {text}"))
    }

    /// Whether a text tells it: one of its numbers, or without numbers most of its words.
    pub(crate) fn is_told(&self, text: &TextIndex) -> bool {
        let mut numbers = words::numbers(&self.text);
        numbers.retain(|number| !number.is_counted());
        if numbers.is_empty() {
            text.coverage(&self.text) >= TOLD
        } else {
            numbers.iter().any(|number| text.has_number(number))
        }
    }
}

/// The `count` sentences of a run of units that have most to say, in their order. Each is chosen for what those before it leave out, so that every
/// subject of the run has one.
pub(crate) fn sentences(source: &Source, units: Range<usize>, count: usize) -> Vec<Salient> {
    let everywhere = frequencies(source.units().iter().map(|unit| words::content_words(source.content(unit))));
    let units = &source.units()[units];
    let contents: Vec<Vec<String>> =
        units.iter().map(|unit| distinct(words::content_words(source.content(unit)))).collect();
    let here = frequencies(contents.iter().cloned());
    // Words of this run's subjects: frequent in it, and less so elsewhere.
    let weight = |word: &String| here[word].ln_1p() * (here[word] / everywhere[word]).sqrt();
    let all: Vec<f64> = contents.iter().flatten().map(weight).collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let extras: Vec<f64> =
        units.iter().zip(&contents).map(|(unit, words)| extra(source.content(unit), words)).collect();
    let mut covered: HashSet<&String> = HashSet::new();
    let mut left: Vec<usize> = (0..units.len()).filter(|at| contents[*at].len() >= MIN_WORDS).collect();
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < count {
        let score = |at: usize| {
            let new = |word: &String| if covered.contains(word) { COVERED } else { 1.0 };
            let sum: f64 = contents[at].iter().map(|word| weight(word) * new(word)).sum();
            // Neither the shortest nor the longest sentence wins by its length.
            WORD_WEIGHT * sum / mean / (contents[at].len() as f64 + 4.0).sqrt() + extras[at]
        };
        let scores = left.iter().map(|at| score(*at)).enumerate();
        // The first of equals.
        let Some((place, _)) = scores.reduce(|best, next| if next.1 > best.1 { next } else { best }) else { break };
        let at = left.remove(place);
        let text = source.content(&units[at]);
        if chosen.iter().all(|other| words::similarity(text, source.content(&units[*other])) < SAME) {
            chosen.push(at);
            covered.extend(&contents[at]);
        }
    }
    let mut chosen: Vec<(usize, usize)> = chosen.into_iter().enumerate().collect();
    chosen.sort_unstable_by_key(|(_, at)| *at);
    let salient = |(rank, at): (usize, usize)| Salient {
        rank,
        speaker: units[at].speaker.clone(),
        text: extract::shorten(source.content(&units[at]), MAX_CHARS),
    };
    chosen.into_iter().map(salient).collect()
}

fn distinct(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words.dedup();
    words
}

/// In how many units each word stands.
fn frequencies(units: impl Iterator<Item = Vec<String>>) -> HashMap<String, f64> {
    let mut frequencies = HashMap::new();
    for word in units.flat_map(distinct) {
        *frequencies.entry(word).or_insert(0.0) += 1.0;
    }
    frequencies
}

/// What amounts, dates, decisions and names add to the score of a sentence.
fn extra(text: &str, content: &[String]) -> f64 {
    let numbers = words::numbers(text).len().min(MAX_NUMBERS) as f64;
    let is_cue = |word: &String| CUES.split_whitespace().any(|cue| word.starts_with(cue));
    let cues = content.iter().filter(|word| is_cue(word)).count().min(2) as f64;
    let inside = text.split_whitespace().skip(1);
    let names = inside.filter(|word| word.chars().count() > 1 && word.starts_with(char::is_uppercase)).count().min(3);
    numbers.sqrt() * NUMBER_WEIGHT + cues.sqrt() * CUE_WEIGHT + names as f64 * NAME_WEIGHT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_dates_and_decisions_come_before_small_talk() {
        let text = "Ann: Good morning everybody, did you all have a pleasant weekend at home?\n\
            Bob: The repair of the roof costs forty thousand euros and must be paid in March.\n\
            Ann: I really like the new coffee machine in the kitchen downstairs.\n\
            Bob: We agreed to sign the contract with the builder on Friday.\n\
            Ann: Nobody knows whether the weather stays that nice until then.";
        let source = Source::from_text(text);
        let all = 0..source.units().len();
        let lines = |count: usize| sentences(&source, all.clone(), count).iter().map(Salient::line).collect::<Vec<_>>();
        assert_eq!(
            lines(2),
            [
                "Bob: The repair of the roof costs forty thousand euros and must be paid in March.",
                "Bob: We agreed to sign the contract with the builder on Friday."
            ]
        );
        assert_eq!(lines(99).len(), 5);
        let best = most_salient(sentences(&source, all.clone(), 99), 2);
        assert_eq!(best.iter().map(Salient::line).collect::<Vec<_>>(), lines(2));
        assert!(sentences(&source, 0..0, 3).is_empty());
    }

    #[test]
    fn a_sentence_is_told_by_its_number_or_by_its_words() {
        let salient = |text: &str| Salient { rank: 0, speaker: Some("Bob".to_owned()), text: text.to_owned() };
        let told = TextIndex::new("The roof costs 40,000 euros. They want to sign with the builder.");
        assert!(salient("The repair costs forty thousand euros.").is_told(&told));
        assert!(!salient("The repair costs fifty thousand euros.").is_told(&told));
        assert!(salient("We agreed to sign with the builder.").is_told(&told));
        assert!(!salient("The captain refuses to sail at night.").is_told(&told));
        assert_eq!(salient("Yes.").quote(), "Bob: “Yes.”");
    }

    #[test]
    fn what_is_said_twice_is_chosen_once() {
        let line = "Bob: The repair of the roof costs forty thousand euros.\n";
        let source = Source::from_text(&line.repeat(4));
        assert_eq!(sentences(&source, 0..source.units().len(), 3).len(), 1);
    }

    #[test]
    fn every_subject_has_a_sentence() {
        let mut text = String::new();
        for house in ["north", "south", "east", "west"] {
            text.push_str(&format!("Ann: The roof of the {house} house costs nine thousand euros in March.\n"));
        }
        text.push_str("Bob: Captain Isbister refuses to sail with the Puffin at night.\n");
        let source = Source::from_text(&text);
        let chosen = sentences(&source, 0..source.units().len(), 2);
        assert!(chosen.iter().any(|sentence| sentence.text.contains("Isbister")), "{chosen:?}");
    }
}

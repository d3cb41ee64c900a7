//! Sentences of the text that say most of it: what is left when a model's own words can't be used.

use std::collections::{HashMap, HashSet};

use crate::source::Source;
use crate::words;

/// The `count` units that have the most frequent content words, in their order in the text.
pub fn central_units(source: &Source, count: usize) -> Vec<usize> {
    let units: Vec<HashSet<String>> = source
        .units()
        .iter()
        .map(|unit| words::content_words(source.content(unit)).into_iter().take(200).collect())
        .collect();
    let mut frequency: HashMap<&str, f64> = HashMap::new();
    for word in units.iter().flatten() {
        *frequency.entry(word).or_insert(0.0) += 1.0;
    }
    let mut ranked: Vec<(f64, usize)> = units
        .iter()
        .enumerate()
        .filter(|(_, words)| !words.is_empty())
        .map(|(at, words)| {
            let sum: f64 = words.iter().map(|word| frequency[word.as_str()].ln_1p()).sum();
            // Neither the shortest nor the longest unit wins by its length.
            (sum / (words.len() as f64 + 4.0).sqrt(), at)
        })
        .collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut chosen: Vec<usize> = ranked.into_iter().take(count).map(|(_, at)| at).collect();
    if chosen.is_empty() {
        chosen =
            source.units().iter().filter(|unit| !unit.content.is_empty()).take(count).map(|unit| unit.index).collect();
    }
    chosen.sort_unstable();
    chosen
}

/// The central units as text, no longer than `most` characters each.
pub fn extract(source: &Source, count: usize, most: usize) -> Vec<String> {
    let units = central_units(source, count);
    units.into_iter().map(|at| shorten(source.content(&source.units()[at]), most)).collect()
}

/// A text of at most `most` characters, cut at a word with an ellipsis.
pub fn shorten(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= most {
        return text;
    }
    let head: String = text.chars().take(most).collect();
    let end = head.rfind(' ').filter(|at| at * 2 > head.len()).unwrap_or(head.len());
    format!("{}…", head[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_about_the_main_subject_are_central() {
        let text = "Hello everybody. The budget for the new office is too high. Nice weather. The office budget must fall. Bye.";
        let source = Source::from_text(text);
        assert_eq!(
            extract(&source, 2, 200),
            ["The budget for the new office is too high.", "The office budget must fall."]
        );
    }

    #[test]
    fn a_text_without_content_words_still_has_a_central_unit() {
        assert_eq!(extract(&Source::from_text("?!"), 2, 200), ["?!"]);
        assert_eq!(shorten("one two three", 8), "one two…");
    }
}

//! German dates and ordinals, whose ending depends on the words before them: "der dritte Oktober", "am dritten Oktober", "dritter Oktober".

use regex::Captures;

use super::german::{GERMAN, ordinal, year};
use crate::english::pattern;

macro_rules! month_pattern {
    () => {
        r"(Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b"
    };
}

pattern!(
    NUMERIC,
    r"\b(?:([0-9]{4})-([0-9]{2})-([0-9]{2})|([0-9]{1,2})(?:[/-]|\. ?)([0-9]{1,2})(?:[/-]|\. ?)([0-9]{4}))\b"
);
pattern!(SHORT, r"\b([0-9]{1,2})\. ?([0-9]{1,2})\.");
pattern!(ORDINAL, r"\b([0-9]{1,4})\.(\s+)(\p{L}+)");
pattern!(MONTH_YEAR, month_pattern!(), r" ([12][0-9]{3})\b");
pattern!(MONTH, "^", month_pattern!());

/// How far back the words that decide are looked for.
const LOOK_BACK: usize = 48;

/// Endings of an ordinal after the words before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// After the definite article in the nominative: "der dritte".
    E,
    /// In every other case after an article: "am dritten".
    En,
    /// Without an article that shows the gender: "dritter Oktober", "ein dritter Versuch".
    Er,
}

/// The words before `at`, the last one first, in lower case.
fn words_before(text: &str, at: usize) -> impl Iterator<Item = String> {
    let before = &text[text.ceil_char_boundary(at.saturating_sub(LOOK_BACK))..at];
    before.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).rev().map(str::to_lowercase)
}

/// The ending that the words before ask for; none when they ask for no ordinal.
fn ending(text: &str, at: usize) -> Option<Ending> {
    let mut words = words_before(text, at);
    // "am 3. und 4. Mai": both are asked for by "am".
    let last = words.find(|word| !matches!(word.as_str(), "und" | "oder"))?;
    Some(match last.as_str() {
        "am" | "vom" | "zum" | "zur" | "im" | "beim" | "dem" | "den" | "des" | "bis" | "ab" | "seit" | "gegen"
        | "einem" | "einen" | "einer" | "eines" | "keinem" | "keinen" | "diesem" | "diesen" | "jedem" | "jeden"
        | "jenem" | "jenen" | "welchem" | "welchen" | "meinem" | "meinen" | "seinem" | "seinen" | "ihrem" | "ihren"
        | "unserem" | "unseren" => Ending::En,
        // "in der dritten Klasse", "nach der dritten Runde".
        "der" | "dieser" | "jeder"
            if words.next().is_some_and(|word| {
                matches!(
                    word.as_str(),
                    "an" | "auf"
                        | "aus"
                        | "außerhalb"
                        | "bei"
                        | "bis"
                        | "hinter"
                        | "in"
                        | "innerhalb"
                        | "mit"
                        | "nach"
                        | "neben"
                        | "seit"
                        | "statt"
                        | "trotz"
                        | "über"
                        | "unter"
                        | "von"
                        | "vor"
                        | "während"
                        | "wegen"
                        | "zu"
                        | "zwischen"
                )
            }) =>
        {
            Ending::En
        }
        "der" | "die" | "das" | "dieser" | "diese" | "dieses" | "jeder" | "jede" | "jedes" | "ins" | "ans" | "aufs"
        | "eine" | "keine" | "meine" | "deine" | "seine" | "ihre" | "unsere" => Ending::E,
        "ein" | "kein" | "mein" | "dein" | "sein" | "ihr" | "unser" => Ending::Er,
        _ => return None,
    })
}

fn inflected(n: u64, ending: Ending) -> String {
    let stem = ordinal(n);
    match ending {
        Ending::E => stem,
        Ending::En => format!("{stem}n"),
        Ending::Er => format!("{stem}r"),
    }
}

fn month(number: u64) -> Option<&'static str> {
    GERMAN.months.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

fn day_and_month(text: &str, captures: &Captures, day: u64, number: u64) -> Option<String> {
    let at = captures.get(0)?.start();
    let name = month(number).filter(|_| (1..=31).contains(&day))?;
    Some(format!("{} {name}", inflected(day, ending(text, at).unwrap_or(Ending::Er))))
}

/// Rewrites what can be read only with the words before it.
pub(super) fn read(text: &str) -> String {
    let number = |captures: &Captures, index: usize| captures.get(index).and_then(|m| m.as_str().parse::<u64>().ok());
    let text = NUMERIC.replace_all(text, |c: &Captures| {
        let parts = [(3, 2, 1), (4, 5, 6)]
            .into_iter()
            .find_map(|(day, month, year)| Some((number(c, day)?, number(c, month)?, number(c, year)?)));
        let words =
            parts.and_then(|(day, month, n)| Some(format!("{} {}", day_and_month(text, c, day, month)?, year(n))));
        words.unwrap_or_else(|| c[0].to_owned())
    });
    // "am 3.10.": without a year it may be a version, unless the words before ask for a day.
    let text = SHORT.replace_all(&text, |c: &Captures| {
        let asks = c.get(0).and_then(|found| ending(&text, found.start())).is_some();
        let parts = number(c, 1).zip(number(c, 2)).filter(|_| asks);
        let words = parts.and_then(|(day, month)| day_and_month(&text, c, day, month));
        // At the end of the sentence the full stop is the sentence's, too.
        let stop = if c.get(0).is_some_and(|found| found.end() == text.len()) { "." } else { "" };
        words.map_or_else(|| c[0].to_owned(), |words| words + stop)
    });
    let text = MONTH_YEAR.replace_all(&text, |c: &Captures| match number(c, 2) {
        Some(n) => format!("{} {}", &c[1], year(n)),
        None => c[0].to_owned(),
    });
    let text = ORDINAL.replace_all(&text, |c: &Captures| {
        let at = c.get(0).map_or(0, |found| found.start());
        match (number(c, 1), ordinal_ending(&text, at, &c[3])) {
            (Some(n), Some(ending)) => format!("{}{}{}", inflected(n, ending), &c[2], &c[3]),
            _ => c[0].to_owned(),
        }
    });
    text.into_owned()
}

/// The ending of the number at `at` before `next`, when its full stop makes it an ordinal.
fn ordinal_ending(text: &str, at: usize, next: &str) -> Option<Ending> {
    let is_feminine = ["e", "ung", "heit", "keit", "schaft", "ion", "tät"].iter().any(|ending| next.ends_with(ending));
    ending(text, at).or_else(|| {
        let starts = text[..at].trim().is_empty();
        let is_ordinal = MONTH.is_match(next) || next.starts_with(char::is_lowercase) || starts;
        is_ordinal.then_some(if is_feminine && next.starts_with(char::is_uppercase) { Ending::E } else { Ending::Er })
    })
}

/// Whether the full stop after a number at `at` makes it an ordinal, so that no sentence ends there.
pub(crate) fn is_ordinal(text: &str, at: usize, next: &str) -> bool {
    MONTH.is_match(next) || ending(text, at).is_some()
}

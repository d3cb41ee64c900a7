//! Whether what a model wrote is founded in the text: names, numbers and dates that the text does not have are unfounded.

use crate::language::Language;
use crate::names;
use crate::sentences;
use crate::source::Source;
use crate::words::{self, TextIndex};

/// The names, numbers and dates of a source, to check answers against.
pub struct FactChecker {
    index: TextIndex,
    capitals_are_names: bool,
}

impl FactChecker {
    /// Looks through a source, its speakers included.
    pub fn new(source: &Source) -> Self {
        let speakers = source.speakers().join("\n");
        let index = TextIndex::new(&format!("{}\n{speakers}\nSpeaker", source.text()));
        FactChecker { index, capitals_are_names: capitals_are_names(source.language()) }
    }

    /// Looks through a text; `language` says whether capitals are names.
    pub fn of_text(text: &str, language: Option<Language>) -> Self {
        let index = TextIndex::new(&format!("{text}\nSpeaker"));
        FactChecker { index, capitals_are_names: capitals_are_names(language) }
    }

    /// What occurs in the source.
    pub fn index(&self) -> &TextIndex {
        &self.index
    }

    /// The first name, number or date of `sentence` that the source does not have.
    pub fn unfounded(&self, sentence: &str) -> Option<String> {
        self.unfounded_number(sentence).or_else(|| self.unfounded_name(sentence))
    }

    fn unfounded_number(&self, sentence: &str) -> Option<String> {
        let sentence = without_list_marker(sentence);
        let numbers = words::numbers(sentence);
        let unfounded = numbers.iter().find(|number| !number.is_counted() && !self.index.has_number(number))?;
        Some(unfounded.forms[0].clone())
    }

    fn unfounded_name(&self, sentence: &str) -> Option<String> {
        let sentence = without_list_marker(sentence);
        if is_heading(sentence) {
            return None;
        }
        let words = capitalised_words(sentence);
        for (at, word) in words.iter().enumerate() {
            if self.index.has_word(word.text) || is_acronym(word.text) {
                continue;
            }
            let next_is_name = words.get(at + 1).is_some_and(|next| next.follows);
            let is_name = if names::is_given_name(word.text) {
                true
            } else if !self.capitals_are_names {
                false
            } else {
                // The first word of a sentence is capitalised anyway.
                !word.is_first || (next_is_name && names::may_be_given_name(word.text))
            };
            if is_name {
                return Some(word.text.to_owned());
            }
        }
        None
    }

    /// The same for a title, whose words may all be capitalised: numbers and given names.
    pub fn unfounded_in_title(&self, title: &str) -> Option<String> {
        self.unfounded_number(title).or_else(|| self.unfounded_given_name(title))
    }

    fn unfounded_given_name(&self, text: &str) -> Option<String> {
        let words = capitalised_words(text);
        let unfounded = words.iter().find(|word| names::is_given_name(word.text) && !self.index.has_word(word.text))?;
        Some(unfounded.text.to_owned())
    }

    /// The text without sentences and lines that have something unfounded; and what was unfounded.
    pub fn keep_founded(&self, text: &str) -> (String, Vec<String>) {
        let (mut kept, mut unfounded) = (Vec::new(), Vec::new());
        for line in text.lines() {
            if line.trim().is_empty() {
                kept.push(String::new());
                continue;
            }
            let body = without_list_marker(line);
            let marker = &line[..line.len() - body.len()];
            if let Some(name) = self.unfounded_given_name(marker) {
                unfounded.push(name);
                continue;
            }
            let mut founded = String::new();
            for sentence in sentences::split(body) {
                match self.unfounded(&body[sentence.clone()]) {
                    Some(fact) => unfounded.push(fact),
                    None => founded.push_str(&body[sentence]),
                }
            }
            if founded.chars().any(char::is_alphanumeric) {
                kept.push(format!("{marker}{}", founded.trim()));
            }
        }
        (without_empty_sections(kept), unfounded)
    }
}

/// Headings whose whole section was dropped go with it, and so do blank lines at the ends and in a row.
pub(crate) fn without_empty_sections(lines: Vec<String>) -> String {
    let mut kept: Vec<String> = Vec::new();
    for at in 0..lines.len() {
        let line = &lines[at];
        if line.starts_with('#') {
            let body = lines[at + 1..].iter().find(|line| !line.is_empty());
            let level = |line: &str| line.chars().take_while(|c| *c == '#').count();
            let has_body = body.is_some_and(|body| !body.starts_with('#') || level(body) > level(line));
            if !has_body {
                continue;
            }
        }
        if line.is_empty() && kept.last().is_none_or(String::is_empty) {
            continue;
        }
        kept.push(line.clone());
    }
    kept.join("\n").trim().to_owned()
}

/// In German every noun is capitalised; in scripts without case no word is.
fn capitals_are_names(language: Option<Language>) -> bool {
    !matches!(language, Some(Language { code: "de", .. }))
}

fn is_acronym(word: &str) -> bool {
    word.chars().count() <= 4 && word.chars().all(|c| c.is_uppercase() || c.is_numeric())
}

/// A title or the label of a list: its words are capitalised without being names.
fn is_heading(sentence: &str) -> bool {
    let sentence = sentence.trim();
    sentence.starts_with('#')
        || (sentence.starts_with("**") && sentence.trim_end_matches(':').ends_with("**"))
        || (sentence.ends_with(':') && sentence.split_whitespace().count() <= 6)
}

/// A line without its bullet or number.
fn without_list_marker(line: &str) -> &str {
    let trimmed = line.trim_start();
    let rest =
        trimmed.strip_prefix(['-', '*', '•', '–']).filter(|rest| rest.starts_with(' ')).unwrap_or(trimmed).trim_start();
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let numbered =
        rest[digits..].strip_prefix(['.', ')']).filter(|rest| (1..=2).contains(&digits) && rest.starts_with(' '));
    let rest = numbered.unwrap_or(rest).trim_start();
    // A bold lead-in of a list item, "**Budget**: …".
    let bold = trimmed.len() != rest.len() || trimmed.starts_with("**");
    if bold && let Some((lead, behind)) = rest.trim_start_matches('*').split_once("**") {
        let behind = behind.trim_start_matches(':').trim_start();
        if lead.split_whitespace().count() <= 6 && !behind.is_empty() {
            return behind;
        }
    }
    rest
}

struct Capitalised<'a> {
    text: &'a str,
    /// Whether a sentence, a quotation or a clause behind a colon begins with it.
    is_first: bool,
    /// Whether the word before it is capitalised too, with nothing but a space between.
    follows: bool,
}

fn capitalised_words(sentence: &str) -> Vec<Capitalised<'_>> {
    let mut found: Vec<Capitalised<'_>> = Vec::new();
    let (mut at, mut begins, mut before_was_capital) = (0, true, false);
    let is_word = |c: char| c.is_alphanumeric() || c == '’' || c == '\'';
    while at < sentence.len() {
        let rest = &sentence[at..];
        let word_length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if word_length == 0 {
            let c = rest.chars().next().unwrap_or(' ');
            if matches!(c, '.' | '!' | '?' | ':' | '"' | '“' | '„' | '«' | '(' | '*' | '—' | '–' | ';' | '。')
            {
                begins = true;
            }
            if !c.is_whitespace() {
                before_was_capital = false;
            }
            at += c.len_utf8();
            continue;
        }
        let word = &rest[..word_length];
        let bare = word.trim_matches(['\'', '’']);
        let bare = bare.strip_suffix("'s").or_else(|| bare.strip_suffix("’s")).unwrap_or(bare);
        let is_capital = bare.chars().next().is_some_and(char::is_uppercase) && bare.chars().count() > 1;
        let is_contraction = bare.starts_with("I'") || bare.starts_with("I’");
        let is_hashtag = sentence[..at].ends_with('#');
        if is_capital && !is_contraction && !is_hashtag {
            found.push(Capitalised { text: bare, is_first: begins, follows: before_was_capital });
        }
        before_was_capital = is_capital;
        begins = false;
        at += word_length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker() -> FactChecker {
        FactChecker::new(&Source::from_text(
            "Maria: The Lisbon office costs twelve thousand euros a month.\nTom: We sign on March 5th, with 40 seats.\nMaria: Fine.",
        ))
    }

    #[test]
    fn what_the_text_says_is_founded() {
        let checker = checker();
        for sentence in [
            "Maria says the Lisbon office costs 12,000 euros a month.",
            "They sign on March 5.",
            "Overall, two people agreed on 40 seats.",
            "Additionally, Tom's plan has 40 seats.",
            "1. Tom will sign.",
            "- **Next Steps**: sign on March 5.",
            "**Key Decisions**",
            "The CEO is not named.",
        ] {
            assert_eq!(checker.unfounded(sentence), None, "{sentence}");
        }
    }

    #[test]
    fn names_numbers_and_dates_that_the_text_lacks_are_unfounded() {
        let checker = checker();
        for (sentence, fact) in [
            ("They sign on April 5.", "April"),
            ("The office in Porto is cheaper.", "Porto"),
            ("It costs 13,000 euros.", "13000"),
            ("John agreed.", "John"),
            ("The contract covers fifty five seats.", "55"),
            ("Then Mr Miller signed.", "Mr"),
        ] {
            assert_eq!(checker.unfounded(sentence).as_deref(), Some(fact), "{sentence}");
        }
    }

    #[test]
    fn only_unfounded_sentences_are_dropped() {
        let text = "Maria rents an office. It is in Porto. Tom signs.\n\n- Sign on March 5.\n- Ask Peter.\n\n## Risks\n\nPeter leaves.";
        let (kept, unfounded) = checker().keep_founded(text);
        assert_eq!(kept, "Maria rents an office. Tom signs.\n\n- Sign on March 5.");
        assert_eq!(unfounded, ["Porto", "Peter", "Peter"]);
    }

    #[test]
    fn german_nouns_are_not_names() {
        let checker = FactChecker::new(&Source::from_text(
            "Wir haben das Budget besprochen und es ist nicht genug für die Reise.",
        ));
        assert_eq!(checker.unfounded("Das Team hat die Finanzen besprochen."), None);
        assert_eq!(checker.unfounded("Dann hat Thomas die Reise gebucht.").as_deref(), Some("Thomas"));
    }
}

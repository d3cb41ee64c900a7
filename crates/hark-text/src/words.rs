//! Words and phrases compared without case, punctuation and white space, and the numbers that a text names.

use std::collections::{HashMap, HashSet};

use hark_transcript::is_unspaced;

/// A text in lower case, its words separated by single spaces, without punctuation. Apostrophes inside words are dropped.
pub fn normalize(text: &str) -> String {
    normalize_with(text, |_, _| {})
}

/// The same; `on_word` gets where each word begins, in what comes out and in the text.
fn normalize_with(text: &str, mut on_word: impl FnMut(usize, usize)) -> String {
    let mut normalized = String::with_capacity(text.len());
    let mut pending_space = true;
    for (at, c) in text.char_indices() {
        if c.is_alphanumeric() || is_mark(c) {
            if pending_space {
                if !normalized.is_empty() {
                    normalized.push(' ');
                }
                on_word(normalized.len(), at);
            }
            pending_space = false;
            normalized.extend(c.to_lowercase());
        } else if !matches!(c, '\'' | '’' | 'ʼ' | '\u{ad}') {
            pending_space = true;
        }
    }
    normalized
}

/// Combining marks are parts of words (Devanagari vowels, accents that stand alone).
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{903}' | '\u{93a}'..='\u{94f}' | '\u{e31}'..='\u{e4e}' | '\u{980}'..='\u{dff}')
}

/// Words that say little: they are left out when texts are compared. English and the commonest of some neighbours.
const STOP_WORDS: &str = " a an and are as at be been but by can could did do does for from had has have he her him his how i if in into is it its \
just like me my no not now of on or our out she should so some than that the their them then there these they this those to too up us was we were what when \
where which who will with would you your also about all any because going get got im ive thats dont were well really very one re ll okay yeah yes um uh right \
der die das und ist nicht ein eine zu den mit von im auf für es ich wir sie le la les et est un une des du de que qui pas pour dans en il elle on el los las y \
es no por con para una se lo o e não um uma com os as do da em che di non per si il ";

/// Whether a word in lower case says little.
pub fn is_stop_word(word: &str) -> bool {
    // Looked up with its surrounding spaces, so that a part of a word is not found.
    word.len() < 8 && STOP_WORDS.contains(&format!(" {word} "))
}

/// The words of a text that say something, in lower case. In scripts without spaces, pairs of neighbouring characters.
pub fn content_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in normalize(text).split(' ').filter(|word| !word.is_empty()) {
        if word.chars().any(is_unspaced) {
            let chars: Vec<char> = word.chars().take(4096).collect();
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if word.chars().count() > 1 && !is_stop_word(word) {
            words.push(word.chars().take(64).collect());
        }
    }
    words
}

/// What a text says, for looking up whether something occurs in it.
#[derive(Debug, Clone)]
pub struct TextIndex {
    /// Normalized, with a space at both ends.
    normalized: String,
    words: HashSet<String>,
    /// The first letters of words, four and more: other forms of a word begin alike.
    beginnings: HashSet<String>,
    numbers: HashSet<String>,
}

impl TextIndex {
    /// Looks through a text.
    pub fn new(text: &str) -> Self {
        let normalized = format!(" {} ", normalize(text));
        let words: HashSet<String> = normalized.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let beginnings = words.iter().flat_map(|word| beginnings(word)).collect();
        let mut numbers: HashSet<String> = numbers(text).into_iter().flat_map(|number| number.forms).collect();
        // Words of a longer number alone: "two point four million" is also written 2.4 million.
        numbers.extend(words.iter().filter_map(|word| small_number(word)).map(|value| value.to_string()));
        let all: Vec<&str> = normalized.split(' ').collect();
        for run in all.windows(4).filter(|run| run[1..] == ["and", "a", "half"]) {
            let whole = small_number(run[0]).map(|value| value.to_string()).or_else(|| digits_of(run[0]));
            numbers.extend(whole.map(|whole| format!("{whole}.5")));
        }
        for (word, values) in [("half", &["30", "50"][..]), ("quarter", &["15", "25"])] {
            if words.contains(word) {
                numbers.extend(values.iter().map(|value| (*value).to_owned()));
            }
        }
        TextIndex { normalized, words, beginnings, numbers }
    }

    /// Whether these words stand in the text in this order, without regard to case, punctuation and white space.
    pub fn has_phrase(&self, phrase: &str) -> bool {
        let phrase = normalize(phrase);
        if phrase.is_empty() {
            return false;
        }
        if phrase.chars().any(is_unspaced) {
            return self.normalized.contains(&phrase);
        }
        self.normalized.contains(&format!(" {phrase} "))
    }

    /// Whether the word, or another form of it, stands in the text.
    pub fn has_word(&self, word: &str) -> bool {
        let word = normalize(word);
        if word.chars().any(is_unspaced) {
            return self.normalized.contains(&word);
        }
        word.split(' ')
            .all(|word| self.words.contains(word) || (word.len() >= 5 && self.beginnings.contains(&stem(word))))
    }

    /// Whether the text names this number, in digits or (in English) in words.
    pub fn has_number(&self, number: &Number) -> bool {
        let joined = number.forms.first().is_some_and(|form| self.numbers.contains(form));
        joined || (number.forms.len() > 1 && number.forms[1..].iter().all(|form| self.numbers.contains(form)))
    }

    /// The share of the content words that stand in the text, 0 to 1; 1 where there are none.
    pub fn coverage(&self, text: &str) -> f64 {
        let words = content_words(text);
        if words.is_empty() {
            return 1.0;
        }
        words.iter().filter(|word| self.has_word(word)).count() as f64 / words.len() as f64
    }
}

/// A word of digits alone.
fn digits_of(word: &str) -> Option<String> {
    let is_digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| without_leading_zeros(word))
}

/// The first letters of a word, which its other forms share: seven tenths of them, four at least.
fn stem(word: &str) -> String {
    let length = word.chars().count();
    word.chars().take((length * 7).div_ceil(10).max(4)).collect()
}

/// The first four letters of a word, the first five, and so on; of a long word the first twenty at most.
fn beginnings(word: &str) -> Vec<String> {
    let ends = word.char_indices().map(|(at, c)| at + c.len_utf8()).take(20).skip(3);
    ends.map(|end| word[..end].to_owned()).collect()
}

/// How alike two short texts are: shared content words over all, 0 to 1.
pub fn similarity(one: &str, other: &str) -> f64 {
    Stems::new(one).similarity(&Stems::new(other))
}

/// The content words of a short text without their endings, for comparing it with many others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stems(HashSet<String>);

impl Stems {
    pub(crate) fn new(text: &str) -> Self {
        Stems(content_words(text).iter().map(|word| stem(word)).collect())
    }

    /// Shared words over all, 0 to 1.
    pub(crate) fn similarity(&self, other: &Stems) -> f64 {
        let shared = self.0.intersection(&other.0).count();
        shared_over_all(shared, self.0.len(), other.0.len())
    }
}

fn shared_over_all(shared: usize, one: usize, other: usize) -> f64 {
    let all = one + other - shared;
    if all == 0 { 0.0 } else { shared as f64 / all as f64 }
}

/// The stems of many short texts, for finding the one that is most like another.
pub(crate) struct StemIndex {
    /// The texts that have each stem.
    texts: HashMap<String, Vec<usize>>,
    /// How many stems each text has.
    sizes: Vec<usize>,
}

impl StemIndex {
    pub(crate) fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut index = StemIndex { texts: HashMap::new(), sizes: Vec::new() };
        for (at, text) in texts.enumerate() {
            let Stems(stems) = Stems::new(text);
            index.sizes.push(stems.len());
            for stem in stems {
                index.texts.entry(stem).or_default().push(at);
            }
        }
        index
    }

    /// The text that is most like this one, in thousandths; the last of equals. None where there is no text.
    pub(crate) fn most_similar(&self, text: &str) -> Option<usize> {
        let Stems(stems) = Stems::new(text);
        let mut shared = vec![0; self.sizes.len()];
        for at in stems.iter().filter_map(|stem| self.texts.get(stem)).flatten() {
            shared[*at] += 1;
        }
        let score = |at: &usize| (shared_over_all(shared[*at], stems.len(), self.sizes[*at]) * 1000.0) as usize;
        (0..self.sizes.len()).max_by_key(score)
    }
}

/// Where the words of a text stand, for counting many names in it.
pub(crate) struct NameIndex<'a> {
    text: &'a str,
    /// Normalized, with a space at its end.
    normalized: String,
    /// Where each word begins: in `normalized`, and in `text`.
    words: HashMap<String, Vec<(usize, usize)>>,
}

impl<'a> NameIndex<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let mut starts = Vec::new();
        let normalized = normalize_with(text, |at, source| starts.push((at, source))) + " ";
        let mut words: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        for start in starts {
            let word = normalized[start.0..].split(' ').next().unwrap_or_default();
            match words.get_mut(word) {
                Some(places) => places.push(start),
                None => _ = words.insert(word.to_owned(), vec![start]),
            }
        }
        NameIndex { text, normalized, words }
    }

    /// Where a name stands: bytes of the text at which its first word begins. None in scripts without spaces.
    fn places(&self, normalized_name: &str) -> impl Iterator<Item = usize> {
        let first = normalized_name.split(' ').next().unwrap_or_default();
        let places = self.words.get(first).into_iter().flatten();
        places.filter_map(move |(at, source)| {
            let rest = self.normalized[*at..].strip_prefix(normalized_name)?;
            rest.starts_with(' ').then_some(*source)
        })
    }

    /// Whether a name stands in the text, without regard to case, punctuation and white space.
    pub(crate) fn has(&self, name: &str) -> bool {
        let name = normalize(name);
        match name.chars().any(is_unspaced) {
            true => self.normalized.contains(&name),
            false => self.places(&name).next().is_some(),
        }
    }

    /// How often a name stands in the text, without regard to case, punctuation and white space.
    pub(crate) fn count(&self, name: &str) -> usize {
        let name = normalize(name);
        match name.chars().any(is_unspaced) {
            true => self.normalized.matches(&name).count(),
            false => self.places(&name).count(),
        }
    }

    /// The name as the first place that has it but for case writes it, within the first `most` bytes of the text.
    pub(crate) fn as_written(&self, name: &str, most: usize) -> Option<&'a str> {
        let text = &self.text[..most];
        if let Some(at) = text.find(name) {
            return Some(&text[at..at + name.len()]);
        }
        // What stands before the first word belongs to the name as well.
        let before = name.find(|c: char| c.is_alphanumeric() || is_mark(c))?;
        let lower = name.to_lowercase();
        let written = |at: usize| {
            let start = at.checked_sub(before)?;
            text.get(start..start + name.len()).filter(|written| written.to_lowercase() == lower)
        };
        self.places(&normalize(name)).find_map(written)
    }
}

/// A number as a text writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// The number without separators, then the groups of digits between them: `1,234` is 1234, and 1 and 234.
    pub forms: Vec<String>,
    /// Where it stands, in bytes.
    pub start: usize,
    /// Whether it is written in words.
    pub is_spelled: bool,
}

/// Spelled numbers up to this are not checked: "both", "two sides" and "three points" are counted by the writer.
const COUNTED: u64 = 3;

impl Number {
    /// Whether it is small and spelled, so that a writer may have counted it himself.
    pub fn is_counted(&self) -> bool {
        let is_small = |form: &String| form.parse::<u64>().is_ok_and(|value| value <= COUNTED);
        self.is_spelled && self.forms.iter().all(is_small)
    }
}

/// The numbers of a text: in digits, and in English words.
pub fn numbers(text: &str) -> Vec<Number> {
    let mut numbers = digit_numbers(text);
    numbers.extend(spelled_numbers(text));
    numbers
}

fn digit_numbers(text: &str) -> Vec<Number> {
    let bytes = text.as_bytes();
    let (mut numbers, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len()
            && (bytes[at].is_ascii_digit()
                || (matches!(bytes[at], b'.' | b',' | b':' | b'/' | b'-' | b'\'')
                    && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)))
        {
            at += 1;
        }
        if let Some(forms) = decimal(&text[start..at]) {
            numbers.push(Number { forms, start, is_spelled: false });
            continue;
        }
        let groups = text[start..at].split(|c: char| !c.is_ascii_digit());
        let groups: Vec<String> = groups.map(without_leading_zeros).collect();
        let joined = without_leading_zeros(&text[start..at].replace(|c: char| !c.is_ascii_digit(), ""));
        let mut forms = vec![joined];
        if groups.len() > 1 {
            // 2.50 is 2.5, and 10:00 is 10.
            let significant =
                groups.iter().enumerate().filter(|(at, group)| *at == 0 || !group.trim_matches('0').is_empty());
            forms.extend(significant.map(|(_, group)| group.clone()));
        }
        numbers.push(Number { forms, start, is_spelled: false });
    }
    numbers
}

/// `14.6` and `14,6` are one number and no other: neither 146 nor 14. With two digits behind the point it may be a time or an amount, with three a
/// thousand.
fn decimal(number: &str) -> Option<Vec<String>> {
    let (whole, fraction) = number.split_once(['.', ','])?;
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.len() != 1 || !is_digits(fraction) || !is_digits(whole) {
        return None;
    }
    Some(decimal_forms(without_leading_zeros(whole), fraction))
}

fn decimal_forms(whole: String, fraction: &str) -> Vec<String> {
    match fraction {
        "0" => vec![whole],
        _ => vec![format!("{whole}.{fraction}")],
    }
}

fn without_leading_zeros(digits: &str) -> String {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() { "0".into() } else { digits.into() }
}

const SMALL: &[(&str, u64)] = &[
    ("zero", 0),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("thirteen", 13),
    ("fourteen", 14),
    ("fifteen", 15),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("seventy", 70),
    ("eighty", 80),
    ("ninety", 90),
    ("dozen", 12),
    ("first", 1),
    ("second", 2),
    ("third", 3),
    ("fourth", 4),
    ("fifth", 5),
    ("sixth", 6),
    ("seventh", 7),
    ("eighth", 8),
    ("ninth", 9),
    ("tenth", 10),
    ("eleventh", 11),
    ("twelfth", 12),
    ("fifteenth", 15),
    ("twentieth", 20),
    ("thirtieth", 30),
];

fn small_number(word: &str) -> Option<u64> {
    SMALL.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

fn scale(word: &str) -> Option<u64> {
    match word {
        "hundred" | "hundreds" => Some(100),
        "thousand" | "thousands" => Some(1000),
        "million" | "millions" => Some(1_000_000),
        "billion" | "billions" => Some(1_000_000_000),
        _ => None,
    }
}

/// Stands before the digits of a fraction.
const POINT: &str = "point";

/// Runs of English number words; a year may be said as "twenty twenty-six".
fn spelled_numbers(text: &str) -> Vec<Number> {
    let mut numbers = Vec::new();
    let (mut run, mut run_start): (Vec<String>, usize) = (Vec::new(), 0);
    let (mut at, mut is_after_article) = (0, false);
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        let start = at;
        at += word.len() + text[at + word.len()..].chars().next().map_or(0, char::len_utf8);
        if word.is_empty() {
            continue;
        }
        let lower = if word.len() <= 12 { word.to_lowercase() } else { String::new() };
        // "a hundred and fourteen", but not "hundreds".
        let is_scale = scale(&lower).is_some() && (!run.is_empty() || is_after_article);
        is_after_article = matches!(lower.as_str(), "a" | "an");
        let is_number = small_number(&lower).is_some() || is_scale;
        if is_number || (matches!(lower.as_str(), "and" | POINT) && !run.is_empty()) {
            if run.is_empty() {
                run_start = start;
            }
            run.push(lower);
        } else if !run.is_empty() {
            numbers.push(read_run(&run, run_start));
            run.clear();
        }
    }
    if !run.is_empty() {
        numbers.push(read_run(&run, run_start));
    }
    numbers
}

/// The value of a run of number words, or of several: `forms` as for digits.
fn read_run(run: &[String], start: usize) -> Number {
    if let Some(at) = run.iter().position(|word| word == POINT)
        && let Some(fraction) = run.get(at + 1).and_then(|word| small_number(word)).filter(|digit| *digit < 10)
    {
        // "fourteen point six million": more digits behind the first are not needed to recognize it.
        let whole = read_run(&run[..at], start).forms.swap_remove(0);
        return Number { forms: decimal_forms(whole, &fraction.to_string()), start, is_spelled: true };
    }
    let (mut total, mut group): (u64, u64) = (0, 0);
    let mut groups: Vec<u64> = Vec::new();
    let mut previous: Option<u64> = None;
    for word in run.iter().filter(|word| !matches!(word.as_str(), "and" | POINT)) {
        if let Some(scale) = scale(word) {
            if scale == 100 {
                group = group.max(1).saturating_mul(100);
            } else {
                total = total.saturating_add(group.max(1).saturating_mul(scale));
                group = 0;
            }
            previous = None;
        } else if let Some(value) = small_number(word) {
            // "twenty five" is one number, "twenty twenty" and "five six" are two.
            let joins = previous.is_none_or(|previous| previous >= 20 && previous % 10 == 0 && value < 10);
            if !joins {
                groups.push(total + group);
                (total, group) = (0, 0);
            }
            group += value;
            previous = Some(value);
        }
    }
    groups.push(total.saturating_add(group));
    let mut forms: Vec<String> = groups.iter().map(u64::to_string).collect();
    if forms.len() > 1 {
        forms.insert(0, forms.concat());
    }
    Number { forms, start, is_spelled: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_without_regard_to_case_and_punctuation() {
        let index = TextIndex::new("Well, Anna-Maria O'Neil said: “The budget is tight!” Budget, budget.");
        assert!(index.has_phrase("anna maria oneil"));
        assert!(index.has_phrase("the BUDGET"));
        assert!(!index.has_phrase("maria o"));
    }

    #[test]
    fn names_are_counted_and_written_as_in_the_text() {
        let text =
            "We met AT&T and ACME corp. in Zürich. Acme-Corp left, acme corporation stayed. 预算和预算\nAnn: acme corp";
        let index = NameIndex::new(text);
        let transcript = text.find("\nAnn").unwrap();
        let found = |name: &str| (index.has(name), index.count(name), index.as_written(name, transcript));
        assert_eq!(found("Acme Corp"), (true, 3, Some("ACME corp")));
        assert_eq!(found("Zürich"), (true, 1, Some("Zürich")));
        assert_eq!(found("at&t"), (true, 1, Some("AT&T")));
        assert_eq!(found("预算"), (true, 2, Some("预算")));
        assert_eq!(found("corp left"), (true, 1, Some("Corp left")));
        assert_eq!(found("zürich acme"), (true, 1, None), "it is written in another way");
        assert_eq!(found("Ann"), (true, 1, None), "it stands behind the transcript");
        assert_eq!(found("acm"), (false, 0, Some("acm")));
        assert_eq!(found("."), (false, 0, Some(".")));
        assert_eq!(NameIndex::new("Budget, budget budget").count("BUDGET"), 3);
        assert!(!NameIndex::new("").has("") && NameIndex::new("").as_written("x", 0).is_none());
    }

    #[test]
    fn the_text_that_is_most_like_another_is_the_one_that_comparing_finds() {
        let texts = [
            "Send the report to the bank.",
            "The bank closes on Friday.",
            "Nothing at all.",
            "Reports for the bank are sent.",
            "Send reports to the bank",
            "",
        ];
        let index = StemIndex::new(texts.into_iter());
        for text in texts.into_iter().chain(["send a report", "garden", "the bank, on Friday", "um"]) {
            let score = |at: &usize| (similarity(text, texts[*at]) * 1000.0) as usize;
            assert_eq!(index.most_similar(text), (0..texts.len()).max_by_key(score), "{text}");
        }
        assert_eq!(StemIndex::new([].into_iter()).most_similar("bank"), None);
    }

    #[test]
    fn numbers_are_found_in_digits_and_in_words() {
        let index = TextIndex::new(
            "It costs 1,250 dollars, twenty five percent of two hundred and forty, due in twenty twenty-six at 10:30.",
        );
        for known in ["1250", "1.250", "$1,250", "25", "240", "2026", "10:30", "10"] {
            assert!(numbers(known).iter().all(|number| index.has_number(number)), "{known}");
        }
        for unknown in ["1251", "17.5", "241", "11:45", "seventy"] {
            assert!(numbers(unknown).iter().any(|number| !index.has_number(number)), "{unknown}");
        }
    }

    #[test]
    fn a_hundred_is_a_number_and_hundreds_are_none() {
        let index = TextIndex::new("A hundred and fourteen people, a thousand pounds; hundreds came.");
        let has = |text: &str| numbers(text).iter().all(|number| index.has_number(number));
        assert!(has("114 people") && has("one hundred and fourteen") && has("1,000 pounds"));
        assert!(!has("200 people") && !has("115"));
        assert!(numbers("Hundreds came, and thousands more.").is_empty());
    }

    #[test]
    fn a_decimal_is_neither_its_digits_nor_its_whole_part() {
        let index = TextIndex::new(
            "Revenue was fourteen point six million against 15.1, at one and a half percent for fifteen years.",
        );
        let has = |text: &str| numbers(text).iter().all(|number| index.has_number(number));
        for known in ["14.6", "14,6 million", "fourteen point six", "15.1", "1.5 percent", "15 years", "15.0"] {
            assert!(has(known), "{known}");
        }
        for unknown in ["146", "15.6", "1.4", "14.5", "15.5", "14.1 million", "fifteen point six"] {
            assert!(!has(unknown), "{unknown}");
        }
    }

    #[test]
    fn other_forms_of_a_word_are_the_word() {
        let index = TextIndex::new("The committee discussed migrations.");
        assert!(index.has_word("discussing") && index.has_word("Migration"));
        assert!(!index.has_word("deployment"));
    }
}

//! Word times of an edited text: unchanged words keep their times, new ones divide the time between them.
//!
//! Texts are compared as tokens: words of scripts with blanks, characters of scripts without. The longest common
//! subsequence of the tokens is unchanged.

use std::ops::Range;

use hark_api::Word;
use hark_transcript::is_unspaced;

/// Limit of the alignment's cost; beyond it everything between the common prefix and suffix counts as replaced.
const MAX_COMPARISONS: usize = 1_000_000;

/// The score of a matched token; 1 is added for each that stays adjacent to its neighbour. Larger than the sum of those.
const MATCH_WEIGHT: u64 = 1 << 24;

/// The confidence of a word that a person typed.
const EDITED_CONFIDENCE: f32 = 1.0;

/// A word of a script with spaces, or a character with its marks of a script without.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    /// The index of its word: of the old words, or of the whitespace-separated parts of the new text.
    word: usize,
}

/// The words of `text` with times derived from those of the old text; empty if that had none.
pub(crate) fn retime(text: &str, old: &[Word]) -> Vec<Word> {
    if old.is_empty() {
        return Vec::new();
    }
    let before: Vec<Token> = old.iter().enumerate().flat_map(|(n, word)| tokens(&word.word, n)).collect();
    let after: Vec<Token> = text.split_whitespace().enumerate().flat_map(|(n, word)| tokens(word, n)).collect();
    let matches = align(&before, &after);

    let mut words: Vec<Word> = Vec::new();
    let mut at = 0;
    // The first old token that is not used yet.
    let mut old_at = 0;
    while at < after.len() {
        if let Some(first) = matches[at] {
            let source = before[first].word;
            // Characters of one old word that stay adjacent stay one word.
            let is_next = |n: usize| matches[n].is_some_and(|k| before[k].word == source && k == first + (n - at));
            let end =
                (at + 1..after.len()).find(|&n| !is_next(n) || after[n].word != after[at].word).unwrap_or(after.len());
            let time = time_of_tokens(&old[source], first..first + (end - at), &before);
            words.push(Word { word: join(&after[at..end]), ..time });
            old_at = first + (end - at);
            at = end;
        } else {
            let end = (at..after.len()).find(|&n| matches[n].is_some()).unwrap_or(after.len());
            let old_end = matches.get(end).copied().flatten().unwrap_or(before.len());
            if old_end - old_at == end - at {
                // As many as were removed: each takes the time of the one it replaces.
                for (token, n) in after[at..end].iter().zip(old_at..) {
                    let time = time_of_tokens(&old[before[n].word], n..n + 1, &before);
                    words.push(Word { word: token.text.to_owned(), confidence: EDITED_CONFIDENCE, ..time });
                }
            } else {
                let (start, stop) = gap(old, &before, old_at..old_end);
                distribute(&after[at..end], start, stop, &mut words);
            }
            old_at = old_end;
            at = end;
        }
    }
    words
}

/// Characters before which an engine may split a word: `well` and `-known`, `don` and `'t`.
const JOINING: [char; 7] = ['-', '\'', '’', '.', ',', '/', '&'];

/// The tokens of a word.
fn tokens(word: &str, number: usize) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut begin = 0;
    let mut previous: Option<char> = None;
    for (at, c) in word.char_indices() {
        let is_inside = word[at + c.len_utf8()..].starts_with(char::is_alphanumeric);
        let joins = |before: char| is_inside && JOINING.contains(&c) && before.is_alphanumeric();
        let splits = |before: char| (is_unspaced(before) || is_unspaced(c) || joins(before)) && !is_mark(c);
        if previous.is_some_and(splits) {
            tokens.push(Token { text: &word[begin..at], word: number });
            begin = at;
        }
        previous = Some(c);
    }
    if begin < word.len() {
        tokens.push(Token { text: &word[begin..], word: number });
    }
    tokens
}

/// Whether `c` belongs to the character before it: vowels and tones of Thai, Lao, Tibetan, Myanmar and Khmer that stand
/// above, below or after their consonant, sound marks of kana, joiners and variation selectors.
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{0300}'..='\u{036F}'
        | '\u{0E31}' | '\u{0E33}'..='\u{0E3A}' | '\u{0E47}'..='\u{0E4E}'
        | '\u{0EB1}' | '\u{0EB3}'..='\u{0EBC}' | '\u{0EC8}'..='\u{0ECE}'
        | '\u{0F18}'..='\u{0F19}' | '\u{0F35}' | '\u{0F37}' | '\u{0F39}' | '\u{0F71}'..='\u{0F84}'
        | '\u{0F86}'..='\u{0F87}' | '\u{0F8D}'..='\u{0FBC}'
        | '\u{102B}'..='\u{103E}' | '\u{1056}'..='\u{1059}' | '\u{105E}'..='\u{1060}' | '\u{1062}'..='\u{1064}'
        | '\u{17B4}'..='\u{17D3}' | '\u{17DD}'
        | '\u{200B}'..='\u{200D}' | '\u{3099}'..='\u{309A}' | '\u{FE00}'..='\u{FE0F}' | '\u{FF9E}'..='\u{FF9F}'
        | '\u{E0100}'..='\u{E01EF}')
}

/// A token without case and punctuation, for comparison.
fn normalized(token: &Token) -> String {
    let char_count: String = token.text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    // Punctuation alone is compared as it stands.
    if char_count.is_empty() { token.text.to_owned() } else { char_count }
}

/// For each token of `after` its match in `before`, by a longest common subsequence.
fn align(before: &[Token], after: &[Token]) -> Vec<Option<usize>> {
    let old: Vec<String> = before.iter().map(normalized).collect();
    let new: Vec<String> = after.iter().map(normalized).collect();
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(old, new)| old == new).count();
    let (rows, columns) = (old.len() - head - tail, new.len() - head - tail);
    let mut matches: Vec<Option<usize>> = vec![None; new.len()];
    for n in 0..head {
        matches[n] = Some(n);
    }
    for n in 1..=tail {
        matches[new.len() - n] = Some(old.len() - n);
    }
    if rows == 0 || columns == 0 || rows.saturating_mul(columns) > MAX_COMPARISONS {
        return matches;
    }
    // best[row][column]: the score of the best alignment from there on; matched[row][column]: of the best that begins with this match.
    // As many tokens as possible match; of equal alignments the one that splits the fewest words wins.
    let width = columns + 1;
    let mut best = vec![0u64; (rows + 1) * width];
    let mut matched = vec![0u64; (rows + 1) * width];
    let is_same = |row: usize, column: usize| old[head + row] == new[head + column];
    for row in (0..rows).rev() {
        let goes_on = row + 1 < rows && before[head + row].word == before[head + row + 1].word;
        for column in (0..columns).rev() {
            let (here, next) = (row * width + column, (row + 1) * width + column + 1);
            if is_same(row, column) {
                let together = if goes_on && matched[next] > 0 { matched[next] + 1 } else { 0 };
                matched[here] = MATCH_WEIGHT + best[next].max(together);
            }
            best[here] = matched[here].max(best[here + width]).max(best[here + 1]);
        }
    }
    let (mut row, mut column) = (0, 0);
    // Set while the tokens of one word are matched together.
    let mut is_forced = false;
    while row < rows && column < columns {
        let (here, next) = (row * width + column, (row + 1) * width + column + 1);
        if matched[here] > 0 && (is_forced || matched[here] == best[here]) {
            matches[head + column] = Some(head + row);
            is_forced = matched[here] - MATCH_WEIGHT > best[next];
            (row, column) = (row + 1, column + 1);
        } else if best[here + width] >= best[here + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    matches
}

fn join(tokens: &[Token]) -> String {
    tokens.iter().map(|token| token.text).collect()
}

fn char_count(text: &str) -> f64 {
    text.chars().count().max(1) as f64
}

/// The time and confidence of some tokens of an old word, by their share of its characters.
fn time_of_tokens(word: &Word, tokens: Range<usize>, before: &[Token]) -> Word {
    let number = before[tokens.start].word;
    let first = before.partition_point(|token| token.word < number);
    let last = before.partition_point(|token| token.word <= number);
    let count = |range: Range<usize>| before[range].iter().map(|token| char_count(token.text)).sum::<f64>();
    let all = count(first..last);
    let seconds = (word.end - word.start).max(0.0);
    let start =
        if tokens.start == first { word.start } else { word.start + seconds * count(first..tokens.start) / all };
    let end = if tokens.end == last { word.end } else { word.start + seconds * count(first..tokens.end) / all };
    Word { word: String::new(), start, end, confidence: word.confidence }
}

/// The time of the removed tokens, or, if none were removed, the time between their neighbours.
fn gap(old: &[Word], before: &[Token], removed: Range<usize>) -> (f64, f64) {
    let time = |token: usize| time_of_tokens(&old[before[token].word], token..token + 1, before);
    if !removed.is_empty() {
        return (time(removed.start).start, time(removed.end - 1).end);
    }
    let start = removed.start.checked_sub(1).map(|last| time(last).end);
    let end = (removed.end < before.len()).then(|| time(removed.end).start);
    match (start, end) {
        (Some(start), Some(end)) => (start, end.max(start)),
        // At the edges of the segment there is no time left: zero duration.
        (Some(at), None) | (None, Some(at)) => (at, at),
        (None, None) => (0.0, 0.0),
    }
}

/// Divides the time among new words by their number of characters.
fn distribute(tokens: &[Token], start: f64, end: f64, words: &mut Vec<Word>) {
    let all: f64 = tokens.iter().map(|token| char_count(token.text)).sum();
    let mut done = 0.0;
    for token in tokens {
        let begin = start + (end - start) * done / all;
        done += char_count(token.text);
        let end = start + (end - start) * done / all;
        words.push(Word { word: token.text.to_owned(), start: begin, end, confidence: EDITED_CONFIDENCE });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(spec: &[(&str, f64, f64)]) -> Vec<Word> {
        spec.iter().map(|&(word, start, end)| Word { word: word.into(), start, end, confidence: 0.9 }).collect()
    }

    fn times(words: &[Word]) -> Vec<(&str, f64, f64)> {
        let round = |seconds: f64| (seconds * 1000.0).round() / 1000.0;
        words.iter().map(|word| (word.word.as_str(), round(word.start), round(word.end))).collect()
    }

    fn fox() -> Vec<Word> {
        words(&[("The", 1.0, 1.2), ("quick", 1.3, 1.6), ("brown", 1.6, 2.0), ("fox.", 2.1, 2.5)])
    }

    #[test]
    fn words_that_stay_keep_their_times_when_one_is_taken_out() {
        let new = retime("The brown fox.", &fox());
        assert_eq!(times(&new), [("The", 1.0, 1.2), ("brown", 1.6, 2.0), ("fox.", 2.1, 2.5)]);
        assert!(new.iter().all(|word| word.confidence == 0.9));
    }

    #[test]
    fn a_new_word_gets_the_time_between_its_neighbours() {
        let new = retime("The very quick brown fox.", &fox());
        assert_eq!(times(&new)[..3], [("The", 1.0, 1.2), ("very", 1.2, 1.3), ("quick", 1.3, 1.6)]);
        assert_eq!((new[1].confidence, new[2].confidence), (EDITED_CONFIDENCE, 0.9));
        assert_eq!(times(&retime("The quick brown fox. Yes", &fox()))[4], ("Yes", 2.5, 2.5));
        assert_eq!(times(&retime("So the quick brown fox.", &fox()))[..2], [("So", 1.0, 1.0), ("the", 1.0, 1.2)]);
    }

    #[test]
    fn a_replaced_word_takes_the_time_of_the_one_it_replaces() {
        assert_eq!(times(&retime("The quick red fox.", &fox()))[2], ("red", 1.6, 2.0));
        let two = retime("The quick dark red fox.", &fox());
        assert_eq!(times(&two)[2..4], [("dark", 1.6, 1.829), ("red", 1.829, 2.0)]);
    }

    #[test]
    fn case_and_punctuation_make_no_other_word() {
        let new = retime("the QUICK, brown fox", &fox());
        assert_eq!(times(&new), [("the", 1.0, 1.2), ("QUICK,", 1.3, 1.6), ("brown", 1.6, 2.0), ("fox", 2.1, 2.5)]);
        assert!(new.iter().all(|word| word.confidence == 0.9));
    }

    #[test]
    fn words_that_the_engine_cut_in_two_stay_as_they_are() {
        let old = words(&[("A", 0.0, 0.2), ("well", 0.2, 0.5), ("-known", 0.5, 0.9), ("fact.", 1.0, 1.4)]);
        let new = retime("One well-known fact, don't you think?", &old);
        assert_eq!(
            times(&new)[..4],
            [("One", 0.0, 0.2), ("well", 0.2, 0.5), ("-known", 0.5, 0.9), ("fact,", 1.0, 1.4)],
            "{new:?}"
        );
    }

    #[test]
    fn chinese_and_japanese_are_compared_by_character() {
        let old = words(&[("今天", 0.0, 0.6), ("天气", 0.6, 1.2), ("很", 1.2, 1.4), ("好。", 1.4, 2.0)]);
        let new = retime("今天的天气非常好。", &old);
        assert_eq!(
            times(&new),
            [
                ("今天", 0.0, 0.6),
                ("的", 0.6, 0.6),
                ("天气", 0.6, 1.2),
                ("非", 1.2, 1.3),
                ("常", 1.3, 1.4),
                ("好。", 1.4, 2.0)
            ]
        );
        assert_eq!(times(&retime("天气好。", &old)), [("天气", 0.6, 1.2), ("好。", 1.4, 2.0)]);
        let split = retime("今天气很好。", &old);
        assert_eq!(times(&split)[..2], [("今天", 0.0, 0.6), ("气", 0.9, 1.2)]);
    }

    #[test]
    fn thai_vowels_stay_with_their_consonants() {
        let old = words(&[("สวัสดี", 0.0, 0.6), ("ครับ", 0.6, 1.0)]);
        let new = retime("สวัสดีค่ะ", &old);
        assert_eq!((new[0].word.as_str(), new[0].start, new[0].end), ("สวัสดี", 0.0, 0.6));
        assert_eq!(new.iter().map(|word| word.word.as_str()).collect::<String>(), "สวัสดีค่ะ");
        assert!(new[1..].iter().all(|word| word.start >= 0.6 && word.end <= 1.0), "{new:?}");
    }

    #[test]
    fn times_never_run_backwards_whatever_is_made_of_the_text() {
        let old = words(&[("a", 0.0, 0.4), ("b", 0.4, 0.8), ("a", 0.8, 1.2), ("c", 1.2, 1.6), ("東京", 1.6, 2.4)]);
        let pieces = ["a", "b", "c", "東", "京", "x", "東京", "yy", "B."];
        let mut dice = 7_u64;
        for _ in 0..2000 {
            let mut text = String::new();
            for _ in 0..8 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text += pieces[(dice >> 33) as usize % pieces.len()];
                text += if dice >> 62 == 0 { "" } else { " " };
            }
            let new = retime(&text, &old);
            let char_count = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(new.iter().map(|word| word.word.as_str()).collect::<String>(), char_count(&text));
            let mut clock = 0.0;
            for word in &new {
                assert!(word.start >= clock - 1e-9 && word.end >= word.start - 1e-9, "{text}: {new:?}");
                clock = word.start;
            }
        }
    }

    #[test]
    fn a_text_as_long_as_a_request_allows_takes_no_quadratic_time() {
        let text = "word ".repeat(20_000);
        assert_eq!(retime(&text, &fox()).len(), 20_000);
        assert!(retime("anything", &[]).is_empty() && retime("", &fox()).is_empty());
    }
}

//! Texts as sentences and what stands between them, so that line breaks, spacing and list marks survive translation.

/// A part of a text; all parts one behind the other are the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// To be translated.
    Sentence(&'a str),
    /// Copied: spaces, line breaks, marks of lists, lines without letters.
    Verbatim(&'a str),
}

/// Words after which a full stop does not end a sentence, lowered. They are those of the languages that models exist for.
const ABBREVIATIONS: [&str; 58] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "etc", "e.g", "i.e", "a.m", "p.m", "u.s", "u.k", "no",
    "vol", "fig", "inc", "ltd", "co", "corp", "dept", "est", "approx", "gen", "col", "sgt", "capt", "lt", "rev", "hon",
    "gov", "sra", "srta", "dra", "profa", "av", "p.ex", "pág", "pag", "núm", "art", "exmo", "exma", "ltda", "mme",
    "mlle", "bzw", "z.b", "d.h", "u.a", "usw", "nr", "str", "ca", "cf",
];

/// Cuts a text into sentences and what stands between them.
pub(crate) fn split(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for line in text.split_inclusive('\n') {
        let body = line.trim_end();
        let start = list_mark(body);
        push(&mut parts, Part::Verbatim(&line[..start]));
        split_line(&line[start..body.len()], &mut parts);
        push(&mut parts, Part::Verbatim(&line[body.len()..]));
    }
    parts
}

fn push<'a>(parts: &mut Vec<Part<'a>>, part: Part<'a>) {
    let (Part::Sentence(text) | Part::Verbatim(text)) = part;
    match part {
        _ if text.is_empty() => {}
        Part::Sentence(text) if !text.chars().any(char::is_alphabetic) => parts.push(Part::Verbatim(text)),
        part => parts.push(part),
    }
}

/// Bytes of the spaces and the list or quote mark that a line begins with.
fn list_mark(line: &str) -> usize {
    let rest = line.trim_start();
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mark = if (1..=3).contains(&digits) && rest[digits..].starts_with(['.', ')']) {
        digits + 1
    } else if let Some(c) = rest.chars().next().filter(|c| "-*•–—>♪·".contains(*c)) {
        c.len_utf8()
    } else {
        rest.len() - rest.trim_start_matches('#').len()
    };
    let after = rest[mark..].trim_start();
    // A mark is followed by a space and then something.
    let is_mark = mark > 0 && after.len() < rest.len() - mark && !after.is_empty();
    line.len() - if is_mark { after.len() } else { rest.len() }
}

fn split_line<'a>(line: &'a str, parts: &mut Vec<Part<'a>>) {
    let mut start = 0;
    let mut characters = line.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if !is_terminator(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        while let Some((next, c)) = characters.next_if(|(_, c)| is_terminator(*c) || is_closer(*c)) {
            end = next + c.len_utf8();
        }
        let after = line[end..].trim_start();
        let needs_no_space = is_wide(c);
        let is_end = !after.is_empty()
            && (needs_no_space || after.len() < line.len() - end)
            && !after.starts_with(char::is_lowercase)
            && (c != '.' || !is_abbreviation(&line[start..at]));
        if is_end {
            push(parts, Part::Sentence(&line[start..end]));
            start = line.len() - after.len();
            push(parts, Part::Verbatim(&line[end..start]));
        }
    }
    push(parts, Part::Sentence(&line[start..]));
}

/// Whether a text ends with its sentence.
pub(crate) fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end().trim_end_matches(is_closer);
    match text.chars().next_back() {
        Some('.') => !is_abbreviation(&text[..text.len() - 1]),
        Some(last) => is_terminator(last),
        None => false,
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '؟' | '۔' | '।' | '॥' | '።' | '։') || is_wide(c)
}

/// Whether a terminator is followed by the next sentence without a space.
fn is_wide(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '｡')
}

fn is_closer(c: char) -> bool {
    matches!(c, ')' | ']' | '}' | '"' | '\'' | '»' | '”' | '’' | '›' | '」' | '』' | '）')
}

/// Whether what stands before a full stop is an abbreviation, an initial, or the number of an item.
fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let mut characters = word.chars();
    let is_initial = matches!((characters.next(), characters.next()), (Some(c), None) if c.is_uppercase());
    is_initial || ABBREVIATIONS.contains(&&*word.to_lowercase())
}

/// Cuts a sentence that has more tokens than `most`, at punctuation where there is some, else at a space, else anywhere.
pub(crate) fn cut<'a>(sentence: &'a str, most: usize, count: &dyn Fn(&str) -> usize, parts: &mut Vec<Part<'a>>) {
    let Some(middle) = cut_place(sentence).filter(|_| count(sentence) > most) else {
        push(parts, Part::Sentence(sentence));
        return;
    };
    let (left, right) = sentence.split_at(middle);
    let (first, second) = (left.trim_end(), right.trim_start());
    cut(first, most, count, parts);
    let space = first.len()..sentence.len() - second.len();
    push(parts, Part::Verbatim(&sentence[space]));
    cut(second, most, count, parts);
}

/// The best place to cut: near the middle, both sides not empty.
fn cut_place(sentence: &str) -> Option<usize> {
    let middle = sentence.len() / 2;
    let nearest = |is_place: &dyn Fn(usize) -> bool| {
        let places = sentence.char_indices().map(|(at, _)| at).filter(|at| *at > 0 && is_place(*at));
        places.min_by_key(|at| at.abs_diff(middle))
    };
    let is_space = |at: usize| sentence[at..].starts_with(char::is_whitespace);
    let is_clause =
        |at: usize| sentence[..at].ends_with([',', ';', ':', '，', '、', '；', '—', '–', ')']) && is_space(at);
    let clause = nearest(&is_clause).filter(|at| at.abs_diff(middle) < sentence.len() / 4);
    // Text without spaces may have wide punctuation.
    let wide = || {
        nearest(&|at| sentence[..at].ends_with(['，', '、', '；']))
            .filter(|at| at.abs_diff(middle) < sentence.len() / 4)
    };
    clause.or_else(wide).or_else(|| nearest(&is_space)).or_else(|| nearest(&|_| true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        let parts = split(text);
        let whole: String = parts.iter().map(|(Part::Sentence(text) | Part::Verbatim(text))| *text).collect();
        assert_eq!(whole, text, "parts make up the text");
        let sentences = parts.into_iter().filter_map(|part| match part {
            Part::Sentence(text) => Some(text),
            Part::Verbatim(_) => None,
        });
        sentences.collect()
    }

    #[test]
    fn sentences_end_at_punctuation_that_a_new_one_follows() {
        assert_eq!(sentences("Hello there. How are you?  Fine!"), ["Hello there.", "How are you?", "Fine!"]);
        assert_eq!(sentences("He said \"Stop!\" and left."), ["He said \"Stop!\" and left."]);
        assert_eq!(sentences("He said \"Stop!\" Then he left..."), ["He said \"Stop!\"", "Then he left..."]);
        assert_eq!(sentences("今日は。元気ですか？はい。"), ["今日は。", "元気ですか？", "はい。"]);
        assert_eq!(sentences("वह आया। वह गया।"), ["वह आया।", "वह गया।"]);
    }

    #[test]
    fn abbreviations_initials_and_decimals_do_not_end_a_sentence() {
        for whole in [
            "Dr. Silva met J. Smith at 5 p.m. Monday.",
            "It costs 3.50 euros, e.g. Bread.",
            "A Sra. Maria (cf. Lopes) saiu.",
        ] {
            assert_eq!(sentences(whole), [whole]);
        }
    }

    #[test]
    fn the_end_of_a_sentence_is_told_from_that_of_an_abbreviation() {
        for whole in ["It ended.", "Really?\"", "今日は。", "And so on…", "(He left.) "] {
            assert!(ends_sentence(whole), "{whole}");
        }
        for open in ["", "It goes", "with Dr.", "then,", "by J.", "\""] {
            assert!(!ends_sentence(open), "{open}");
        }
    }

    #[test]
    fn line_breaks_spaces_and_list_marks_stand_between_sentences() {
        let text = "  # Title\r\n\r\n - first item\n2) second item.  And more\n\t* * *\n12:30\n";
        assert_eq!(sentences(text), ["Title", "first item", "second item.", "And more"]);
        assert_eq!(sentences(""), Vec::<&str>::new());
        assert_eq!(sentences("\n\n  \n"), Vec::<&str>::new());
        assert_eq!(sentences("-5 degrees"), ["-5 degrees"]);
        assert_eq!(sentences("- "), Vec::<&str>::new());
    }

    #[test]
    fn long_sentences_are_cut_into_parts_that_fit_and_lose_nothing() {
        let long = "one two three, four five six, seven eight nine ten ".repeat(20);
        let unbroken = "あ".repeat(300);
        for text in [long.trim(), &unbroken] {
            let count = |text: &str| text.chars().count();
            let mut parts = Vec::new();
            cut(text, 100, &count, &mut parts);
            let whole: String = parts.iter().map(|(Part::Sentence(text) | Part::Verbatim(text))| *text).collect();
            assert_eq!(whole, text);
            assert!(parts.len() > 2);
            for part in parts {
                let (Part::Sentence(text) | Part::Verbatim(text)) = part;
                assert!(count(text) <= 100, "{text}");
            }
        }
    }
}

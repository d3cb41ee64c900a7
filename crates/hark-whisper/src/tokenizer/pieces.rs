//! GPT-2's cut of a text into pieces that merges never cross.
//!
//! The rule is the regular expression `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`,
//! written out by hand.

use super::letters::is_letter;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Letter,
    Number,
    Other,
}

fn kind(letter: char) -> Kind {
    if letter.is_whitespace() {
        Kind::Space
    } else if letter.is_numeric() {
        Kind::Number
    } else if is_letter(letter) {
        Kind::Letter
    } else {
        Kind::Other
    }
}

/// The pieces of a text, in order; together they are the text.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(piece_length(rest));
        rest = after;
        Some(piece)
    })
}

fn piece_length(text: &str) -> usize {
    for ending in ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"] {
        if text.starts_with(ending) {
            return ending.len();
        }
    }
    // One plain space may lead a run of letters, numbers or signs.
    let body = text.strip_prefix(' ').unwrap_or(text);
    let lead = text.len() - body.len();
    if let Some(first) = body.chars().next()
        && kind(first) != Kind::Space
    {
        return lead + run_length(body, kind(first));
    }
    // A run of spaces leaves its last one to the word that follows.
    let run = run_length(text, Kind::Space);
    let last = text[..run].chars().next_back().map_or(0, char::len_utf8);
    if run < text.len() && run > last { run - last } else { run }
}

fn run_length(text: &str, wanted: Kind) -> usize {
    text.char_indices().find(|(_, letter)| kind(*letter) != wanted).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_the_expression() {
        let cut = |text| split(text).collect::<Vec<_>>();
        assert_eq!(cut("I'll say it's 3rd,  ok"), ["I", "'ll", " say", " it", "'s", " 3", "rd", ",", " ", " ok"]);
        assert_eq!(cut("a \n b  "), ["a", " \n", " b", "  "]);
        assert_eq!(cut("\nx\u{3000}y"), ["\n", "x", "\u{3000}", "y"]);
        assert_eq!(cut("नमस्ते"), ["नमस", "्", "त", "े"]);
        assert_eq!(cut(" ... 'tis"), [" ...", " '", "tis"]);
        assert_eq!(cut("Ⅻ½x"), ["Ⅻ½", "x"]);
        assert!(cut("").is_empty());
    }
}

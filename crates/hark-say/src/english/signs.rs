//! Signs that are spoken, are pauses, or are left out.

use super::{Position, Reading};

/// One sign.
pub(crate) fn sign(position: &Position) -> Option<Reading> {
    let rest = position.rest();
    let c = rest.chars().next()?;
    let len = c.len_utf8();
    let next = rest[len..].chars().next();
    let previous = position.previous_char();
    let between_digits = previous.is_some_and(|p| p.is_ascii_digit()) && next.is_some_and(|n| n.is_ascii_digit());
    let spaced = previous.is_none_or(char::is_whitespace) && next.is_none_or(char::is_whitespace);
    // Numbers on both sides, with or without spaces: a calculation.
    let number_before = position.before().ends_with(|p: char| p.is_ascii_digit() || p == ')');
    let number_after = rest[len..].trim_start().starts_with(|n: char| n.is_ascii_digit() || n == '(');
    let calculates = number_before && number_after;
    let words = match c {
        '&' => " and ",
        '+' if previous.is_some_and(char::is_alphanumeric) && next.is_none_or(|n| !n.is_alphanumeric()) => " plus",
        '+' => " plus ",
        '=' if rest.starts_with("=>") => return Reading::new(2, ", "),
        '=' if rest.starts_with("==") => {
            return Reading::new(rest.len() - rest.trim_start_matches('=').len(), " equals ");
        }
        '=' => " equals ",
        '<' | '>' if position.text[..position.at].trim().is_empty() => "",
        '<' if rest.starts_with("<=") => return Reading::new(2, " is at most "),
        '>' if rest.starts_with(">=") => return Reading::new(2, " is at least "),
        '<' if spaced || calculates => " is less than ",
        '>' if spaced || calculates => " is greater than ",
        '≤' => " is at most ",
        '≥' => " is at least ",
        '≠' => " is not equal to ",
        '≈' => " is about ",
        '×' => " times ",
        '÷' => " divided by ",
        '±' => " plus or minus ",
        '√' => " the square root of ",
        '∞' => " infinity ",
        'π' => " pi ",
        '*' if between_digits || (spaced && calculates) => " times ",
        '%' => " percent ",
        '‰' => " per mille ",
        '@' => " at ",
        '#' if spaced => "",
        '#' => " sharp ",
        '§' => " section ",
        '©' => " copyright ",
        '°' => " degrees ",
        '$' => " dollars ",
        '€' => " euros ",
        '£' => " pounds ",
        '~' if number_after => " about ",
        '→' | '⇒' => " to ",
        '←' | '↔' | '↑' | '↓' => ", ",
        '\\' => " backslash ",
        '/' if calculates && spaced => " divided by ",
        '/' if between_digits => " over ",
        '/' => " slash ",
        '−' if calculates => " minus ",
        '-' if spaced && calculates => " minus ",
        '-' if spaced => " — ",
        '-' if rest.starts_with("--") => return Reading::new(rest.len() - rest.trim_start_matches('-').len(), " — "),
        // Between a word and a number, as in COVID-19, and between words that stay one.
        '-' if previous.is_some_and(char::is_alphabetic) && next.is_some_and(char::is_alphabetic) => "-",
        '-' | '−' => " ",
        '–' | '—' if between_digits => " to ",
        '–' => " — ",
        '—' => " — ",
        '.' if rest.starts_with("..") => {
            let dots = rest.len() - rest.trim_start_matches('.').len();
            return Reading::new(dots, "…");
        }
        '…' => return Reading::new(rest.len() - rest.trim_start_matches('…').len(), "…"),
        '!' | '?' => {
            // "?!" and "!!!" are one sign.
            let run = rest.len() - rest.trim_start_matches(['!', '?']).len();
            return Reading::new(run, if rest[..run].contains('?') { "?" } else { "!" });
        }
        '.' | ',' | ';' | ':' | '“' | '”' | '(' | ')' => return Reading::new(len, c),
        '"' => {
            return Reading::new(len, if previous.is_none_or(|p| p.is_whitespace() || p == '(') { "“" } else { "”" });
        }
        '[' | '{' => "(",
        ']' | '}' => ")",
        '|' => ", ",
        '\'' => return apostrophe(previous, next, len),
        '*' | '_' | '^' | '~' | '<' | '>' | '™' | '®' | '•' | '·' | '†' | '‡' | '¶' | '`' => "",
        _ if c.is_alphabetic() => return None,
        _ => "",
    };
    Reading::new(len, words)
}

/// An apostrophe stays inside and at the edge of words; alone it is a quotation mark and is left out.
fn apostrophe(previous: Option<char>, next: Option<char>, len: usize) -> Option<Reading> {
    let inside = previous.is_some_and(char::is_alphabetic) && next.is_some_and(char::is_alphabetic);
    Reading::new(len, if inside { "'" } else { "" })
}

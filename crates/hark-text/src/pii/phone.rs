//! Telephone numbers: international, and the common national forms; not dates, times or years.

use super::check_digits::value;
use super::numbers::Candidate;
use super::text::Text;
use super::{PiiSpan, PiiType};

/// Words that introduce a telephone number.
const KEYWORDS: &[&str] = &[
    "phone",
    "telephone",
    "tel",
    "call",
    "mobile",
    "cell",
    "fax",
    "dial",
    "whatsapp",
    "text me",
    "text us",
    "reach me",
    "reach us",
    "reached at",
    "my number",
    "her number",
    "his number",
    "their number",
    "handy",
    "telefon",
    "rufnummer",
    "téléphone",
    "portable",
    "teléfono",
    "móvil",
    "llame",
    "telefone",
    "celular",
    "telemóvel",
    "telefono",
    "cellulare",
    "ring me",
    "hotline",
    "extension",
];

/// Words that introduce another number.
const OTHERS: &[&str] = &[
    "order",
    "invoice",
    "ticket",
    "account",
    "reference",
    "ref",
    "case",
    "serial",
    "tracking",
    "isbn",
    "policy",
    "booking",
    "part number",
];

/// How far before a number a word may introduce it.
const REACH: usize = 32;

/// What the words before a number say it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Introduction {
    /// A telephone number.
    Phone,
    /// The number of something else.
    Other,
    /// They say nothing.
    Nothing,
}

/// What the words before `start` say that the number there is.
pub(super) fn introduction(text: &Text, start: usize) -> Introduction {
    if text.has_keyword_before(start, REACH, OTHERS) {
        Introduction::Other
    } else if text.has_keyword_before(start, REACH, KEYWORDS) {
        Introduction::Phone
    } else {
        Introduction::Nothing
    }
}

pub(super) fn find(candidate: &Candidate<'_>) -> Option<PiiSpan> {
    let Candidate { text, end, .. } = *candidate;
    let mut start = candidate.start;
    let before = text.before(start);
    let has_plus = before == '+';
    if matches!(before, '$' | '€' | '£' | '¥' | '₹' | '#' | '=') || matches!(text.at(end), '%' | '€' | '°') {
        return None;
    }
    let is_phone = if has_plus {
        (8..=15).contains(&candidate.digits.len())
    } else {
        candidate.stands_alone && !is_date(&candidate.shape, &candidate.digits) && is_national_phone(candidate)
    };
    if !is_phone {
        return None;
    }
    if has_plus {
        start -= 1;
    }
    // The bracket belongs to the number: (212) 555-0123.
    if text.before(start) == '(' && text.chars[start..end].contains(&')') {
        start -= 1;
    }
    Some(PiiSpan { r#type: PiiType::Phone, start, end })
}

fn is_national_phone(candidate: &Candidate<'_>) -> bool {
    let (digits, shape) = (candidate.digits.as_slice(), candidate.shape.as_str());
    let length = digits.len();
    if candidate.introduction == Introduction::Phone
        && (7..=15).contains(&length)
        && shape.split([' ', '-', '.', '/']).count() <= 6
    {
        return true;
    }
    if candidate.introduction == Introduction::Other {
        return false;
    }
    let is_north_american = |digits: &[u8]| digits.len() == 10 && digits[0] >= 2 && digits[3] >= 2;
    match shape {
        // International with two zeros.
        _ if digits.starts_with(&[0, 0]) && digits[2] != 0 && (10..=17).contains(&length) => true,
        "3-3-4" | "3.3.4" | "3 3 4" | "3 3-4" => is_north_american(digits) || (digits[0] == 3 && shape == "3 3 4"),
        "1-3-3-4" | "1 3 3 4" | "1.3.3.4" | "1 3 3-4" | "1-3 3-4" => digits[0] == 1 && is_north_american(&digits[1..]),
        // Germany, France, Britain, Italy, Japan, Australia and others: the trunk prefix 0.
        _ if digits[0] == 0 && digits[1] != 0 => {
            let groups: Vec<&str> = shape.split([' ', '-', '.', '/']).collect();
            match groups.len() {
                1 => (10..=11).contains(&length),
                2..=6 => (9..=12).contains(&length) && groups[0] != "1",
                _ => false,
            }
        }
        // Spain and Portugal.
        "3 2 2 2" => matches!(digits[0], 6..=9),
        "3 3 3" => matches!(digits[0], 6 | 7 | 9),
        // Brazil, India, Italy, China.
        "2 5-4" | "2 4-4" => digits[0] != 0,
        "5 5" | "5-5" => digits[0] >= 6,
        "3 7" | "3 6" => digits[0] == 3,
        "3 4 4" | "3-4-4" => digits[0] == 1 && digits[1] >= 3,
        "3-4" => value(&digits[..3]) == 555,
        _ => false,
    }
}

/// Days, ranges of years, and days with a time behind them.
fn is_date(shape: &str, digits: &[u8]) -> bool {
    let is_year = |digits: &[u8]| (1800..=2100).contains(&value(digits));
    let starts = |forms: &[&str]| forms.iter().any(|form| shape == *form || shape.starts_with(&format!("{form} ")));
    if starts(&["4-2-2", "4/2/2", "4.2.2"]) {
        return is_year(&digits[..4]);
    }
    if starts(&["2/2/4", "2.2.4", "2-2-4", "2 2 4"]) {
        return is_year(&digits[4..8]);
    }
    if starts(&["1/2/4", "2/1/4", "1.2.4", "2.1.4", "1-2-4", "2-1-4"]) {
        return is_year(&digits[3..7]);
    }
    match shape {
        "4-4" | "4 4" | "4/4" | "4 4 4" => is_year(&digits[..4]) && is_year(&digits[4..8]),
        "8" => is_year(&digits[..4]) && value(&digits[4..6]) <= 12,
        _ => false,
    }
}

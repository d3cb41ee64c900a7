//! Payment cards and bank accounts.

use super::check_digits::{luhn, mod_97, value};
use super::text::Text;
use super::{PiiSpan, PiiType};

/// Characters of an account number by country (the IBAN registry).
const IBAN_LENGTHS: &[(&str, usize)] = &[
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("AZ", 28),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BH", 22),
    ("BR", 29),
    ("BY", 28),
    ("CH", 21),
    ("CR", 22),
    ("CY", 28),
    ("CZ", 24),
    ("DE", 22),
    ("DK", 18),
    ("DO", 28),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FO", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GI", 23),
    ("GL", 18),
    ("GR", 27),
    ("GT", 28),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IQ", 23),
    ("IS", 26),
    ("IT", 27),
    ("JO", 30),
    ("KW", 30),
    ("KZ", 20),
    ("LB", 28),
    ("LC", 32),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("LY", 25),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MR", 27),
    ("MT", 31),
    ("MU", 30),
    ("NL", 18),
    ("NO", 15),
    ("PK", 24),
    ("PL", 28),
    ("PS", 29),
    ("PT", 25),
    ("QA", 29),
    ("RO", 24),
    ("RS", 22),
    ("SA", 24),
    ("SC", 31),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
    ("SM", 27),
    ("ST", 25),
    ("SV", 28),
    ("TL", 23),
    ("TN", 24),
    ("TR", 26),
    ("UA", 29),
    ("VA", 22),
    ("VG", 24),
    ("XK", 20),
];

/// A card number: length and first digits of an issuer, and the Luhn digit. `shape` is the lengths of its groups.
pub(super) fn is_card(digits: &[u8], shape: &str) -> bool {
    let shape: String = shape.chars().map(|c| if c == '-' || c == '.' { ' ' } else { c }).collect();
    let is_grouped = matches!(
        shape.as_str(),
        "13" | "14"
            | "15"
            | "16"
            | "17"
            | "18"
            | "19"
            | "4 4 4 4"
            | "4 4 4 4 3"
            | "4 6 5"
            | "4 6 4"
            | "4 4 4 1"
            | "8 8"
            | "6 13"
            | "4 4 8"
            | "4 12"
    );
    let first = |count: usize| value(&digits[..count]);
    let is_issued = match digits.len() {
        13 => first(1) == 4,
        14 => matches!(first(3), 300..=305 | 309) || matches!(first(2), 36 | 38 | 39),
        15 => matches!(first(2), 34 | 37) || matches!(first(4), 2014 | 2149),
        16..=19 => {
            let any_length =
                matches!(first(2), 62 | 65 | 35 | 36 | 38 | 39) || matches!(first(3), 644..=649) || first(4) == 6011;
            let visa = first(1) == 4 && matches!(digits.len(), 16 | 19);
            let mastercard = digits.len() == 16 && (matches!(first(2), 51..=55) || matches!(first(4), 2221..=2720));
            let mir = digits.len() == 16 && matches!(first(4), 2200..=2204);
            let maestro = matches!(first(4), 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763);
            any_length || visa || mastercard || mir || maestro
        }
        _ => false,
    };
    is_grouped && is_issued && luhn(digits) && digits.iter().any(|digit| *digit != digits[1])
}

/// Account numbers: the length of their country and the remainder 1 by 97.
pub(super) fn find_ibans(text: &Text, found: &mut Vec<PiiSpan>) {
    for start in 0..text.len().saturating_sub(14) {
        let head = [text.at(start), text.at(start + 1)];
        if !head.iter().all(char::is_ascii_alphabetic)
            || !text.at(start + 2).is_ascii_digit()
            || !text.at(start + 3).is_ascii_digit()
            || text.before(start).is_alphanumeric()
        {
            continue;
        }
        let country: String = head.iter().map(char::to_ascii_uppercase).collect();
        let Some((_, length)) = IBAN_LENGTHS.iter().find(|(code, _)| *code == country) else { continue };
        let Some((account, end)) = alphanumerics(text, start, *length) else { continue };
        let moved = account[4..].iter().chain(&account[..4]);
        let digits = moved.flat_map(|c| {
            let number = c.to_digit(36).unwrap_or(0) as u8;
            if number < 10 { vec![number] } else { vec![number / 10, number % 10] }
        });
        if mod_97(digits) == 1 {
            found.push(PiiSpan { r#type: PiiType::Iban, start, end });
        }
    }
}

/// `count` letters and digits from `start`, which may be grouped by single spaces or hyphens, and where they end.
fn alphanumerics(text: &Text, start: usize, count: usize) -> Option<(Vec<char>, usize)> {
    let mut taken = Vec::with_capacity(count);
    let mut at = start;
    while taken.len() < count {
        let c = text.at(at);
        if c.is_ascii_alphanumeric() {
            taken.push(c);
        } else if !(matches!(c, ' ' | '-' | '\u{a0}') && text.at(at + 1).is_ascii_alphanumeric()) {
            return None;
        }
        at += 1;
    }
    if text.at(at).is_alphanumeric() { None } else { Some((taken, at)) }
}

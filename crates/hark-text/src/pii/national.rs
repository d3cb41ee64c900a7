//! Numbers by which states know people, by their form, their dates and their check digits.

use super::check_digits::{is_day, luhn, mod_11_10, mod_97, value, verhoeff, weighted};
use super::numbers::Candidate;
use super::text::Text;
use super::{PiiSpan, PiiType};

/// How far before a number a word may introduce it.
const REACH: usize = 40;

/// Whether digits are the number of a person. Forms without separators that any number may have need a word that introduces them.
pub(super) fn is_national(candidate: &Candidate<'_>) -> bool {
    let (digits, shape) = (candidate.digits.as_slice(), candidate.shape.as_str());
    let named = |keywords: &[&str]| candidate.text.has_keyword_before(candidate.start, REACH, keywords);
    let is_repeated = digits.iter().all(|digit| *digit == digits[0]);
    if is_repeated {
        return false;
    }
    match shape {
        "3-2-4" => is_us(digits),
        "3 2 4" => is_us(digits),
        "9" | "3-3-3" | "3 3 3" | "3.3.3" => {
            (is_us(digits) && named(&["social security", "ssn"]))
                || (is_canadian(digits) && (shape == "3-3-3" || named(&["sin", "social insurance"])))
                || (is_portuguese(digits) && named(&["nif", "contribuinte", "fiscal"]))
                || (is_dutch(digits) && named(&["bsn", "burgerservicenummer", "sofi"]))
        }
        "4 4 1" | "8" => is_dutch(digits) && named(&["bsn", "burgerservicenummer"]),
        "10" | "3 3 4" | "3-3-4" if named(&["nhs", "health service"]) => is_nhs(digits),
        "6-4" => is_swedish(digits) || (is_day(&digits[2..4], &digits[..2]) && named(&["cpr", "personnummer"])),
        "8-4" => is_swedish(&digits[2..]),
        "10" => is_swedish(digits) && named(&["personnummer", "personal number"]),
        "2 3 3 3" => is_german(digits),
        "3.3.3-2" => is_brazilian_person(digits),
        "2.2.2-3.2" | "2.2.2-3-2" => is_belgian(digits),
        "6 5" => is_norwegian(digits),
        "11" => {
            is_german(digits)
                || is_brazilian_person(digits)
                || is_belgian(digits)
                || is_polish(digits)
                || is_norwegian(digits)
        }
        "4 4 4" | "4-4-4" | "12" => {
            is_indian(digits) || (shape == "12" && is_swedish(&digits[2..]) && named(&["personnummer"]))
        }
        "13" | "3.4.4.2" => is_swiss(digits),
        "14" | "2.3.3/4-2" => is_brazilian_company(digits),
        "15" | "13 2" | "1 2 2 2 3 3 2" => is_french(digits),
        "18" => is_chinese(digits, None),
        _ => false,
    }
}

fn is_us(digits: &[u8]) -> bool {
    let (area, group, serial) = (value(&digits[..3]), value(&digits[3..5]), value(&digits[5..]));
    area != 0 && area != 666 && area < 900 && group != 0 && serial != 0
}

fn is_canadian(digits: &[u8]) -> bool {
    !matches!(digits[0], 0 | 8) && luhn(digits)
}

fn is_portuguese(digits: &[u8]) -> bool {
    let check = 11 - weighted(&digits[..8], &[9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    digits.len() == 9
        && matches!(digits[0], 1 | 2 | 3 | 5 | 6 | 8 | 9)
        && u32::from(digits[8]) == if check > 9 { 0 } else { check }
}

fn is_dutch(digits: &[u8]) -> bool {
    let padded: Vec<u8> = std::iter::repeat_n(0, 9 - digits.len().min(9)).chain(digits.iter().copied()).collect();
    let sum = weighted(&padded[..8], &[9, 8, 7, 6, 5, 4, 3, 2]);
    sum > 0 && sum % 11 == u32::from(padded[8])
}

fn is_nhs(digits: &[u8]) -> bool {
    let check = 11 - weighted(&digits[..9], &[10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    check != 10 && u32::from(digits[9]) == check % 11
}

/// Ten digits that begin with year, month and day; a coordination number adds 60 to the day.
fn is_swedish(digits: &[u8]) -> bool {
    let day = [digits[4] % 6, digits[5]];
    is_day(&digits[2..4], if digits[4] >= 6 { &day } else { &digits[4..6] }) && luhn(digits)
}

/// Of the first ten digits exactly one comes twice or three times.
fn is_german(digits: &[u8]) -> bool {
    let mut counts = [0; 10];
    for digit in &digits[..10] {
        counts[usize::from(*digit)] += 1;
    }
    let repeated: Vec<i32> = counts.into_iter().filter(|count| *count > 1).collect();
    digits[0] != 0 && matches!(repeated.as_slice(), [2 | 3]) && mod_11_10(digits)
}

fn is_brazilian_person(digits: &[u8]) -> bool {
    let check = |count: usize| {
        let sum: u32 = (0..count).map(|at| u32::from(digits[at]) * (count as u32 + 1 - at as u32)).sum();
        sum * 10 % 11 % 10
    };
    check(9) == u32::from(digits[9]) && check(10) == u32::from(digits[10])
}

fn is_brazilian_company(digits: &[u8]) -> bool {
    let check = |weights: &[u32]| {
        let remainder = weighted(digits, weights) % 11;
        if remainder < 2 { 0 } else { 11 - remainder }
    };
    check(&[5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]) == u32::from(digits[12])
        && check(&[6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]) == u32::from(digits[13])
}

/// Born from 2000 on, a 2 stands before the nine digits when the check is taken.
fn is_belgian(digits: &[u8]) -> bool {
    let check = value(&digits[9..]);
    let (old, new) = (value(&digits[..9]), 2_000_000_000 + value(&digits[..9]));
    is_day(&digits[2..4], &digits[4..6]) && (97 - old % 97 == check || 97 - new % 97 == check)
}

/// The month says the century: 20, 40, 60 or 80 are added.
fn is_polish(digits: &[u8]) -> bool {
    let month = [digits[2] % 2, digits[3]];
    let sum = weighted(digits, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]);
    is_day(&month, &digits[4..6]) && sum.is_multiple_of(10)
}

fn is_norwegian(digits: &[u8]) -> bool {
    let day = [digits[0] % 4, digits[1]];
    is_day(&digits[2..4], &day)
        && weighted(digits, &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1]).is_multiple_of(11)
        && weighted(digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
}

fn is_indian(digits: &[u8]) -> bool {
    digits[0] >= 2 && verhoeff(digits)
}

/// An EAN-13 that begins with Switzerland's country code.
fn is_swiss(digits: &[u8]) -> bool {
    let weights: Vec<u32> = (0..13).map(|at| if at % 2 == 0 { 1 } else { 3 }).collect();
    digits.starts_with(&[7, 5, 6]) && weighted(digits, &weights).is_multiple_of(10)
}

/// Sex, year, month, place and order, then 97 minus their remainder.
fn is_french(digits: &[u8]) -> bool {
    let month = value(&digits[3..5]);
    let is_month = (1..=12).contains(&month) || (20..=42).contains(&month) || month >= 50;
    let key = 97 - u64::from(mod_97(digits[..13].iter().copied()));
    matches!(digits[0], 1 | 2 | 3 | 4 | 7 | 8) && is_month && key == value(&digits[13..])
}

/// Seventeen digits and a check, which may be X: `last`.
fn is_chinese(digits: &[u8], last: Option<char>) -> bool {
    let sum = weighted(&digits[..17], &[7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]);
    let check = b"10X98765432"[sum as usize % 11] as char;
    let last = last.or_else(|| digits.get(17).and_then(|digit| char::from_digit(u32::from(*digit), 10)));
    let century = value(&digits[6..8]);
    matches!(century, 18..=20) && is_day(&digits[10..12], &digits[12..14]) && last == Some(check)
}

/// Numbers with letters: British, Spanish, Italian, Finnish, Corsican and Chinese ones.
pub(super) fn find_lettered(text: &Text, found: &mut Vec<PiiSpan>) {
    for start in 0..text.len() {
        if !text.at(start).is_ascii_alphanumeric() || text.before(start).is_alphanumeric() {
            continue;
        }
        let (token, ends) = compact(text, start, 18);
        let mut accept = |length: usize, is_valid: &dyn Fn(&str) -> bool| {
            let Some(end) = token.get(..length).filter(|part| is_valid(part)).and(ends.get(length - 1)) else { return };
            if !text.at(*end).is_alphanumeric() {
                found.push(PiiSpan { r#type: PiiType::NationalId, start, end: *end });
            }
        };
        accept(9, &is_british);
        accept(9, &is_spanish);
        accept(16, &is_italian);
        accept(15, &is_corsican);
        accept(18, &|token| {
            token.ends_with('X') && digits_of(&token[..17]).is_some_and(|digits| is_chinese(&digits, Some('X')))
        });
        if let Some(end) = finnish(text, start) {
            found.push(PiiSpan { r#type: PiiType::NationalId, start, end });
        }
    }
}

/// Up to `most` letters and digits from `start` in upper case, grouped by single spaces or hyphens, and where each ends.
fn compact(text: &Text, start: usize, most: usize) -> (String, Vec<usize>) {
    let (mut token, mut ends, mut at) = (String::new(), Vec::new(), start);
    while token.len() < most {
        let c = text.at(at);
        if c.is_ascii_alphanumeric() {
            token.push(c.to_ascii_uppercase());
            ends.push(at + 1);
        } else if !(matches!(c, ' ' | '-' | '.') && text.at(at + 1).is_ascii_alphanumeric()) {
            break;
        }
        at += 1;
    }
    (token, ends)
}

fn digits_of(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| c.to_digit(10).map(|digit| digit as u8)).collect()
}

fn is_british(token: &str) -> bool {
    let prefix = &token[..2];
    let is_prefix = prefix.chars().all(|c| c.is_ascii_alphabetic() && !"DFIQUV".contains(c)) && !prefix.ends_with('O');
    let is_used = !["BG", "GB", "NK", "KN", "TN", "NT", "ZZ"].contains(&prefix);
    is_prefix && is_used && digits_of(&token[2..8]).is_some() && matches!(&token[8..], "A" | "B" | "C" | "D")
}

/// DNI: eight digits and a letter; NIE: X, Y or Z, seven digits and a letter.
fn is_spanish(token: &str) -> bool {
    let number = match token.as_bytes()[0] {
        b'X' => format!("0{}", &token[1..8]),
        b'Y' => format!("1{}", &token[1..8]),
        b'Z' => format!("2{}", &token[1..8]),
        _ => token[..8].to_owned(),
    };
    let Some(digits) = digits_of(&number) else { return false };
    token.as_bytes()[8] == b"TRWAGMYFPDXBNJZSQVHLCKE"[(value(&digits) % 23) as usize]
}

fn is_italian(token: &str) -> bool {
    // Letters stand for digits where two people would have the same number.
    let form = [b'A'; 6].iter().chain(b"00A00A000A").zip(token.bytes());
    let is_form = form.into_iter().all(|(expected, byte)| match expected {
        b'A' => byte.is_ascii_uppercase(),
        _ => byte.is_ascii_digit() || b"LMNPQRSTUV".contains(&byte),
    });
    if !is_form {
        return false;
    }
    const ODD: [u32; 26] =
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    let sum: u32 = token
        .bytes()
        .take(15)
        .enumerate()
        .map(|(at, byte)| {
            let number = usize::from(if byte.is_ascii_digit() { byte - b'0' } else { byte - b'A' });
            if at % 2 == 0 { ODD[number] } else { number as u32 }
        })
        .sum();
    u32::from(token.as_bytes()[15] - b'A') == sum % 26
}

/// A French number of somebody born in Corsica: 2A counts as 19, 2B as 18.
fn is_corsican(token: &str) -> bool {
    let place = match &token[5..7] {
        "2A" => "19",
        "2B" => "18",
        _ => return false,
    };
    digits_of(&format!("{}{place}{}", &token[..5], &token[7..])).is_some_and(|digits| is_french(&digits))
}

/// Finnish: day, month and year, a sign for the century, three digits and a check character.
fn finnish(text: &Text, start: usize) -> Option<usize> {
    let token: String = text.chars[start..(start + 11).min(text.len())].iter().collect();
    if token.chars().count() != 11 || !token.is_ascii() || text.at(start + 11).is_alphanumeric() {
        return None;
    }
    let (date, number) = (digits_of(&token[..6])?, digits_of(&token[7..10])?);
    let all: Vec<u8> = date.iter().chain(&number).copied().collect();
    let check = b"0123456789ABCDEFHJKLMNPRSTUVWXY"[(value(&all) % 31) as usize];
    let is_century = matches!(token.as_bytes()[6], b'-' | b'+' | b'A'..=b'F' | b'U'..=b'Y');
    let is_valid = is_century && is_day(&date[2..4], &date[..2]) && token.as_bytes()[10].to_ascii_uppercase() == check;
    is_valid.then_some(start + 11)
}

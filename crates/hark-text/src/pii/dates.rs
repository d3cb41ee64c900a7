//! Dates of birth: dates behind a word that says so.

use super::text::Text;
use super::{PiiSpan, PiiType};

/// Words that introduce a date of birth.
const KEYWORDS: &[&str] = &[
    "born",
    "date of birth",
    "birth date",
    "birthdate",
    "birthday",
    "dob",
    "d.o.b.",
    "geboren",
    "geburtsdatum",
    "geb.",
    "né le",
    "née le",
    "date de naissance",
    "nacido",
    "nacida",
    "nací",
    "fecha de nacimiento",
    "nascido",
    "nascida",
    "nasci",
    "data de nascimento",
    "nato il",
    "nata il",
    "data di nascita",
];

/// Characters behind the word in which a date begins.
const REACH: usize = 28;

const MONTHS: &[&str] = &[
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "jan",
    "feb",
    "mar",
    "apr",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
    "januar",
    "februar",
    "märz",
    "mai",
    "juni",
    "juli",
    "oktober",
    "dezember",
    "janvier",
    "février",
    "mars",
    "avril",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
    "janeiro",
    "fevereiro",
    "março",
    "maio",
    "junho",
    "julho",
    "setembro",
    "outubro",
    "novembro",
    "dezembro",
    "gennaio",
    "febbraio",
    "aprile",
    "maggio",
    "giugno",
    "luglio",
    "settembre",
    "ottobre",
    "dicembre",
];

/// Words between the parts of a date.
const FILLERS: &[&str] = &["of", "the", "de", "den", "del", "le", "on"];

pub(super) fn find(text: &Text, found: &mut Vec<PiiSpan>) {
    for keyword in KEYWORDS {
        for end in text.keyword_ends(keyword) {
            if let Some((start, end)) = date_after(text, end) {
                found.push(PiiSpan { r#type: PiiType::DateOfBirth, start, end });
            }
        }
    }
}

/// The first date that begins within reach, in the same line.
fn date_after(text: &Text, from: usize) -> Option<(usize, usize)> {
    let reach = (from + REACH).min(text.len());
    let starts = (from..reach).take_while(|at| text.at(*at) != '\n');
    let mut starts = starts.filter(|at| text.at(*at).is_alphanumeric() && !text.before(*at).is_alphanumeric());
    starts.find_map(|start| date_at(text, start).map(|end| (start, end)))
}

/// Where the date that begins here ends: numbers with `/`, `.` or `-`, or a month's name with a day or a year.
fn date_at(text: &Text, start: usize) -> Option<usize> {
    let (mut numbers, mut month, mut end, mut at) = (Vec::new(), false, start, start);
    // Day, month, year and what stands between them.
    for _ in 0..7 {
        let word_end = (at..(at + 16).min(text.len()))
            .find(|at| !text.at(*at).is_alphanumeric())
            .unwrap_or((at + 16).min(text.len()));
        let word = text.lower(at, word_end);
        let number = word.trim_end_matches(|c: char| c.is_alphabetic());
        let suffix = &word[number.len()..];
        if !number.is_empty()
            && number.len() <= 4
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(suffix, "" | "st" | "nd" | "rd" | "th" | "er" | "º")
        {
            numbers.push(number.len());
            end = word_end;
        } else if MONTHS.contains(&word.as_str()) && !month {
            month = true;
            end = word_end;
        } else if !FILLERS.contains(&word.as_str()) {
            break;
        }
        if numbers.len() == 3 || (month && numbers.len() == 2) {
            break;
        }
        at = word_end;
        // One or two characters between the parts: "5. ", ", ", "/".
        let gap = (at..at + 3).take_while(|at| matches!(text.at(*at), ' ' | '.' | '/' | '-' | ',')).count();
        if gap == 0 || gap > 2 || at + gap >= text.len() {
            break;
        }
        at += gap;
    }
    let has_year = numbers.contains(&4) || numbers.len() == 3;
    ((month && !numbers.is_empty()) || (numbers.len() == 3 && has_year)).then_some(end)
}

//! Runs of digit groups: which of them are cards, national numbers or telephone numbers.

use super::text::Text;
use super::{PiiSpan, PiiType, money, national, phone};

/// Digits of the longest number of any kind.
const MAX_DIGITS: usize = 19;

/// Groups of the longest number of any kind (a French social security number has seven).
const MAX_GROUPS: usize = 8;

/// Neighbouring groups of digits, considered as one number.
pub(super) struct Candidate<'a> {
    pub text: &'a Text,
    /// Where its first digit is.
    pub start: usize,
    /// Behind its last digit.
    pub end: usize,
    /// The digits of all groups.
    pub digits: Vec<u8>,
    /// The lengths of its groups with what separates them: `3-2-4`. Brackets count as spaces.
    pub shape: String,
    /// Whether nothing but spaces separates it from groups before and behind.
    pub stands_alone: bool,
    /// What the words before it say it is.
    pub introduction: phone::Introduction,
}

struct Group {
    start: usize,
    end: usize,
    /// What separates it from the group before: none begins a run.
    separator: Option<char>,
}

pub(super) fn find(text: &Text, found: &mut Vec<PiiSpan>) {
    let groups = groups(text);
    for first in 0..groups.len() {
        let mut candidate = Candidate {
            text,
            start: groups[first].start,
            end: 0,
            digits: Vec::new(),
            shape: String::new(),
            stands_alone: false,
            introduction: phone::introduction(text, groups[first].start),
        };
        for last in first..groups.len().min(first + MAX_GROUPS) {
            let group = &groups[last];
            if last > first {
                let Some(separator) = group.separator else { break };
                candidate.shape.push(separator);
            }
            let length = group.end - group.start;
            if candidate.digits.len() + length > MAX_DIGITS {
                break;
            }
            candidate.digits.extend(
                text.chars[group.start..group.end].iter().filter_map(|c| c.to_digit(10)).map(|digit| digit as u8),
            );
            candidate.shape.push_str(&length.to_string());
            candidate.end = group.end;
            let is_open = |separator: Option<char>| separator.is_none_or(|separator| separator == ' ');
            candidate.stands_alone =
                is_open(groups[first].separator) && is_open(groups.get(last + 1).and_then(|next| next.separator));
            if candidate.digits.len() >= 7 && is_whole(text, candidate.start, candidate.end) {
                found.extend(classify(&candidate));
            }
        }
    }
}

/// Whether no letter or part of a decimal number touches it.
fn is_whole(text: &Text, start: usize, end: usize) -> bool {
    let is_decimal = |mark: char, beyond: char| matches!(mark, ',' | '.') && beyond.is_ascii_digit();
    text.is_bounded(start, end)
        && !is_decimal(text.before(start), text.before(start.saturating_sub(1)))
        && !is_decimal(text.at(end), text.at(end + 1))
}

fn classify(candidate: &Candidate<'_>) -> Option<PiiSpan> {
    let Candidate { start, end, .. } = *candidate;
    if money::is_card(&candidate.digits, &candidate.shape) {
        return Some(PiiSpan { r#type: PiiType::CreditCard, start, end });
    }
    if candidate.stands_alone && national::is_national(candidate) {
        return Some(PiiSpan { r#type: PiiType::NationalId, start, end });
    }
    phone::find(candidate)
}

/// Groups of ASCII digits, and what stands between neighbours: a space, hyphen, stop or slash, or a bracket with one of those.
fn groups(text: &Text) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if !text.at(at).is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while text.at(at).is_ascii_digit() {
            at += 1;
        }
        let separator = groups.last().and_then(|before| separator(&text.chars[before.end..start]));
        groups.push(Group { start, end: at, separator });
    }
    groups
}

fn separator(between: &[char]) -> Option<char> {
    match between {
        ['-' | '‐' | '‑' | '–'] => Some('-'),
        [' ' | '\u{a0}' | '\u{202f}'] => Some(' '),
        [c @ ('.' | '/')] => Some(*c),
        // (030) 123, 49(0)30, 212) 555, "- " and " - ".
        [' ', '('] | [')', ' '] | ['('] | [')'] | [')', '-'] => Some(' '),
        [' ', '-', ' '] | ['-', ' '] => Some('-'),
        [' ', '/', ' '] => Some('/'),
        _ => None,
    }
}

//! Dates, years, decades and times of day.

use super::numbers::{self, cardinal, integer, ordinal, plural_of, year};
use super::{Position, Reading, pattern};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn month_number(name: &str) -> Option<usize> {
    let name = name.trim_end_matches('.');
    MONTHS.iter().position(|month| {
        name.eq_ignore_ascii_case(month)
            || (name.len() >= 3 && month.len() > name.len() && month[..name.len()].eq_ignore_ascii_case(name))
    })
}

/// A day of a month in words, when there is such a day.
fn day(number: u64) -> Option<String> {
    (1..=31).contains(&number).then(|| ordinal(number, false))
}

fn full_date(position: &Position, day_number: u64, month: u64, year_digits: &str) -> Option<String> {
    let month = MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    let day = day(day_number)?;
    let year = year_words(year_digits, position.british)?;
    Some(if position.british { format!("the {day} of {month}, {year}") } else { format!("{month} {day}, {year}") })
}

fn year_words(digits: &str, british: bool) -> Option<String> {
    let n: u64 = digits.parse().ok()?;
    Some(match digits.len() {
        2 if n < 10 => format!("oh {}", cardinal(n, british)),
        _ => year(n, british),
    })
}

pattern!(ISO, r"^([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2})(?::[0-9]{2}(?:\.[0-9]+)?)?(Z)?)?");

/// 2026-11-18, 2026-11-18T17:45:00Z.
pub(crate) fn iso(position: &Position) -> Option<Reading> {
    let captures = ISO.captures(position.rest())?;
    if !position.is_token_start() || !position.ends_at(captures[0].len()) {
        return None;
    }
    let mut words = full_date(position, captures[3].parse().ok()?, captures[2].parse().ok()?, &captures[1])?;
    if let (Some(hours), Some(minutes)) = (captures.get(4), captures.get(5)) {
        let time = clock(hours.as_str().parse().ok()?, minutes.as_str(), None)?;
        words = format!("{words}, {time}{}", if captures.get(6).is_some() { " UTC" } else { "" });
    }
    Reading::new(captures[0].len(), words)
}

pattern!(NUMERIC, r"^([0-9]{1,2})([/.-])([0-9]{1,2})([/.-])([0-9]{4}|[0-9]{2})");

/// 3/4/2026: month first in American English, day first in British English and with full stops.
pub(crate) fn numeric(position: &Position) -> Option<Reading> {
    let captures = NUMERIC.captures(position.rest())?;
    let len = captures[0].len();
    let followed = position.rest()[len..].starts_with(['/', '-'])
        || position.rest()[len..].starts_with(|c: char| c.is_alphanumeric());
    if !position.is_token_start() || captures[2] != captures[4] || followed {
        return None;
    }
    // With full stops a short year is more often a version.
    if &captures[2] != "/" && captures[5].len() == 2 {
        return None;
    }
    let (first, second): (u64, u64) = (captures[1].parse().ok()?, captures[3].parse().ok()?);
    let day_first = position.british || &captures[2] == "." || first > 12;
    let (day, month) = if day_first && second <= 12 { (first, second) } else { (second, first) };
    Reading::new(len, full_date(position, day, month, &captures[5])?)
}

pattern!(
    MONTH_FIRST,
    r"^(January|February|March|April|May|June|July|August|September|October|November|December|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\.?)",
    r" (?:the )?([0-9]{1,2})(?:st|nd|rd|th)?(?: ?[-–] ?([0-9]{1,2})(?:st|nd|rd|th)?)?(?:(,? )([0-9]{4}))?"
);
pattern!(
    MONTH_YEAR,
    r"^(January|February|March|April|May|June|July|August|September|October|November|December|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\.?),? ([12][0-9]{3})"
);

/// March 5th, March 5, 2026, Sept. 3-5, June 2026.
pub(crate) fn month_first(position: &Position) -> Option<Reading> {
    if !position.is_token_start() {
        return None;
    }
    if let Some(captures) = MONTH_YEAR.captures(position.rest())
        && position.ends_at(captures[0].len())
    {
        let month = MONTHS[month_number(&captures[1])?];
        return Reading::new(
            captures[0].len(),
            format!("{month} {}", year(captures[2].parse().ok()?, position.british)),
        );
    }
    let captures = MONTH_FIRST.captures(position.rest())?;
    let month = MONTHS[month_number(&captures[1])?];
    // "May 5, 2026" whole, or "May 5" when what follows is no year.
    let mut len = captures[0].len();
    let with_year = captures.get(5).filter(|_| position.ends_at(len));
    if with_year.is_none()
        && let Some(separator) = captures.get(4)
    {
        len = separator.start();
    }
    let after = &position.rest()[len..];
    if !position.ends_at(len) || after.starts_with([':', '/', '%']) || decimal_follows(after) {
        return None;
    }
    let mut words = format!("{month} {}", day(captures[2].parse().ok()?)?);
    if let Some(last) = captures.get(3) {
        words = format!("{words} to {}", day(last.as_str().parse().ok()?)?);
    }
    if let Some(digits) = with_year {
        words = format!("{words}, {}", year(digits.as_str().parse().ok()?, position.british));
    }
    Reading::new(len, words)
}

fn decimal_follows(after: &str) -> bool {
    let mut chars = after.chars();
    matches!(chars.next(), Some('.' | ',')) && chars.next().is_some_and(|c| c.is_ascii_digit())
}

pattern!(
    DAY_FIRST,
    r"^([0-9]{1,2})(?:st|nd|rd|th)?(?: ?[-–] ?([0-9]{1,2})(?:st|nd|rd|th)?)? (?:of )?(January|February|March|April|May|June|July|August|September|October|November|December|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\.?)(?:,? ([12][0-9]{3}))?"
);

/// 5 March 2026, the 5th of March.
pub(crate) fn day_first(position: &Position) -> Option<Reading> {
    let captures = DAY_FIRST.captures(position.rest())?;
    let mut len = captures[0].len();
    if !position.is_number_start() || !position.is_token_start() {
        return None;
    }
    let mut year_digits = captures.get(4);
    if year_digits.is_some() && !position.ends_at(len) {
        len = captures.get(3)?.end();
        year_digits = None;
    }
    if !position.ends_at(len) {
        return None;
    }
    let month = MONTHS[month_number(&captures[3])?];
    let mut days = day(captures[1].parse().ok()?)?;
    if let Some(last) = captures.get(2) {
        days = format!("{days} to {}", day(last.as_str().parse().ok()?)?);
    }
    let article = if position.previous_word().eq_ignore_ascii_case("the") { "" } else { "the " };
    let mut words = format!("{article}{days} of {month}");
    if let Some(digits) = year_digits {
        words = format!("{words}, {}", year(digits.as_str().parse().ok()?, position.british));
    }
    Reading::new(len, words)
}

pattern!(DECADE, r"^('?)([0-9]{2}|[12][0-9]{3})'?s\b");

/// 1990s, the '90s, 1900s.
pub(crate) fn decade(position: &Position) -> Option<Reading> {
    let captures = DECADE.captures(position.rest())?;
    let n: u64 = captures[2].parse().ok()?;
    if !position.is_token_start() || !n.is_multiple_of(10) || n < 20 {
        return None;
    }
    Reading::new(captures[0].len(), plural_of(&year(n, position.british)))
}

pattern!(ERA, r"^([0-9]{1,4}) ?(BCE|BC|AD|CE|B\.C\.E?\.?|A\.D\.|C\.E\.)");

/// 44 BC, 1066 AD.
pub(crate) fn era(position: &Position) -> Option<Reading> {
    let captures = ERA.captures(position.rest())?;
    let len = captures[0].len();
    if !position.is_number_start() || !position.is_token_start() || !position.ends_at(len) {
        return None;
    }
    let letters: String = captures[2].chars().filter(char::is_ascii_alphabetic).map(|c| format!(" {c}")).collect();
    let stop = if captures[2].ends_with('.') && position.is_end(len) && !position.rest()[len..].contains('.') {
        "."
    } else {
        ""
    };
    Reading::new(len, format!("{}{letters}{stop}", year(captures[1].parse().ok()?, position.british)))
}

pattern!(TIME, r"^([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?( ?(?:[aApP]\.[mM]\.?|[aApP][mM]\b))?");
pattern!(TIME_DOTTED, r"^([0-9]{1,2})[.]([0-5][0-9])( ?(?:[aApP]\.[mM]\.?|[aApP][mM]\b))");
pattern!(HOUR, r"^([0-9]{1,2})(?: ?[-–] ?([0-9]{1,2}))?( ?(?:[aApP]\.[mM]\.?|[aApP][mM]\b))");
pattern!(RATIO, r"^([0-9]{1,4}):([0-9]{1,4})\b");

/// 5:30 p.m., 17:45, 9am, 12:00; and ratios as 3:1.
pub(crate) fn time(position: &Position) -> Option<Reading> {
    if !position.is_token_start() || !position.is_number_start() {
        return None;
    }
    let rest = position.rest();
    if let Some(captures) = TIME.captures(rest).or_else(|| TIME_DOTTED.captures(rest)) {
        let len = captures[0].len();
        let hours: u64 = captures[1].parse().ok()?;
        let half = captures.iter().skip(3).flatten().find(|m| m.as_str().contains(['a', 'A', 'p', 'P']));
        let seconds =
            captures.get(3).filter(|m| m.as_str().len() == 2 && m.as_str().bytes().all(|b| b.is_ascii_digit()));
        if hours <= 24
            && captures[2].parse::<u64>().is_ok_and(|minutes| minutes < 60)
            && (half.is_some() || position.ends_at(len))
            && let Some(mut words) = clock(hours, &captures[2], half.map(|m| m.as_str()))
        {
            if let Some(seconds) = seconds {
                words = format!("{words} and {} seconds", integer(seconds.as_str().trim_start_matches('0'), false));
                words = words.replace("and  seconds", "and zero seconds");
            }
            return Reading::new(len, words + stop_of_half(position, len, half.map(|m| m.as_str())));
        }
    }
    if let Some(captures) = HOUR.captures(rest) {
        let len = captures[0].len();
        let hour: u64 = captures[1].parse().ok()?;
        let half = &captures[3];
        // "5 am" is a time; "I am" never gets here.
        if (1..=12).contains(&hour) && position.ends_at(len) {
            let from = cardinal(hour, false);
            let to = match captures.get(2) {
                Some(to) => format!(" to {}", integer(to.as_str(), false)),
                None => String::new(),
            };
            return Reading::new(
                len,
                format!("{from}{to} {}{}", half_of_day(half), stop_of_half(position, len, Some(half))),
            );
        }
    }
    let captures = RATIO.captures(rest)?;
    Reading::new(
        captures[0].len(),
        format!("{} to {}", integer(&captures[1], position.british), integer(&captures[2], position.british)),
    )
}

/// The full stop of "p.m." ends the sentence too when nothing follows.
fn stop_of_half(position: &Position, len: usize, half: Option<&str>) -> &'static str {
    let dotted = half.is_some_and(|half| half.ends_with('.'));
    if dotted && position.rest()[len..].chars().all(char::is_whitespace) { "." } else { "" }
}

fn half_of_day(text: &str) -> &'static str {
    if text.contains(['a', 'A']) { "AM" } else { "PM" }
}

fn clock(hours: u64, minutes: &str, half: Option<&str>) -> Option<String> {
    let minutes: u64 = minutes.parse().ok()?;
    let hour = cardinal(hours, false);
    let time = match (minutes, half) {
        (0, Some(_)) => hour,
        (0, None) if (1..=12).contains(&hours) => format!("{hour} o'clock"),
        (0, None) if hours == 0 => "midnight".to_owned(),
        (0, None) => format!("{hour} hundred hours"),
        (1..10, _) => format!("{hour} oh {}", cardinal(minutes, false)),
        _ => format!("{hour} {}", cardinal(minutes, false)),
    };
    Some(match half {
        Some(half) => format!("{time} {}", half_of_day(half)),
        None => time,
    })
}

pattern!(YEAR, r"^[12][0-9]{3}");

/// Words after which a number of four digits is a year.
const BEFORE_YEARS: &[&str] =
    &["in", "since", "by", "until", "till", "before", "after", "from", "year", "during", "circa"];

/// Words after which a number of four digits counts things.
const COUNTS: &[&str] = &[
    "over",
    "about",
    "approximately",
    "than",
    "nearly",
    "almost",
    "exactly",
    "least",
    "most",
    "roughly",
    "around",
    "some",
    "only",
    "another",
    "total",
    "equals",
    "page",
    "pages",
    "plus",
    "minus",
    "times",
];
/// Things that are counted and have no plural s.
const COUNTED: &[&str] = &[
    "people",
    "men",
    "women",
    "children",
    "feet",
    "sheep",
    "fish",
    "percent",
    "more",
    "other",
    "new",
    "different",
    "per",
    "million",
    "billion",
];
/// Words that begin with a plural s by chance.
const NO_PLURALS: &[&str] = &[
    "was",
    "is",
    "as",
    "has",
    "his",
    "this",
    "its",
    "us",
    "does",
    "olympics",
    "games",
    "elections",
    "across",
    "series",
    "census",
    "always",
    "unless",
    "perhaps",
    "thus",
    "saw",
    "s",
];

/// 1984 as a year, unless what stands around it counts things.
pub(crate) fn year_in_context(position: &Position) -> Option<Reading> {
    let found = YEAR.find(position.rest())?;
    let len = found.len();
    let n: u64 = found.as_str().parse().ok()?;
    let after = &position.rest()[len..];
    if !position.is_token_start() || !position.is_number_start() || !position.ends_at(len) || decimal_follows(after) {
        return None;
    }
    let before = position.previous_word().to_lowercase();
    let years = if BEFORE_YEARS.contains(&before.as_str()) { 1000..2200 } else { 1100..2100 };
    if !years.contains(&n) {
        return None;
    }
    let next = position.next_word(len);
    let follows = next.to_lowercase();
    let counted = COUNTED.contains(&follows.as_str())
        || (next.len() > 2
            && next.ends_with('s')
            && !next.ends_with("ss")
            && next == follows
            && !NO_PLURALS.contains(&follows.as_str()));
    if COUNTS.contains(&before.as_str()) && !(before == "around" || before == "about")
        || (counted && !matches!(before.as_str(), "in" | "since" | "the"))
    {
        return None;
    }
    Reading::new(len, numbers::year(n, position.british))
}

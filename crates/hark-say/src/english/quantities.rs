//! Numbers and what is measured: ordinals, fractions, ranges, units, phone numbers, versions.

use super::numbers::{
    self, cardinal, decimal, digits, integer, is_one, number_of_a_place, ordinal_of, plural_of, value, year,
};
use super::units::unit;
use super::{Position, Reading, pattern};

macro_rules! number_pattern {
    () => {
        r"([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    };
}

/// "minus " or "plus " for the sign in front of a number, when it is one and no hyphen between words.
fn sign_words(sign: Option<regex::Match>) -> &'static str {
    match sign.map(|m| m.as_str()) {
        None | Some("") => "",
        Some("+") => "plus ",
        Some("±") => "plus or minus ",
        Some("~" | "≈") => "about ",
        Some("<") => "less than ",
        Some(">") => "more than ",
        Some("≤") => "at most ",
        Some("≥") => "at least ",
        Some(_) => "minus ",
    }
}

pattern!(PHONE_US, r"^(\+?1[-. ])?(?:\(([0-9]{3})\) ?|([0-9]{3})[-. ])([0-9]{3})[-. ]([0-9]{4})\b");
pattern!(PHONE_LOCAL, r"^([0-9]{3})-([0-9]{4})\b");
pattern!(PHONE_WORLD, r"^(\+|00)([0-9]{1,3}(?:[ .-]?\(?[0-9]{1,5}\)?){2,5})");
pattern!(PHONE_UK, r"^(0[0-9]{2,4}) ([0-9]{3,4})(?: ([0-9]{3,4}))?\b");

/// (555) 123-4567, +44 20 7946 0958, 555-0199, 020 7946 0958; and short numbers after "call".
pub(crate) fn phone(position: &Position) -> Option<Reading> {
    let rest = position.rest();
    if !position.is_token_start()
        || !position.is_number_start()
        || !rest.starts_with(['+', '(', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
    {
        return None;
    }
    let groups = |captures: &regex::Captures| {
        let spoken =
            captures.iter().skip(1).flatten().map(|group| digits(group.as_str())).filter(|words| !words.is_empty());
        spoken.collect::<Vec<_>>().join(", ")
    };
    if let Some(captures) = PHONE_US.captures(rest) {
        return Reading::new(captures[0].len(), groups(&captures));
    }
    if let Some(captures) = PHONE_WORLD.captures(rest) {
        let text = captures[0].trim_end_matches([' ', '.', '-', '(']);
        let count = text.bytes().filter(u8::is_ascii_digit).count();
        if (8..=16).contains(&count) && position.ends_at(text.len()) && text.contains([' ', '-', '.'])
            || (text.starts_with('+') && count >= 9)
        {
            let spoken: Vec<String> =
                text.split([' ', '.', '-', '(', ')']).map(digits).filter(|words| !words.is_empty()).collect();
            let plus = if text.starts_with('+') { "plus " } else { "" };
            return Reading::new(text.len(), format!("{plus}{}", spoken.join(", ")));
        }
    }
    if let Some(captures) = PHONE_UK.captures(rest) {
        return Reading::new(captures[0].len(), groups(&captures));
    }
    let before = position.previous_word().to_ascii_lowercase();
    let is_called = matches!(
        before.as_str(),
        "call" | "dial" | "phone" | "text" | "ring" | "called" | "dialed" | "number" | "at" | "on"
    );
    if let Some(captures) = PHONE_LOCAL.captures(rest)
        && is_called
    {
        return Reading::new(captures[0].len(), groups(&captures));
    }
    let short = rest.bytes().take_while(u8::is_ascii_digit).count();
    if matches!(before.as_str(), "call" | "dial" | "called" | "dialed" | "calling" | "dialing")
        && short == 3
        && position.ends_at(short)
    {
        return Reading::new(short, digits(&rest[..short]));
    }
    None
}

pattern!(CODE, r"^[0-9]{1,6}(?:-[0-9]{1,6}){2,6}\b");
pattern!(CARD, r"^[0-9]{4}(?: [0-9]{4}){3}\b");

/// Numbers in groups that count nothing: 123-45-6789, 4111 1111 1111 1111.
pub(crate) fn code(position: &Position) -> Option<Reading> {
    let found = CODE.find(position.rest()).or_else(|| CARD.find(position.rest()))?;
    if !position.is_token_start() || !position.is_number_start() {
        return None;
    }
    let groups: Vec<String> = found.as_str().split(['-', ' ']).map(digits).collect();
    Reading::new(found.len(), groups.join(", "))
}

pattern!(VERSION, r"^(?:([vV])\.?([0-9]+(?:\.[0-9]+)*)|([0-9]+(?:\.[0-9]+){2,}))");

/// v1.2, 1.2.3, 192.168.0.1.
pub(crate) fn version(position: &Position) -> Option<Reading> {
    if !position.is_token_start() || !position.is_number_start() {
        return None;
    }
    let captures = VERSION.captures(position.rest())?;
    let len = captures[0].len();
    if !position.ends_at(len) {
        return None;
    }
    let text = captures.get(2).or(captures.get(3))?.as_str();
    let parts: Vec<String> = text.split('.').map(|part| integer(part, position.british)).collect();
    let between = if parts.len() == 4 { " dot " } else { " point " };
    let prefix = if captures.get(1).is_some() { "version " } else { "" };
    Reading::new(len, format!("{prefix}{}", parts.join(between)))
}

pattern!(FEET_AND_INCHES, r#"^([0-9]{1,2})' ?([0-9]{1,2})(?:"|'')"#);

/// 5'10" as "five foot ten".
pub(crate) fn feet_and_inches(position: &Position) -> Option<Reading> {
    let captures = FEET_AND_INCHES.captures(position.rest())?;
    if !position.is_token_start() {
        return None;
    }
    Reading::new(captures[0].len(), format!("{} foot {}", integer(&captures[1], false), integer(&captures[2], false)))
}

pattern!(POWER, r"^([0-9]+|[a-zA-Z])(?:\^([0-9]{1,4})|([²³]))");
pattern!(SCIENTIFIC, r"^([0-9]+(?:\.[0-9]+)?)[eE]([+-]?)([0-9]{1,3})\b");
pattern!(TIMES_TEN, r"^([0-9]+(?:\.[0-9]+)?) ?[×x*] ?10(?:\^([-−]?)([0-9]{1,3})|(⁻?)([⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))");

/// 2^10, x², 1.5e-3, 3 × 10⁸.
pub(crate) fn power(position: &Position) -> Option<Reading> {
    if !position.is_token_start() {
        return None;
    }
    let rest = position.rest();
    let times_ten = |number: &str, minus: bool, exponent: &str| {
        let minus = if minus { "minus " } else { "" };
        format!("{} times ten to the power of {minus}{}", decimal(number, false), integer(exponent, false))
    };
    if let Some(captures) = SCIENTIFIC.captures(rest) {
        return Reading::new(captures[0].len(), times_ten(&captures[1], &captures[2] == "-", &captures[3]));
    }
    if let Some(captures) = TIMES_TEN.captures(rest) {
        let minus = captures.get(2).or(captures.get(4)).is_some_and(|m| !m.is_empty());
        let exponent: String = captures.get(3).or(captures.get(5))?.as_str().chars().map(plain_digit).collect();
        return Reading::new(captures[0].len(), times_ten(&captures[1], minus, &exponent));
    }
    let captures = POWER.captures(rest)?;
    let base = match captures[1].parse::<u64>() {
        Ok(n) => cardinal(n, position.british),
        Err(_) if captures[1].bytes().all(|b| b.is_ascii_digit()) => digits(&captures[1]),
        Err(_) => captures[1].to_owned(),
    };
    let exponent: String = captures.get(2).or(captures.get(3))?.as_str().chars().map(plain_digit).collect();
    let words = match exponent.as_str() {
        "2" => format!("{base} squared"),
        "3" => format!("{base} cubed"),
        _ => format!("{base} to the power of {}", integer(&exponent, false)),
    };
    Reading::new(captures[0].len(), words)
}

fn plain_digit(c: char) -> char {
    match c {
        '²' => '2',
        '³' => '3',
        '¹' => '1',
        '⁰' => '0',
        '⁴'..='⁹' => char::from(b'4' + (c as u32 - '⁴' as u32) as u8),
        _ => c,
    }
}

pattern!(DIMENSIONS, r"^([0-9]+(?:\.[0-9]+)?) ?[x×] ?([0-9]+(?:\.[0-9]+)?)(?: ?[x×] ?([0-9]+(?:\.[0-9]+)?))?");

/// 1920x1080 and 3 × 4 as "three by four".
pub(crate) fn dimensions(position: &Position) -> Option<Reading> {
    let captures = DIMENSIONS.captures(position.rest())?;
    let len = captures[0].len();
    if !position.is_token_start() || !position.is_number_start() {
        return None;
    }
    // In a calculation the sign multiplies.
    let after = position.rest()[len..].trim_start();
    let between = if after.starts_with('=') { " times " } else { " by " };
    let parts: Vec<String> =
        captures.iter().skip(1).flatten().map(|part| decimal(part.as_str(), position.british)).collect();
    Reading::new(len, parts.join(between))
}

pattern!(FRACTION, r"^(?:([0-9]{1,4})[ -])?([0-9]{1,3})/([0-9]{1,3})\b");

/// 1/2, 3 3/4, 24/7, 8/10.
pub(crate) fn fraction(position: &Position) -> Option<Reading> {
    let captures = FRACTION.captures(position.rest())?;
    let len = captures[0].len();
    if !position.is_token_start() || !position.is_number_start() || position.rest()[len..].starts_with('/') {
        return None;
    }
    let (numerator, denominator): (u64, u64) = (captures[2].parse().ok()?, captures[3].parse().ok()?);
    let british = position.british;
    let words = match (numerator, denominator) {
        (24, 7) => "twenty-four seven".to_owned(),
        (9, 11) if captures.get(1).is_none() => "nine eleven".to_owned(),
        (_, 0) => return None,
        _ if numerator < denominator && denominator <= 100 && !(denominator == 10 && numerator > 3) => {
            let part = match denominator {
                2 => "half".to_owned(),
                4 => "quarter".to_owned(),
                _ => ordinal_of(&cardinal(denominator, british)),
            };
            let part = match (numerator, part.as_str()) {
                (1, _) => part,
                (_, "half") => "halves".to_owned(),
                _ => plural_of_fraction(&part),
            };
            match (captures.get(1), numerator) {
                (Some(_), 1) => format!("a {part}").replace("a eigh", "an eigh").replace("a eleven", "an eleven"),
                _ => format!("{} {part}", cardinal(numerator, british)),
            }
        }
        _ if denominator.is_multiple_of(10) || numerator == denominator => {
            format!("{} out of {}", cardinal(numerator, british), cardinal(denominator, british))
        }
        _ => format!("{} over {}", cardinal(numerator, british), cardinal(denominator, british)),
    };
    match captures.get(1) {
        Some(whole) => Reading::new(len, format!("{} and {words}", integer(whole.as_str(), british))),
        None => Reading::new(len, words),
    }
}

fn plural_of_fraction(part: &str) -> String {
    // "twentieth" takes an s, unlike "twenty".
    if part.ends_with('y') { plural_of(part) } else { format!("{part}s") }
}

pattern!(
    RANGE,
    r"^([-−+±~≈<>≤≥])?",
    number_pattern!(),
    r" ?(-|–|—) ?",
    number_pattern!(),
    r"(?: ?(%)|[ -]?(°?[A-Za-zµμ°Ω]+(?:/[a-zA-Z]+)?[²³]?))?"
);

/// 10-15, 5–10%, 3-5 km, 1939–45.
pub(crate) fn range(position: &Position) -> Option<Reading> {
    let captures = RANGE.captures(position.rest())?;
    if !position.is_token_start() || !position.is_number_start() {
        return None;
    }
    let (from, to) = (&captures[2], &captures[4]);
    let spaced = position.rest()[captures.get(2)?.end()..captures.get(4)?.start()].starts_with(' ');
    let end = captures.get(4)?.end();
    // A spaced hyphen subtracts; a spaced dash stands between clauses.
    if spaced {
        return None;
    }
    let british = position.british;
    let as_year = |text: &str| text.parse::<u64>().ok().filter(|n| text.len() == 4 && (1100..2100).contains(n));
    if let Some(first) = as_year(from) {
        let second = match as_year(to) {
            Some(second) => Some(year(second, british)),
            None if to.len() == 2 => to.parse().ok().filter(|n| *n > first % 100).map(|n| cardinal(n, british)),
            None => None,
        };
        if let Some(second) = second
            && position.ends_at(end)
        {
            return Reading::new(end, format!("{} to {second}", year(first, british)));
        }
    }
    let sign = sign_words(captures.get(1));
    let range = format!("{sign}{} to {}", decimal(from, british), decimal(to, british));
    if captures.get(5).is_some() {
        return Reading::new(captures[0].len(), format!("{range} percent"));
    }
    if let Some(name) = captures.get(6)
        && position.ends_at(captures[0].len())
        && let Some(unit) = unit(name.as_str(), false, british)
    {
        return Reading::new(captures[0].len(), format!("{range} {unit}"));
    }
    position.ends_at(end).then(|| Reading::new(end, range)).flatten()
}

pattern!(
    MEASURE,
    r"^([-−+±~≈<>≤≥])? ?",
    number_pattern!(),
    r"(?: ?(%|‰)|( ?|-)(sq\.? ?(?:ft|mi|m|km|yd)|°? ?[A-Za-zµμ°Ω]+(?:/[a-zA-Z]+)?(?:[²³]|[23]\b)?|°))"
);

/// 5%, 20 °C, 5kg, 3 GB, 60 km/h.
pub(crate) fn measure(position: &Position) -> Option<Reading> {
    let captures = MEASURE.captures(position.rest())?;
    if !position.is_token_start() || !position.is_number_start() || !sign_stands(position, &captures) {
        return None;
    }
    let (number, british) = (&captures[2], position.british);
    if is_plural(position, number, &captures[0]) {
        return None;
    }
    let sign = sign_words(captures.get(1));
    let words = decimal(number, british);
    match captures.get(3).map(|m| m.as_str()) {
        Some("%") => return Reading::new(captures.get(3)?.end(), format!("{sign}{words} percent")),
        Some(_) => return Reading::new(captures.get(3)?.end(), format!("{sign}{words} per mille")),
        None => {}
    }
    let spaced = captures.get(4).is_some_and(|m| !m.is_empty());
    let name = captures.get(5)?.as_str();
    // "km/h" whole, else the part before the slash.
    for name in [name, name.split('/').next().unwrap_or(name)] {
        let end = captures.get(5)?.start() + name.len();
        if !position.ends_at(end) || (spaced && is_ambiguous(position, name, end)) {
            continue;
        }
        if let Some(unit) = unit(name, is_one(number), british) {
            // The full stop of "5 ft." belongs to the unit when the sentence goes on.
            let dotted = position.rest()[end..].starts_with(". ")
                && position.rest()[end + 2..].starts_with(|c: char| c.is_lowercase());
            return Reading::new(end + usize::from(dotted), format!("{sign}{words} {unit}"));
        }
    }
    None
}

/// Whether the s of "5,000s" and "two 6s" makes a plural; that of "5s" means seconds.
fn is_plural(position: &Position, number: &str, text: &str) -> bool {
    const COUNTS: &[&str] = &["two", "three", "four", "five", "several", "many", "the", "all", "both"];
    text.ends_with(&format!("{number}s"))
        && (number.contains(',') || COUNTS.contains(&position.previous_word().to_ascii_lowercase().as_str()))
}

/// Whether a name after a space may be a word or a letter instead of a unit.
fn is_ambiguous(position: &Position, name: &str, end: usize) -> bool {
    match name {
        "in" | "a" | "d" | "t" | "B" | "M" => true,
        // "20 C" is a temperature, "plan 9 C" and "C and D" are not.
        "C" | "F" => {
            matches!(position.next_word(end), "and" | "or")
                || !matches!(position.previous_char(), None | Some(' ' | '(' | '-'))
        }
        _ => false,
    }
}

/// Whether the sign before the number belongs to it: a hyphen after a word does not.
fn sign_stands(position: &Position, captures: &regex::Captures) -> bool {
    captures.get(1).is_none()
        || position.previous_char().is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '“' | '"' | ',' | '='))
}

pattern!(ORDINAL, r"^([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:st|nd|rd|th|ST|ND|RD|TH)\b");

/// 1st, 22nd, 1,000th.
pub(crate) fn ordinal(position: &Position) -> Option<Reading> {
    let captures = ORDINAL.captures(position.rest())?;
    if !position.is_token_start() || !position.is_number_start() {
        return None;
    }
    Reading::new(captures[0].len(), numbers::ordinal(value(&captures[1])?, position.british))
}

pattern!(NUMBER, r"^([-−+±~≈<>≤≥])? ?", number_pattern!());

/// What is left: cardinals, decimals, signs in front of them.
pub(crate) fn number(position: &Position) -> Option<Reading> {
    let captures = NUMBER.captures(position.rest())?;
    if captures.get(1).is_some() && (!position.is_token_start() || !sign_stands(position, &captures)) {
        return None;
    }
    let text = captures[2].trim_end_matches('.');
    let start = captures.get(2)?.start();
    let spaced_sign = start > captures.get(1).map_or(0, |m| m.end());
    // "5 - 3" subtracts and is read sign by sign.
    if spaced_sign && matches!(captures.get(1).map(|m| m.as_str()), Some("-" | "−" | "+")) {
        return None;
    }
    let end = start + text.len();
    let sign = sign_words(captures.get(1));
    let british = position.british;
    if text.starts_with('.') && position.previous_char().is_some_and(|c| c.is_alphanumeric()) {
        return None;
    }
    let before = position.previous_word().to_ascii_lowercase();
    let names_a_place = matches!(
        before.as_str(),
        "room"
            | "flight"
            | "route"
            | "highway"
            | "bus"
            | "interstate"
            | "area"
            | "extension"
            | "suite"
            | "apartment"
            | "boeing"
            | "channel"
    );
    if names_a_place
        && text.bytes().all(|b| b.is_ascii_digit())
        && let Some(words) = value(text).and_then(number_of_a_place)
    {
        return Reading::new(end, words);
    }
    // "5,000s" and "the 7s".
    if position.rest()[end..].starts_with('s') && position.ends_at(end + 1) {
        return Reading::new(end + 1, format!("{sign}{}", plural_of(&decimal(text, british))));
    }
    Reading::new(end, format!("{sign}{}", decimal(text, british)))
}

//! Numbers, dates, times, money and percentages of languages other than English, by one set of rules over a table for each language.
//!
//! A language without a table here keeps its digits, which espeak-ng reads.

mod agreement;
mod asian;
mod german;
pub(crate) mod german_dates;
mod romance;
mod romance_numbers;

use agreement::Counted;
use regex::Captures;

use crate::english::pattern;

/// How a language reads numbers and what is made of them.
pub(crate) struct Locale {
    /// The mark before the fraction; the other one groups thousands.
    decimal: char,
    point: &'static str,
    minus: &'static str,
    percent: &'static str,
    to: &'static str,
    months: [&'static str; 12],
    /// Between the words: a space, or nothing in scripts without spaces.
    space: &'static str,
    cardinal: fn(u64) -> String,
    /// An ordinal; the flag asks for the feminine.
    ordinal: Option<fn(u64, bool) -> String>,
    /// Day, month and year.
    date: fn(&Locale, u64, u64, u64) -> String,
    /// Hours and minutes.
    time: fn(&Locale, u64, u64) -> String,
    /// One, many and their hundredths.
    money: fn(&str) -> Option<[&'static str; 3]>,
    /// Between a sum's two parts.
    and: &'static str,
    /// Names of symbols on their own and of units after a number.
    unit: fn(&str) -> Option<&'static str>,
    /// Reads what depends on the words before it, before the rules that all languages have in common.
    in_context: Option<fn(&str) -> String>,
    /// A number as it is read before a noun, where that differs.
    agree: Option<fn(&Counted) -> Option<String>>,
}

/// The table of a language.
fn find(code: &str) -> Option<&'static Locale> {
    Some(match code {
        "es" => &romance::SPANISH,
        "fr" => &romance::FRENCH,
        "it" => &romance::ITALIAN,
        "pt-br" => &romance::PORTUGUESE,
        "hi" => &asian::HINDI,
        "ja" => &asian::JAPANESE,
        "zh" => &asian::CHINESE,
        "de" => &german::GERMAN,
        _ => return None,
    })
}

/// Rewrites one cleaned sentence of a language into words.
pub(crate) fn normalize(text: &str, code: &str) -> String {
    let text = ascii_digits(text);
    let text = match find(code) {
        Some(locale) => locale.words(&text),
        None => text,
    };
    signs(&text, code)
}

/// Whether a letter is of a script that readers of the language know. espeak-ng spells others by their names at best, and crashes on some.
fn is_readable(c: char, code: &str) -> bool {
    let own = match code {
        "ar" => matches!(c, '\u{600}'..='\u{6ff}'),
        "he" => matches!(c, '\u{590}'..='\u{5ff}'),
        "hi" => matches!(c, '\u{900}'..='\u{97f}'),
        "el" => matches!(c, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}'),
        "ru" => matches!(c, '\u{400}'..='\u{4ff}'),
        "ko" => matches!(c, '\u{ac00}'..='\u{d7af}' | '\u{1100}'..='\u{11ff}'),
        "ja" | "zh" => matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '々'),
        _ => false,
    };
    own || c.is_ascii_alphanumeric()
        || matches!(c, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' | '\u{300}'..='\u{36f}')
}

/// Digits of other scripts as 0 to 9.
fn ascii_digits(text: &str) -> String {
    let plain = |c: char| match c {
        '०'..='९' => Some(c as u32 - '०' as u32),
        '٠'..='٩' => Some(c as u32 - '٠' as u32),
        '۰'..='۹' => Some(c as u32 - '۰' as u32),
        _ => None,
    };
    text.chars().map(|c| plain(c).and_then(|digit| char::from_digit(digit, 10)).unwrap_or(c)).collect()
}

/// Signs that are not read are left out; what is left are letters, digits, spaces and punctuation.
fn signs(text: &str, code: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().collect();
    for (index, &c) in chars.iter().enumerate() {
        let before = index.checked_sub(1).map_or(' ', |index| chars[index]);
        let after = chars.get(index + 1).copied().unwrap_or(' ');
        let is_letter = |c: char| {
            is_readable(c, code) && (c.is_alphanumeric() || unicode_normalization::char::is_combining_mark(c))
        };
        match c {
            _ if is_letter(c) || c.is_whitespace() || !crate::pronounce::sign_of(c).is_empty() => out.push(c),
            '\'' if is_letter(before) => out.push(c),
            '-' if is_letter(before) && is_letter(after) => out.push(c),
            '-' | '–' if before.is_whitespace() && after.is_whitespace() => out.push('—'),
            '"' => out.push(if before.is_whitespace() { '“' } else { '”' }),
            '¿' | '¡' | '\'' => {}
            // Whole signs that espeak-ng knows by name.
            '%' | '&' | '+' | '=' | '@' | '€' | '$' | '£' | '°' => out.push(c),
            _ => out.push(' '),
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

pattern!(ISO, r"\b([0-9]{4})-([0-9]{2})-([0-9]{2})\b");
pattern!(DATE, r"\b([0-9]{1,2})([/.-])([0-9]{1,2})([/.-])([0-9]{4})\b");
pattern!(WIDE_DATE, r"([0-9]{4})年([0-9]{1,2})月([0-9]{1,2})[日号]");
pattern!(TIME, r"\b([0-9]{1,2})(?::|h)([0-9]{2})\b(?::[0-9]{2}\b)?");
pattern!(MONEY_FIRST, r"(R\$|US\$|[$£€¥₹₩₽])\s?([0-9][0-9.,]*[0-9]|[0-9])");
pattern!(MONEY_LAST, r"([0-9][0-9.,]*[0-9]|[0-9])\s?([$£€¥₹₩₽]|EUR\b|USD\b|GBP\b|元|円)");
pattern!(PERCENT, r"([-−]?)([0-9][0-9.,]*[0-9]|[0-9])\s?%");
pattern!(ORDINAL, r"\b([0-9]{1,4})(º|ª|°(?:\s|$)|er\b|ère\b|re\b|ème\b|e\b|nd\b|nde\b)");
pattern!(RANGE, r"\b([0-9]+)[-–]([0-9]+)\b");
pattern!(UNIT, r"([0-9])\s?(km/h|m/s|km|kg|cm|mm|mg|ml|kWh|GB|MB|TB|°C|°F|m²|m|g|l|h|min)\b");
pattern!(DEGREES, r"([0-9])\s?°\s?C\b");
pattern!(NUMBER, r"([-−]?)([0-9]+(?:[.,   ][0-9]{3})*(?:[.,][0-9]+)?)");

impl Locale {
    fn words(&self, text: &str) -> String {
        let text = self.in_context.map_or_else(|| text.to_owned(), |read| read(text));
        let number = |captures: &Captures, index: usize| captures[index].parse::<u64>().unwrap_or(0);
        let text = ISO.replace_all(&text, |c: &Captures| self.full_date(c, number(c, 3), number(c, 2), number(c, 1)));
        let text = DATE.replace_all(&text, |c: &Captures| {
            if c[2] == c[4] { self.full_date(c, number(c, 1), number(c, 3), number(c, 5)) } else { c[0].to_owned() }
        });
        let text =
            WIDE_DATE.replace_all(&text, |c: &Captures| self.full_date(c, number(c, 3), number(c, 2), number(c, 1)));
        let text = TIME.replace_all(&text, |c: &Captures| match (number(c, 1), number(c, 2)) {
            (hours @ 0..=24, minutes @ 0..60) => (self.time)(self, hours, minutes),
            _ => c[0].to_owned(),
        });
        let text =
            MONEY_FIRST.replace_all(&text, |c: &Captures| self.sum(&c[2], &c[1]).unwrap_or_else(|| c[0].to_owned()));
        let text =
            MONEY_LAST.replace_all(&text, |c: &Captures| self.sum(&c[1], &c[2]).unwrap_or_else(|| c[0].to_owned()));
        let text = PERCENT.replace_all(&text, |c: &Captures| self.percentage(&c[1], &c[2]));
        let text = match self.ordinal {
            Some(ordinal) => ORDINAL.replace_all(&text, |c: &Captures| {
                let feminine = matches!(&c[2], "ª" | "ère" | "re" | "nde");
                ordinal(number(c, 1), feminine) + if c[2].ends_with(' ') { " " } else { "" }
            }),
            None => text,
        };
        let text = RANGE.replace_all(&text, format!("$1{0}{1}{0}$2", self.space, self.to));
        let text = DEGREES.replace_all(&text, "$1°C");
        let text = UNIT.replace_all(&text, |c: &Captures| match (self.unit)(&c[2]) {
            Some(name) => format!("{}{}{name}", &c[1], self.space),
            None => c[0].to_owned(),
        });
        NUMBER
            .replace_all(&text, |c: &Captures| {
                let words = self.counted(&text, c);
                let words = if c[1].is_empty() { words } else { [self.minus, &words].join(self.space) };
                let (start, end) = c.get(0).map_or((0, 0), |found| (found.start(), found.end()));
                self.apart(&words, &text[..start], &text[end..])
            })
            .into_owned()
    }

    /// Words of a number, with a space where the number touches a letter in the source.
    fn apart(&self, words: &str, before: &str, after: &str) -> String {
        let space = |touches: bool| if touches { self.space } else { "" };
        let (begin, end) = (before.ends_with(char::is_alphanumeric), after.starts_with(char::is_alphanumeric));
        format!("{}{words}{}", space(begin), space(end))
    }

    fn full_date(&self, captures: &Captures, day: u64, month: u64, year: u64) -> String {
        if (1..=12).contains(&month) && (1..=31).contains(&day) {
            (self.date)(self, day, month, year)
        } else {
            captures[0].to_owned()
        }
    }

    fn month(&self, number: u64) -> &'static str {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.months.get(number.wrapping_sub(1)))
            .copied()
            .unwrap_or_default()
    }

    fn percentage(&self, sign: &str, number: &str) -> String {
        let minus = if sign.is_empty() { String::new() } else { format!("{}{}", self.minus, self.space) };
        // Chinese says the percent sign first.
        match self.percent.strip_suffix('~') {
            Some(prefix) => format!("{minus}{prefix}{}", self.number(number)),
            None => format!("{minus}{}{}{}", self.number(number), self.space, self.percent),
        }
    }

    /// Whole part and fraction, without the marks that group thousands.
    fn parts(&self, text: &str) -> (String, String) {
        let other = if self.decimal == ',' { '.' } else { ',' };
        let mut whole = text.to_owned();
        let mut fraction = String::new();
        if let Some((before, after)) = text.rsplit_once(self.decimal)
            && !before.contains(self.decimal)
        {
            (whole, fraction) = (before.to_owned(), after.to_owned());
        } else if let Some((before, after)) = text.rsplit_once(other)
            && !before.contains(other)
            && after.len() != 3
        {
            // A fraction written the other way: "3.5" in a Spanish text.
            (whole, fraction) = (before.to_owned(), after.to_owned());
        }
        (whole.chars().filter(char::is_ascii_digit).collect(), fraction.chars().filter(char::is_ascii_digit).collect())
    }

    fn integer(&self, digits: &str) -> String {
        match digits.parse::<u64>() {
            Ok(n) if digits.len() <= 12 && (digits.len() == 1 || !digits.starts_with('0')) => (self.cardinal)(n),
            _ => self.each_digit(digits),
        }
    }

    fn each_digit(&self, digits: &str) -> String {
        let words: Vec<String> =
            digits.bytes().map(|digit| (self.cardinal)(u64::from(digit.wrapping_sub(b'0').min(9)))).collect();
        words.join(self.space)
    }

    fn number(&self, text: &str) -> String {
        let (whole, fraction) = self.parts(text);
        let whole = self.integer(&whole);
        if fraction.is_empty() { whole } else { [&whole, self.point, &self.each_digit(&fraction)].join(self.space) }
    }

    fn sum(&self, number: &str, symbol: &str) -> Option<String> {
        let [one, many, cents] = (self.money)(symbol)?;
        let (whole, fraction) = self.parts(number);
        let name = if whole == "1" { one } else { many };
        if fraction.len() == 2 && !cents.is_empty() {
            let small = (self.cardinal)(fraction.parse().ok()?);
            let mut words = vec![self.before_noun(self.integer(&whole), &whole, "", name), name.to_owned()];
            if fraction != "00" {
                words.extend([self.and.to_owned(), self.before_noun(small, &fraction, "", cents), cents.to_owned()]);
            }
            words.retain(|word| !word.is_empty());
            return Some(words.join(self.space));
        }
        let words = self.number(number);
        let words = if fraction.is_empty() { self.before_noun(words, &whole, "", name) } else { words };
        Some([words.as_str(), name].join(self.space))
    }

    /// The words of a number of [`NUMBER`], as the word after it asks for them.
    fn counted(&self, text: &str, captures: &Captures) -> String {
        const YEARS: &[&str] = &[
            "en", "em", "in", "de", "del", "nel", "dal", "dès", "desde", "depuis", "hasta", "até", "fino", "año",
            "ano", "anno", "seit", "jahr",
        ];
        let words = self.number(&captures[2]);
        let (whole, fraction) = self.parts(&captures[2]);
        let (Some(found), true) = (captures.get(0), fraction.is_empty()) else { return words };
        let start = text.ceil_char_boundary(found.start().saturating_sub(WORD_BYTES));
        let before = text[start..found.start()]
            .trim_end_matches(' ')
            .rsplit(|c: char| !c.is_alphabetic())
            .next()
            .unwrap_or_default()
            .to_lowercase();
        let after = text[found.end()..].strip_prefix(' ').unwrap_or_default();
        let after = &after[..after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len())];
        let is_year =
            captures[2].len() == 4 && matches!(whole.parse(), Ok(1100..2100_u64)) && YEARS.contains(&before.as_str());
        if is_year || after.len() > WORD_BYTES { words } else { self.before_noun(words, &whole, &before, after) }
    }

    /// The words of a whole number between two others: before a noun some have a gender or a short form.
    fn before_noun(&self, words: String, digits: &str, before: &str, after: &str) -> String {
        let value =
            digits.parse().ok().filter(|_| digits.len() <= 12 && (digits.len() == 1 || !digits.starts_with('0')));
        let agreed =
            self.agree.zip(value).and_then(|(agree, value)| agree(&Counted { words: &words, value, before, after }));
        agreed.unwrap_or(words)
    }
}

/// No word that decides how a number is read is longer.
const WORD_BYTES: usize = 64;

/// The three digits of each group of a number with their scale: 1_234_567 is [(1, 2), (234, 1), (567, 0)].
fn groups(n: u64) -> Vec<(u64, usize)> {
    let mut groups = Vec::new();
    let (mut rest, mut scale) = (n, 0);
    while rest > 0 {
        if rest % 1000 > 0 {
            groups.push((rest % 1000, scale));
        }
        rest /= 1000;
        scale += 1;
    }
    groups.reverse();
    groups
}

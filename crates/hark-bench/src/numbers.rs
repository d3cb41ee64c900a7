//! Numbers in digits spelled as one says them: 21 is "twenty one", 1859 "eighteen fifty nine", 3.5 "three point five".

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: [(u64, &str); 3] = [(1_000_000_000, "billion"), (1_000_000, "million"), (1_000, "thousand")];

/// Pushes the words of a token that has digits in it, such as `7`, `1,000`, `$5`, `50%`, `2nd` or `3.5`.
pub fn push_spelled(token: &str, words: &mut Vec<String>) {
    let (currency, token) = match token.chars().next() {
        Some('$') => (Some("dollars"), &token[1..]),
        Some(sign @ '£') => (Some("pounds"), &token[sign.len_utf8()..]),
        Some(sign @ '€') => (Some("euros"), &token[sign.len_utf8()..]),
        _ => (None, token),
    };
    let digits_end =
        token.find(|letter: char| !letter.is_ascii_digit() && letter != ',' && letter != '.').unwrap_or(token.len());
    let (number, rest) = token.split_at(digits_end);
    let (whole, fraction) =
        number.trim_end_matches(['.', ',']).split_once('.').unwrap_or((number.trim_end_matches(['.', ',']), ""));
    let grouped = whole.contains(',');
    let Ok(value) = whole.replace(',', "").parse::<u64>() else {
        push_as_is(token, words);
        return;
    };
    match rest.trim_matches('\'') {
        "st" | "nd" | "rd" | "th" => push_ordinal(value, words),
        // "the 1850s": the decade's plural is kept as a word of its own on the last number word.
        "s" => {
            push_year_or_number(value, grouped, words);
            if let Some(last) = words.last_mut() {
                *last = plural(last);
            }
        }
        suffix => {
            if leading_zero(whole) {
                words.extend(whole.bytes().map(|digit| ONES[usize::from(digit - b'0')].to_owned()));
            } else if currency.is_some() {
                push_cardinal(value, words);
            } else {
                push_year_or_number(value, grouped, words);
            }
            if !fraction.is_empty() && fraction.bytes().all(|digit| digit.is_ascii_digit()) {
                words.push("point".to_owned());
                words.extend(fraction.bytes().map(|digit| ONES[usize::from(digit - b'0')].to_owned()));
            }
            if suffix == "%" {
                words.push("percent".to_owned());
            } else {
                push_as_is(suffix, words);
            }
        }
    }
    if let Some(currency) = currency {
        words.push(currency.to_owned());
    }
}

/// "one hundred and five" is the same number as "one hundred five".
pub fn drop_and_inside_numbers(words: &mut Vec<String>) {
    let mut at = 1;
    while at + 1 < words.len() {
        let inside = words[at] == "and"
            && matches!(words[at - 1].as_str(), "hundred" | "thousand" | "million")
            && is_number_word(&words[at + 1]);
        if inside {
            words.remove(at);
        }
        at += 1;
    }
}

fn is_number_word(word: &str) -> bool {
    ONES.contains(&word) || TENS[2..].contains(&word)
}

fn leading_zero(whole: &str) -> bool {
    whole.len() > 1 && whole.starts_with('0') && whole.bytes().all(|digit| digit.is_ascii_digit())
}

fn push_as_is(token: &str, words: &mut Vec<String>) {
    words.extend(
        token.split(|letter: char| !letter.is_alphanumeric()).filter(|part| !part.is_empty()).map(str::to_owned),
    );
}

/// Four bare digits from 1100 to 2099 are read as a year, for in running text they nearly always are one.
fn push_year_or_number(value: u64, grouped: bool, words: &mut Vec<String>) {
    if grouped || !(1100..2100).contains(&value) || (2000..2010).contains(&value) {
        push_cardinal(value, words);
        return;
    }
    push_cardinal(value / 100, words);
    match value % 100 {
        0 => words.push("hundred".to_owned()),
        unit @ 1..10 => {
            words.push("oh".to_owned());
            push_cardinal(unit, words);
        }
        rest => push_cardinal(rest, words),
    }
}

fn push_cardinal(value: u64, words: &mut Vec<String>) {
    if value < 20 {
        words.push(ONES[value as usize].to_owned());
        return;
    }
    if value < 100 {
        words.push(TENS[(value / 10) as usize].to_owned());
        if !value.is_multiple_of(10) {
            push_cardinal(value % 10, words);
        }
        return;
    }
    let (unit, name) = SCALES.into_iter().find(|(unit, _)| value >= *unit).unwrap_or((100, "hundred"));
    push_cardinal(value / unit, words);
    words.push(name.to_owned());
    if !value.is_multiple_of(unit) {
        push_cardinal(value % unit, words);
    }
}

fn push_ordinal(value: u64, words: &mut Vec<String>) {
    push_cardinal(value, words);
    if let Some(last) = words.last_mut() {
        *last = match last.as_str() {
            "one" => "first".to_owned(),
            "two" => "second".to_owned(),
            "three" => "third".to_owned(),
            "five" => "fifth".to_owned(),
            "eight" => "eighth".to_owned(),
            "nine" => "ninth".to_owned(),
            "twelve" => "twelfth".to_owned(),
            tens if tens.ends_with('y') => format!("{}ieth", &tens[..tens.len() - 1]),
            other => format!("{other}th"),
        };
    }
}

fn plural(word: &str) -> String {
    match word.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if word.ends_with('x') => format!("{word}es"),
        None => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(token: &str) -> String {
        let mut words = Vec::new();
        push_spelled(token, &mut words);
        words.join(" ")
    }

    #[test]
    fn cardinals_are_spelled_out() {
        assert_eq!(spelled("0"), "zero");
        assert_eq!(spelled("13"), "thirteen");
        assert_eq!(spelled("40"), "forty");
        assert_eq!(spelled("342"), "three hundred forty two");
        assert_eq!(spelled("1,000,001"), "one million one");
        assert_eq!(spelled("10000"), "ten thousand");
    }

    #[test]
    fn years_are_read_in_pairs() {
        assert_eq!(spelled("1859"), "eighteen fifty nine");
        assert_eq!(spelled("1900"), "nineteen hundred");
        assert_eq!(spelled("1906"), "nineteen oh six");
        assert_eq!(spelled("2005"), "two thousand five");
        assert_eq!(spelled("1850s"), "eighteen fifties");
        assert_eq!(spelled("1,859"), "one thousand eight hundred fifty nine");
    }

    #[test]
    fn ordinals_money_percent_and_fractions() {
        assert_eq!(spelled("1st"), "first");
        assert_eq!(spelled("22nd"), "twenty second");
        assert_eq!(spelled("20th"), "twentieth");
        assert_eq!(spelled("$5"), "five dollars");
        assert_eq!(spelled("£1200"), "one thousand two hundred pounds");
        assert_eq!(spelled("50%"), "fifty percent");
        assert_eq!(spelled("3.25"), "three point two five");
    }

    #[test]
    fn codes_are_kept_as_they_are() {
        assert_eq!(spelled("b2b"), "b2b");
        assert_eq!(spelled("007"), "zero zero seven");
        assert_eq!(spelled("99999999999999999999999"), "99999999999999999999999");
    }

    #[test]
    fn and_is_dropped_only_between_parts_of_a_number() {
        let mut words: Vec<String> = "two hundred and six and seven".split(' ').map(str::to_owned).collect();
        drop_and_inside_numbers(&mut words);
        assert_eq!(words.join(" "), "two hundred six and seven");
    }
}

//! English numbers as words: cardinals, ordinals, decimals, years, digits.

const SMALL: [&str; 20] = [
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
const SCALES: [&str; 12] = [
    "",
    "thousand",
    "million",
    "billion",
    "trillion",
    "quadrillion",
    "quintillion",
    "sextillion",
    "septillion",
    "octillion",
    "nonillion",
    "decillion",
];

/// Numbers with more digits than this are read digit by digit.
const MAX_CARDINAL_DIGITS: usize = 18;

fn below_hundred(n: u64) -> String {
    match n {
        0..20 => SMALL[n as usize].to_owned(),
        _ if n.is_multiple_of(10) => TENS[(n / 10) as usize].to_owned(),
        _ => format!("{}-{}", TENS[(n / 10) as usize], SMALL[(n % 10) as usize]),
    }
}

fn below_thousand(n: u64, british: bool) -> String {
    let (hundreds, rest) = (n / 100, n % 100);
    match (hundreds, rest) {
        (0, _) => below_hundred(rest),
        (_, 0) => format!("{} hundred", SMALL[hundreds as usize]),
        _ if british => format!("{} hundred and {}", SMALL[hundreds as usize], below_hundred(rest)),
        _ => format!("{} hundred {}", SMALL[hundreds as usize], below_hundred(rest)),
    }
}

/// A cardinal: 1,204 is "one thousand two hundred four", in British English "one thousand two hundred and four".
pub(crate) fn cardinal(n: u64, british: bool) -> String {
    if n < 1000 {
        return below_thousand(n, british);
    }
    let mut groups = Vec::new();
    let mut rest = n;
    while rest > 0 {
        groups.push(rest % 1000);
        rest /= 1000;
    }
    let mut words: Vec<String> = Vec::new();
    for (scale, &group) in groups.iter().enumerate().rev() {
        if group == 0 {
            continue;
        }
        if scale == 0 {
            if british && group < 100 {
                words.push("and".to_owned());
            }
            words.push(below_thousand(group, british));
        } else {
            words.push(format!("{} {}", below_thousand(group, british), SCALES[scale]));
        }
    }
    words.join(" ")
}

/// An ordinal from a cardinal's words: "twenty-one" becomes "twenty-first".
pub(crate) fn ordinal_of(cardinal: &str) -> String {
    let at = cardinal.rfind([' ', '-']).map_or(0, |index| index + 1);
    let (head, last) = cardinal.split_at(at);
    let last = match last {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        _ => match last.strip_suffix('y') {
            Some(stem) => format!("{stem}ieth"),
            None => format!("{last}th"),
        },
    };
    format!("{head}{last}")
}

/// An ordinal: 42 is "forty-second".
pub(crate) fn ordinal(n: u64, british: bool) -> String {
    ordinal_of(&cardinal(n, british))
}

/// The plural of a number's words: "nineteen ninety" becomes "nineteen nineties".
pub(crate) fn plural_of(words: &str) -> String {
    if let Some(stem) = words.strip_suffix('y') {
        format!("{stem}ies")
    } else if words.ends_with("six") || words.ends_with('x') {
        format!("{words}es")
    } else {
        format!("{words}s")
    }
}

/// A year: 1999 is "nineteen ninety-nine", 2005 "two thousand five", 1900 "nineteen hundred".
pub(crate) fn year(n: u64, british: bool) -> String {
    let (century, rest) = (n / 100, n % 100);
    if !(1000..10_000).contains(&n) || n.is_multiple_of(1000) {
        return cardinal(n, british);
    }
    match rest {
        _ if (2000..2010).contains(&n) => cardinal(n, british),
        0 => format!("{} hundred", below_hundred(century)),
        1..10 if century % 10 == 0 => cardinal(n, british),
        1..10 => format!("{} oh {}", below_hundred(century), SMALL[rest as usize]),
        _ => format!("{} {}", below_hundred(century), below_hundred(rest)),
    }
}

/// Each digit by its name.
pub(crate) fn digits(text: &str) -> String {
    let mut words = String::new();
    for digit in text.bytes().filter(u8::is_ascii_digit) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(SMALL[usize::from(digit - b'0')]);
    }
    words
}

/// The value of digits with or without group separators, when it is small enough to be read as a cardinal.
pub(crate) fn value(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if digits.is_empty() || digits.len() > MAX_CARDINAL_DIGITS { None } else { digits.parse().ok() }
}

/// Digits as a cardinal, or digit by digit when they begin with a zero or are very many.
pub(crate) fn integer(text: &str, british: bool) -> String {
    let bare: String = text.chars().filter(char::is_ascii_digit).collect();
    if bare.len() > 1 && bare.starts_with('0') {
        return digits(&bare);
    }
    value(&bare).map_or_else(|| digits(&bare), |n| cardinal(n, british))
}

/// A number with an optional fraction: "1,234.5" is "one thousand two hundred thirty-four point five".
pub(crate) fn decimal(text: &str, british: bool) -> String {
    match text.split_once('.') {
        None => integer(text, british),
        Some(("", fraction)) => format!("point {}", digits(fraction)),
        Some((whole, fraction)) => {
            // "0.5" begins with a zero that is a number, not a code.
            format!("{} point {}", integer(whole, british), digits(fraction))
        }
    }
}

/// Whether the number is exactly one, so that its unit is singular.
pub(crate) fn is_one(text: &str) -> bool {
    text == "1"
}

/// Three digits as people say the numbers of rooms and flights: 370 is "three seventy", 405 "four oh five".
pub(crate) fn number_of_a_place(n: u64) -> Option<String> {
    let (hundreds, rest) = (n / 100, n % 100);
    match (hundreds, rest) {
        (1..10, 10..) => Some(format!("{} {}", SMALL[hundreds as usize], below_hundred(rest))),
        (1..10, 1..10) => Some(format!("{} oh {}", SMALL[hundreds as usize], SMALL[rest as usize])),
        _ => None,
    }
}

/// The value of a roman numeral in its usual form, up to 3999.
pub(crate) fn roman(text: &str) -> Option<u64> {
    const PARTS: [(&str, u64); 13] = [
        ("M", 1000),
        ("CM", 900),
        ("D", 500),
        ("CD", 400),
        ("C", 100),
        ("XC", 90),
        ("L", 50),
        ("XL", 40),
        ("X", 10),
        ("IX", 9),
        ("V", 5),
        ("IV", 4),
        ("I", 1),
    ];
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut rest = text;
    let mut total = 0;
    for (letters, value) in PARTS {
        let limit = if letters.len() == 2 || matches!(letters, "V" | "L" | "D") { 1 } else { 3 };
        for _ in 0..limit {
            match rest.strip_prefix(letters) {
                Some(after) => (rest, total) = (after, total + value),
                None => break,
            }
        }
    }
    // "IXI" adds up too; only the usual form counts.
    let mut left = total;
    let mut usual = String::new();
    for (letters, value) in PARTS {
        while left >= value {
            usual.push_str(letters);
            left -= value;
        }
    }
    (rest.is_empty() && usual == text).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cardinals_have_an_and_in_british_english_only() {
        for (n, us, gb) in [
            (0, "zero", "zero"),
            (21, "twenty-one", "twenty-one"),
            (105, "one hundred five", "one hundred and five"),
            (1001, "one thousand one", "one thousand and one"),
            (1_204, "one thousand two hundred four", "one thousand two hundred and four"),
            (2_000_000, "two million", "two million"),
            (3_000_050, "three million fifty", "three million and fifty"),
            (999_999_999_999_999_999, "", ""),
        ] {
            if us.is_empty() {
                assert!(cardinal(n, false).starts_with("nine hundred ninety-nine quadrillion"));
            } else {
                assert_eq!((cardinal(n, false).as_str(), cardinal(n, true).as_str()), (us, gb));
            }
        }
    }

    #[test]
    fn years_are_read_in_pairs() {
        for (n, words) in [
            (1066, "ten sixty-six"),
            (1900, "nineteen hundred"),
            (1905, "nineteen oh five"),
            (1999, "nineteen ninety-nine"),
            (2000, "two thousand"),
            (2005, "two thousand five"),
            (2010, "twenty ten"),
            (2026, "twenty twenty-six"),
            (2100, "twenty-one hundred"),
            (3005, "three thousand five"),
        ] {
            assert_eq!(year(n, false), words);
        }
    }

    #[test]
    fn roman_numerals_have_one_form() {
        for (text, value) in [("I", 1), ("IV", 4), ("VIII", 8), ("XIV", 14), ("LVIII", 58), ("MCMXCIX", 1999)] {
            assert_eq!(roman(text), Some(value), "{text}");
        }
        for text in ["", "IIII", "VX", "IC", "MMMM", "ABC", "IXI"] {
            assert_eq!(roman(text), None, "{text}");
        }
    }
}

//! Sums of money.

use super::numbers::{cardinal, decimal, is_one, value};
use super::{Position, Reading, pattern};

/// A currency: its names for one and for many, and those of its hundredth; no hundredth when it has none in use.
struct Currency {
    one: &'static str,
    many: &'static str,
    cent: &'static str,
    cents: &'static str,
}

const fn currency(one: &'static str, many: &'static str, cent: &'static str, cents: &'static str) -> Currency {
    Currency { one, many, cent, cents }
}

fn by_symbol(symbol: &str) -> Option<Currency> {
    Some(match symbol {
        "$" => currency("dollar", "dollars", "cent", "cents"),
        "US$" => currency("US dollar", "US dollars", "cent", "cents"),
        "A$" | "AU$" => currency("Australian dollar", "Australian dollars", "cent", "cents"),
        "C$" | "CA$" => currency("Canadian dollar", "Canadian dollars", "cent", "cents"),
        "NZ$" => currency("New Zealand dollar", "New Zealand dollars", "cent", "cents"),
        "HK$" => currency("Hong Kong dollar", "Hong Kong dollars", "cent", "cents"),
        "S$" => currency("Singapore dollar", "Singapore dollars", "cent", "cents"),
        "R$" => currency("real", "reais", "centavo", "centavos"),
        "£" => currency("pound", "pounds", "penny", "pence"),
        "€" => currency("euro", "euros", "cent", "cents"),
        "¥" | "￥" => currency("yen", "yen", "", ""),
        "₹" => currency("rupee", "rupees", "paisa", "paise"),
        "₩" => currency("won", "won", "", ""),
        "₽" => currency("ruble", "rubles", "kopeck", "kopecks"),
        "₺" => currency("lira", "lira", "kurus", "kurus"),
        "₴" => currency("hryvnia", "hryvnias", "kopeck", "kopecks"),
        "₪" => currency("shekel", "shekels", "agora", "agorot"),
        "₿" => currency("bitcoin", "bitcoin", "", ""),
        "₫" => currency("dong", "dong", "", ""),
        "₦" => currency("naira", "naira", "kobo", "kobo"),
        "₱" => currency("peso", "pesos", "centavo", "centavos"),
        _ => return None,
    })
}

fn by_code(code: &str) -> Option<Currency> {
    Some(match code {
        "USD" => by_symbol("US$")?,
        "EUR" => by_symbol("€")?,
        "GBP" => currency("British pound", "British pounds", "penny", "pence"),
        "JPY" => by_symbol("¥")?,
        "CHF" => currency("Swiss franc", "Swiss francs", "centime", "centimes"),
        "CAD" => by_symbol("C$")?,
        "AUD" => by_symbol("A$")?,
        "NZD" => by_symbol("NZ$")?,
        "CNY" | "RMB" => currency("yuan", "yuan", "", ""),
        "INR" => by_symbol("₹")?,
        "BRL" => currency("Brazilian real", "Brazilian reais", "centavo", "centavos"),
        "MXN" => currency("Mexican peso", "Mexican pesos", "centavo", "centavos"),
        "KRW" => by_symbol("₩")?,
        "SEK" => currency("Swedish krona", "Swedish kronor", "", ""),
        "NOK" => currency("Norwegian krone", "Norwegian kroner", "", ""),
        "DKK" => currency("Danish krone", "Danish kroner", "", ""),
        "PLN" => currency("zloty", "zlotys", "grosz", "groszy"),
        "CZK" => currency("Czech koruna", "Czech korunas", "", ""),
        "RUB" => by_symbol("₽")?,
        "TRY" => by_symbol("₺")?,
        "ZAR" => currency("rand", "rand", "cent", "cents"),
        "SGD" => by_symbol("S$")?,
        "HKD" => by_symbol("HK$")?,
        "BTC" => by_symbol("₿")?,
        _ => return None,
    })
}

fn scale(text: &str) -> Option<&'static str> {
    Some(match text {
        "k" | "K" | "thousand" => "thousand",
        "m" | "M" | "mn" | "mm" | "MM" | "million" => "million",
        "b" | "B" | "bn" | "billion" => "billion",
        "t" | "T" | "tn" | "trn" | "trillion" => "trillion",
        "hundred" => "hundred",
        _ => return None,
    })
}

fn amount(currency: &Currency, number: &str, scale: Option<&str>, singular: bool, british: bool) -> String {
    let name = |one: bool| if one { currency.one } else { currency.many };
    if let Some(scale) = scale {
        return format!("{} {scale} {}", decimal(number, british), name(singular));
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let hundredths = (fraction.len() == 2 && !currency.cent.is_empty()).then(|| value(fraction)).flatten();
    match hundredths {
        None if fraction.is_empty() => format!("{} {}", decimal(number, british), name(singular || is_one(whole))),
        None => format!("{} {}", decimal(number, british), name(singular)),
        Some(0) => format!("{} {}", decimal(whole, british), name(singular || is_one(whole))),
        Some(cents) => {
            let small =
                format!("{} {}", cardinal(cents, british), if cents == 1 { currency.cent } else { currency.cents });
            match value(whole) {
                Some(0) | None if whole.len() <= 1 => small,
                _ => format!("{} {} and {small}", decimal(whole, british), name(is_one(whole))),
            }
        }
    }
}

/// Whether the sum describes the next word, as in "a $5 bill".
fn describes(position: &Position, len: usize) -> bool {
    matches!(position.previous_word().to_ascii_lowercase().as_str(), "a" | "an")
        && position.next_word(len).starts_with(|c: char| c.is_ascii_lowercase())
}

macro_rules! amount_pattern {
    () => {
        r"([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    };
}
macro_rules! scale_pattern {
    () => {
        r"(?:[ -]?(thousand|million|billion|trillion|hundred|bn|mn|mm|MM|tn|trn)\b|([kKmMbBtT])\b)?"
    };
}

pattern!(
    SYMBOL_FIRST,
    r"^([-−+])?((?:US|AU|CA|NZ|HK|A|C|S|R)?\$|[£€¥￥₹₩₽₺₴₪₿₫₦₱]) ?([-−])?",
    amount_pattern!(),
    r"(?: ?[-–] ?(?:\$|£|€)?",
    amount_pattern!(),
    r")?",
    scale_pattern!()
);

/// $4.50, £3.2m, €5-10, -$20.
pub(crate) fn symbol_first(position: &Position) -> Option<Reading> {
    let captures = SYMBOL_FIRST.captures(position.rest())?;
    if !position.is_token_start() {
        return None;
    }
    sum(position, &captures, by_symbol(&captures[2])?, 4, captures.get(1).or(captures.get(3)).map(|m| m.as_str()))
}

pattern!(
    CODE_FIRST,
    r"^(USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|CNY|RMB|INR|BRL|MXN|KRW|SEK|NOK|DKK|PLN|CZK|RUB|TRY|ZAR|SGD|HKD|BTC)[  ]?([-−])?",
    amount_pattern!(),
    r"(?: ?[-–] ?",
    amount_pattern!(),
    r")?",
    scale_pattern!()
);

/// EUR 3.2 million.
pub(crate) fn code_first(position: &Position) -> Option<Reading> {
    let captures = CODE_FIRST.captures(position.rest())?;
    if !position.is_token_start() {
        return None;
    }
    sum(position, &captures, by_code(&captures[1])?, 3, captures.get(2).map(|m| m.as_str()))
}

/// The sum in captures whose number stands at group `first`, an end of a range after it, then two groups for the scale.
fn sum(
    position: &Position,
    captures: &regex::Captures,
    currency: Currency,
    first: usize,
    sign: Option<&str>,
) -> Option<Reading> {
    let len = captures[0].len();
    let british = position.british;
    let scale = captures.get(first + 2).or(captures.get(first + 3)).and_then(|m| scale(m.as_str()));
    let sign = match sign {
        Some("+") => "plus ",
        Some(_) => "minus ",
        None => "",
    };
    let singular = describes(position, len);
    let words = match captures.get(first + 1) {
        Some(to) => {
            format!(
                "{} to {}",
                decimal(&captures[first], british),
                amount(&currency, to.as_str(), scale, singular, british)
            )
        }
        None => amount(&currency, &captures[first], scale, singular, british),
    };
    Reading::new(len, format!("{sign}{words}"))
}

pattern!(
    AMOUNT_FIRST,
    "^",
    amount_pattern!(),
    r"(?:(p|¢|c)\b|(¢)| ?(€|£|₽|₴|zł|kr\b)| ?(?:(thousand|million|billion|trillion|bn|mn) )?(USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|CNY|RMB|INR|BRL|MXN|KRW|SEK|NOK|DKK|PLN|CZK|RUB|ZAR|SGD|HKD|BTC)\b)"
);

/// 99p, 50¢, 5 €, 20 USD.
pub(crate) fn amount_first(position: &Position) -> Option<Reading> {
    let captures = AMOUNT_FIRST.captures(position.rest())?;
    if !position.is_token_start() || !position.is_number_start() {
        return None;
    }
    let len = captures[0].len();
    let (number, british) = (&captures[1], position.british);
    if let Some(small) = captures.get(2).or(captures.get(3)) {
        let one = is_one(number);
        let name = match small.as_str() {
            "p" => {
                if one {
                    "penny"
                } else {
                    "pence"
                }
            }
            "c" if !matches!(position.previous_word(), "for" | "at" | "costs" | "only" | "of") => return None,
            _ => {
                if one {
                    "cent"
                } else {
                    "cents"
                }
            }
        };
        return Reading::new(len, format!("{} {name}", decimal(number, british)));
    }
    let currency = match (captures.get(4), captures.get(6)) {
        (Some(symbol), _) => match symbol.as_str() {
            "zł" => by_code("PLN")?,
            "kr" => currency("krona", "kronor", "", ""),
            symbol => by_symbol(symbol)?,
        },
        (_, Some(code)) => by_code(code.as_str())?,
        _ => return None,
    };
    let scale = captures.get(5).and_then(|m| scale(m.as_str()));
    Reading::new(len, amount(&currency, number, scale, describes(position, len), british))
}

//! German.

use super::romance::metric;
use super::{Locale, agreement, german_dates};

pub(super) static GERMAN: Locale = Locale {
    decimal: ',',
    point: "Komma",
    minus: "minus",
    percent: "Prozent",
    to: "bis",
    months: [
        "Januar",
        "Februar",
        "März",
        "April",
        "Mai",
        "Juni",
        "Juli",
        "August",
        "September",
        "Oktober",
        "November",
        "Dezember",
    ],
    space: " ",
    cardinal,
    ordinal: Some(|n, _| ordinal(n)),
    date: |locale, day, month, year| format!("{} {} {}", ordinal(day), locale.month(month), self::year(year)),
    time: |_, hours, minutes| {
        let hour = if hours == 1 { "ein".to_owned() } else { cardinal(hours) };
        if minutes == 0 { format!("{hour} Uhr") } else { format!("{hour} Uhr {}", cardinal(minutes)) }
    },
    money: |symbol| {
        Some(match symbol {
            "€" | "EUR" => ["Euro", "Euro", "Cent"],
            "$" | "USD" | "US$" => ["Dollar", "Dollar", "Cent"],
            "£" | "GBP" => ["Pfund", "Pfund", "Pence"],
            "¥" => ["Yen", "Yen", ""],
            _ => return None,
        })
    },
    and: "und",
    unit: |symbol| {
        metric(
            symbol,
            [
                "Kilometer",
                "Meter",
                "Zentimeter",
                "Millimeter",
                "Kilogramm",
                "Gramm",
                "Milligramm",
                "Liter",
                "Milliliter",
                "Stunden",
                "Minuten",
                "Grad Celsius",
                "Kilometer pro Stunde",
                "Meter pro Sekunde",
                "Quadratmeter",
            ],
        )
    },
    in_context: Some(german_dates::read),
    agree: Some(agreement::german),
};

fn cardinal(n: u64) -> String {
    const SMALL: [&str; 20] = [
        "null",
        "eins",
        "zwei",
        "drei",
        "vier",
        "fünf",
        "sechs",
        "sieben",
        "acht",
        "neun",
        "zehn",
        "elf",
        "zwölf",
        "dreizehn",
        "vierzehn",
        "fünfzehn",
        "sechzehn",
        "siebzehn",
        "achtzehn",
        "neunzehn",
    ];
    const TENS: [&str; 10] =
        ["", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"];
    let part = |n: u64| -> String {
        let words = cardinal(n);
        words.strip_suffix("eins").map(|head| format!("{head}ein")).unwrap_or(words)
    };
    match n {
        0..20 => SMALL[n as usize].to_owned(),
        20..100 if n.is_multiple_of(10) => TENS[(n / 10) as usize].to_owned(),
        20..100 => format!("{}und{}", part(n % 10), TENS[(n / 10) as usize]),
        100..1000 => {
            let head = format!("{}hundert", part(n / 100));
            if n.is_multiple_of(100) { head } else { head + &cardinal(n % 100) }
        }
        1000..1_000_000 => {
            let head = format!("{}tausend", part(n / 1000));
            if n.is_multiple_of(1000) { head } else { head + &cardinal(n % 1000) }
        }
        1_000_000..1_000_000_000 => {
            let millions = n / 1_000_000;
            let head =
                if millions == 1 { "eine Million".to_owned() } else { format!("{} Millionen", cardinal(millions)) };
            if n.is_multiple_of(1_000_000) { head } else { format!("{head} {}", cardinal(n % 1_000_000)) }
        }
        _ => {
            let billions = n / 1_000_000_000;
            let head =
                if billions == 1 { "eine Milliarde".to_owned() } else { format!("{} Milliarden", cardinal(billions)) };
            if n.is_multiple_of(1_000_000_000) { head } else { format!("{head} {}", cardinal(n % 1_000_000_000)) }
        }
    }
}

pub(super) fn year(n: u64) -> String {
    match n {
        1100..2000 if n.is_multiple_of(100) => format!("{}hundert", cardinal(n / 100)),
        1100..2000 => format!("{}hundert{}", cardinal(n / 100), cardinal(n % 100)),
        _ => cardinal(n),
    }
}

pub(super) fn ordinal(n: u64) -> String {
    let words = cardinal(n);
    match n % 100 {
        0 => format!("{words}ste"),
        1 => format!("{}erste", words.strip_suffix("eins").unwrap_or_default()),
        3 => format!("{}dritte", words.strip_suffix("drei").unwrap_or_default()),
        7 => format!("{}siebte", words.strip_suffix("sieben").unwrap_or_default()),
        8 => format!("{words}e"),
        2 | 4..=6 | 9..20 => format!("{words}te"),
        _ => format!("{words}ste"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn german_puts_the_units_before_the_tens() {
        for (n, words) in [
            (1, "eins"),
            (21, "einundzwanzig"),
            (101, "einhunderteins"),
            (1_234, "eintausendzweihundertvierunddreißig"),
            (2_000_001, "zwei Millionen eins"),
        ] {
            assert_eq!(cardinal(n), words);
        }
        assert_eq!(
            (year(1989).as_str(), ordinal(3).as_str(), ordinal(21).as_str(), ordinal(101).as_str()),
            ("neunzehnhundertneunundachtzig", "dritte", "einundzwanzigste", "einhunderterste")
        );
    }
}

//! Numbers of Spanish, French, Italian and Brazilian Portuguese as words.

use super::groups;

pub(super) fn spanish_hour(hours: u64) -> String {
    match hours {
        1 => "una".to_owned(),
        21 => "veintiuna".to_owned(),
        _ => spanish(hours),
    }
}

pub(super) fn spanish(n: u64) -> String {
    const SMALL: [&str; 30] = [
        "cero",
        "uno",
        "dos",
        "tres",
        "cuatro",
        "cinco",
        "seis",
        "siete",
        "ocho",
        "nueve",
        "diez",
        "once",
        "doce",
        "trece",
        "catorce",
        "quince",
        "dieciséis",
        "diecisiete",
        "dieciocho",
        "diecinueve",
        "veinte",
        "veintiuno",
        "veintidós",
        "veintitrés",
        "veinticuatro",
        "veinticinco",
        "veintiséis",
        "veintisiete",
        "veintiocho",
        "veintinueve",
    ];
    const TENS: [&str; 10] =
        ["", "", "", "treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta", "noventa"];
    const HUNDREDS: [&str; 10] = [
        "",
        "ciento",
        "doscientos",
        "trescientos",
        "cuatrocientos",
        "quinientos",
        "seiscientos",
        "setecientos",
        "ochocientos",
        "novecientos",
    ];
    let short = |n: u64| -> String {
        let words = spanish(n);
        match words.strip_suffix("veintiuno") {
            Some(head) => format!("{head}veintiún"),
            None => words.strip_suffix("uno").map(|head| format!("{head}un")).unwrap_or(words),
        }
    };
    match n {
        0..30 => SMALL[n as usize].to_owned(),
        30..100 if n.is_multiple_of(10) => TENS[(n / 10) as usize].to_owned(),
        30..100 => format!("{} y {}", TENS[(n / 10) as usize], SMALL[(n % 10) as usize]),
        100 => "cien".to_owned(),
        101..1000 if n.is_multiple_of(100) => HUNDREDS[(n / 100) as usize].to_owned(),
        101..1000 => format!("{} {}", HUNDREDS[(n / 100) as usize], spanish(n % 100)),
        1000..1_000_000 => {
            let head = if n < 2000 { "mil".to_owned() } else { format!("{} mil", short(n / 1000)) };
            if n.is_multiple_of(1000) { head } else { format!("{head} {}", spanish(n % 1000)) }
        }
        _ => {
            let (millions, rest) = (n / 1_000_000, n % 1_000_000);
            let head = if millions == 1 { "un millón".to_owned() } else { format!("{} millones", short(millions)) };
            if rest == 0 { head } else { format!("{head} {}", spanish(rest)) }
        }
    }
}

pub(super) fn spanish_ordinal(n: u64, feminine: bool) -> String {
    let ending = if feminine { 'a' } else { 'o' };
    const SMALL: [&str; 11] =
        ["", "primer", "segund", "tercer", "cuart", "quint", "sext", "séptim", "octav", "noven", "décim"];
    match n {
        1..=10 => format!("{}{ending}", SMALL[n as usize]),
        11 => format!("undécim{ending}"),
        12 => format!("duodécim{ending}"),
        13..20 => format!("decim{}{ending}", SMALL[(n - 10) as usize].replace('é', "e")),
        20 => format!("vigésim{ending}"),
        _ => spanish(n),
    }
}

pub(super) fn french(n: u64) -> String {
    const SMALL: [&str; 17] = [
        "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze",
        "treize", "quatorze", "quinze", "seize",
    ];
    const TENS: [&str; 7] = ["", "", "vingt", "trente", "quarante", "cinquante", "soixante"];
    match n {
        0..17 => SMALL[n as usize].to_owned(),
        17..20 => format!("dix-{}", SMALL[(n - 10) as usize]),
        20..70 => match n % 10 {
            0 => TENS[(n / 10) as usize].to_owned(),
            1 => format!("{} et un", TENS[(n / 10) as usize]),
            unit => format!("{}-{}", TENS[(n / 10) as usize], SMALL[unit as usize]),
        },
        70..80 => {
            if n == 71 {
                "soixante et onze".to_owned()
            } else {
                format!("soixante-{}", french(n - 60))
            }
        }
        80 => "quatre-vingts".to_owned(),
        81..100 => format!("quatre-vingt-{}", french(n - 80)),
        100..1000 => {
            let (hundreds, rest) = (n / 100, n % 100);
            let head = if hundreds == 1 { "cent".to_owned() } else { format!("{} cent", SMALL[hundreds as usize]) };
            match rest {
                0 if hundreds > 1 => format!("{head}s"),
                0 => head,
                _ => format!("{head} {}", french(rest)),
            }
        }
        _ => {
            let words = groups(n).into_iter().map(|(group, scale)| match (group, scale) {
                (_, 0) => french(group),
                (1, 1) => "mille".to_owned(),
                // No plural s before "mille".
                (_, 1) => format!("{} mille", without_plural(&french(group))),
                (1, 2) => "un million".to_owned(),
                (_, 2) => format!("{} millions", french(group)),
                (1, _) => "un milliard".to_owned(),
                _ => format!("{} milliards", french(group)),
            });
            words.collect::<Vec<_>>().join(" ")
        }
    }
}

pub(super) fn french_ordinal(n: u64, feminine: bool) -> String {
    match (n, feminine) {
        (1, true) => return "première".to_owned(),
        (1, false) => return "premier".to_owned(),
        _ => {}
    }
    let words = french(n);
    let stem = if let Some(head) = words.strip_suffix("cinq") {
        format!("{head}cinqu")
    } else if let Some(head) = words.strip_suffix("neuf") {
        format!("{head}neuv")
    } else {
        without_plural(&words).trim_end_matches('e').to_owned()
    };
    format!("{stem}ième")
}

/// "vingts" and "cents" lose their s before another word.
fn without_plural(words: &str) -> &str {
    if words.ends_with("vingts") || words.ends_with("cents") { &words[..words.len() - 1] } else { words }
}

pub(super) fn italian(n: u64) -> String {
    const SMALL: [&str; 20] = [
        "zero",
        "uno",
        "due",
        "tre",
        "quattro",
        "cinque",
        "sei",
        "sette",
        "otto",
        "nove",
        "dieci",
        "undici",
        "dodici",
        "tredici",
        "quattordici",
        "quindici",
        "sedici",
        "diciassette",
        "diciotto",
        "diciannove",
    ];
    const TENS: [&str; 10] =
        ["", "", "venti", "trenta", "quaranta", "cinquanta", "sessanta", "settanta", "ottanta", "novanta"];
    match n {
        0..20 => SMALL[n as usize].to_owned(),
        20..100 => {
            let tens = TENS[(n / 10) as usize];
            match n % 10 {
                0 => tens.to_owned(),
                // The vowel falls before another: "ventuno", "ventotto".
                unit @ (1 | 8) => format!("{}{}", &tens[..tens.len() - 1], SMALL[unit as usize]),
                3 => format!("{tens}tré"),
                unit => format!("{tens}{}", SMALL[unit as usize]),
            }
        }
        100..1000 => {
            let head = if n < 200 { "cento".to_owned() } else { format!("{}cento", SMALL[(n / 100) as usize]) };
            if n.is_multiple_of(100) { head } else { head + &italian(n % 100) }
        }
        1000..1_000_000 => {
            let head = if n < 2000 { "mille".to_owned() } else { format!("{}mila", italian(n / 1000)) };
            if n.is_multiple_of(1000) { head } else { head + &italian(n % 1000) }
        }
        1_000_000..1_000_000_000 => {
            let head =
                if n < 2_000_000 { "un milione".to_owned() } else { format!("{} milioni", italian(n / 1_000_000)) };
            if n.is_multiple_of(1_000_000) { head } else { format!("{head} {}", italian(n % 1_000_000)) }
        }
        _ => {
            let head = if n < 2_000_000_000 {
                "un miliardo".to_owned()
            } else {
                format!("{} miliardi", italian(n / 1_000_000_000))
            };
            if n.is_multiple_of(1_000_000_000) { head } else { format!("{head} {}", italian(n % 1_000_000_000)) }
        }
    }
}

pub(super) fn italian_ordinal(n: u64, feminine: bool) -> String {
    const SMALL: [&str; 11] =
        ["", "prim", "second", "terz", "quart", "quint", "sest", "settim", "ottav", "non", "decim"];
    let ending = if feminine { 'a' } else { 'o' };
    match n {
        1..=10 => format!("{}{ending}", SMALL[n as usize]),
        0 => "zero".to_owned(),
        _ => {
            let words = italian(n);
            let stem = if words.ends_with("tré") {
                format!("{}e", words.trim_end_matches('é'))
            } else if words.ends_with("sei") {
                words
            } else {
                let mut chars = words.chars();
                chars.next_back();
                chars.as_str().to_owned()
            };
            format!("{stem}esim{ending}")
        }
    }
}

pub(super) fn portuguese(n: u64) -> String {
    const SMALL: [&str; 20] = [
        "zero",
        "um",
        "dois",
        "três",
        "quatro",
        "cinco",
        "seis",
        "sete",
        "oito",
        "nove",
        "dez",
        "onze",
        "doze",
        "treze",
        "catorze",
        "quinze",
        "dezesseis",
        "dezessete",
        "dezoito",
        "dezenove",
    ];
    const TENS: [&str; 10] =
        ["", "", "vinte", "trinta", "quarenta", "cinquenta", "sessenta", "setenta", "oitenta", "noventa"];
    const HUNDREDS: [&str; 10] = [
        "",
        "cento",
        "duzentos",
        "trezentos",
        "quatrocentos",
        "quinhentos",
        "seiscentos",
        "setecentos",
        "oitocentos",
        "novecentos",
    ];
    match n {
        0..20 => SMALL[n as usize].to_owned(),
        20..100 if n.is_multiple_of(10) => TENS[(n / 10) as usize].to_owned(),
        20..100 => format!("{} e {}", TENS[(n / 10) as usize], SMALL[(n % 10) as usize]),
        100 => "cem".to_owned(),
        101..1000 if n.is_multiple_of(100) => HUNDREDS[(n / 100) as usize].to_owned(),
        101..1000 => format!("{} e {}", HUNDREDS[(n / 100) as usize], portuguese(n % 100)),
        _ => {
            let groups = groups(n);
            let last = groups.len() - 1;
            let mut words = String::new();
            for (index, &(group, scale)) in groups.iter().enumerate() {
                let text = match (group, scale) {
                    (_, 0) => portuguese(group),
                    (1, 1) => "mil".to_owned(),
                    (_, 1) => format!("{} mil", portuguese(group)),
                    (1, 2) => "um milhão".to_owned(),
                    (_, 2) => format!("{} milhões", portuguese(group)),
                    (1, _) => "um bilhão".to_owned(),
                    _ => format!("{} bilhões", portuguese(group)),
                };
                if index > 0 {
                    // "mil e cem", "mil e cinco", but "mil duzentos e dez".
                    words.push_str(if index == last && (group < 100 || group % 100 == 0) { " e " } else { " " });
                }
                words.push_str(&text);
            }
            words
        }
    }
}

pub(super) fn portuguese_ordinal(n: u64, feminine: bool) -> String {
    const SMALL: [&str; 10] = ["", "primeir", "segund", "terceir", "quart", "quint", "sext", "sétim", "oitav", "non"];
    const TENS: [&str; 10] = [
        "",
        "décim",
        "vigésim",
        "trigésim",
        "quadragésim",
        "quinquagésim",
        "sexagésim",
        "septuagésim",
        "octogésim",
        "nonagésim",
    ];
    let ending = if feminine { 'a' } else { 'o' };
    match n {
        1..10 => format!("{}{ending}", SMALL[n as usize]),
        10..100 if n.is_multiple_of(10) => format!("{}{ending}", TENS[(n / 10) as usize]),
        10..100 => format!("{}{ending} {}{ending}", TENS[(n / 10) as usize], SMALL[(n % 10) as usize]),
        100 => format!("centésim{ending}"),
        _ => portuguese(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelled_as_the_languages_spell_them() {
        for (n, es, fr, it, pt) in [
            (0, "cero", "zéro", "zero", "zero"),
            (16, "dieciséis", "seize", "sedici", "dezesseis"),
            (21, "veintiuno", "vingt et un", "ventuno", "vinte e um"),
            (28, "veintiocho", "vingt-huit", "ventotto", "vinte e oito"),
            (71, "setenta y uno", "soixante et onze", "settantuno", "setenta e um"),
            (80, "ochenta", "quatre-vingts", "ottanta", "oitenta"),
            (93, "noventa y tres", "quatre-vingt-treize", "novantatré", "noventa e três"),
            (100, "cien", "cent", "cento", "cem"),
            (200, "doscientos", "deux cents", "duecento", "duzentos"),
            (
                555,
                "quinientos cincuenta y cinco",
                "cinq cent cinquante-cinq",
                "cinquecentocinquantacinque",
                "quinhentos e cinquenta e cinco",
            ),
            (1000, "mil", "mille", "mille", "mil"),
            (1100, "mil cien", "mille cent", "millecento", "mil e cem"),
            (2026, "dos mil veintiséis", "deux mille vingt-six", "duemilaventisei", "dois mil e vinte e seis"),
            (21_000, "veintiún mil", "vingt et un mille", "ventunomila", "vinte e um mil"),
            (200_000, "doscientos mil", "deux cent mille", "duecentomila", "duzentos mil"),
            (3_000, "tres mil", "trois mille", "tremila", "três mil"),
            (1_000_000, "un millón", "un million", "un milione", "um milhão"),
            (
                2_500_000,
                "dos millones quinientos mil",
                "deux millions cinq cent mille",
                "due milioni cinquecentomila",
                "dois milhões quinhentos mil",
            ),
        ] {
            assert_eq!((spanish(n).as_str(), french(n).as_str(), italian(n).as_str()), (es, fr, it), "{n}");
            // "dois milhões e quinhentos mil" is as common.
            assert_eq!(portuguese(n).replace("milhões e", "milhões"), pt, "{n}");
        }
    }

    #[test]
    fn ordinals_have_a_gender() {
        assert_eq!(
            (french_ordinal(1, false).as_str(), french_ordinal(2, false).as_str(), french_ordinal(3, false).as_str()),
            ("premier", "deuxième", "troisième")
        );
        assert_eq!(
            (french_ordinal(5, false).as_str(), french_ordinal(9, false).as_str(), french_ordinal(4, false).as_str()),
            ("cinquième", "neuvième", "quatrième")
        );
        assert_eq!(
            (french_ordinal(20, false).as_str(), french_ordinal(80, false).as_str()),
            ("vingtième", "quatre-vingtième")
        );
        assert_eq!(
            (
                spanish_ordinal(3, true).as_str(),
                italian_ordinal(23, false).as_str(),
                portuguese_ordinal(21, true).as_str()
            ),
            ("tercera", "ventitreesimo", "vigésima primeira")
        );
    }
}

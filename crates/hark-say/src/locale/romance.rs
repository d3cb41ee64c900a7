//! Spanish, French, Italian and Brazilian Portuguese.

use super::romance_numbers::{
    french, french_ordinal, italian, italian_ordinal, portuguese, portuguese_ordinal, spanish, spanish_hour,
    spanish_ordinal,
};
use super::{Locale, agreement};

pub(super) static SPANISH: Locale = Locale {
    decimal: ',',
    point: "coma",
    minus: "menos",
    percent: "por ciento",
    to: "a",
    months: [
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
    ],
    space: " ",
    cardinal: spanish,
    ordinal: Some(spanish_ordinal),
    date: |locale, day, month, year| {
        let day = if day == 1 { "primero".to_owned() } else { spanish(day) };
        format!("{day} de {} de {}", locale.month(month), spanish(year))
    },
    time: |_, hours, minutes| match minutes {
        0 => format!("{} en punto", spanish_hour(hours)),
        _ => format!("{} y {}", spanish_hour(hours), spanish(minutes)),
    },
    money: |symbol| {
        Some(match symbol {
            "€" | "EUR" => ["euro", "euros", "céntimos"],
            "$" | "USD" | "US$" => ["dólar", "dólares", "centavos"],
            "£" | "GBP" => ["libra", "libras", "peniques"],
            "¥" => ["yen", "yenes", ""],
            "R$" => ["real", "reales", "centavos"],
            _ => return None,
        })
    },
    and: "con",
    unit: |symbol| {
        metric(
            symbol,
            [
                "kilómetros",
                "metros",
                "centímetros",
                "milímetros",
                "kilogramos",
                "gramos",
                "miligramos",
                "litros",
                "mililitros",
                "horas",
                "minutos",
                "grados Celsius",
                "kilómetros por hora",
                "metros por segundo",
                "metros cuadrados",
            ],
        )
    },
    in_context: None,
    agree: Some(agreement::spanish),
};

pub(super) static FRENCH: Locale = Locale {
    decimal: ',',
    point: "virgule",
    minus: "moins",
    percent: "pour cent",
    to: "à",
    months: [
        "janvier",
        "février",
        "mars",
        "avril",
        "mai",
        "juin",
        "juillet",
        "août",
        "septembre",
        "octobre",
        "novembre",
        "décembre",
    ],
    space: " ",
    cardinal: french,
    ordinal: Some(french_ordinal),
    date: |locale, day, month, year| {
        let day = if day == 1 { "premier".to_owned() } else { french(day) };
        format!("{day} {} {}", locale.month(month), french(year))
    },
    time: |_, hours, minutes| {
        let hour = match hours {
            0 => "zéro heure".to_owned(),
            1 => "une heure".to_owned(),
            21 => "vingt et une heures".to_owned(),
            _ => format!("{} heures", french(hours)),
        };
        if minutes == 0 { hour } else { format!("{hour} {}", french(minutes)) }
    },
    money: |symbol| {
        Some(match symbol {
            "€" | "EUR" => ["euro", "euros", "centimes"],
            "$" | "USD" | "US$" => ["dollar", "dollars", "cents"],
            "£" | "GBP" => ["livre", "livres", "pence"],
            "¥" => ["yen", "yens", ""],
            _ => return None,
        })
    },
    and: "et",
    unit: |symbol| {
        metric(
            symbol,
            [
                "kilomètres",
                "mètres",
                "centimètres",
                "millimètres",
                "kilogrammes",
                "grammes",
                "milligrammes",
                "litres",
                "millilitres",
                "heures",
                "minutes",
                "degrés Celsius",
                "kilomètres à l'heure",
                "mètres par seconde",
                "mètres carrés",
            ],
        )
    },
    in_context: None,
    agree: Some(agreement::french),
};

pub(super) static ITALIAN: Locale = Locale {
    decimal: ',',
    point: "virgola",
    minus: "meno",
    percent: "per cento",
    to: "a",
    months: [
        "gennaio",
        "febbraio",
        "marzo",
        "aprile",
        "maggio",
        "giugno",
        "luglio",
        "agosto",
        "settembre",
        "ottobre",
        "novembre",
        "dicembre",
    ],
    space: " ",
    cardinal: italian,
    ordinal: Some(italian_ordinal),
    date: |locale, day, month, year| {
        let day = if day == 1 { "primo".to_owned() } else { italian(day) };
        format!("{day} {} {}", locale.month(month), italian(year))
    },
    time: |_, hours, minutes| {
        let hour = if hours == 1 { "una".to_owned() } else { italian(hours) };
        if minutes == 0 { hour } else { format!("{hour} e {}", italian(minutes)) }
    },
    money: |symbol| {
        Some(match symbol {
            "€" | "EUR" => ["euro", "euro", "centesimi"],
            "$" | "USD" | "US$" => ["dollaro", "dollari", "centesimi"],
            "£" | "GBP" => ["sterlina", "sterline", "pence"],
            "¥" => ["yen", "yen", ""],
            _ => return None,
        })
    },
    and: "e",
    unit: |symbol| {
        metric(
            symbol,
            [
                "chilometri",
                "metri",
                "centimetri",
                "millimetri",
                "chilogrammi",
                "grammi",
                "milligrammi",
                "litri",
                "millilitri",
                "ore",
                "minuti",
                "gradi Celsius",
                "chilometri all'ora",
                "metri al secondo",
                "metri quadrati",
            ],
        )
    },
    in_context: None,
    agree: Some(agreement::italian),
};

pub(super) static PORTUGUESE: Locale = Locale {
    decimal: ',',
    point: "vírgula",
    minus: "menos",
    percent: "por cento",
    to: "a",
    months: [
        "janeiro",
        "fevereiro",
        "março",
        "abril",
        "maio",
        "junho",
        "julho",
        "agosto",
        "setembro",
        "outubro",
        "novembro",
        "dezembro",
    ],
    space: " ",
    cardinal: portuguese,
    ordinal: Some(portuguese_ordinal),
    date: |locale, day, month, year| {
        let day = if day == 1 { "primeiro".to_owned() } else { portuguese(day) };
        format!("{day} de {} de {}", locale.month(month), portuguese(year))
    },
    time: |_, hours, minutes| {
        let hour = match hours {
            1 => "uma hora".to_owned(),
            2 => "duas horas".to_owned(),
            21 => "vinte e uma horas".to_owned(),
            22 => "vinte e duas horas".to_owned(),
            _ => format!("{} horas", portuguese(hours)),
        };
        if minutes == 0 { hour } else { format!("{hour} e {}", portuguese(minutes)) }
    },
    money: |symbol| {
        Some(match symbol {
            "R$" => ["real", "reais", "centavos"],
            "€" | "EUR" => ["euro", "euros", "centavos"],
            "$" | "USD" | "US$" => ["dólar", "dólares", "centavos"],
            "£" | "GBP" => ["libra", "libras", "pence"],
            "¥" => ["iene", "ienes", ""],
            _ => return None,
        })
    },
    and: "e",
    unit: |symbol| {
        metric(
            symbol,
            [
                "quilômetros",
                "metros",
                "centímetros",
                "milímetros",
                "quilogramas",
                "gramas",
                "miligramas",
                "litros",
                "mililitros",
                "horas",
                "minutos",
                "graus Celsius",
                "quilômetros por hora",
                "metros por segundo",
                "metros quadrados",
            ],
        )
    },
    in_context: None,
    agree: Some(agreement::portuguese),
};

/// Metric units, by a list of names in one order for all languages.
pub(super) fn metric(symbol: &str, names: [&'static str; 15]) -> Option<&'static str> {
    let symbols = ["km", "m", "cm", "mm", "kg", "g", "mg", "l", "ml", "h", "min", "°C", "km/h", "m/s", "m²"];
    symbols.iter().position(|known| *known == symbol).map(|index| names[index])
}

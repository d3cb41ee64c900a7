//! Names of units by their symbols.

/// The spoken name of a unit, for one or for many.
pub(crate) fn unit(symbol: &str, one: bool, british: bool) -> Option<String> {
    let symbol = symbol.trim();
    if let Some((over, under)) = symbol.split_once('/') {
        let under = match under {
            "h" | "hr" => "hour",
            "s" | "sec" => "second",
            "min" => "minute",
            "d" | "day" => "day",
            "wk" | "week" => "week",
            "mo" | "month" => "month",
            "yr" | "year" | "y" | "a" => "year",
            _ => return Some(format!("{} per {}", unit(over, one, british)?, unit(under, true, british)?)),
        };
        return Some(format!("{} per {under}", unit(over, one, british)?));
    }
    if let Some(base) = symbol.strip_suffix(['²', '2']).filter(|base| is_length(base)) {
        return Some(format!("square {}", unit(base, one, british)?));
    }
    if let Some(base) = symbol.strip_suffix(['³', '3']).filter(|base| is_length(base)) {
        return Some(format!("cubic {}", unit(base, one, british)?));
    }
    if let Some(base) = symbol.strip_prefix("sq") {
        let base = base.trim_start_matches(['.', ' ']);
        return is_length(base).then(|| unit(base, one, british)).flatten().map(|name| format!("square {name}"));
    }
    let (singular, plural) = names(symbol)?;
    let name = if one { singular.to_owned() } else { plural.map_or_else(|| format!("{singular}s"), str::to_owned) };
    Some(if british { name.replace("meter", "metre").replace("liter", "litre") } else { name })
}

fn is_length(symbol: &str) -> bool {
    matches!(symbol, "m" | "km" | "cm" | "mm" | "ft" | "in" | "yd" | "mi")
}

/// Singular and, where it is not the singular with an s, plural.
fn names(symbol: &str) -> Option<(&'static str, Option<&'static str>)> {
    Some(match symbol {
        "km" => ("kilometer", None),
        "m" => ("meter", None),
        "cm" => ("centimeter", None),
        "mm" => ("millimeter", None),
        "µm" | "μm" | "um" => ("micrometer", None),
        "nm" => ("nanometer", None),
        "mi" => ("mile", None),
        "yd" | "yds" => ("yard", None),
        "ft" => ("foot", Some("feet")),
        "in" => ("inch", Some("inches")),
        "kg" | "kgs" => ("kilogram", None),
        "g" => ("gram", None),
        "mg" => ("milligram", None),
        "µg" | "μg" | "mcg" => ("microgram", None),
        "lb" | "lbs" => ("pound", None),
        "oz" => ("ounce", None),
        "t" => ("ton", None),
        "L" | "l" => ("liter", None),
        "ml" | "mL" => ("milliliter", None),
        "cl" | "cL" => ("centiliter", None),
        "dl" | "dL" => ("deciliter", None),
        "gal" => ("gallon", None),
        "tsp" => ("teaspoon", None),
        "tbsp" => ("tablespoon", None),
        "ha" => ("hectare", None),
        "mph" => ("mile per hour", Some("miles per hour")),
        "kph" | "kmh" => ("kilometer per hour", Some("kilometers per hour")),
        "mpg" => ("mile per gallon", Some("miles per gallon")),
        "fps" => ("frame per second", Some("frames per second")),
        "rpm" => ("R P M", Some("R P M")),
        "bpm" => ("beat per minute", Some("beats per minute")),
        "kn" => ("knot", None),
        "Hz" => ("hertz", Some("hertz")),
        "kHz" => ("kilohertz", Some("kilohertz")),
        "MHz" => ("megahertz", Some("megahertz")),
        "GHz" => ("gigahertz", Some("gigahertz")),
        "W" => ("watt", None),
        "kW" => ("kilowatt", None),
        "MW" => ("megawatt", None),
        "GW" => ("gigawatt", None),
        "Wh" => ("watt hour", None),
        "kWh" => ("kilowatt hour", None),
        "MWh" => ("megawatt hour", None),
        "V" => ("volt", None),
        "kV" => ("kilovolt", None),
        "mV" => ("millivolt", None),
        "mA" => ("milliamp", None),
        "mAh" => ("milliamp hour", None),
        "Ω" => ("ohm", None),
        "J" => ("joule", None),
        "kJ" => ("kilojoule", None),
        "cal" => ("calorie", None),
        "kcal" => ("kilocalorie", None),
        "Pa" => ("pascal", None),
        "kPa" => ("kilopascal", None),
        "hPa" => ("hectopascal", None),
        "psi" => ("P S I", Some("P S I")),
        "bar" => ("bar", Some("bar")),
        "dB" => ("decibel", None),
        "px" => ("pixel", None),
        "dpi" => ("D P I", Some("D P I")),
        "ppm" => ("part per million", Some("parts per million")),
        "K" => ("K", Some("K")),
        "kB" | "KB" => ("kilobyte", None),
        "MB" => ("megabyte", None),
        "GB" => ("gigabyte", None),
        "TB" => ("terabyte", None),
        "PB" => ("petabyte", None),
        "KiB" => ("kibibyte", None),
        "MiB" => ("mebibyte", None),
        "GiB" => ("gibibyte", None),
        "kbps" | "Kbps" => ("kilobit per second", Some("kilobits per second")),
        "Mbps" => ("megabit per second", Some("megabits per second")),
        "Gbps" => ("gigabit per second", Some("gigabits per second")),
        "bn" => ("billion", Some("billion")),
        "mn" | "M" => ("million", Some("million")),
        "tn" => ("trillion", Some("trillion")),
        "k" => ("K", Some("K")),
        "h" | "hr" | "hrs" => ("hour", None),
        "min" | "mins" => ("minute", None),
        "s" | "sec" | "secs" => ("second", None),
        "ms" => ("millisecond", None),
        "µs" | "μs" => ("microsecond", None),
        "ns" => ("nanosecond", None),
        "°C" | "° C" | "C" => ("degree Celsius", Some("degrees Celsius")),
        "°F" | "° F" | "F" => ("degree Fahrenheit", Some("degrees Fahrenheit")),
        "°" => ("degree", None),
        "mmHg" => ("millimeter of mercury", Some("millimeters of mercury")),
        "nits" => ("nit", None),
        "N" => ("newton", None),
        "kN" => ("kilonewton", None),
        "ly" => ("light year", None),
        "AU" => ("astronomical unit", None),
        _ => return None,
    })
}

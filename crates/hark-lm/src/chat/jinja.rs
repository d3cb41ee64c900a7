//! The Jinja environment of chat templates: Python's string methods and the functions that Hugging Face's templates call.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

/// An environment that knows what templates use, with Hugging Face's white space rules.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("Jinja's own delimiters are valid"));
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_recursion_limit(50);
    environment.set_unknown_method_callback(method);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        format_time(&format, seconds)
    });
    environment
}

/// Python's methods of strings and dictionaries.
fn method(_: &mut State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let unknown = || Error::new(ErrorKind::UnknownMethod, format!("{} has no method {name}", value.kind()));
    if value.kind() == ValueKind::Map {
        return match name {
            "items" => pairs(value),
            "keys" => Ok(value.try_iter()?.collect()),
            "get" => {
                let found = arguments.first().map(|key| value.get_item(key)).transpose()?.unwrap_or_default();
                let otherwise = arguments.get(1).cloned().unwrap_or_else(|| Value::from(()));
                Ok(if found.is_undefined() { otherwise } else { found })
            }
            _ => Err(unknown()),
        };
    }
    let Some(text) = value.as_str() else { return Err(unknown()) };
    let argument = |index: usize| arguments.get(index).and_then(Value::as_str);
    let needed = |index: usize| argument(index).ok_or_else(|| Error::from(ErrorKind::MissingArgument));
    let is_stripped = |c: char| argument(0).map_or(c.is_whitespace(), |set| set.contains(c));
    Ok(match name {
        "strip" => Value::from(text.trim_matches(is_stripped)),
        "lstrip" => Value::from(text.trim_start_matches(is_stripped)),
        "rstrip" => Value::from(text.trim_end_matches(is_stripped)),
        "startswith" => Value::from(text.starts_with(needed(0)?)),
        "endswith" => Value::from(text.ends_with(needed(0)?)),
        "lower" => Value::from(text.to_lowercase()),
        "upper" => Value::from(text.to_uppercase()),
        "title" | "capitalize" => Value::from(capitalized(text, name == "title")),
        "replace" => Value::from(text.replace(needed(0)?, needed(1)?)),
        "find" => Value::from(text.find(needed(0)?).map_or(-1, |at| text[..at].chars().count() as i64)),
        "count" => Value::from(text.matches(needed(0)?).count()),
        "split" => match argument(0) {
            Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
            Some(separator) => match arguments.get(1).and_then(Value::as_usize) {
                Some(most) => text.splitn(most.saturating_add(1), separator).map(Value::from).collect(),
                None => text.split(separator).map(Value::from).collect(),
            },
            None => text.split_whitespace().map(Value::from).collect(),
        },
        "splitlines" => text.lines().map(Value::from).collect(),
        _ => return Err(unknown()),
    })
}

fn pairs(map: &Value) -> Result<Value, Error> {
    let pair = |key: Value| Ok([key.clone(), map.get_item(&key)?].into_iter().collect::<Value>());
    map.try_iter()?.map(pair).collect::<Result<Vec<Value>, Error>>().map(|pairs| pairs.into_iter().collect())
}

fn capitalized(text: &str, every_word: bool) -> String {
    let mut begins = true;
    let change = |c: char| {
        let changed: String = if begins { c.to_uppercase().collect() } else { c.to_lowercase().collect() };
        begins = every_word && !c.is_alphabetic();
        changed
    };
    text.chars().map(change).collect()
}

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

/// The directives of `strftime` that templates use, in UTC.
pub(super) fn format_time(format: &str, seconds: u64) -> String {
    let (days, time) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days to a date of the Gregorian calendar, counted in eras of 400 years from March 1 of the year 0 (Hinnant).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let month_name = MONTHS[(month - 1) as usize];
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match characters.next() {
            Some('Y') => out += &year.to_string(),
            Some('m') => out += &format!("{month:02}"),
            Some('d') => out += &format!("{day:02}"),
            Some('B') => out += month_name,
            Some('b') => out += &month_name[..3],
            Some('H') => out += &format!("{:02}", time / 3600),
            Some('M') => out += &format!("{:02}", time / 60 % 60),
            Some('S') => out += &format!("{:02}", time % 60),
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

//! Abbreviations, initials and words.

use super::{Position, Reading, pattern};

/// How an abbreviation reads, given what stands around it.
enum Expansion {
    /// Always these words.
    Always(&'static str),
    /// Only before a number.
    BeforeNumber(&'static str),
    /// Before a name the first, else the second.
    BeforeName(&'static str, &'static str),
    /// These words only when a name follows.
    OnlyBeforeName(&'static str),
}

use Expansion::{Always, BeforeName, BeforeNumber, OnlyBeforeName};

/// Abbreviations that need their full stop unless `bare` says otherwise.
fn expansion(word: &str) -> Option<(Expansion, bool)> {
    let entry = match word {
        "Mr" => (Always("Mister"), true),
        "Mrs" => (Always("Missus"), true),
        "Ms" => (Always("Miz"), true),
        "Dr" => (BeforeName("Doctor", "Drive"), true),
        "St" => (BeforeName("Saint", "Street"), true),
        "Mt" => (OnlyBeforeName("Mount"), true),
        "Ft" => (OnlyBeforeName("Fort"), false),
        "Prof" => (Always("Professor"), false),
        "Rev" => (OnlyBeforeName("Reverend"), false),
        "Gen" => (OnlyBeforeName("General"), false),
        "Sen" => (OnlyBeforeName("Senator"), false),
        "Rep" => (OnlyBeforeName("Representative"), false),
        "Gov" => (OnlyBeforeName("Governor"), false),
        "Capt" => (Always("Captain"), false),
        "Lt" => (Always("Lieutenant"), false),
        "Col" => (OnlyBeforeName("Colonel"), false),
        "Sgt" => (Always("Sergeant"), false),
        "Cpl" => (Always("Corporal"), false),
        "Maj" => (OnlyBeforeName("Major"), false),
        "Adm" => (OnlyBeforeName("Admiral"), false),
        "Hon" => (OnlyBeforeName("Honorable"), false),
        "Pres" => (OnlyBeforeName("President"), false),
        "Jr" => (Always("Junior"), true),
        "Sr" => (Always("Senior"), true),
        "Esq" => (Always("Esquire"), false),
        "Ave" => (Always("Avenue"), false),
        "Blvd" => (Always("Boulevard"), true),
        "Rd" => (Always("Road"), false),
        "Ln" => (Always("Lane"), false),
        "Hwy" => (Always("Highway"), true),
        "Pkwy" => (Always("Parkway"), true),
        "Sq" => (Always("Square"), false),
        "Co" => (Always("Company"), false),
        "Inc" => (Always("Incorporated"), true),
        "Ltd" => (Always("Limited"), true),
        "Corp" => (Always("Corporation"), false),
        "Bros" => (Always("Brothers"), false),
        "Dept" | "dept" => (Always("department"), true),
        "Univ" => (Always("University"), false),
        "Assn" => (Always("Association"), true),
        "Govt" | "govt" => (Always("government"), true),
        "etc" => (Always("et cetera"), true),
        "vs" => (Always("versus"), true),
        "approx" | "Approx" => (Always("approximately"), true),
        "est" | "Est" => (BeforeNumber("established"), false),
        "ca" => (BeforeNumber("circa"), false),
        "incl" => (Always("including"), false),
        "excl" => (Always("excluding"), false),
        "misc" => (Always("miscellaneous"), false),
        "max" => (BeforeNumber("maximum"), false),
        "min" => (BeforeNumber("minimum"), false),
        "temp" => (Always("temperature"), false),
        "No" | "no" => (BeforeNumber("number"), false),
        "Nos" | "nos" => (BeforeNumber("numbers"), false),
        "p" => (BeforeNumber("page"), false),
        "pp" => (BeforeNumber("pages"), false),
        "vol" | "Vol" => (BeforeNumber("volume"), false),
        "ch" | "Ch" => (BeforeNumber("chapter"), false),
        "fig" | "Fig" => (BeforeNumber("figure"), false),
        "figs" | "Figs" => (BeforeNumber("figures"), false),
        "sec" | "Sec" => (BeforeNumber("section"), false),
        "art" | "Art" => (BeforeNumber("article"), false),
        "eq" | "Eq" => (BeforeNumber("equation"), false),
        "ext" | "Ext" => (BeforeNumber("extension"), false),
        "tel" | "Tel" => (Always("telephone"), false),
        "Jan" => (Always("January"), false),
        "Feb" => (Always("February"), false),
        "Aug" => (Always("August"), false),
        "Sept" | "Sep" => (Always("September"), false),
        "Oct" => (Always("October"), false),
        "Nov" => (Always("November"), false),
        "Dec" => (Always("December"), false),
        "Mon" => (Always("Monday"), false),
        "Tue" | "Tues" => (Always("Tuesday"), false),
        "Wed" => (Always("Wednesday"), false),
        "Thu" | "Thur" | "Thurs" => (Always("Thursday"), false),
        "Fri" => (Always("Friday"), false),
        "Sat" => (Always("Saturday"), false),
        "al" => (Always("al"), false),
        "cf" => (Always("compare"), false),
        "viz" => (Always("namely"), false),
        "ft" => (Always("feet"), false),
        "lbs" => (Always("pounds"), false),
        "oz" => (Always("ounces"), false),
        "hrs" => (Always("hours"), false),
        "mins" => (Always("minutes"), false),
        "PhD" => (Always("P H D"), true),
        "PhDs" => (Always("P H Ds"), true),
        _ => return None,
    };
    Some(entry)
}

/// Abbreviations whose letters have full stops between them.
const DOTTED: &[(&str, &str)] = &[
    ("e.g.", "for example"),
    ("E.g.", "for example"),
    ("i.e.", "that is"),
    ("I.e.", "that is"),
    ("a.k.a.", "also known as"),
    ("w/o", "without"),
    ("w/", "with"),
    ("b/c", "because"),
    ("c/o", "care of"),
    ("n/a", "N A"),
    ("N/A", "N A"),
    ("a.m.", "AM"),
    ("p.m.", "PM"),
    ("A.M.", "AM"),
    ("P.M.", "PM"),
    ("Ph.D.", "P H D"),
    ("M.Sc.", "M S C"),
    ("B.Sc.", "B S C"),
    ("S.t.", "S T"),
    ("P.S.", "P S"),
    ("rock 'n' roll", "rock and roll"),
    ("C++", "C plus plus"),
    ("C#", "C sharp"),
    ("F#", "F sharp"),
    (".NET", "dot net"),
    ("Node.js", "node J S"),
];

pattern!(WORD, r"^[\p{L}\p{M}]+(?:'[\p{L}\p{M}]+)*");

/// Dr., St., etc., e.g., No. 5.
pub(crate) fn abbreviation(position: &Position) -> Option<Reading> {
    if !position.is_token_start() {
        return None;
    }
    let rest = position.rest();
    if let Some((text, words)) = DOTTED
        .iter()
        .find(|(text, _)| rest.starts_with(text) && (text.ends_with(['.', '/']) || position.ends_at(text.len())))
    {
        return with_stop(position, text.len(), words);
    }
    let word = WORD.find(rest)?.as_str();
    let (expansion, bare) = expansion(word)?;
    let dotted = rest[word.len()..].starts_with('.');
    let len = word.len() + usize::from(dotted);
    if !position.ends_at(word.len()) || (!dotted && !bare) || rest[word.len()..].starts_with('\'') {
        return None;
    }
    let after = rest[len..].trim_start_matches(' ');
    let next = after.chars().next();
    let is_name = next.is_some_and(char::is_uppercase) && rest[len..].starts_with(' ');
    let before_number = next.is_some_and(|c| c.is_ascii_digit() || c == '#');
    let words = match expansion {
        Always(words) => words,
        BeforeNumber(words) if before_number => words,
        OnlyBeforeName(words) if is_name => words,
        // "Main St. Anna" is rare; "St. Mary's" and "Main St. is" are not.
        BeforeName(title, _) if is_name && !follows_street_name(position) => title,
        BeforeName(_, street) if follows_street_name(position) => street,
        BeforeName(title, _) if is_name || position.previous_word().is_empty() => title,
        BeforeName("Doctor", _) => "Doctor",
        BeforeNumber(_) | OnlyBeforeName(_) | BeforeName(..) => return None,
    };
    if dotted { with_stop(position, len, words) } else { Reading::new(len, words) }
}

/// Whether the word before is the name of a street: "221 Baker St.", "on Maple Dr.".
fn follows_street_name(position: &Position) -> bool {
    let before = position.previous_word();
    let named = before.starts_with(char::is_uppercase) && before.len() > 1 && position.previous_char() == Some(' ');
    let is_street_number =
        before.ends_with("th") || before.ends_with("st") || before.ends_with("nd") || before.ends_with("rd");
    (named
        && !matches!(
            before,
            "The"
                | "And"
                | "But"
                | "When"
                | "If"
                | "As"
                | "In"
                | "At"
                | "Dear"
                | "Hello"
                | "Hi"
                | "So"
                | "Thanks"
                | "Ask"
                | "See"
                | "With"
                | "Is"
                | "Was"
                | "Did"
                | "Does"
                | "Has"
                | "My"
                | "Our"
                | "Yes"
                | "No"
                | "Then"
                | "Today"
                | "Yesterday"
                | "Since"
                | "Because"
                | "While"
                | "For"
                | "From"
                | "To"
                | "By"
                | "Also"
        ))
        || (is_street_number && before.starts_with(|c: char| c.is_ascii_digit()))
}

/// The full stop of an abbreviation is also the sentence's at its end.
fn with_stop(position: &Position, len: usize, words: &str) -> Option<Reading> {
    let text = &position.rest()[..len];
    let closes = |c: char| c.is_whitespace() || matches!(c, '"' | '”' | ')' | '\'');
    let stop = if text.ends_with('.') && position.rest()[len..].chars().all(closes) { "." } else { "" };
    let space = if text.ends_with('/') { " " } else { "" };
    Reading::new(len, format!("{words}{stop}{space}"))
}

pattern!(INITIALS, r"^(?:\p{Lu}\.){2,}");
pattern!(INITIAL, r"^\p{Lu}\. ");

/// U.S., J.R.R., and one initial before a name.
pub(crate) fn initials(position: &Position) -> Option<Reading> {
    if !position.is_token_start() {
        return None;
    }
    if let Some(found) = INITIALS.find(position.rest()) {
        let letters: String = found.as_str().chars().filter(|&c| c != '.').collect();
        // "U.S." is read as "US"; initials of a name are letters of their own.
        let words =
            if matches!(letters.as_str(), "US" | "UK" | "USA" | "UN" | "EU" | "DC" | "LA" | "NY" | "UAE" | "USSR") {
                letters
            } else {
                letters.chars().map(String::from).collect::<Vec<_>>().join(" ")
            };
        let possessive = position.rest()[found.len()..].starts_with("'s");
        if possessive {
            return Reading::new(found.len() + 2, format!("{words}'s"));
        }
        return with_stop(position, found.len(), &words);
    }
    let found = INITIAL.find(position.rest())?;
    let after = &position.rest()[found.len()..];
    let is_name = after.starts_with(char::is_uppercase);
    let letter = &found.as_str()[..found.len() - 2];
    (is_name && letter != "I").then(|| Reading::new(found.len() - 1, letter)).flatten()
}

pattern!(SLASHED, r"^(\p{L}+)/(\p{L}+)\b");

/// and/or, he/she, TCP/IP.
pub(crate) fn slashed(position: &Position) -> Option<Reading> {
    let captures = SLASHED.captures(position.rest())?;
    if !position.is_token_start() || position.rest()[captures[0].len()..].starts_with('/') {
        return None;
    }
    let (first, second) = (&captures[1], &captures[2]);
    let capitals = |text: &str| text.chars().all(char::is_uppercase);
    let words = match (first.to_lowercase().as_str(), second.to_lowercase().as_str()) {
        ("and", "or") => format!("{first} {second}"),
        ("he", "she")
        | ("she", "he")
        | ("his", "her")
        | ("him", "her")
        | ("her", "his")
        | ("yes", "no")
        | ("true", "false")
        | ("male", "female") => format!("{first} or {second}"),
        _ if capitals(first) && capitals(second) => format!("{first} {second}"),
        _ => format!("{first} slash {second}"),
    };
    Reading::new(captures[0].len(), words)
}

/// A word, copied; and letters that touch a number, as in "MP3" and "B2B".
pub(crate) fn word(position: &Position) -> Option<Reading> {
    let rest = position.rest();
    for (text, words) in [
        ("B2B", "B to B"),
        ("B2C", "B to C"),
        ("P2P", "P to P"),
        ("H2O", "H two O"),
        ("CO2", "C O two"),
        ("O2", "O two"),
    ] {
        if position.is_token_start() && rest.starts_with(text) && position.ends_at(text.len()) {
            return Reading::new(text.len(), words);
        }
    }
    let word = WORD.find(rest)?.as_str();
    Reading::new(word.len(), word)
}

/// A sentence in capitals, as headings are, in lower case, so that its words are not spelled; short ones may be acronyms and stay.
pub(crate) fn lower_shouting(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).collect();
    let shouted = words.len() >= 3
        && words.iter().any(|word| word.len() > 5)
        && !text.chars().any(char::is_lowercase)
        && text.chars().any(char::is_uppercase);
    shouted.then(|| text.to_lowercase())
}

//! Roman numerals, where the words around them say that they are some.

use super::numbers::{cardinal, ordinal, roman};
use super::{Position, Reading, pattern};

/// Names that kings, queens, popes and emperors share.
const RULERS: &[&str] = &[
    "henry",
    "louis",
    "george",
    "elizabeth",
    "charles",
    "edward",
    "james",
    "william",
    "richard",
    "napoleon",
    "philip",
    "ferdinand",
    "catherine",
    "nicholas",
    "alexander",
    "peter",
    "frederick",
    "leo",
    "pius",
    "paul",
    "benedict",
    "francis",
    "otto",
    "ramses",
    "rameses",
    "ptolemy",
    "gregory",
    "clement",
    "innocent",
    "urban",
    "sixtus",
    "boniface",
    "xavier",
    "mary",
    "margaret",
    "christian",
    "gustav",
    "carl",
    "karl",
    "wilhelm",
    "franz",
    "joseph",
    "leopold",
    "albert",
    "alfonso",
    "juan",
    "pedro",
    "ivan",
    "murad",
    "mehmed",
    "selim",
    "suleiman",
    "constantine",
    "theodosius",
    "justinian",
    "darius",
    "xerxes",
    "artaxerxes",
    "cyrus",
    "thutmose",
    "amenhotep",
    "seti",
    "haakon",
    "olav",
    "harald",
    "magnus",
    "robert",
    "david",
    "stephen",
    "baldwin",
    "victor",
    "emmanuel",
    "umberto",
    "maximilian",
    "rudolf",
    "matthias",
    "sigismund",
    "john",
    "casimir",
    "nero",
];

/// Words that are followed by a number.
const NUMBERED: &[&str] = &[
    "chapter",
    "part",
    "section",
    "act",
    "scene",
    "volume",
    "vol",
    "book",
    "article",
    "title",
    "phase",
    "type",
    "class",
    "level",
    "grade",
    "stage",
    "appendix",
    "figure",
    "table",
    "episode",
    "season",
    "rocky",
    "war",
    "fantasy",
    "bowl",
    "mark",
    "apollo",
    "article",
    "amendment",
    "schedule",
    "unit",
    "lesson",
    "round",
    "group",
    "category",
    "step",
    "corps",
    "legion",
    "gemini",
    "vatican",
    "formula",
    "factor",
];

/// Words after "I" that leave it a numeral: "Part I of the book".
const AFTER_ONE: &[&str] = &[
    "of", "and", "or", "is", "was", "begins", "began", "starts", "ends", "ended", "died", "became", "ruled", "to",
    "in", "had",
];

pattern!(NUMERAL, r"^[IVXLCDM]+");

/// Henry VIII, Chapter IV, World War II, MCMXCIX.
pub(crate) fn numeral(position: &Position) -> Option<Reading> {
    let found = NUMERAL.find(position.rest())?;
    let (text, len) = (found.as_str(), found.len());
    let after = &position.rest()[len..];
    let possessive = after.starts_with("'s");
    if !position.is_token_start()
        || (!position.ends_at(len) && !possessive)
        || after.starts_with(['.', '-']) && !position.is_end(len) && after.starts_with('-')
    {
        return None;
    }
    let n = roman(text)?;
    let before = position.previous_word();
    let lower = before.to_lowercase();
    let is_ruler = RULERS.contains(&lower.as_str()) && before.starts_with(char::is_uppercase);
    let is_numbered =
        NUMBERED.contains(&lower.as_str()) && (lower != "war" || position.previous_two_words() == "world war");
    let touches_word = position.previous_char() == Some(' ');
    if text.len() == 1 {
        let next = position.next_word(len);
        let world_war = position.previous_two_words() == "world war";
        let stands = next.is_empty() || AFTER_ONE.contains(&next) || (text != "I" && is_ruler);
        // A letter on its own is a numeral only after a word that asks for one.
        if !touches_word
            || !(world_war
                || ((is_ruler || is_numbered) && stands && matches!(text, "I" | "V" | "X"))
                || (is_numbered && matches!(text, "V" | "X")))
        {
            return None;
        }
    } else if !(is_ruler || is_numbered) {
        let is_small = text.bytes().all(|b| matches!(b, b'I' | b'V' | b'X')) && text.contains('I');
        let follows_name = before.len() > 1
            && before.starts_with(char::is_uppercase)
            && before.chars().skip(1).all(char::is_lowercase);
        let is_year = text.len() >= 5 && (1000..2100).contains(&n);
        if !(is_year || (is_small && follows_name && touches_word && text != "IV" || text.len() >= 3 && is_small)) {
            return None;
        }
        if is_year {
            return Reading::new(len, super::numbers::year(n, position.british));
        }
    }
    let words = if is_ruler { format!("the {}", ordinal(n, position.british)) } else { cardinal(n, position.british) };
    if possessive { Reading::new(len + 2, format!("{words}'s")) } else { Reading::new(len, words) }
}

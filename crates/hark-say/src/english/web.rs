//! Addresses of the web and of mail, handles, tags and names of files.

use super::numbers::integer;
use super::{Position, Reading, pattern};

macro_rules! top_level {
    () => {
        r"(?:com|org|net|io|dev|edu|gov|mil|int|info|biz|app|ai|co|me|tv|xyz|uk|us|de|fr|es|it|nl|eu|ch|at|be|se|no|dk|fi|pl|ru|cn|jp|kr|in|au|nz|ca|br|mx|za|ie|pt|gr|cz)"
    };
}

pattern!(URL, r"^(?i)(?:(?:https?|ftp)://|www\.)[^\s<>“”]+");
pattern!(
    HOST,
    r"^(?i)(?:(?:mailto:)?[a-z0-9][a-z0-9._+-]*@[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*\.",
    top_level!(),
    ")"
);

/// https://example.com/page, name@example.org, example.io.
pub(crate) fn address(position: &Position) -> Option<Reading> {
    if !position.is_token_start() || !position.rest().starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let found = match URL.find(position.rest()) {
        Some(url) => url.as_str(),
        None => host_and_path(position)?,
    };
    let text = found.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'', '"', ']']);
    let named = text.contains("://")
        || text.contains('@')
        || text.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("www."))
        || is_domain(text);
    if !named || !position.ends_at(text.len()) {
        return None;
    }
    let bare = match text.split_once("://") {
        Some((_, bare)) => bare,
        None => text.strip_prefix("mailto:").unwrap_or(text),
    };
    Reading::new(text.len(), spell(bare.trim_end_matches('/')))
}

/// A mail address, or a host without a scheme and the path behind it.
fn host_and_path<'a>(position: &Position<'a>) -> Option<&'a str> {
    let host = HOST.find(position.head())?.as_str();
    let rest = position.rest();
    let after = &rest[host.len()..];
    if host.contains('@') || !after.starts_with('/') || !is_domain(&rest[..=host.len()]) {
        return Some(host);
    }
    let path = after.find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '“' | '”')).unwrap_or(after.len());
    Some(&rest[..host.len() + path])
}

/// Whether the text without a scheme is a domain and not a missing space after a full stop: "end.It" or "e.g.".
fn is_domain(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    let mut labels = host.rsplit('.');
    let top = labels.next().unwrap_or_default();
    let name = labels.next().unwrap_or_default();
    let lower = top.chars().all(|c| c.is_ascii_lowercase());
    // Tops that are English words need a longer name: "so.in" is a missing space more often than a domain.
    let is_word = matches!(top, "in" | "it" | "me" | "us" | "no" | "at" | "be" | "is" | "so");
    lower && name.len() > 1 && (!is_word || text.contains('/')) && name.chars().any(|c| c.is_ascii_alphabetic())
}

/// Letters as words, signs by their names.
fn spell(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut token = String::new();
    let flush = |token: &mut String, words: &mut Vec<String>| {
        if !token.is_empty() {
            words.push(label(token));
            token.clear();
        }
    };
    for c in text.chars() {
        let starts_other = token.chars().next_back().is_some_and(|last| last.is_ascii_digit() != c.is_ascii_digit());
        let name = match c {
            '.' => "dot",
            '/' => "slash",
            '-' => "dash",
            '_' => "underscore",
            '?' => "question mark",
            '=' => "equals",
            '&' => "and",
            '#' => "hash",
            '%' => "percent",
            ':' => "colon",
            '~' => "tilde",
            '@' => "at",
            '+' => "plus",
            _ if c.is_alphanumeric() => {
                if starts_other {
                    flush(&mut token, &mut words);
                }
                token.push(c);
                continue;
            }
            _ => "",
        };
        flush(&mut token, &mut words);
        if !name.is_empty() {
            words.push(name.to_owned());
        }
    }
    flush(&mut token, &mut words);
    words.join(" ")
}

fn label(token: &str) -> String {
    if token.bytes().all(|b| b.is_ascii_digit()) {
        return integer(token, false);
    }
    let lower = token.to_lowercase();
    let is_word = matches!(
        lower.as_str(),
        "com" | "org" | "net" | "dev" | "info" | "biz" | "app" | "mail" | "me" | "in" | "it" | "be" | "at" | "no"
    );
    let vowels = lower.chars().any(|c| "aeiouyéèáíóúäöü".contains(c));
    if !is_word
        && (lower.len() <= 2
            || !vowels
            || matches!(
                lower.as_str(),
                "edu" | "api" | "faq" | "url" | "cdn" | "aws" | "sql" | "ftp" | "rss" | "ios" | "usa"
            ))
    {
        return lower.to_uppercase().chars().map(String::from).collect::<Vec<_>>().join(" ");
    }
    lower
}

pattern!(HANDLE, r"^([@#])([\p{L}_][\p{L}\p{N}_]*)");
pattern!(TICKET, r"^#([0-9]{1,9})\b");

/// @name, #tag, #5.
pub(crate) fn handle(position: &Position) -> Option<Reading> {
    if !position.is_token_start() {
        return None;
    }
    if let Some(captures) = TICKET.captures(position.rest()) {
        return Reading::new(captures[0].len(), format!("number {}", integer(&captures[1], position.british)));
    }
    let captures = HANDLE.captures(position.rest())?;
    let name = if &captures[1] == "@" { "at" } else { "hashtag" };
    Reading::new(captures[0].len(), format!("{name} {}", split_joined(&captures[2])))
}

/// "ClimateChange_2026" as "Climate Change twenty twenty-six".
fn split_joined(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut words: Vec<String> = vec![String::new()];
    for (index, &c) in chars.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| chars[index]);
        let next_is_lower = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        let begins = before.is_some_and(|before| {
            (c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_is_lower)))
                || c.is_ascii_digit() != before.is_ascii_digit()
        });
        if c == '_' || begins {
            words.push(String::new());
        }
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.push(c);
        }
    }
    let spoken = words.into_iter().filter(|word| !word.is_empty()).map(|word| match word.parse::<u64>() {
        Ok(n) if (1100..2100).contains(&n) => super::numbers::year(n, false),
        _ if word.bytes().all(|b| b.is_ascii_digit()) => integer(&word, false),
        _ => word,
    });
    spoken.collect::<Vec<_>>().join(" ")
}

pattern!(
    FILE,
    r"^([A-Za-z0-9_-]+)\.(txt|pdf|docx?|xlsx?|pptx?|csv|json|toml|yaml|yml|xml|html?|css|md|rs|py|js|ts|go|cpp|java|sh|sql|exe|zip|tar|gz|mp3|mp4|wav|flac|ogg|png|jpe?g|gif|svg|log)\b"
);

/// report.pdf, main.rs.
pub(crate) fn file_name(position: &Position) -> Option<Reading> {
    if !position.is_token_start() {
        return None;
    }
    let captures = FILE.captures(position.head())?;
    if !position.ends_at(captures[0].len()) || !captures[1].bytes().any(|b| b.is_ascii_alphabetic()) {
        return None;
    }
    let extension = match &captures[2] {
        "zip" | "log" | "java" | "go" | "tar" => captures[2].to_owned(),
        "jpg" | "jpeg" => "jay peg".to_owned(),
        "json" => "jason".to_owned(),
        "gif" => "gif".to_owned(),
        "mp3" => "M P three".to_owned(),
        "mp4" => "M P four".to_owned(),
        "toml" => "tommel".to_owned(),
        "yaml" | "yml" => "yammel".to_owned(),
        "wav" => "wave".to_owned(),
        "docx" | "doc" => "doc".to_owned(),
        other => other.to_uppercase().chars().map(String::from).collect::<Vec<_>>().join(" "),
    };
    Reading::new(captures[0].len(), format!("{} dot {extension}", spell(&captures[1])))
}

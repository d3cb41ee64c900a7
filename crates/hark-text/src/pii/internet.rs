//! E-mail addresses, web addresses, IP and MAC addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::text::Text;
use super::{PiiSpan, PiiType};

/// Characters of the longest local part and domain (RFC 5321).
const MAX_LOCAL: usize = 64;
const MAX_DOMAIN: usize = 253;

/// Characters of an address that are looked at: browsers take no more.
const MAX_URL: usize = 2048;

/// Top-level domains of addresses that are written without `https://`.
const TOP_LEVEL: &[&str] = &[
    "com", "org", "net", "edu", "gov", "io", "ai", "dev", "app", "info", "biz", "co", "me", "tv", "eu", "uk", "de",
    "fr", "es", "it", "pt", "nl", "be", "ch", "at", "pl", "se", "dk", "fi", "ie", "us", "ca", "br", "in", "jp", "cn",
    "au", "ru", "cloud", "online", "shop", "site", "tech", "xyz",
];

pub(super) fn find(text: &Text, found: &mut Vec<PiiSpan>) {
    let mut at = 0;
    while at < text.len() {
        let span = match text.at(at) {
            '@' => email(text, at),
            ':' => url_with_scheme(text, at),
            '.' => bare_domain(text, at),
            _ => None,
        };
        if let Some(span) = span {
            // Nothing inside an address is looked for again.
            at = at.max(span.end.saturating_sub(1));
            found.push(span);
        }
        at += 1;
    }
    find_addresses(text, found);
}

fn span(r#type: PiiType, start: usize, end: usize) -> Option<PiiSpan> {
    Some(PiiSpan { r#type, start, end })
}

fn email(text: &Text, at: usize) -> Option<PiiSpan> {
    let is_local =
        |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-' | '\'' | '!' | '#' | '&' | '=');
    let mut start = at;
    while start > 0 && at - start < MAX_LOCAL && is_local(text.at(start - 1)) {
        start -= 1;
    }
    while start < at && !text.at(start).is_alphanumeric() && text.at(start) != '_' {
        start += 1;
    }
    let end = domain_end(text, at + 1);
    if start == at || text.before(at) == '.' || !has_top_level(text, at + 1, end) {
        return None;
    }
    span(PiiType::Email, start, end)
}

/// Where a domain that begins at `start` ends, without dots and hyphens at its end.
fn domain_end(text: &Text, start: usize) -> usize {
    let mut end = start;
    while end - start < MAX_DOMAIN && (text.at(end).is_alphanumeric() || matches!(text.at(end), '.' | '-')) {
        end += 1;
    }
    while end > start && !text.at(end - 1).is_alphanumeric() {
        end -= 1;
    }
    end
}

/// Whether the last label has two letters or more, and there is one before it.
fn has_top_level(text: &Text, start: usize, end: usize) -> bool {
    let Some(dot) = text.chars[start.min(end)..end].iter().rposition(|c| *c == '.') else { return false };
    let label = &text.chars[start + dot + 1..end];
    dot > 0 && label.len() >= 2 && label.iter().all(|c| c.is_alphabetic())
}

fn url_with_scheme(text: &Text, colon: usize) -> Option<PiiSpan> {
    if text.at(colon + 1) != '/' || text.at(colon + 2) != '/' {
        return None;
    }
    let scheme = ["https", "http", "ftp", "sftp", "wss", "ws"].into_iter().find(|scheme| {
        let start = colon.saturating_sub(scheme.len());
        colon >= scheme.len() && text.lower(start, colon) == **scheme && !text.before(start).is_alphanumeric()
    })?;
    let end = url_end(text, colon + 3);
    if end <= colon + 3 { None } else { span(PiiType::Url, colon - scheme.len(), end) }
}

/// Where an address ends: before white space and quotes, without punctuation that belongs to the sentence.
fn url_end(text: &Text, start: usize) -> usize {
    let is_end = |c: char| {
        c.is_whitespace() || matches!(c, '<' | '>' | '"' | '“' | '”' | '`' | '{' | '}' | '|' | '。' | '，' | '、')
    };
    let mut end = start;
    while end < text.len() && end - start < MAX_URL && !is_end(text.at(end)) {
        end += 1;
    }
    while end > start && matches!(text.at(end - 1), '.' | ',' | ';' | ':' | '!' | '?' | ')' | ']' | '\'') {
        end -= 1;
    }
    end
}

/// `example.com/path` and `www.example.anything`, found by their first dot.
fn bare_domain(text: &Text, dot: usize) -> Option<PiiSpan> {
    let is_label = |c: char| c.is_alphanumeric() || c == '-';
    let mut start = dot;
    while start > 0 && dot - start < 63 && is_label(text.at(start - 1)) {
        start -= 1;
    }
    if start == dot || matches!(text.before(start), '@' | '.' | '/' | '_' | '-') {
        return None;
    }
    let end = domain_end(text, start);
    if text.at(end) == '@' || !has_top_level(text, start, end) {
        return None;
    }
    let host = text.lower(start, end);
    let top_level = host.rsplit('.').next().unwrap_or_default();
    // A sentence that begins without a space, as in "done.In", has a capital behind the stop.
    let is_sentence = text.at(dot + 1).is_uppercase() && text.chars[start..dot].iter().any(|c| c.is_lowercase());
    let is_domain = host.starts_with("www.") || (TOP_LEVEL.contains(&top_level) && !is_sentence);
    if !is_domain || !host.is_ascii() {
        return None;
    }
    let end = if matches!(text.at(end), '/' | '?' | '#') || (text.at(end) == ':' && text.at(end + 1).is_ascii_digit()) {
        url_end(text, end)
    } else {
        end
    };
    span(PiiType::Url, start, end)
}

/// Runs of hexadecimal digits, colons, dots and hyphens that are an address.
fn find_addresses(text: &Text, found: &mut Vec<PiiSpan>) {
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '-');
    let mut at = 0;
    while at < text.len() {
        if !is_part(text.at(at)) {
            at += 1;
            continue;
        }
        let start = at;
        while at < text.len() && is_part(text.at(at)) {
            at += 1;
        }
        // No address is longer; a stop or a hyphen at its end belongs to the sentence.
        let mut end = at;
        let is_punctuation = |end: usize| match text.at(end - 1) {
            '.' | '-' => true,
            ':' => end < 2 || text.at(end - 2) != ':',
            _ => false,
        };
        while end > start && is_punctuation(end) {
            end -= 1;
        }
        if end - start > 45 || !text.is_bounded(start, end) {
            continue;
        }
        let run: String = text.chars[start..end].iter().collect();
        // A port is not part of the address.
        let (host, rest) = run.split_once(':').filter(|(host, _)| host.contains('.')).unwrap_or((&run, ""));
        if is_ipv4(text, start, host) && rest.chars().all(|c| c.is_ascii_digit()) {
            found.push(PiiSpan { r#type: PiiType::IpAddress, start, end: start + host.len() });
        } else if is_mac(&run) {
            found.push(PiiSpan { r#type: PiiType::MacAddress, start, end });
        } else if is_ipv6(&run) {
            found.push(PiiSpan { r#type: PiiType::IpAddress, start, end });
        }
    }
}

/// Four numbers up to 255; not the number of a version, which is introduced as one.
fn is_ipv4(text: &Text, start: usize, run: &str) -> bool {
    let is_version = text.has_keyword_before(start, 12, &["version", "release", "section", "chapter"]);
    run.parse::<Ipv4Addr>().is_ok() && !is_version
}

fn is_mac(run: &str) -> bool {
    let parts: Vec<&str> = if run.contains('-') { run.split('-').collect() } else { run.split(':').collect() };
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit()))
}

/// An address and not a path such as `a::b`: it has a digit and two groups, one of them of three digits or more.
fn is_ipv6(run: &str) -> bool {
    let groups: Vec<&str> = run.split(':').filter(|group| !group.is_empty()).collect();
    run.matches(':').count() >= 2
        && run.parse::<Ipv6Addr>().is_ok()
        && run.chars().any(|c| c.is_ascii_digit())
        && groups.len() >= 2
        && groups.iter().any(|group| group.len() >= 3)
}

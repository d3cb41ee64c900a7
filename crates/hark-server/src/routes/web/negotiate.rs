//! What a request for a file of the app wants: which coding, whether at all, and a page or JSON (RFC 9110, sections 12 and 13).

use axum::http::{HeaderMap, header};
use hark_web::{Coding, File};

use crate::preferences::{Preference, preferences, weight_of};

/// The coding that the client prefers of those that the file has; of several with the same weight the smallest.
pub(super) fn coding(file: &File, request: &HeaderMap) -> Coding {
    let Some(preferred) = preferences(request, header::ACCEPT_ENCODING) else { return Coding::Identity };
    let mut best = (Coding::Identity, 0.0);
    for coding in Coding::ALL {
        let weight = weight(&preferred, coding);
        if weight > best.1 && file.bytes(coding).is_some() {
            best = (coding, weight);
        }
    }
    // Who refuses them all gets the bytes as they are.
    best.0
}

fn weight(preferred: &[Preference], coding: Coding) -> f32 {
    let names: &[&str] = match coding {
        Coding::Brotli => &["br"],
        Coding::Gzip => &["gzip", "x-gzip"],
        Coding::Identity => &["identity"],
    };
    let named = weight_of(preferred, |name| names.contains(&name));
    named.or_else(|| weight_of(preferred, |name| name == "*")).unwrap_or(0.0)
}

/// Whether the client has these bytes already.
pub(super) fn is_unchanged(request: &HeaderMap, etag: &str) -> bool {
    let values = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_it = |tag: &str| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag;
    values.flat_map(|value| value.split(',')).any(|tag| is_it(tag.trim()))
}

/// Whether the client would rather have a page than JSON: browsers name `text/html`, programs that take anything do not.
pub(super) fn prefers_page(request: &HeaderMap) -> bool {
    let preferred = preferences(request, header::ACCEPT).unwrap_or_default();
    let of = |media_type: &str| weight_of(&preferred, |name| name == media_type).unwrap_or(0.0);
    of("text/html") > of("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: File =
        File { path: "a.js", hash: "01", identity: b"identity", brotli: Some(b"br"), gzip: Some(b"gzip") };

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        [(name, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn the_smallest_coding_that_the_client_takes_is_chosen() {
        let choose = |file: &File, accept: &str| coding(file, &with(header::ACCEPT_ENCODING, accept)).name();
        for (accept, chosen) in [
            ("gzip, deflate, br, zstd", "br"),
            ("br;q=0.5, gzip;q=0.5", "br"),
            ("gzip;q=1.0, br;q=0.5", "gzip"),
            ("gzip, br;q=0", "gzip"),
            ("X-GZIP", "gzip"),
            ("*", "br"),
            ("*, br;q=0", "gzip"),
            ("identity, gzip;q=0.5", "identity"),
            ("zstd, deflate", "identity"),
            ("br;q=0, gzip;q=0", "identity"),
            ("identity;q=0, *;q=0", "identity"),
            ("", "identity"),
            ("br;q=2", "identity"),
        ] {
            assert_eq!(choose(&BOTH, accept), chosen, "{accept}");
        }
        assert_eq!(coding(&BOTH, &HeaderMap::new()), Coding::Identity);
        assert_eq!(choose(&File { brotli: None, ..BOTH }, "br, gzip;q=0.1"), "gzip");
        assert_eq!(choose(&File { brotli: None, gzip: None, ..BOTH }, "br, gzip"), "identity");
    }

    #[test]
    fn a_client_has_the_bytes_whose_tag_it_sends() {
        let has = |tags: &str| is_unchanged(&with(header::IF_NONE_MATCH, tags), "\"01-br\"");
        for tags in ["\"01-br\"", "W/\"01-br\"", "\"other\", \"01-br\"", "*"] {
            assert!(has(tags), "{tags}");
        }
        for tags in ["\"01\"", "01-br", "\"01-gzip\"", ""] {
            assert!(!has(tags), "{tags}");
        }
        assert!(!is_unchanged(&HeaderMap::new(), "\"01-br\""));
    }

    #[test]
    fn browsers_prefer_a_page_and_programs_do_not() {
        let prefers = |accept: &str| prefers_page(&with(header::ACCEPT, accept));
        for browser in
            ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html, application/json;q=0.9"]
        {
            assert!(prefers(browser), "{browser}");
        }
        for program in ["*/*", "application/json", "application/json, text/html", "text/html;q=0", "text/*", ""] {
            assert!(!prefers(program), "{program}");
        }
        assert!(!prefers_page(&HeaderMap::new()));
    }
}

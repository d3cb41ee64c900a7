//! The session cookie and similar ones.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};

const NAME: &str = "hark_session";

/// The session's secret, if there is exactly one such cookie: of two, one is another site's.
pub(crate) fn session(headers: &HeaderMap) -> Option<&str> {
    named(headers, NAME)
}

/// The value of a cookie, if there is exactly one of that name.
pub(crate) fn named<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut ours = values
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(found, _)| *found == name)
        .map(|(_, secret)| secret.trim_matches('"'));
    let first = ours.next().filter(|secret| !secret.is_empty());
    if ours.next().is_some() { None } else { first }
}

/// The header that sets the session cookie: `HttpOnly`, and not sent with requests of other sites.
pub(crate) fn set(secret: &str, lasts: Duration, is_https: bool) -> Option<HeaderValue> {
    write(NAME, secret, "/", lasts, is_https)
}

/// The header that sets a cookie.
pub(crate) fn write(name: &str, value: &str, path: &str, lasts: Duration, is_https: bool) -> Option<HeaderValue> {
    let secure = if is_https { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={}{secure}", lasts.as_secs());
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The header that deletes the cookie.
pub(crate) fn clear(is_https: bool) -> Option<HeaderValue> {
    set("", Duration::ZERO, is_https)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cookies: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(header::COOKIE, cookie.parse().unwrap());
        }
        session(&headers).map(str::to_owned)
    }

    #[test]
    fn the_session_is_found_among_other_cookies_and_only_when_it_is_one() {
        assert_eq!(read(&["hark_session=ses_1"]), Some("ses_1".to_owned()));
        assert_eq!(read(&["a=b; hark_session=ses_1;c=d"]), Some("ses_1".to_owned()));
        assert_eq!(read(&["a=b", "hark_session=ses_1"]), Some("ses_1".to_owned()));
        for none in [&[][..], &["hark_session="], &["xhark_session=ses_1"], &["hark_session"], &["a=b"]] {
            assert_eq!(read(none), None, "{none:?}");
        }
        assert_eq!(read(&["hark_session=ses_1; hark_session=ses_2"]), None);
    }

    #[test]
    fn the_cookie_is_secure_where_the_connection_is() {
        let plain = set("ses_1", Duration::from_secs(60), false).unwrap();
        assert_eq!(plain, "hark_session=ses_1; Path=/; HttpOnly; SameSite=Lax; Max-Age=60");
        assert!(plain.is_sensitive());
        assert!(set("ses_1", Duration::from_secs(60), true).unwrap().to_str().unwrap().ends_with("; Secure"));
    }
}

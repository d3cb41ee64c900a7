//! Origins for CORS.

/// An origin as browsers send it, `https://app.example.com`, or `*`.
pub(crate) fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    text == "*"
        || host.is_some_and(|host| {
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_a_scheme_and_a_host_and_nothing_behind_it() {
        for good in ["*", "https://app.example.com", "http://localhost:3000", "http://[::1]:80"] {
            assert!(is_origin(good), "{good}");
        }
        for wrong in ["", "app.example.com", "https://", "https://app.example.com/", "https://a b"] {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }
}

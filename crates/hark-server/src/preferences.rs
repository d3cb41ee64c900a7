//! The weighted names of a header such as `Accept` (RFC 9110, section 12.4.2).

use axum::http::{HeaderMap, HeaderName};

/// One name of such a header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preference {
    /// In lower case.
    pub(crate) name: String,
    /// From 0, which refuses it, to 1.
    pub(crate) weight: f32,
}

/// What a header prefers; `None` if it is missing or empty. Names whose weight makes no sense are left out.
pub(crate) fn preferences(headers: &HeaderMap, header: HeaderName) -> Option<Vec<Preference>> {
    let values = headers.get_all(header).iter();
    let text = values.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",");
    (!text.trim().is_empty()).then(|| text.split(',').filter_map(Preference::parse).collect())
}

impl Preference {
    fn parse(text: &str) -> Option<Preference> {
        let mut parts = text.split(';');
        let name = parts.next()?.trim().to_ascii_lowercase();
        if name.is_empty() {
            return None;
        }
        let quality = parts.find_map(|part| part.trim().strip_prefix("q=").map(str::to_owned));
        let weight = quality.map_or(Some(1.0), |quality| quality.trim().parse().ok())?;
        (0.0..=1.0).contains(&weight).then_some(Preference { name, weight })
    }
}

/// The largest weight among the names that are meant; `None` if there is none.
pub(crate) fn weight_of(preferences: &[Preference], is_meant: impl Fn(&str) -> bool) -> Option<f32> {
    preferences
        .iter()
        .filter(|preference| is_meant(&preference.name))
        .map(|preference| preference.weight)
        .reduce(f32::max)
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    fn read(values: &[&str]) -> Option<Vec<(String, f32)>> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT, value.parse().unwrap());
        }
        let found = preferences(&headers, header::ACCEPT)?;
        Some(found.into_iter().map(|preference| (preference.name, preference.weight)).collect())
    }

    #[test]
    fn names_are_read_with_their_weights_from_all_lines() {
        let some =
            |names: &[(&str, f32)]| Some(names.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect());
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[" "]), None);
        assert_eq!(read(&["gzip;q=0.5, BR", "*;q=0"]), some(&[("gzip", 0.5), ("br", 1.0), ("*", 0.0)]));
        assert_eq!(read(&["text/html;level=1; q=0.2"]), some(&[("text/html", 0.2)]));
        assert_eq!(read(&["a;q=2, b;q=x, , c;q=-1, d;q=NaN"]), some(&[]));
    }
}

//! Whole numbers as JSON has them: `60` and `60.0` are the same number.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Fraction(f64),
}

impl Number {
    fn whole<E: Error>(self) -> Result<i64, E> {
        match self {
            Number::Whole(number) => Ok(number),
            // Beyond 2^53 not every whole number has a float of its own.
            Number::Fraction(number) if number.fract() == 0.0 && number.abs() <= (1i64 << 53) as f64 => {
                Ok(number as i64)
            }
            Number::Fraction(number) => Err(E::invalid_type(Unexpected::Float(number), &"a whole number")),
        }
    }
}

/// Reads a whole number.
pub(crate) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = Number::deserialize(deserializer).map_err(|_| D::Error::custom("expected a whole number"))?;
    number.whole()
}

/// Reads a whole number that may be null.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let number =
        Option::<Number>::deserialize(deserializer).map_err(|_| D::Error::custom("expected a whole number or null"))?;
    number.map(Number::whole).transpose()
}

#[cfg(test)]
mod tests {
    use crate::{NewKey, SegmentChange};

    #[test]
    fn a_whole_number_may_be_written_with_a_point_and_a_fraction_is_none() {
        let key = |json: &str| serde_json::from_str::<NewKey>(json).map(|key| key.rate_limit).ok();
        assert_eq!(key("{}"), Some(None));
        assert_eq!(key(r#"{"rate_limit": null}"#), Some(None));
        assert_eq!(key(r#"{"rate_limit": 60}"#), Some(Some(60)));
        assert_eq!(key(r#"{"rate_limit": 60.0}"#), Some(Some(60)));
        assert_eq!(key(r#"{"rate_limit": 6e1}"#), Some(Some(60)));
        for wrong in ["60.5", "\"60\"", "true", "1e300", "[60]"] {
            assert_eq!(key(&format!("{{\"rate_limit\": {wrong}}}")), None, "{wrong}");
        }
        let change: SegmentChange = serde_json::from_str(r#"{"index": 2.0, "text": "a"}"#).unwrap();
        assert_eq!(change.index, 2);
    }
}

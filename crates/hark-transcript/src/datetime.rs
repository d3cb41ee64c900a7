//! Moments as the wire and the database write them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime, UtcOffset};

/// A moment: microseconds since 1970 in UTC, on the wire an RFC 3339 date-time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DateTime(pub i64);

/// The first and the last moment that RFC 3339 can write: its years have four digits.
const FIRST: i64 = -62_167_219_200_000_000;
const LAST: i64 = 253_402_300_799_999_999;

impl DateTime {
    /// The moment of a date-time, or the start of a date, as filters write them.
    pub fn parse(text: &str) -> Option<Self> {
        let moment = OffsetDateTime::parse(text, &Rfc3339).ok().or_else(|| {
            let format = time::macros::format_description!("[year]-[month]-[day]");
            Some(Date::parse(text, format).ok()?.midnight().assume_utc())
        })?;
        let micros = i64::try_from(moment.unix_timestamp_nanos().div_euclid(1000)).ok()?;
        (FIRST..=LAST).contains(&micros).then_some(DateTime(micros))
    }

    /// The day in UTC, such as `2026-03-09`.
    pub fn date(self) -> String {
        let text = self.to_string();
        text.split_once('T').map_or(text.clone(), |(day, _)| day.to_owned())
    }

    /// Midnight (UTC) of the day it lies in.
    pub fn day_start(self) -> Self {
        const DAY: i64 = 86_400_000_000;
        DateTime(self.0.div_euclid(DAY) * DAY)
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A moment that can't be written is a defect elsewhere; the nearest one that can be stands in.
        let micros = self.0.clamp(FIRST, LAST);
        let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000).map_err(|_| fmt::Error)?;
        let text = moment.to_offset(UtcOffset::UTC).format(&Rfc3339).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl Serialize for DateTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DateTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        DateTime::parse(&text)
            .ok_or_else(|| de::Error::custom(format!("{text:?} is not a date or an RFC 3339 date-time")))
    }
}

#[cfg(feature = "schema")]
mod schema {
    use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
    use utoipa::openapi::{RefOr, Schema};

    impl utoipa::PartialSchema for super::DateTime {
        fn schema() -> RefOr<Schema> {
            ObjectBuilder::new()
                .schema_type(Type::String)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
                .into()
        }
    }

    impl utoipa::ToSchema for super::DateTime {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_and_read_back_to_the_microsecond() {
        let moment = DateTime(1_700_000_000_123_456);
        assert_eq!(moment.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!(DateTime::parse(&moment.to_string()), Some(moment));
        assert_eq!(moment.date(), "2023-11-14");
        assert_eq!(moment.day_start().to_string(), "2023-11-14T00:00:00Z");
    }

    #[test]
    fn dates_and_other_time_zones_are_read_and_nonsense_is_not() {
        assert_eq!(DateTime::parse("2023-11-14"), Some(DateTime(1_699_920_000_000_000)));
        assert_eq!(DateTime::parse("2023-11-14T01:00:00+01:00"), Some(DateTime(1_699_920_000_000_000)));
        for nonsense in ["", "yesterday", "2023-13-01", "2023-11-14T25:00:00Z", "14.11.2023", "-2029-10-30"] {
            assert_eq!(DateTime::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn moments_end_where_years_no_longer_have_four_digits() {
        for (text, moment) in [("0000-01-01T00:00:00Z", FIRST), ("9999-12-31T23:59:59.999999Z", LAST)] {
            assert_eq!(DateTime::parse(text), Some(DateTime(moment)));
            assert_eq!(DateTime(moment).to_string(), text);
        }
        for beyond in ["0000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "-0001-12-31"] {
            assert_eq!(DateTime::parse(beyond), None, "{beyond}");
        }
        assert_eq!(DateTime(i64::MIN).to_string(), "0000-01-01T00:00:00Z");
        assert_eq!(DateTime(i64::MAX).to_string(), "9999-12-31T23:59:59.999999Z");
    }
}

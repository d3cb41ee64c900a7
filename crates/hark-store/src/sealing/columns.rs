//! Every column that holds sealed values: where a value lies, what it is sealed for, and whose key seals it.
//!
//! A value can only be sealed for a [`Place`], and only a column that is declared here makes one. So whatever goes through all columns (sealing what was
//! stored before there was a master key) forgets none.

use std::fmt;

use crate::db::{Row, Value};
use crate::error::Result;
use crate::ids::AccountId;

/// A column that tells rows apart.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Int(&'static str),
    Text(&'static str),
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Int(name) | Part::Text(name) => name,
        }
    }

    /// Its value in a row.
    pub(crate) fn of(self, row: &Row) -> Result<PartValue> {
        Ok(match self {
            Part::Int(name) => PartValue::Int(row.get(name)?),
            Part::Text(name) => PartValue::Text(row.get(name)?),
        })
    }
}

/// A value of a [`Part`].
#[derive(Clone)]
pub(crate) enum PartValue {
    Int(i64),
    Text(String),
}

impl fmt::Display for PartValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartValue::Int(number) => number.fmt(f),
            PartValue::Text(text) => text.fmt(f),
        }
    }
}

impl<'a> From<&'a PartValue> for Value<'a> {
    fn from(value: &'a PartValue) -> Self {
        match value {
            PartValue::Int(number) => Value::Int(Some(*number)),
            PartValue::Text(text) => Value::Text(Some(text)),
        }
    }
}

/// What the rows of a table belong to, and with it whose key seals them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// The account of their `account_id`.
    Account,
    /// The transcript of their `transcript_id`.
    Transcript,
    /// A job, which belongs to the account of its `account_id` and may be about the transcript of its `transcript_id`.
    Job,
    /// The conversation of their `session_id`.
    Chat,
    /// The service itself, which takes the key of the anonymous account.
    Service,
}

/// A column of sealed values.
pub(crate) struct Column {
    pub(crate) table: &'static str,
    pub(crate) name: &'static str,
    /// The name that values are sealed for: the column's own, or the one it had when the first of them was sealed.
    pub(crate) sealed_as: &'static str,
    /// What tells the rows of the table apart.
    pub(crate) key: &'static [Part],
    /// What stands in the place of a value after the column.
    pub(crate) parts: &'static [Part],
    pub(crate) of: Of,
}

/// Where a sealed value lies: the value opens only there.
#[derive(Debug)]
pub(crate) struct Place(String);

impl Place {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Column {
    /// The place of the value whose [`Column::parts`] are these.
    pub(crate) fn at(&self, parts: &[&dyn fmt::Display]) -> Place {
        debug_assert_eq!(parts.len(), self.parts.len(), "the place of {}.{}", self.table, self.name);
        let mut place = format!("{}.{}", self.table, self.sealed_as);
        for part in parts {
            place.push('/');
            place.push_str(&part.to_string());
        }
        Place(place)
    }

    /// An expression for the account whose key seals a row.
    pub(crate) fn account(&self, anonymous: AccountId) -> String {
        let table = self.table;
        match self.of {
            Of::Account | Of::Job => format!("{table}.account_id"),
            Of::Transcript => format!("(SELECT t.account_id FROM transcripts t WHERE t.id = {table}.transcript_id)"),
            Of::Chat => format!("(SELECT s.account_id FROM chat_sessions s WHERE s.id = {table}.session_id)"),
            Of::Service => format!("CAST({anonymous} AS BIGINT)"),
        }
    }
}

macro_rules! columns {
    ($($name:ident: $table:literal . $column:literal $(sealed as $old:literal)?, $of:ident, key $key:expr, place $parts:expr;)+) => {
        $(pub(crate) const $name: Column = Column {
            table: $table,
            name: $column,
            sealed_as: [$($old,)? $column][0],
            key: &$key,
            parts: &$parts,
            of: Of::$of,
        };)+
        /// All columns of sealed values.
        pub(crate) const ALL: &[Column] = &[$($name),+];
    };
}

use Part::{Int, Text};

columns! {
    TITLE: "transcripts"."title", Account, key [Int("id")], place [Int("id")];
    SUMMARY: "transcripts"."summary", Account, key [Int("id")], place [Int("id")];
    SHARE_TOKEN: "transcripts"."share_sealed", Account, key [Int("id")], place [Int("id")];
    SEGMENT: "segments"."body", Transcript,
        key [Int("transcript_id"), Int("position")], place [Int("transcript_id"), Int("position")];
    SPEAKER_NAME: "speaker_names"."name", Transcript,
        key [Int("transcript_id"), Text("label")], place [Int("transcript_id"), Text("label")];
    DERIVED: "derived"."body", Transcript,
        key [Int("transcript_id"), Text("kind")], place [Int("transcript_id"), Text("kind")];
    PAYLOAD: "jobs"."payload" sealed as "request", Job, key [Int("id")], place [Text("payload_key")];
    CHAT_TURN: "chat_turns"."body", Chat,
        key [Text("session_id"), Int("position")], place [Text("session_id"), Int("position")];
    ANSWER: "idempotency"."answer", Account, key [Text("owner"), Text("key")], place [Text("owner"), Text("key")];
    WEBHOOK: "webhooks"."target", Transcript, key [Int("id")], place [Int("transcript_id")];
    VOICE_NAME: "voiceprints"."name", Account, key [Int("id")], place [Int("id")];
    VOICE_PRINT: "voiceprints"."print", Account, key [Int("id")], place [Int("id")];
    SECRET: "secrets"."value", Service, key [Text("name")], place [Text("name")];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::args;
    use crate::{Options, Store};

    /// Columns of bytes that say nothing to anybody: wrapped keys and hashes.
    const PLAIN: [(&str, &str); 5] = [
        ("accounts", "data_key"),
        ("keys", "hash"),
        ("keys", "previous_hash"),
        ("idempotency", "fingerprint"),
        ("transcripts", "share_hash"),
    ];

    async fn check(database: &str) {
        let folder = tempfile::tempdir().unwrap();
        let database = database.replace("{folder}", &folder.path().display().to_string());
        let store =
            Store::open(Options::new(database, folder.path().join("blobs").display().to_string())).await.unwrap();
        let sqlite = matches!(store.db(), crate::db::Db::Sqlite { .. });
        let sql = if sqlite {
            "SELECT t.name AS \"table\", c.name AS \"column\" FROM sqlite_master t, pragma_table_info(t.name) c
             WHERE t.type = 'table' AND upper(c.type) = 'BLOB'"
        } else {
            "SELECT CAST(table_name AS TEXT) AS \"table\", CAST(column_name AS TEXT) AS \"column\" FROM information_schema.columns
             WHERE table_schema = current_schema() AND data_type = 'bytea'"
        };
        let found = store.db().all(sql, &[]).await.unwrap();
        let mut found: Vec<(String, String)> =
            found.iter().map(|row| (row.get("table").unwrap(), row.get("column").unwrap())).collect();
        found.sort();
        let sealed = ALL.iter().map(|column| (column.table, column.name));
        let mut known: Vec<(String, String)> =
            sealed.chain(PLAIN).map(|(table, column)| (table.to_owned(), column.to_owned())).collect();
        known.sort();
        assert_eq!(found, known, "a column of bytes is declared as sealed above, or as plain in this test");

        for column in ALL {
            // Whoever names a row by its key means one row.
            let key: Vec<&str> = column.key.iter().map(|part| part.name()).collect();
            let (table, list) = (column.table, key.join(","));
            let sql = if sqlite {
                "SELECT count(*) AS n FROM (
                     SELECT group_concat(name) AS columns FROM (SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk)
                 ) WHERE columns = $2"
            } else {
                "SELECT count(*) AS n FROM (
                     SELECT string_agg(a.attname, ',' ORDER BY k.n) AS columns
                     FROM pg_constraint c, unnest(c.conkey) WITH ORDINALITY AS k(attnum, n), pg_attribute a
                     WHERE c.conrelid = CAST(CAST($1 AS TEXT) AS regclass) AND c.contype = 'p' AND a.attrelid = c.conrelid AND a.attnum = k.attnum
                 ) AS keys WHERE columns = $2"
            };
            let row = store.db().one(sql, args![table, &list]).await.unwrap();
            assert_eq!(row.get::<i64>("n").unwrap(), 1, "{list} is not the key of {table}");
        }
        store.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL"]
    async fn every_column_of_bytes_is_declared_as_sealed_or_known_as_plain() {
        check("sqlite://{folder}/hark.db").await;
        check(&hark_postgres::new_database().await.unwrap_or_else(|error| panic!("{error}"))).await;
    }

    #[test]
    fn a_place_names_the_column_and_the_row() {
        assert_eq!(SEGMENT.at(&[&7, &2]).as_str(), "segments.body/7/2");
        assert_eq!(ANSWER.at(&[&"account:1", &"again"]).as_str(), "idempotency.answer/account:1/again");
    }
}

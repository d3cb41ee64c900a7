//! Every column of sealed values: its primary key, its associated data, and the account whose data key seals it.
//!
//! Sealing a value requires [`AssociatedData`], and only a column that is declared here makes it. So a pass over all columns (such as sealing what was
//! stored before there was a master key) misses none.

use std::fmt;

use crate::db::{Row, Value};
use crate::error::Result;
use crate::ids::AccountId;

/// A column that identifies a row.
#[derive(Clone, Copy)]
pub(crate) enum KeyColumn {
    Int(&'static str),
    Text(&'static str),
}

impl KeyColumn {
    pub(crate) fn name(self) -> &'static str {
        match self {
            KeyColumn::Int(name) | KeyColumn::Text(name) => name,
        }
    }

    /// The value of the column in a row.
    pub(crate) fn value_in(self, row: &Row) -> Result<KeyValue> {
        Ok(match self {
            KeyColumn::Int(name) => KeyValue::Int(row.get(name)?),
            KeyColumn::Text(name) => KeyValue::Text(row.get(name)?),
        })
    }
}

/// A value of a [`KeyColumn`].
#[derive(Clone)]
pub(crate) enum KeyValue {
    Int(i64),
    Text(String),
}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyValue::Int(number) => number.fmt(f),
            KeyValue::Text(text) => text.fmt(f),
        }
    }
}

impl<'a> From<&'a KeyValue> for Value<'a> {
    fn from(value: &'a KeyValue) -> Self {
        match value {
            KeyValue::Int(number) => Value::Int(Some(*number)),
            KeyValue::Text(text) => Value::Text(Some(text)),
        }
    }
}

/// What the rows of a table belong to, which determines the account whose data key seals them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOwner {
    /// The account of their `account_id`.
    Account,
    /// The transcript of their `transcript_id`.
    Transcript,
    /// A job, which belongs to the account of its `account_id` and may be about the transcript of its `transcript_id`.
    Job,
    /// The conversation of their `session_id`.
    Chat,
    /// The service itself, which uses the data key of the anonymous account.
    Service,
}

/// A column of sealed values.
pub(crate) struct Column {
    pub(crate) table: &'static str,
    pub(crate) name: &'static str,
    /// The column name in the associated data: the column's name when its first value was sealed.
    pub(crate) sealed_as: &'static str,
    /// The primary key of the table.
    pub(crate) key: &'static [KeyColumn],
    /// The columns of the row that follow table and column in the associated data.
    pub(crate) aad_columns: &'static [KeyColumn],
    pub(crate) owner: RowOwner,
}

/// The associated data of a sealed value: table, column and row. A value moved elsewhere fails to decrypt.
#[derive(Debug)]
pub(crate) struct AssociatedData(String);

impl AssociatedData {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AssociatedData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Column {
    /// The associated data of a value, given the values of [`Column::aad_columns`].
    pub(crate) fn associated_data(&self, values: &[&dyn fmt::Display]) -> AssociatedData {
        debug_assert_eq!(values.len(), self.aad_columns.len(), "associated data of {}.{}", self.table, self.name);
        let mut aad = format!("{}.{}", self.table, self.sealed_as);
        for value in values {
            aad.push('/');
            aad.push_str(&value.to_string());
        }
        AssociatedData(aad)
    }

    /// A SQL expression for the account whose data key seals a row.
    pub(crate) fn account(&self, anonymous: AccountId) -> String {
        let table = self.table;
        match self.owner {
            RowOwner::Account | RowOwner::Job => format!("{table}.account_id"),
            RowOwner::Transcript => {
                format!("(SELECT t.account_id FROM transcripts t WHERE t.id = {table}.transcript_id)")
            }
            RowOwner::Chat => format!("(SELECT s.account_id FROM chat_sessions s WHERE s.id = {table}.session_id)"),
            RowOwner::Service => format!("CAST({anonymous} AS BIGINT)"),
        }
    }
}

macro_rules! columns {
    ($($name:ident: $table:literal . $column:literal $(sealed as $old:literal)?, $owner:ident, key $key:expr, aad $aad_columns:expr;)+) => {
        $(pub(crate) const $name: Column = Column {
            table: $table,
            name: $column,
            sealed_as: [$($old,)? $column][0],
            key: &$key,
            aad_columns: &$aad_columns,
            owner: RowOwner::$owner,
        };)+
        /// All columns of sealed values.
        pub(crate) const ALL: &[Column] = &[$($name),+];
    };
}

use KeyColumn::{Int, Text};

columns! {
    TITLE: "transcripts"."title", Account, key [Int("id")], aad [Int("id")];
    SUMMARY: "transcripts"."summary", Account, key [Int("id")], aad [Int("id")];
    SHARE_TOKEN: "transcripts"."share_sealed", Account, key [Int("id")], aad [Int("id")];
    SEGMENT: "segments"."body", Transcript,
        key [Int("transcript_id"), Int("position")], aad [Int("transcript_id"), Int("position")];
    SPEAKER_NAME: "speaker_names"."name", Transcript,
        key [Int("transcript_id"), Text("label")], aad [Int("transcript_id"), Text("label")];
    DERIVED: "derived"."body", Transcript,
        key [Int("transcript_id"), Text("kind")], aad [Int("transcript_id"), Text("kind")];
    PAYLOAD: "jobs"."payload" sealed as "request", Job, key [Int("id")], aad [Text("payload_key")];
    CHAT_TURN: "chat_turns"."body", Chat,
        key [Text("session_id"), Int("position")], aad [Text("session_id"), Int("position")];
    ANSWER: "idempotency"."answer", Account, key [Text("owner"), Text("key")], aad [Text("owner"), Text("key")];
    WEBHOOK: "webhooks"."target", Transcript, key [Int("id")], aad [Int("transcript_id")];
    VOICE_NAME: "voiceprints"."name", Account, key [Int("id")], aad [Int("id")];
    VOICE_PRINT: "voiceprints"."print", Account, key [Int("id")], aad [Int("id")];
    SEARCH_VECTORS: "search_documents"."vectors", Transcript, key [Int("transcript_id")], aad [Int("transcript_id")];
    UPLOAD_NAME: "uploads"."name", Account, key [Int("id")], aad [Int("id")];
    UPLOAD_HASH: "uploads"."hash", Account, key [Int("id")], aad [Int("id")];
    SECRET: "secrets"."value", Service, key [Text("name")], aad [Text("name")];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::args;
    use crate::{Options, Store};

    /// Columns of bytes that need no sealing: wrapped keys and hashes.
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
        // FTS5 keeps the inverted index of hashed terms in tables of its own.
        let sql = if sqlite {
            "SELECT t.name AS \"table\", c.name AS \"column\" FROM sqlite_master t, pragma_table_info(t.name) c
             WHERE t.type = 'table' AND upper(c.type) = 'BLOB' AND t.name NOT LIKE 'search_terms_%'"
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
            // `key` is the primary key of the table.
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
    fn associated_data_names_the_column_and_the_row() {
        assert_eq!(SEGMENT.associated_data(&[&7, &2]).as_str(), "segments.body/7/2");
        assert_eq!(ANSWER.associated_data(&[&"account:1", &"again"]).as_str(), "idempotency.answer/account:1/again");
    }
}

//! Values of placeholders, and how each driver takes them.

use sqlx::postgres::PgArguments;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Encode, Type};

use crate::error::{Error, Result};

/// A value for a placeholder.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Int(Option<i64>),
    Real(f64),
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
    Bool(bool),
}

/// The values of a statement, in the order of its placeholders.
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::db::Value::from($value)),*] };
}
pub(crate) use args;

macro_rules! value_from {
    ($($from:ty => $make:expr),+ $(,)?) => {$(
        impl<'a> From<$from> for Value<'a> {
            fn from(value: $from) -> Self {
                let make: fn($from) -> Value<'a> = $make;
                make(value)
            }
        }
    )+};
}

value_from! {
    i64 => |v| Value::Int(Some(v)),
    Option<i64> => Value::Int,
    f64 => Value::Real,
    bool => Value::Bool,
    &'a str => |v| Value::Text(Some(v)),
    &'a String => |v| Value::Text(Some(v)),
    Option<&'a str> => Value::Text,
    &'a [u8] => |v| Value::Bytes(Some(v)),
    &'a Vec<u8> => |v| Value::Bytes(Some(v)),
    Option<&'a [u8]> => Value::Bytes,
}

pub(super) fn for_sqlite(values: &[Value<'_>]) -> Result<SqliteArguments> {
    bind(values)
}

pub(super) fn for_postgres(values: &[Value<'_>]) -> Result<PgArguments> {
    bind(values)
}

fn bind<'v, A>(values: &[Value<'v>]) -> Result<A>
where
    A: Arguments,
    Option<i64>: Encode<'v, A::Database> + Type<A::Database>,
    f64: Encode<'v, A::Database> + Type<A::Database>,
    Option<&'v str>: Encode<'v, A::Database> + Type<A::Database>,
    Option<&'v [u8]>: Encode<'v, A::Database> + Type<A::Database>,
    bool: Encode<'v, A::Database> + Type<A::Database>,
{
    let mut out = A::default();
    for value in values {
        match *value {
            Value::Int(v) => out.add(v),
            Value::Real(v) => out.add(v),
            // PostgreSQL can't store it, and what one database refuses the other must not take.
            Value::Text(Some(text)) if text.contains('\0') => return Err(Error::Invalid(NUL)),
            Value::Text(v) => out.add(v),
            Value::Bytes(v) => out.add(v),
            Value::Bool(v) => out.add(v),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(out)
}

const NUL: &str = "text must not contain the character U+0000 (NUL)";

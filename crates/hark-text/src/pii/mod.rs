//! Personal data in a text: rules with check digits for numbers and addresses, names by rules and by a list.
//!
//! Offsets are Unicode scalar values. Every rule is linear in the text. What is found never goes to a log, and the types here do
//! not show it when they are printed for debugging.

mod check_digits;
mod dates;
mod internet;
mod money;
mod national;
mod numbers;
mod people;
mod phone;
mod text;

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::schema;
pub(crate) use people::person_name;
use text::Text;

/// What kind of personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PiiType {
    /// A person's name.
    Person,
    /// A telephone number.
    Phone,
    /// A date of birth.
    DateOfBirth,
    /// A web address.
    Url,
    /// An e-mail address.
    Email,
    /// An IPv4 or IPv6 address.
    IpAddress,
    /// The address of a network card.
    MacAddress,
    /// A number by which a state knows somebody.
    NationalId,
    /// The number of a payment card.
    CreditCard,
    /// An international bank account number.
    Iban,
}

/// Personal data at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PiiSpan {
    /// What kind.
    pub r#type: PiiType,
    /// Where it begins, in Unicode scalar values of the input.
    pub start: usize,
    /// Where it ends, exclusive.
    pub end: usize,
}

/// A text without personal data.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Redaction {
    /// The text with `[EMAIL]`, `[PHONE]` and so on in place of what was found.
    pub redacted_text: String,
    /// Where it was in the input.
    pub entities: Vec<PiiSpan>,
}

impl fmt::Debug for Redaction {
    /// Names may have been overlooked: the text is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redaction").field("entities", &self.entities.len()).finish_non_exhaustive()
    }
}

impl PiiType {
    const ALL: [PiiType; 10] = [
        PiiType::Person,
        PiiType::Phone,
        PiiType::DateOfBirth,
        PiiType::Url,
        PiiType::Email,
        PiiType::IpAddress,
        PiiType::MacAddress,
        PiiType::NationalId,
        PiiType::CreditCard,
        PiiType::Iban,
    ];

    /// Its name in results.
    pub fn as_str(self) -> &'static str {
        match self {
            PiiType::Person => "person",
            PiiType::Phone => "phone",
            PiiType::DateOfBirth => "date_of_birth",
            PiiType::Url => "url",
            PiiType::Email => "email",
            PiiType::IpAddress => "ip_address",
            PiiType::MacAddress => "mac_address",
            PiiType::NationalId => "national_id",
            PiiType::CreditCard => "credit_card",
            PiiType::Iban => "iban",
        }
    }
}

pub(crate) fn result_schema() -> Value {
    let types: Vec<&str> = PiiType::ALL.iter().map(|kind| kind.as_str()).collect();
    let offset = json!({"type": "integer", "minimum": 0});
    let span = schema::object(&[("type", schema::one_of(&types)), ("start", offset.clone()), ("end", offset)]);
    schema::object(&[
        ("redacted_text", json!({"type": "string"})),
        ("entities", json!({"type": "array", "items": span})),
    ])
}

/// The personal data of a text in order, without overlaps. `names` are persons that are known to occur in it.
pub fn find(text: &str, names: &[String]) -> Vec<PiiSpan> {
    let text = Text::new(text);
    let mut found = Vec::new();
    internet::find(&text, &mut found);
    money::find_ibans(&text, &mut found);
    national::find_lettered(&text, &mut found);
    numbers::find(&text, &mut found);
    dates::find(&text, &mut found);
    people::find(&text, names, &mut found);
    without_overlaps(found, text.len())
}

/// The text with what was found replaced by its type.
pub fn redact(text: &str, names: &[String]) -> Redaction {
    let entities = find(text, names);
    let mut redacted_text = String::with_capacity(text.len());
    let mut spans = entities.iter().peekable();
    for (at, c) in text.chars().enumerate() {
        spans.next_if(|span| span.end == at);
        match spans.peek() {
            Some(span) if span.start == at => {
                redacted_text.push_str(&format!("[{}]", span.r#type.as_str().to_uppercase()));
            }
            Some(span) if span.start < at => {}
            _ => redacted_text.push(c),
        }
    }
    Redaction { redacted_text, entities }
}

/// The longest of those that overlap, and of the same length the most specific.
fn without_overlaps(mut found: Vec<PiiSpan>, length: usize) -> Vec<PiiSpan> {
    found.sort_by_key(|span| (std::cmp::Reverse(span.end - span.start), std::cmp::Reverse(span.r#type), span.start));
    let mut is_taken = vec![false; length];
    found.retain(|span| {
        let place = &mut is_taken[span.start..span.end];
        // Taken spans are no shorter: one that overlaps has an end inside this one or covers its ends.
        if place.is_empty() || place[0] || place[place.len() - 1] || place.iter().any(|is_taken| *is_taken) {
            return false;
        }
        place.fill(true);
        true
    });
    found.sort_by_key(|span| span.start);
    found
}

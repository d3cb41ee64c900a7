//! Personal data: 200 sentences with what is in them, and hostile input.

use std::collections::BTreeMap;
use std::time::Instant;

use hark_text::pii::{self, PiiSpan, PiiType};

/// A line of `data/pii.txt`: a text in which `{type:match}` marks what is to be found.
struct Case {
    text: String,
    expected: Vec<(String, usize, usize)>,
}

fn cases() -> Vec<Case> {
    include_str!("../data/pii.txt").lines().map(parse).collect()
}

fn parse(line: &str) -> Case {
    let (mut text, mut expected, mut rest) = (String::new(), Vec::new(), line);
    while let Some((before, behind)) = rest.split_once('{') {
        let (mark, after) = behind.split_once('}').expect("a mark ends");
        let (kind, found) = mark.split_once(':').expect("a mark has a type");
        text.push_str(before);
        let start = text.chars().count();
        text.push_str(found);
        expected.push((kind.to_owned(), start, text.chars().count()));
        rest = after;
    }
    text.push_str(rest);
    Case { text, expected }
}

fn excerpt(text: &str, span: &PiiSpan) -> String {
    text.chars().skip(span.start).take(span.end - span.start).collect()
}

#[test]
fn personal_data_is_found_and_little_else() {
    let cases = cases();
    assert!(cases.len() >= 200);
    // For each type: found, expected, wrong.
    let mut counts: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
    let mut report = String::new();
    for case in &cases {
        let found = pii::find(&case.text, &[]);
        for (kind, start, end) in &case.expected {
            let is_found =
                found.iter().any(|span| span.r#type.as_str() == kind && span.start == *start && span.end == *end);
            let count = counts.entry(kind.clone()).or_default();
            count.1 += 1;
            if is_found {
                count.0 += 1;
            } else {
                report.push_str(&format!("missed {kind}: {}\n", case.text));
            }
        }
        for span in &found {
            let is_expected = case
                .expected
                .iter()
                .any(|(kind, start, end)| span.r#type.as_str() == kind && span.start == *start && span.end == *end);
            if !is_expected {
                counts.entry(span.r#type.as_str().into()).or_default().2 += 1;
                report.push_str(&format!(
                    "wrong {}: {:?} in {}\n",
                    span.r#type.as_str(),
                    excerpt(&case.text, span),
                    case.text
                ));
            }
        }
    }
    for (kind, (found, expected, wrong)) in &counts {
        report.push_str(&format!("{kind}: {found} of {expected} found, {wrong} wrong\n"));
    }
    let sum = |people: bool| {
        counts
            .iter()
            .filter(|(kind, _)| (*kind == "person") == people)
            .fold((0, 0, 0), |sum, (_, count)| (sum.0 + count.0, sum.1 + count.1, sum.2 + count.2))
    };
    for (people, least_recall) in [(false, 0.97), (true, 0.9)] {
        let (found, expected, wrong) = sum(people);
        assert!(found as f64 >= least_recall * expected as f64, "recall: {report}");
        assert!(found as f64 >= 0.95 * (found + wrong) as f64, "precision: {report}");
    }
}

#[test]
fn offsets_are_unicode_scalar_values() {
    let text = "Größe 👩‍👧: schreib an zoë@example.de, 你好 192.168.1.1!";
    let found = pii::find(text, &[]);
    let excerpts: Vec<_> = found.iter().map(|span| excerpt(text, span)).collect();
    assert_eq!(excerpts, ["zoë@example.de", "192.168.1.1"]);
    let redaction = pii::redact(text, &[]);
    assert_eq!(redaction.redacted_text, "Größe 👩‍👧: schreib an [EMAIL], 你好 [IP_ADDRESS]!");
}

#[test]
fn neighbouring_matches_are_replaced_one_by_one() {
    let redaction = pii::redact("a@b.de,c@d.de", &[]);
    assert_eq!(redaction.redacted_text, "[EMAIL],[EMAIL]");
    assert_eq!(pii::redact("", &[]).redacted_text, "");
    assert_eq!(pii::redact("a@b.de", &[]).redacted_text, "[EMAIL]");
}

#[test]
fn names_that_are_given_are_found_whole_and_in_part() {
    let names = ["Xanthippe Quirk".to_owned(), "王小明".into()];
    let text = "Xanthippe Quirk came. Later Quirk's friend saw Xanthippe. 王小明也来了。 A quirk of fate.";
    let redacted = pii::redact(text, &names).redacted_text;
    assert_eq!(redacted, "[PERSON] came. Later [PERSON]'s friend saw [PERSON]. [PERSON]也来了。 A quirk of fate.");
}

#[test]
fn the_longest_of_overlapping_matches_wins() {
    let found = pii::find("See https://example.com/?mail=a@b.de&ip=10.0.0.1 now", &[]);
    assert_eq!(found.iter().map(|span| span.r#type).collect::<Vec<_>>(), [PiiType::Url]);
}

#[test]
fn debug_output_does_not_show_what_was_found() {
    let redaction = pii::redact("Xaver Unbekannt, xaver@example.com", &[]);
    let shown = format!("{redaction:?} {:?}", redaction.entities);
    assert!(!shown.contains("xaver") && !shown.contains("Xaver"), "{shown}");
}

#[test]
fn hostile_input_is_read_in_time() {
    let names = ["Anna Schmidt".to_owned()];
    for unit in [
        "@", "a@", "a@a.", "1", "1 ", "1-", "4111 ", "a.", "::", "1:", "https://", "http://a", "+1", "DE89 ", "Mr ",
        "Anna ", "born ", "a'", "(",
    ] {
        let text = unit.repeat(64_000 / unit.len());
        let start = Instant::now();
        let spans = pii::find(&text, &names);
        assert!(spans.iter().all(|span| span.start < span.end && span.end <= text.chars().count()));
        // Linear rules need a fraction of a second; a quadratic one looks at four billion pairs.
        assert!(start.elapsed().as_secs() < 30, "{unit:?}: {:?}", start.elapsed());
    }
}

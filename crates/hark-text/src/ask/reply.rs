//! Reads `{"evidence": […], "found": …, "reply": "…"}` while it is being written.

use serde::Deserialize;

/// What stands before the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Head {
    /// Numbers of lines.
    #[serde(default)]
    pub(super) evidence: Vec<usize>,
    /// Whether they answer the question.
    pub(super) found: bool,
}

/// A JSON answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct ReplyReader {
    raw: String,
    head: Option<Head>,
    /// Where the text of the answer goes on; none before it has begun.
    at: Option<usize>,
    has_ended: bool,
}

/// The name of the last property.
const REPLY: &str = "\"reply\"";

impl ReplyReader {
    /// The next piece of JSON.
    pub(super) fn push(&mut self, piece: &str) {
        self.raw.push_str(piece);
        if self.at.is_none() {
            self.at = self.start_of_reply();
        }
    }

    /// Evidence and decision: known as soon as the answer begins, or when it does not need to be waited for because nothing was found. A model whose
    /// properties come in another order has a head at the end.
    pub(super) fn head(&mut self, is_last: bool) -> Option<&Head> {
        if self.head.is_none() {
            let before = self.raw.find(REPLY).map(|at| self.raw[..at].trim_end().trim_end_matches(','));
            self.head = before.and_then(|before| serde_json::from_str(&format!("{before}}}")).ok());
            if is_last && self.head.is_none() {
                self.head = serde_json::from_str(&self.raw).ok();
            }
        }
        self.head.as_ref()
    }

    /// Byte behind the quotation mark that opens the answer.
    fn start_of_reply(&self) -> Option<usize> {
        let behind = self.raw.find(REPLY)? + REPLY.len();
        let rest = self.raw[behind..].trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        Some(self.raw.len() - rest.len())
    }

    /// What has come of the answer since the last call.
    pub(super) fn take_reply(&mut self) -> String {
        let mut text = String::new();
        let Some(mut at) = self.at else { return text };
        while !self.has_ended {
            let rest = &self.raw[at..];
            let Some(c) = rest.chars().next() else { break };
            match c {
                '"' => self.has_ended = true,
                '\\' => match unescape(&rest[1..]) {
                    Some((c, length)) => {
                        text.push(c);
                        at += 1 + length;
                    }
                    None => break,
                },
                c => {
                    text.push(c);
                    at += c.len_utf8();
                }
            }
        }
        self.at = Some(at);
        text
    }
}

/// The character of an escape and its length behind the backslash; none while it is incomplete. Lone surrogates become U+FFFD.
fn unescape(escape: &str) -> Option<(char, usize)> {
    let kind = escape.chars().next()?;
    let plain = match kind {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => {
            let first = hex(escape.get(1..5)?);
            if !(0xd800..0xdc00).contains(&first) {
                return Some((char::from_u32(first).unwrap_or('\u{fffd}'), 5));
            }
            // A pair of surrogates, unless what follows is something else.
            let follows = &escape[5..];
            if follows.len() < 6 && "\\u".starts_with(&follows[..follows.len().min(2)]) {
                return None;
            }
            let second = follows.strip_prefix("\\u").and_then(|follows| follows.get(..4)).map(hex);
            return match second {
                Some(second @ 0xdc00..0xe000) => {
                    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                    Some((char::from_u32(code).unwrap_or('\u{fffd}'), 11))
                }
                _ => Some(('\u{fffd}', 5)),
            };
        }
        other => other,
    };
    Some((plain, kind.len_utf8()))
}

fn hex(digits: &str) -> u32 {
    u32::from_str_radix(digits, 16).unwrap_or(0xfffd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an answer in pieces of `size` characters; the text that came, piece by piece.
    fn read(json: &str, size: usize) -> (Option<Head>, String) {
        let mut reader = ReplyReader::default();
        let mut text = String::new();
        let chars: Vec<char> = json.chars().collect();
        for piece in chars.chunks(size) {
            reader.push(&piece.iter().collect::<String>());
            text.push_str(&reader.take_reply());
        }
        (reader.head(true).cloned(), text)
    }

    #[test]
    fn an_answer_reads_the_same_in_pieces_of_every_size() {
        let json =
            r#"{"evidence": [2, 13], "found": true, "reply": "He said \"no\",\n\u00fcber \ud83d\ude00 \\ 世界."}"#;
        for size in [1, 2, 3, 7, 1000] {
            let (head, text) = read(json, size);
            assert_eq!(head, Some(Head { evidence: vec![2, 13], found: true }), "{size}");
            assert_eq!(text, "He said \"no\",\nüber 😀 \\ 世界.", "{size}");
        }
    }

    #[test]
    fn the_head_is_known_before_the_answer() {
        let mut reader = ReplyReader::default();
        reader.push("{\"evidence\":[],\"found\":false");
        assert_eq!(reader.head(false), None);
        reader.push(",\"reply\":");
        assert_eq!(reader.head(false), Some(&Head { evidence: Vec::new(), found: false }));
        assert_eq!(reader.take_reply(), "");
    }

    #[test]
    fn an_answer_that_was_cut_off_or_is_in_another_order_is_read() {
        let (head, text) = read(r#"{"evidence": [1], "found": true, "reply": "Half of it \u00"#, 4);
        assert_eq!((head.unwrap().found, text.as_str()), (true, "Half of it "));
        let (head, text) = read(r#"{"reply": "All.", "found": true, "evidence": [1]}"#, 4);
        assert_eq!(head, Some(Head { evidence: vec![1], found: true }));
        assert_eq!(text, "All.");
        assert_eq!(read("no JSON", 3), (None, String::new()));
        assert_eq!(read(r#"{"evidence": [1], "fo"#, 3).0, None);
    }

    #[test]
    fn a_lone_surrogate_is_replaced() {
        assert_eq!(read(r#"{"found": true, "reply": "a\ud83db\udc00c"}"#, 1).1, "a\u{fffd}b\u{fffd}c");
    }
}

//! Server-sent events of a completion, read with limits.

use super::fault::Fault;

/// The longest line, and the longest answer, in bytes.
const MAX_LINE: usize = 1 << 20;
const MAX_TOTAL: usize = 32 << 20;

/// Splits a body into the data of its events.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    /// The line that has not ended.
    line: Vec<u8>,
    total: usize,
}

impl EventReader {
    /// Adds bytes; returns the data of the events that are complete. An event has one line of data, as all servers send it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, Fault> {
        self.total += bytes.len();
        if self.total > MAX_TOTAL {
            return Err(Fault::last(format!("the answer has more than {MAX_TOTAL} bytes")));
        }
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.len() > MAX_LINE {
                return Err(Fault::last(format!("a line of the answer has more than {MAX_LINE} bytes")));
            }
            if piece.ends_with(b"\n") {
                events.extend(data(&std::mem::take(&mut self.line))?);
            }
        }
        Ok(events)
    }

    /// The data of a last line without a line break.
    pub(super) fn finish(&mut self) -> Result<Option<String>, Fault> {
        data(&std::mem::take(&mut self.line))
    }
}

/// The data of a line; none of comments, other fields and empty lines.
fn data(line: &[u8]) -> Result<Option<String>, Fault> {
    let line = std::str::from_utf8(line).map_err(|_| Fault::last("the answer is not UTF-8".to_owned()))?;
    let data = line.trim_end_matches(['\r', '\n']).strip_prefix("data:");
    Ok(data.map(|data| data.strip_prefix(' ').unwrap_or(data).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_arrive() {
        let body = ": comment\n\ndata: {\"é\":1}\r\n\r\nevent: x\ndata:two\n\ndata: [DONE]".as_bytes();
        for size in [1, 2, 3, 7, 1000] {
            let mut reader = EventReader::default();
            let mut events: Vec<String> = body.chunks(size).flat_map(|bytes| reader.push(bytes).unwrap()).collect();
            events.extend(reader.finish().unwrap());
            assert_eq!(events, ["{\"é\":1}", "two", "[DONE]"], "in pieces of {size}");
        }
    }

    #[test]
    fn endless_lines_endless_answers_and_what_is_no_text_are_faults() {
        let megabyte = vec![b'x'; 1 << 20];
        let mut reader = EventReader::default();
        reader.push(&megabyte).unwrap();
        assert!(reader.push(b"x").is_err());
        let mut reader = EventReader::default();
        let line = [&megabyte[..MAX_LINE - 1], b"\n"].concat();
        assert!((0..40).any(|_| reader.push(&line).is_err()));
        assert!(EventReader::default().push(b"data: \xff\n").is_err());
    }
}

//! What the user sees: a line for each sentence that grows as its words are settled, and on a terminal the words behind
//! them that may still change.

use std::io::{IsTerminal, stdout};

use crate::{CliError, output};

/// Shown where the terminal does not say how wide it is.
const USUAL_WIDTH: usize = 80;
/// A longer pause begins a new line, in seconds.
const PAUSE: f64 = 1.0;

/// Text in its final form.
pub(crate) struct FinalText<'a> {
    pub(crate) text: &'a str,
    /// Its beginning and its end, in seconds.
    pub(crate) times: (f64, f64),
    pub(crate) speaker: Option<&'a str>,
}

pub(crate) struct Screen {
    /// How wide the terminal is, where there is one.
    width: Option<usize>,
    is_partial_shown: bool,
    /// What stands in the row of the cursor and stays.
    row: String,
    /// Whether a line has begun that has not ended, and who says it up to when.
    is_open: bool,
    speaker: Option<String>,
    until: f64,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Screen::of(stdout().is_terminal().then(width))
    }

    fn of(width: Option<usize>) -> Self {
        Screen { width, is_partial_shown: false, row: String::new(), is_open: false, speaker: None, until: 0.0 }
    }

    /// Prints final text: it continues its line or begins one.
    pub(crate) fn text(&mut self, final_text: &FinalText<'_>) -> Result<(), CliError> {
        output::print(self.render(final_text))
    }

    fn render(&mut self, final_text: &FinalText<'_>) -> String {
        let mut out = self.cleared();
        let is_other = self.speaker.as_deref() != final_text.speaker;
        if self.is_open && (is_other || final_text.times.0 - self.until > PAUSE) {
            out += &self.ended();
        }
        let label = final_text.speaker.filter(|_| !self.is_open).map(|label| format!("{label}: "));
        let text = format!("{}{}", label.unwrap_or_default(), final_text.text);
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let is_full = self.width.is_some_and(|width| columns(&self.row) + 1 + columns(word) >= width);
            if is_full && !self.row.is_empty() {
                out.push('\n');
                self.row.clear();
            }
            // A row that is gone on with, and a line that goes on in a row of its own.
            let space = if self.row.is_empty() { "" } else { " " };
            out += &format!("{space}{word}");
            self.row += &format!("{space}{word}");
        }
        self.is_open = true;
        self.speaker = final_text.speaker.map(str::to_owned);
        self.until = final_text.times.1;
        if final_text.text.trim_end().ends_with(['.', '!', '?', '…', '。', '！', '？']) {
            out += &self.ended();
        }
        out
    }

    /// Ends the current line.
    pub(crate) fn end_line(&mut self) -> Result<(), CliError> {
        let text = self.cleared() + &self.ended();
        if text.is_empty() { Ok(()) } else { output::print(text) }
    }

    fn ended(&mut self) -> String {
        self.row.clear();
        if std::mem::take(&mut self.is_open) { "\n".to_owned() } else { String::new() }
    }

    /// Shows text that may still change, on a terminal only.
    pub(crate) fn partial(&mut self, text: &str) -> Result<(), CliError> {
        let text = self.render_partial(text);
        if text.is_empty() { Ok(()) } else { output::print(text) }
    }

    fn render_partial(&mut self, text: &str) -> String {
        let Some(width) = self.width else { return String::new() };
        let mut out = self.cleared();
        if text.is_empty() {
            return out;
        }
        if columns(&self.row) > width * 2 / 3 {
            // Too little of it would be seen behind what stands there.
            out.push('\n');
            self.row.clear();
        }
        let space = if self.row.is_empty() { "" } else { " " };
        let room = width - columns(&self.row) - space.len();
        self.is_partial_shown = true;
        out + &format!("\x1b[2m{space}{}\x1b[0m", tail(text, room))
    }

    /// Erases the partial text and leaves the final text.
    fn cleared(&mut self) -> String {
        if std::mem::take(&mut self.is_partial_shown) { format!("\r\x1b[K{}", self.row) } else { String::new() }
    }
}

fn width() -> usize {
    // SAFETY: TIOCGWINSZ writes one `winsize`, which lives until the call returns; all zeroes is a valid value of it.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        if libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) == 0 { size.ws_col } else { 0 }
    };
    if size == 0 { USUAL_WIDTH } else { usize::from(size) }
}

/// At most so many columns: of a script that has wide characters every character counts for two.
fn columns(text: &str) -> usize {
    text.chars().map(|c| if c < '\u{1100}' { 1 } else { 2 }).sum()
}

/// The end of a text that fits into a line: what was said last is what people look for.
fn tail(text: &str, width: usize) -> String {
    let most = width.saturating_sub(1);
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let end: Vec<char> = text
        .chars()
        .rev()
        .take_while(|c| {
            let takes = columns(c.encode_utf8(&mut [0; 4]));
            let fits = takes <= room;
            room = room.saturating_sub(takes);
            fits
        })
        .collect();
    format!("…{}", end.into_iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(text: &'a str, times: (f64, f64), speaker: Option<&'a str>) -> FinalText<'a> {
        FinalText { text, times, speaker }
    }

    #[test]
    fn a_long_partial_shows_its_end_within_the_line() {
        assert_eq!(tail("one two", 80), "one two");
        let shown = tail(&"word ".repeat(100), 20);
        assert_eq!((shown.chars().count(), shown.starts_with('…')), (19, true), "{shown}");
        assert!(tail(&"語".repeat(100), 20).chars().count() <= 10);
    }

    #[test]
    fn texts_of_a_sentence_stand_in_one_line_and_a_pause_or_another_speaker_begins_the_next() {
        let mut screen = Screen::of(None);
        let mut out = screen.render(&text("It is", (0.0, 0.5), None));
        out += &screen.render(&text("late.", (0.5, 1.0), None));
        out += &screen.render(&text("Go", (1.2, 1.5), None));
        out += &screen.render(&text("home", (4.0, 4.5), None));
        assert_eq!(out, "It is late.\nGo\nhome");
        let mut screen = Screen::of(None);
        let mut out = screen.render(&text("Is", (0.0, 0.5), Some("SPEAKER_00")));
        out += &screen.render(&text("it", (0.5, 0.6), Some("SPEAKER_00")));
        out += &screen.render(&text("Yes.", (0.7, 1.0), Some("SPEAKER_01")));
        assert_eq!(out, "SPEAKER_00: Is it\nSPEAKER_01: Yes.\n");
    }

    #[test]
    fn a_terminal_keeps_what_stays_when_the_partial_goes() {
        let mut screen = Screen::of(Some(20));
        screen.render(&text("one two", (0.0, 1.0), None));
        assert_eq!(screen.render_partial("three"), "\x1b[2m three\x1b[0m");
        assert_eq!(screen.render(&text("three", (1.0, 1.5), None)), "\r\x1b[Kone two three");
        // No row grows over the edge, where the terminal would break it and it could not be taken back.
        assert_eq!(screen.render(&text("four five", (1.5, 2.0), None)), " four\nfive");
        assert_eq!(screen.render_partial(&"word ".repeat(9)).chars().filter(|c| *c == '…').count(), 1);
    }
}

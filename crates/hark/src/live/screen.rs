//! What the user sees: lines that stay, and on a terminal the words behind them that may still change.

use std::io::{IsTerminal, stdout};

use crate::{CliError, output};

/// Shown where the terminal does not say how wide it is.
const USUAL_WIDTH: usize = 80;

pub(crate) struct Screen {
    is_terminal: bool,
    is_partial_shown: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Screen { is_terminal: stdout().is_terminal(), is_partial_shown: false }
    }

    /// A text that stays.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), CliError> {
        self.clear()?;
        output::print(format!("{text}\n"))
    }

    /// What may still change; nobody but a person at a terminal wants to see it.
    pub(crate) fn partial(&mut self, text: &str) -> Result<(), CliError> {
        if !self.is_terminal {
            return Ok(());
        }
        self.clear()?;
        if text.is_empty() {
            return Ok(());
        }
        self.is_partial_shown = true;
        output::print(format!("\x1b[2m{}\x1b[0m", tail(text, width())))
    }

    fn clear(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.is_partial_shown) { output::print("\r\x1b[K") } else { Ok(()) }
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

/// The end of a text that fits into a line: what was said last is what people look for.
fn tail(text: &str, width: usize) -> String {
    let count = text.chars().count();
    // Wide characters take two columns; half of the line is enough for any script that has them.
    let most = if text.is_ascii() { width.saturating_sub(1) } else { width / 2 };
    if count <= most {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - most.saturating_sub(1)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_partial_shows_its_end_within_the_line() {
        assert_eq!(tail("one two", 80), "one two");
        let shown = tail(&"word ".repeat(100), 20);
        assert_eq!((shown.chars().count(), shown.starts_with('…')), (19, true), "{shown}");
        assert!(tail(&"語".repeat(100), 20).chars().count() <= 10);
    }
}

//! Questions on the terminal: passwords without an echo, and whether it is really meant.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::CliError;

/// Asks twice for a new password.
pub(super) fn new_password() -> Result<String, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "no terminal to ask for the password: pipe it in and say so (see --help)".to_owned(),
        ));
    }
    let first = ask_hidden("new password: ")?;
    if ask_hidden("once more: ")? != first {
        return Err(CliError::Failed("the two are not the same; nothing was changed".to_owned()));
    }
    Ok(first)
}

/// The first line of stdin.
pub(super) fn from_stdin() -> Result<String, CliError> {
    read_line()
}

/// Whether the answer is yes; without a terminal nobody can say so.
pub(crate) fn confirm(question: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::Usage("no terminal to ask on: add --yes".to_owned()));
    }
    eprint!("{question} [y/N] ");
    let _ = io::stderr().flush();
    Ok(matches!(read_line()?.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn ask_hidden(question: &str) -> Result<String, CliError> {
    eprint!("{question}");
    let _ = io::stderr().flush();
    let quiet = Quiet::begin();
    let line = read_line();
    drop(quiet);
    eprintln!();
    line
}

fn read_line() -> Result<String, CliError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| CliError::Failed(format!("stdin: {error}")))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A terminal that shows nothing of what is typed, until dropped.
struct Quiet(Option<libc::termios>);

impl Quiet {
    fn begin() -> Self {
        let mut settings = std::mem::MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the pointer is valid for a write of the whole struct, which is read only after success.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, settings.as_mut_ptr()) } != 0 {
            return Quiet(None);
        }
        // SAFETY: `tcgetattr` returned 0 and has filled it.
        let before = unsafe { settings.assume_init() };
        let mut quiet = before;
        quiet.c_lflag &= !libc::ECHO;
        // SAFETY: the pointer is to a struct that lives through the call.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &quiet) };
        Quiet(Some(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the pointer is to a struct that lives through the call.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, before) };
        }
    }
}

//! Random names.

use std::fmt::Write as _;

/// A name that nobody guesses and nobody else has: 128 random bits in hexadecimal.
pub(crate) fn id() -> String {
    let mut bytes = [0u8; 16];
    // Without random numbers nothing here is safe: better to stop than to go on with known ones.
    getrandom::fill(&mut bytes).expect("the system has no source of random numbers");
    bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

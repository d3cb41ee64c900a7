//! Random secrets and how they are written.

use crate::error::{Error, Result};

/// Bytes from the operating system's generator.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut out = [0; N];
    getrandom::fill(&mut out)
        .map_err(|e| Error::Setup(format!("the operating system gives no random numbers: {e}")))?;
    Ok(out)
}

/// Random bytes as hexadecimal text.
pub(crate) fn token<const N: usize>() -> Result<String> {
    Ok(hex(&bytes::<N>()?))
}

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing into a String can't fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// The bytes that hexadecimal text stands for, where there are as many as expected.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    unhex_into(text, &mut out).then_some(out)
}

/// The bytes that hexadecimal text stands for.
pub(crate) fn unhex_any(text: &str) -> Option<Vec<u8>> {
    let mut out = vec![0; text.len() / 2];
    unhex_into(text, &mut out).then_some(out)
}

/// Whether `text` is the hexadecimal digits of as many bytes as `out` has, which then holds them. No copy is left elsewhere: they may be a key.
fn unhex_into(text: &str, out: &mut [u8]) -> bool {
    let digit = |digit: u8| (digit as char).to_digit(16);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return false };
    pairs.len() == out.len()
        && out.iter_mut().zip(pairs).all(|(byte, &[high, low])| {
            let value = digit(high).zip(digit(low)).map(|(high, low)| (high * 16 + low) as u8);
            value.inspect(|&value| *byte = value).is_some()
        })
}

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

/// The bytes that hexadecimal text stands for.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N * 2 {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let high = (pair[0] as char).to_digit(16)?;
        let low = (pair[1] as char).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    Some(out)
}

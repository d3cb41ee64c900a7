//! An entry of a zip archive that was cut in pieces: what of the pieces belongs to it, and its bytes.

use std::io::{Error, ErrorKind, Result, Write};

use flate2::write::DeflateDecoder;

use crate::catalogue::Deflated;

/// Takes the pieces one behind the other and writes what an entry of the archive unpacks to.
pub(crate) struct Inflate<W: Write> {
    /// Bytes before the entry that are still to come.
    before: u64,
    /// Bytes of the entry that are still to come.
    left: u64,
    decoder: DeflateDecoder<Limited<W>>,
}

/// Takes no more than so many bytes.
struct Limited<W: Write> {
    into: W,
    left: u64,
}

impl<W: Write> Inflate<W> {
    /// Writes the entry to `into`, at most `limit` bytes.
    pub(crate) fn new(entry: Deflated, into: W, limit: u64) -> Self {
        let decoder = DeflateDecoder::new(Limited { into, left: limit });
        Inflate { before: entry.offset, left: entry.length, decoder }
    }

    /// Writes what is left; an error where the pieces end before the entry, or the entry before its length.
    pub(crate) fn finish(self) -> Result<W> {
        if self.left > 0 {
            let what = format!("its pieces end {} bytes before it does", self.before + self.left);
            return Err(Error::new(ErrorKind::UnexpectedEof, what));
        }
        Ok(self.decoder.finish()?.into)
    }
}

impl<W: Write> Write for Inflate<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let skipped = self.before.min(bytes.len() as u64);
        let rest = &bytes[skipped as usize..];
        let taken = self.left.min(rest.len() as u64);
        self.decoder.write_all(&rest[..taken as usize])?;
        (self.before, self.left) = (self.before - skipped, self.left - taken);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.decoder.flush()
    }
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| Error::other("it unpacks to more bytes than it may have"))?;
        self.into.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.into.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"the same words again, the same words again, and then others";

    fn deflated() -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(TEXT).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(stream: &[u8], entry: Deflated, limit: u64, piece: usize) -> Result<Vec<u8>> {
        let mut inflate = Inflate::new(entry, Vec::new(), limit);
        stream.chunks(piece).try_for_each(|piece| inflate.write_all(piece))?;
        inflate.finish()
    }

    #[test]
    fn an_entry_comes_out_however_the_archive_was_cut() {
        let entry = deflated();
        let stream = [&b"what stands before"[..], &entry, b"what stands behind"].concat();
        let place = Deflated { offset: 18, length: entry.len() as u64 };
        for piece in [1, 2, 7, 18, stream.len()] {
            assert_eq!(unpack(&stream, place, TEXT.len() as u64, piece).unwrap(), TEXT, "pieces of {piece}");
        }
    }

    #[test]
    fn entries_that_end_early_are_too_long_or_broken_are_errors() {
        let entry = deflated();
        let place = Deflated { offset: 0, length: entry.len() as u64 };
        let early = unpack(&entry[..entry.len() - 1], place, 1000, 7).unwrap_err();
        assert!(early.to_string().contains("1 bytes before"), "{early}");
        let long = unpack(&entry, place, TEXT.len() as u64 - 1, 7).unwrap_err();
        assert!(long.to_string().contains("more bytes"), "{long}");
        assert!(unpack(&[0xff; 100], Deflated { offset: 0, length: 100 }, 1000, 7).is_err());
    }
}

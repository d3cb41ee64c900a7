//! An MP4 file from front to back, its index first.
//!
//! A decoder that reads a pipe needs the index (`moov`) before the media, and recorders write it last. Where the source seeks, the index is read first and its
//! offsets are moved by its own length: what `qt-faststart` does to a file, without a second copy of it.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use crate::input::Seekable;

/// The longest index that is held in memory; that of a day of film has a few megabytes.
const LONGEST_INDEX: u64 = 64 << 20;
/// No film has as many boxes at its top level.
const MOST_BOXES: usize = 65_536;

/// The rearranged file as a stream.
pub(crate) struct Faststart {
    source: Seekable,
    /// `ftyp` and `moov`.
    front: Cursor<Vec<u8>>,
    /// What follows, in the order of the file.
    rest: std::vec::IntoIter<(u64, u64)>,
    /// The range that is being read.
    current: (u64, u64),
}

/// A box at the top level: kind, start, end.
type Atom = ([u8; 4], u64, u64);

impl Faststart {
    /// The stream, or `None` where the file can be read as it is, or where its index can't be moved.
    pub(crate) fn new(mut source: Seekable) -> io::Result<Option<Self>> {
        let atoms = atoms(&mut source)?;
        let position = |wanted: &[u8; 4]| atoms.iter().position(|(kind, ..)| kind == wanted);
        let (Some(index), Some(media)) = (position(b"moov"), position(b"mdat")) else { return Ok(None) };
        let (_, start, end) = atoms[index];
        if index < media || end - start > LONGEST_INDEX || position(b"moof").is_some() {
            return Ok(None);
        }
        let first = match atoms[0] {
            (kind, 0, end) if kind == *b"ftyp" && end <= LONGEST_INDEX => end,
            _ => 0,
        };
        let mut front = vec![0; first as usize];
        source.rewind()?;
        source.read_exact(&mut front)?;
        let mut moov = vec![0; (end - start) as usize];
        source.seek(SeekFrom::Start(start))?;
        source.read_exact(&mut moov)?;
        // What lies between the type and the index moves back by the length of the index; what lies behind it stays.
        let shift = end - start;
        let moved = |offset: u64| if (first..start).contains(&offset) { offset + shift } else { offset };
        if !move_offsets(&mut moov, 8, &moved, 0) {
            return Ok(None);
        }
        front.extend_from_slice(&moov);
        let last = source.seek(SeekFrom::End(0))?;
        let rest = vec![(first, start), (end, last)].into_iter();
        Ok(Some(Faststart { source, front: Cursor::new(front), rest, current: (0, 0) }))
    }
}

impl Read for Faststart {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.front.read(out)?;
        if count > 0 || out.is_empty() {
            return Ok(count);
        }
        loop {
            let (at, end) = self.current;
            if at < end {
                let most = out.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
                self.source.seek(SeekFrom::Start(at))?;
                let count = self.source.read(&mut out[..most])?;
                self.current.0 += count as u64;
                return Ok(count);
            }
            match self.rest.next() {
                Some(range) => self.current = range,
                None => return Ok(0),
            }
        }
    }
}

/// The boxes at the top level. The last one may be cut off.
fn atoms(source: &mut Seekable) -> io::Result<Vec<Atom>> {
    let last = source.seek(SeekFrom::End(0))?;
    let (mut at, mut out) = (0, Vec::new());
    while last - at >= 8 && out.len() < MOST_BOXES {
        source.seek(SeekFrom::Start(at))?;
        let mut header = [0; 8];
        source.read_exact(&mut header)?;
        let kind = [header[4], header[5], header[6], header[7]];
        let size = match u64::from(u32::from_be_bytes([header[0], header[1], header[2], header[3]])) {
            0 => last - at,
            1 if last - at >= 16 => {
                source.read_exact(&mut header)?;
                u64::from_be_bytes(header)
            }
            size => size,
        };
        if size < 8 {
            break;
        }
        let end = at.saturating_add(size).min(last);
        out.push((kind, at, end));
        at = end;
    }
    Ok(out)
}

/// Moves the offsets of all chunks in a box whose content begins at `from`; false where that can't be done.
fn move_offsets(bytes: &mut [u8], from: usize, moved: &impl Fn(u64) -> u64, depth: usize) -> bool {
    let mut at = from;
    while at + 8 <= bytes.len() {
        let size = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
        // A box inside an index that says "to the end" or has 64 bits of length is none that recorders write.
        if size < 8 || size > bytes.len() - at {
            return false;
        }
        let inside = &mut bytes[at..at + size];
        let done = match &inside[4..8] {
            b"trak" | b"mdia" | b"minf" | b"stbl" if depth < 5 => move_offsets(inside, 8, moved, depth + 1),
            b"stco" => move_table::<4>(inside, moved),
            b"co64" => move_table::<8>(inside, moved),
            // Compressed, or with fragments that follow.
            b"cmov" | b"mvex" => false,
            _ => true,
        };
        if !done {
            return false;
        }
        at += size;
    }
    true
}

/// Moves the offsets of a table of `WIDTH` bytes each.
fn move_table<const WIDTH: usize>(table: &mut [u8], moved: &impl Fn(u64) -> u64) -> bool {
    let Some(entries) = table.get_mut(16..) else { return false };
    for entry in entries.chunks_exact_mut(WIDTH) {
        let old = entry.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let new = moved(old).to_be_bytes();
        if new[..8 - WIDTH].iter().any(|byte| *byte != 0) {
            return false;
        }
        entry.copy_from_slice(&new[8 - WIDTH..]);
    }
    true
}

//! Metadata that says what a file is: a comment and the program that made it.
//!
//! Written into WAV as a `LIST` chunk of kind `INFO` (`ICMT`, `ISFT`), by ffmpeg into MP3 (ID3v2), FLAC and Ogg (Vorbis comments). Read from
//! the same places.

use std::io::{self, Read, Seek, SeekFrom};

/// What the metadata of a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// What the file is, for people.
    pub comment: Option<String>,
    /// The program that made it.
    pub software: Option<String>,
}

/// Metadata is looked for in this much of the begin of a file; WAV chunks anywhere.
const HEAD_BYTES: u64 = 256 * 1024;
/// Chunks of a WAV file that are walked.
const MAX_CHUNKS: usize = 64;

impl Tags {
    fn is_empty(&self) -> bool {
        self.comment.is_none() && self.software.is_none()
    }

    /// The chunk of a WAV file; empty without tags.
    pub(crate) fn wav_chunk(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut list = b"INFO".to_vec();
        for (id, text) in [(b"ICMT", &self.comment), (b"ISFT", &self.software)] {
            let Some(text) = text else { continue };
            // A text ends with a zero; chunks have an even length.
            let length = text.len() + 1;
            list.extend_from_slice(id);
            list.extend_from_slice(&(length as u32).to_le_bytes());
            list.extend_from_slice(text.as_bytes());
            list.resize(list.len() + 1 + length % 2, 0);
        }
        let mut chunk = b"LIST".to_vec();
        chunk.extend_from_slice(&(list.len() as u32).to_le_bytes());
        chunk.append(&mut list);
        chunk
    }

    /// What tells ffmpeg's muxers to write them.
    pub(crate) fn ffmpeg_arguments(&self) -> Vec<String> {
        let tags = [("comment", &self.comment), ("encoded_by", &self.software)];
        let tags = tags.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
        tags.flat_map(|(name, text)| ["-metadata".to_owned(), format!("{name}={text}")]).collect()
    }

    /// The tags of a WAV, MP3, FLAC or Ogg file; none of another file or of one without any. Begins at the current place.
    pub fn read(mut source: impl Read + Seek) -> io::Result<Self> {
        let mut head = Vec::new();
        let begin = source.stream_position()?;
        source.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        let mut tags = Tags::default();
        match head.get(..4) {
            Some(b"RIFF" | b"RF64") => tags.read_wav(source, begin)?,
            Some(b"fLaC") => tags.read_flac(&head),
            Some(b"OggS") => tags.read_ogg(&head),
            Some([b'I', b'D', b'3', _]) => tags.read_id3(&head),
            _ => {}
        }
        Ok(tags)
    }

    fn read_wav(&mut self, mut source: impl Read + Seek, begin: u64) -> io::Result<()> {
        let mut at = begin + 12;
        for _ in 0..MAX_CHUNKS {
            source.seek(SeekFrom::Start(at))?;
            let mut header = [0; 8];
            if source.read_exact(&mut header).is_err() {
                break;
            }
            let size = u64::from(number(&header[4..8], true));
            if &header[..4] == b"LIST" {
                let mut list = Vec::new();
                source.by_ref().take(size.min(HEAD_BYTES)).read_to_end(&mut list)?;
                let mut rest = list.strip_prefix(b"INFO").unwrap_or_default();
                while let Some((header, after)) = rest.split_at_checked(8) {
                    let size = (number(&header[4..8], true) as usize).min(after.len());
                    self.take(&header[..4], &after[..size]);
                    rest = after.get(size + size % 2..).unwrap_or_default();
                }
            }
            at += 8 + size + size % 2;
        }
        Ok(())
    }

    fn read_flac(&mut self, head: &[u8]) {
        let mut rest = &head[4..];
        while let Some((header, after)) = rest.split_at_checked(4) {
            let size = number(&[0, header[1], header[2], header[3]], false) as usize;
            if header[0] & 0x7f == 4 {
                self.read_vorbis_comment(after.get(..size).unwrap_or(after));
            }
            let is_last = header[0] & 0x80 != 0;
            rest = after.get(size..).filter(|_| !is_last).unwrap_or_default();
        }
    }

    /// The second packet of the first stream, joined from its pages.
    fn read_ogg(&mut self, head: &[u8]) {
        let (mut packet, mut packets) = (Vec::new(), 0);
        let mut rest = head;
        while let Some(header) = rest.get(..27).filter(|header| header.starts_with(b"OggS")) {
            let count = usize::from(header[26]);
            let Some(lacing) = rest.get(27..27 + count) else { break };
            let mut at = 27 + count;
            for &length in lacing {
                let Some(segment) = rest.get(at..at + usize::from(length)) else { return };
                at += segment.len();
                if packets == 1 {
                    packet.extend_from_slice(segment);
                }
                packets += usize::from(length < 255);
                if packets == 2 {
                    let comment = packet.strip_prefix(b"OpusTags").or_else(|| packet.strip_prefix(b"\x03vorbis"));
                    return self.read_vorbis_comment(comment.unwrap_or_default());
                }
            }
            rest = &rest[at..];
        }
    }

    /// The maker's name, then a count of `NAME=text`, each with its length before it.
    fn read_vorbis_comment(&mut self, mut bytes: &[u8]) {
        let mut text = || {
            let (size, after) = bytes.split_at_checked(4)?;
            let text = after.get(..number(size, true) as usize)?;
            bytes = &after[text.len()..];
            Some(text)
        };
        if text().is_none() {
            return;
        }
        let mut comments = bytes.get(4..).unwrap_or_default();
        while let Some((size, after)) = comments.split_at_checked(4) {
            let Some(comment) = after.get(..number(size, true) as usize) else { break };
            comments = &after[comment.len()..];
            if let Some(at) = comment.iter().position(|&byte| byte == b'=') {
                let name = comment[..at].to_ascii_uppercase();
                self.take(&name, &comment[at + 1..]);
            }
        }
    }

    /// Frames of ID3v2.3 and 2.4.
    fn read_id3(&mut self, head: &[u8]) {
        let is_newest = head.get(3) == Some(&4);
        let synchsafe = |bytes: &[u8]| bytes.iter().fold(0usize, |sum, &byte| sum << 7 | usize::from(byte & 0x7f));
        let Some((header, rest)) = head.split_at_checked(10) else { return };
        let mut rest = rest.get(..synchsafe(&header[6..10])).unwrap_or(rest);
        while let Some((header, after)) = rest.split_at_checked(10) {
            let size = if is_newest { synchsafe(&header[4..8]) } else { number(&header[4..8], false) as usize };
            let Some(frame) = after.get(..size).filter(|frame| !frame.is_empty()) else { break };
            let text = id3_text(frame[0], &frame[1..]);
            match &header[..4] {
                // The language, a description and the text.
                b"COMM" => self.take(
                    b"COMMENT",
                    id3_text(frame[0], frame.get(4..).unwrap_or_default())
                        .rsplit('\0')
                        .next()
                        .unwrap_or_default()
                        .as_bytes(),
                ),
                b"TENC" => self.take(b"ENCODED_BY", text.as_bytes()),
                b"TXXX" => {
                    if let Some((name, text)) = text.split_once('\0') {
                        self.take(name.to_ascii_uppercase().as_bytes(), text.as_bytes());
                    }
                }
                _ => {}
            }
            rest = &after[size..];
        }
    }

    /// Takes a text whose name is known; the first of a name counts.
    fn take(&mut self, name: &[u8], text: &[u8]) {
        let place = match name {
            // ffmpeg writes a comment into Vorbis comments as a description.
            b"ICMT" | b"COMMENT" | b"DESCRIPTION" => &mut self.comment,
            b"ISFT" | b"ENCODED_BY" => &mut self.software,
            _ => return,
        };
        let text = String::from_utf8_lossy(text);
        let text = text.trim_end_matches('\0').trim();
        if place.is_none() && !text.is_empty() {
            *place = Some(text.to_owned());
        }
    }
}

/// Text of an ID3 frame: Latin-1, UTF-16 with or without a mark of its order, or UTF-8; a final zero is left out.
fn id3_text(encoding: u8, bytes: &[u8]) -> String {
    let text = match encoding {
        0 => bytes.iter().copied().map(char::from).collect(),
        3 => String::from_utf8_lossy(bytes).into_owned(),
        _ => {
            let is_little = bytes.starts_with(&[0xff, 0xfe]);
            let unit = |two: &[u8; 2]| if is_little { u16::from_le_bytes(*two) } else { u16::from_be_bytes(*two) };
            let units: Vec<u16> = bytes.as_chunks().0.iter().map(unit).collect();
            String::from_utf16_lossy(&units).replace(['\u{feff}', '\u{fffe}'], "")
        }
    };
    text.trim_end_matches('\0').to_owned()
}

fn number(bytes: &[u8], is_little: bool) -> u32 {
    let four = [bytes[0], bytes[1], bytes[2], bytes[3]];
    if is_little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AudioSpec, SampleWriter as _, Source, WavFormat, WavWriter, decode_all};

    fn tags() -> Tags {
        Tags { comment: Some("synthetic speech, odd".into()), software: Some("hark 1".into()) }
    }

    #[test]
    fn a_wav_file_with_tags_has_the_same_samples_and_gives_its_tags_back() {
        let spec = AudioSpec { rate: 16_000, channels: 1 };
        let samples: Vec<f32> = (0..16_000).map(|at| (at as f32 * 0.05).sin() * 0.5).collect();
        let mut files = Vec::new();
        let mut wav = WavWriter::with_tags(io::Cursor::new(Vec::new()), spec, WavFormat::S16, &tags()).unwrap();
        wav.write(&samples).and_then(|()| wav.finish()).unwrap();
        files.push(wav.into_inner().into_inner());
        let count = samples.len() as u64;
        let mut wav = WavWriter::with_length_and_tags(Vec::new(), spec, WavFormat::F32, count, &tags()).unwrap();
        wav.write(&samples).and_then(|()| wav.finish()).unwrap();
        files.push(wav.into_inner());
        for file in files {
            assert_eq!(u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize, file.len() - 8);
            assert_eq!(Tags::read(io::Cursor::new(&file)).unwrap(), tags());
            let read = decode_all(Source::Reader(Box::new(io::Cursor::new(file))), &Default::default()).unwrap().0;
            assert_eq!(read.len(), samples.len());
            assert!(read.iter().zip(&samples).all(|(one, two)| (one - two).abs() < 1e-4));
        }
    }

    #[test]
    fn no_file_breaks_the_reader() {
        let mut state = 1u32;
        for head in
            [&b"RIFF\xff\xff\xff\xffWAVE"[..], b"RF64", b"fLaC", b"OggS", b"ID3\x04\0\0\x7f\x7f\x7f\x7f", b"ID3", b""]
        {
            for length in [0, 1, 7, 40, 3_000] {
                let mut bytes = head.to_vec();
                bytes.extend((0..length).map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8 & if length % 2 == 0 { 0xff } else { 0x0f }
                }));
                assert!(Tags::read(io::Cursor::new(bytes)).is_ok());
            }
        }
    }
}

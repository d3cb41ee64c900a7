//! What a file is, by its first bytes. Names and extensions are never believed: a playlist called `talk.mp3` must not
//! reach a demuxer that opens other files.

/// How many bytes of a source are looked at.
pub const HEAD_BYTES: usize = 64 * 1024;

/// The kind of file the first bytes announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Wav,
    Aiff,
    Caf,
    Flac,
    /// MPEG audio layer III, or an ID3 tag with whatever audio follows it.
    Mp3,
    /// MPEG audio layer I or II.
    Mp2,
    /// AAC in ADTS frames; `plain` when one frame is AAC-LC in mono or stereo above 24 kHz, see [`adts_is_plain`].
    Adts {
        plain: bool,
    },
    /// Ogg; `plain` when its first and only stream is Vorbis or FLAC.
    Ogg {
        plain: bool,
    },
    Mp4,
    Matroska,
    Asf,
    Avi,
    MpegPs,
    MpegTs,
    Flv,
    /// Binary that no rule here names; ffmpeg may still know it.
    Unknown,
    /// Text: playlists, subtitles, web pages. Never given to a decoder.
    Text,
}

impl Container {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Container::Wav => "wav",
            Container::Aiff => "aiff",
            Container::Caf => "caf",
            Container::Flac => "flac",
            Container::Mp3 => "mp3",
            Container::Mp2 => "mp2",
            Container::Adts { .. } => "aac",
            Container::Ogg { .. } => "ogg",
            Container::Mp4 => "mp4",
            Container::Matroska => "matroska",
            Container::Asf => "asf",
            Container::Avi => "avi",
            Container::MpegPs => "mpeg",
            Container::MpegTs => "mpegts",
            Container::Flv => "flv",
            Container::Unknown => "unknown",
            Container::Text => "text",
        }
    }

    /// The media type and the usual extension of such a file.
    fn media_type(self) -> (&'static str, &'static str) {
        match self {
            Container::Wav => ("audio/wav", "wav"),
            Container::Aiff => ("audio/aiff", "aiff"),
            Container::Caf => ("audio/x-caf", "caf"),
            Container::Flac => ("audio/flac", "flac"),
            Container::Mp3 => ("audio/mpeg", "mp3"),
            Container::Mp2 => ("audio/mpeg", "mp2"),
            Container::Adts { .. } => ("audio/aac", "aac"),
            Container::Ogg { .. } => ("audio/ogg", "ogg"),
            Container::Mp4 => ("video/mp4", "mp4"),
            Container::Matroska => ("video/webm", "webm"),
            Container::Asf => ("video/x-ms-asf", "asf"),
            Container::Avi => ("video/x-msvideo", "avi"),
            Container::MpegPs => ("video/mpeg", "mpg"),
            Container::MpegTs => ("video/mp2t", "ts"),
            Container::Flv => ("video/x-flv", "flv"),
            // Never a type that a browser would run.
            Container::Unknown | Container::Text => ("application/octet-stream", "bin"),
        }
    }

    /// Whether reading from front to back is enough, so that a pipe needs no temporary file.
    pub(crate) fn streams(self) -> bool {
        !matches!(self, Container::Mp4 | Container::Caf | Container::Avi | Container::Aiff | Container::Unknown)
    }

    /// Whether the pure-Rust decoders read this kind as well as ffmpeg does (the format tests compare them).
    pub(crate) fn in_process(self) -> bool {
        matches!(
            self,
            Container::Wav
                | Container::Aiff
                | Container::Flac
                | Container::Mp3
                | Container::Adts { plain: true }
                | Container::Ogg { plain: true }
                | Container::Mp4
        )
    }
}

/// The media type and the usual extension of the file that starts with `head` ([`SNIFFED_BYTES`](HEAD_BYTES) of it at most are looked at).
pub fn media_type(head: &[u8]) -> (&'static str, &'static str) {
    sniff(head).media_type()
}

/// The kind of file that starts with `head`.
pub(crate) fn sniff(head: &[u8]) -> Container {
    let tag = |at: usize, bytes: &[u8]| head.get(at..at + bytes.len()) == Some(bytes);
    if tag(0, b"RIFF") || tag(0, b"RF64") || tag(0, b"RIFX") {
        if tag(8, b"WAVE") && !tag(0, b"RIFX") {
            return Container::Wav;
        }
        if tag(8, b"AVI ") {
            return Container::Avi;
        }
        return Container::Unknown;
    }
    if tag(0, b"FORM") && (tag(8, b"AIFF") || tag(8, b"AIFC")) {
        return Container::Aiff;
    }
    if tag(0, b"caff") {
        return Container::Caf;
    }
    if tag(0, b"fLaC") {
        return Container::Flac;
    }
    if tag(0, b"OggS") {
        return Container::Ogg { plain: ogg_is_plain(head) };
    }
    if tag(0, b"ID3") {
        return Container::Mp3;
    }
    if tag(0, &[0x1a, 0x45, 0xdf, 0xa3]) {
        return Container::Matroska;
    }
    if tag(0, &[0x30, 0x26, 0xb2, 0x75, 0x8e, 0x66, 0xcf, 0x11]) {
        return Container::Asf;
    }
    if tag(0, &[0, 0, 1, 0xba]) || tag(0, &[0, 0, 1, 0xb3]) {
        return Container::MpegPs;
    }
    if tag(0, b"FLV\x01") {
        return Container::Flv;
    }
    const MP4_FIRST_BOXES: [&[u8]; 6] = [b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"];
    if MP4_FIRST_BOXES.iter().any(|name| tag(4, name)) {
        return Container::Mp4;
    }
    if head.len() >= 3 * 188 && [0, 188, 376].iter().all(|&at| head[at] == 0x47) {
        return Container::MpegTs;
    }
    if looks_like_text(head) {
        return Container::Text;
    }
    mpeg_audio(head).unwrap_or(Container::Unknown)
}

/// MPEG audio or ADTS frames, perhaps after zero padding. Two frames in a row must agree, so noise is not taken for music.
fn mpeg_audio(head: &[u8]) -> Option<Container> {
    let start = head.iter().position(|&byte| byte != 0)?;
    let frames = &head[start..];
    if let Some(length) = adts_frame_length(frames) {
        let next = frames.get(length..)?;
        if next.len() < 7 || adts_frame_length(next).is_some() {
            return Some(Container::Adts { plain: adts_is_plain(frames) });
        }
    }
    let (layer, length) = mpeg_frame(frames)?;
    let next = frames.get(length..).unwrap_or_default();
    if next.len() >= 4 && mpeg_frame(next).map(|(layer, _)| layer) != Some(layer) {
        return None;
    }
    Some(if layer == 3 { Container::Mp3 } else { Container::Mp2 })
}

/// The length of the ADTS frame that starts here.
fn adts_frame_length(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..7)?;
    if header[0] != 0xff || header[1] & 0xf6 != 0xf0 || (header[2] >> 2) & 0xf > 12 {
        return None;
    }
    let length = (usize::from(header[3] & 3) << 11) | (usize::from(header[4]) << 3) | (usize::from(header[5]) >> 5);
    (length > 7).then_some(length)
}

/// AAC-LC, mono or stereo, above 24 kHz. At 24 kHz and below the frames may hide spectral band replication, whose upper
/// half the in-process decoder would silently drop.
fn adts_is_plain(header: &[u8]) -> bool {
    let profile = header[2] >> 6;
    let rate_index = (header[2] >> 2) & 0xf;
    let channels = ((header[2] & 1) << 2) | (header[3] >> 6);
    let one_block = header[6] & 3 == 0;
    profile == 1 && rate_index < 6 && (1..=2).contains(&channels) && one_block
}

/// The layer and length in bytes of the MPEG audio frame that starts here.
fn mpeg_frame(bytes: &[u8]) -> Option<(u8, usize)> {
    const RATES: [usize; 3] = [44_100, 48_000, 32_000];
    // kbit/s by (MPEG-1 layer I, II, III, MPEG-2 layer I, MPEG-2 layer II and III); index 0 is free format, 15 is invalid.
    const KBITS: [[usize; 15]; 5] = [
        [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
        [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
        [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    ];
    let header = bytes.get(..4)?;
    if header[0] != 0xff || header[1] & 0xe0 != 0xe0 {
        return None;
    }
    let version = (header[1] >> 3) & 3; // 3: MPEG-1, 2: MPEG-2, 0: MPEG-2.5
    let layer = 4 - ((header[1] >> 1) & 3);
    if version == 1 || layer == 4 {
        return None;
    }
    let kbits_index = usize::from(header[2] >> 4);
    let rate = RATES.get(usize::from((header[2] >> 2) & 3))? >> (3 - u32::from(version)).min(2);
    let padding = usize::from((header[2] >> 1) & 1);
    let row = match (version == 3, layer) {
        (true, layer) => usize::from(layer) - 1,
        (false, 1) => 3,
        (false, _) => 4,
    };
    let bits = KBITS[row].get(kbits_index).filter(|&&kbits| kbits > 0)? * 1000;
    let length = match layer {
        1 => (12 * bits / rate + padding) * 4,
        3 if version != 3 => 72 * bits / rate + padding,
        _ => 144 * bits / rate + padding,
    };
    Some((layer, length))
}

/// Whether the first page starts the only stream and that stream is Vorbis or FLAC.
fn ogg_is_plain(head: &[u8]) -> bool {
    let begins = |at: usize| -> Option<&[u8]> {
        let page = head.get(at..)?;
        let segments = usize::from(*page.get(26)?);
        (page.get(..4)? == b"OggS" && page[5] & 2 != 0).then(|| page.get(27 + segments..))?
    };
    let Some(first) = begins(0) else { return false };
    let plain = first.starts_with(b"\x01vorbis") || first.starts_with(b"\x7fFLAC");
    // Every stream of a group begins before any stream goes on, so a second one shows in the next page.
    let segments = usize::from(head[26]);
    let body: usize = head[27..27 + segments].iter().map(|&size| usize::from(size)).sum();
    plain && begins(27 + segments + body).is_none()
}

/// Text in UTF-8, UTF-16 or an 8-bit alphabet: no control bytes but white space.
fn looks_like_text(head: &[u8]) -> bool {
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        let zeros = head.iter().filter(|&&byte| byte == 0).count();
        return zeros * 3 > head.len();
    }
    let sample = &head[..head.len().min(4096)];
    let printable = |byte: u8| byte >= 0x20 && byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    if sample.is_empty() || !sample.iter().all(|&byte| printable(byte)) {
        return false;
    }
    // The cut at 4096 may fall inside a character.
    let utf8 = std::str::from_utf8(sample).map_or_else(|error| error.valid_up_to() + 4 > sample.len(), |_| true);
    utf8 || sample.iter().filter(|byte| byte.is_ascii()).count() * 2 > sample.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playlists_and_scripts_are_text_whatever_they_are_called() {
        for text in [
            "#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n",
            "ffconcat version 1.0\nfile /etc/passwd\n",
            "v=0\no=- 0 0 IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 0\n",
            "<?xml version=\"1.0\"?><MPD></MPD>",
            "\u{feff}Grüße\n",
        ] {
            assert_eq!(sniff(text.as_bytes()), Container::Text, "{text}");
        }
    }

    #[test]
    fn noise_is_not_taken_for_mpeg_audio() {
        let mut state = 1u32;
        let mut noise = vec![0xff, 0xfb, 0x90, 0x00];
        noise.extend((0..4000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        }));
        assert_eq!(sniff(&noise), Container::Unknown);
    }

    #[test]
    fn every_short_prefix_is_sniffed_without_a_panic() {
        for magic in [
            &b"OggS\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff"[..],
            b"RIFF\0\0\0\0WAVE",
            b"\xff\xf1\x50\x80\x00\xff\xfc",
            b"\xff\xfb\x90\x64",
        ] {
            for length in 0..=magic.len() {
                sniff(&magic[..length]);
            }
        }
    }
}

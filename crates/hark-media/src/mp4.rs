//! What Symphonia's MP4 reader leaves out: which tracks are audio, and the edit list, which says how much silence comes
//! first and how many samples of encoder delay to drop.

use std::io::{self, Read, Seek, SeekFrom};

/// One audio track.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AudioTrack {
    /// Its place among all tracks, audio or not.
    pub(crate) index: usize,
    /// The four letters of its codec, for example `mp4a`.
    pub(crate) codec: [u8; 4],
    /// What to present of it; None when the edit list is more than one run of the media.
    pub(crate) edit: Option<Edit>,
    /// The length of its media in seconds; None when the header does not say.
    pub(crate) seconds: Option<f64>,
}

impl AudioTrack {
    /// How long the track is presented; none where that can't be told.
    pub(crate) fn presented_seconds(&self) -> Option<f64> {
        let edit = self.edit?;
        let media = edit.keep.or_else(|| Some((self.seconds? - edit.skip).max(0.0)))?;
        Some(edit.lead + media)
    }
}

/// The part of a track that is presented, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Edit {
    /// Silence before the track begins.
    pub(crate) lead: f64,
    /// Media dropped at its start.
    pub(crate) skip: f64,
    /// Media presented after that; all of it when the list does not say.
    pub(crate) keep: Option<f64>,
}

/// What a look at the index found.
#[derive(Debug, Default)]
pub(crate) struct Movie {
    pub(crate) audio: Vec<AudioTrack>,
    /// The media lies in fragments, or its encoder delay stands in an iTunes tag: ffmpeg's business.
    pub(crate) intricate: bool,
}

/// No box that is read whole is larger than this; a larger one is not what it seems.
const SMALL: u64 = 1 << 20;

/// Reads the index of an MP4 or QuickTime file; None when it has none.
pub(crate) fn movie<R: Read + Seek>(reader: &mut R) -> io::Result<Option<Movie>> {
    let end = reader.seek(SeekFrom::End(0))?;
    let mut movie = None;
    each_box(reader, 0, end, &mut |reader, kind, start, end| {
        if kind == *b"moov" && movie.is_none() {
            movie = Some(read_movie(reader, start, end)?);
        }
        Ok(())
    })?;
    Ok(movie)
}

type Visit<'a, R> = dyn FnMut(&mut R, [u8; 4], u64, u64) -> io::Result<()> + 'a;

/// Calls `visit` with the kind and the content's bounds of each box between `start` and `end`.
fn each_box<R: Read + Seek>(reader: &mut R, start: u64, end: u64, visit: &mut Visit<'_, R>) -> io::Result<()> {
    let mut at = start;
    // A file of a million boxes of eight bytes is an attack, not a film.
    for _ in 0..65_536 {
        if end - at < 8 {
            break;
        }
        reader.seek(SeekFrom::Start(at))?;
        let mut header = [0; 8];
        reader.read_exact(&mut header)?;
        let kind = [header[4], header[5], header[6], header[7]];
        let (head, size) = match u64::from(u32_at(&header, 0).unwrap_or(0)) {
            0 => (8, end - at),
            1 => {
                let mut large = [0; 8];
                reader.read_exact(&mut large)?;
                (16, u64::from_be_bytes(large))
            }
            size => (8, size),
        };
        if size < head {
            break;
        }
        let next = at.saturating_add(size).min(end);
        visit(reader, kind, (at + head).min(next), next)?;
        at = next;
    }
    Ok(())
}

fn read_movie<R: Read + Seek>(reader: &mut R, start: u64, end: u64) -> io::Result<Movie> {
    let mut movie = Movie::default();
    let mut timescale = 0;
    let mut tracks = 0;
    let mut edits = Vec::new();
    each_box(reader, start, end, &mut |reader, kind, start, end| {
        match &kind {
            b"mvhd" => timescale = read_timescale(&small(reader, start, end)?),
            b"mvex" => movie.intricate = true,
            b"udta" => {
                let tags = small(reader, start, end)?;
                movie.intricate |= tags.windows(8).any(|tag| tag == b"iTunSMPB");
            }
            b"trak" => {
                let track = read_track(reader, start, end)?;
                if track.sound {
                    movie.audio.push(AudioTrack {
                        index: tracks,
                        codec: track.codec,
                        edit: None,
                        seconds: track.seconds,
                    });
                    edits.push((track.timescale, track.edits));
                }
                tracks += 1;
            }
            _ => {}
        }
        Ok(())
    })?;
    for (audio, (media_timescale, list)) in movie.audio.iter_mut().zip(&edits) {
        audio.edit = edit(list, timescale, *media_timescale);
    }
    Ok(movie)
}

#[derive(Default)]
struct Track {
    sound: bool,
    codec: [u8; 4],
    timescale: u32,
    seconds: Option<f64>,
    /// Duration in the movie's time scale, start in the media's (-1: nothing), rate.
    edits: Vec<(u64, i64, u32)>,
}

fn read_track<R: Read + Seek>(reader: &mut R, start: u64, end: u64) -> io::Result<Track> {
    let mut track = Track::default();
    walk(reader, start, end, &mut track, 0)?;
    Ok(track)
}

fn walk<R: Read + Seek>(reader: &mut R, start: u64, end: u64, track: &mut Track, depth: usize) -> io::Result<()> {
    each_box(reader, start, end, &mut |reader, kind, start, end| {
        match &kind {
            b"mdia" | b"minf" | b"stbl" | b"edts" if depth < 4 => walk(reader, start, end, track, depth + 1)?,
            b"mdhd" => {
                let header = small(reader, start, end)?;
                track.timescale = read_timescale(&header);
                track.seconds = read_duration(&header).map(|units| units as f64 / f64::from(track.timescale.max(1)));
            }
            // A QuickTime file has a second handler, of its data references, inside `minf`.
            b"hdlr" => track.sound |= small(reader, start, end)?.get(8..12) == Some(b"soun"),
            b"stsd" => {
                if let Some(Ok(codec)) = small(reader, start, end)?.get(12..16).map(TryInto::try_into) {
                    track.codec = codec;
                }
            }
            b"elst" => track.edits = read_edits(&small(reader, start, end)?),
            _ => {}
        }
        Ok(())
    })
}

fn small<R: Read + Seek>(reader: &mut R, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.seek(SeekFrom::Start(start))?;
    reader.take((end - start).min(SMALL)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_timescale(header: &[u8]) -> u32 {
    let at = if header.first() == Some(&1) { 20 } else { 12 };
    u32_at(header, at).unwrap_or(0)
}

/// The duration in a media header, in its time scale; none where it is 0, as in fragmented files, or unknown (all bits set).
fn read_duration(header: &[u8]) -> Option<u64> {
    let units = match header.first()? {
        1 => u64::from_be_bytes(header.get(24..32)?.try_into().ok()?),
        _ => u64::from(u32_at(header, 16)?),
    };
    (units > 0 && units != u64::from(u32::MAX) && units != u64::MAX).then_some(units)
}

fn read_edits(bytes: &[u8]) -> Vec<(u64, i64, u32)> {
    let wide = bytes.first() == Some(&1);
    let entry = |bytes: &[u8]| -> Option<(u64, i64, u32)> {
        if wide {
            let start = u64::from_be_bytes(bytes.get(8..16)?.try_into().ok()?) as i64;
            Some((u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?), start, u32_at(bytes, 16)?))
        } else {
            Some((u64::from(u32_at(bytes, 0)?), i64::from(u32_at(bytes, 4)? as i32), u32_at(bytes, 8)?))
        }
    };
    let count = u32_at(bytes, 4).unwrap_or(0) as usize;
    bytes.get(8..).unwrap_or_default().chunks_exact(if wide { 20 } else { 12 }).take(count).filter_map(entry).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// One run of the media at its own speed, perhaps after nothing; longer lists are for ffmpeg.
fn edit(list: &[(u64, i64, u32)], timescale: u32, media_timescale: u32) -> Option<Edit> {
    const NORMAL_SPEED: u32 = 0x0001_0000;
    let (lead, list) = match list {
        [(duration, -1, _), rest @ ..] => (*duration, rest),
        _ => (0, list),
    };
    let (skip, keep) = match list {
        [] if lead == 0 => (0, 0),
        [(duration, start, NORMAL_SPEED)] if *start >= 0 => (*start, *duration),
        _ => return None,
    };
    (timescale > 0 && media_timescale > 0).then(|| Edit {
        lead: lead as f64 / f64::from(timescale),
        skip: skip as f64 / f64::from(media_timescale),
        keep: (keep > 0).then(|| keep as f64 / f64::from(timescale)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_edit_leads_in_and_the_encoder_delay_is_skipped() {
        let list = [(1500, -1, 0x10000), (9370, 1024, 0x10000)];
        let want = Edit { lead: 1.5, skip: 1024.0 / 44_100.0, keep: Some(9.37) };
        assert_eq!(edit(&list, 1000, 44_100), Some(want));
        assert_eq!(edit(&[], 1000, 44_100), Some(Edit::default()));
    }

    #[test]
    fn the_length_of_a_track_is_read_from_its_header_where_it_has_one() {
        let short = |units: u32| [&[0; 12][..], &16_000u32.to_be_bytes(), &units.to_be_bytes()].concat();
        assert_eq!(read_duration(&short(145_328)), Some(145_328));
        assert_eq!((read_duration(&short(0)), read_duration(&short(u32::MAX))), (None, None));
        let long = [&[1][..], &[0; 19], &48_000u32.to_be_bytes(), &7u64.to_be_bytes()].concat();
        assert_eq!((read_duration(&long), read_duration(&long[..30])), (Some(7), None));
    }

    #[test]
    fn lists_that_cut_or_change_speed_are_left_to_ffmpeg() {
        assert_eq!(edit(&[(10, 0, 0x10000), (10, 500, 0x10000)], 1000, 44_100), None);
        assert_eq!(edit(&[(10, 0, 0x20000)], 1000, 44_100), None);
        assert_eq!(edit(&[(10, -1, 0x10000)], 1000, 44_100), None);
    }

    #[test]
    fn boxes_that_lie_about_their_size_end_the_walk() {
        for size in [0u32, 1, 2, 7, 8, u32::MAX] {
            let mut bytes = size.to_be_bytes().to_vec();
            bytes.extend_from_slice(b"moov");
            bytes.extend_from_slice(&[0xff; 16]);
            let _ = movie(&mut io::Cursor::new(bytes));
        }
    }
}

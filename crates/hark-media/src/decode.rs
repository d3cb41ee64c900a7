//! Decoding in this process, with Symphonia.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use symphonia::core::audio::Channels;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_AAC, CODEC_ID_MP3};
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, Track};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::packet::Packet;

use crate::input::{Input, ReadSeek};
use crate::mp4::{self, Edit};
use crate::resample::RATES;
use crate::sniff::Container;
use crate::watch::{Watch, Watched};
use crate::{Block, Decoder, Info, MediaError, Options};

/// So many broken packets in a row, and the rest is not audio.
const MAX_BROKEN_IN_A_ROW: usize = 500;
/// Silence that stands for one broken packet lasts no longer than this.
const MAX_BROKEN_SECONDS: f64 = 1.0;
/// An edit list may ask for this much silence before the audio, not more.
const MAX_LEAD_SECONDS: f64 = 12.0 * 3600.0;

/// Why in-process decoding stops short.
pub(crate) enum Failure {
    /// Something these decoders do not do well; ffmpeg should take over.
    Unsupported(String),
    /// The file itself is at fault, or its reader.
    Media(MediaError),
}

impl From<MediaError> for Failure {
    fn from(error: MediaError) -> Self {
        Failure::Media(error)
    }
}

/// One track of one file, packet by packet.
pub(crate) struct InProcess {
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: Track,
    info: Info,
    /// Frames still to drop at the start, then frames still to give, by the edit list.
    skip: u64,
    keep: u64,
    /// Silence still to give before the first frame.
    lead: u64,
    /// Where encoder padding starts and ends, in frames: MP3 only, see `trim`.
    padding: Option<(u64, u64)>,
    waiting: Option<Block>,
    broken: u64,
    broken_in_a_row: usize,
}

impl InProcess {
    /// Opens the track and decodes its first packet, so that what `info` says is what comes out.
    pub(crate) fn open(input: Input, container: Container, options: &Options) -> Result<Self, Failure> {
        let (track, watch) = (options.track, Watch::new(options));
        guarded(move || Self::open_unguarded(input, container, track, watch))?
    }

    fn open_unguarded(
        input: Input,
        container: Container,
        wanted: Option<usize>,
        watch: Watch,
    ) -> Result<Self, Failure> {
        let mut edit = Edit::default();
        let mut index = None;
        let mut audio_tracks = None;
        let mut read_index = |mut reader: &mut dyn ReadSeek| -> Result<(), Failure> {
            if container == Container::Mp4 {
                let movie = mp4::movie(&mut reader)
                    .map_err(|error| Failure::Unsupported(error.to_string()))?
                    .ok_or_else(|| Failure::Unsupported("no index".into()))?;
                let track = choose(movie.audio.len(), wanted, container)?;
                let audio = &movie.audio[track];
                if movie.intricate || audio.codec != *b"mp4a" {
                    return Err(Failure::Unsupported(String::from_utf8_lossy(&audio.codec).into_owned()));
                }
                edit = audio.edit.ok_or_else(|| Failure::Unsupported("an edit list".into()))?;
                if edit.lead > MAX_LEAD_SECONDS {
                    return Err(Failure::Unsupported("a late start".into()));
                }
                (index, audio_tracks) = (Some(audio.index), Some(movie.audio.len()));
                io::Seek::rewind(&mut reader).map_err(MediaError::from)?;
            }
            Ok(())
        };
        let source: Box<dyn MediaSource> = match input {
            Input::Stream(source) => Box::new(Watched { source, watch }),
            Input::File(mut file) => {
                read_index(&mut file)?;
                Box::new(Watched { source: file, watch })
            }
            Input::Seekable(mut source) => {
                read_index(&mut source)?;
                Box::new(Watched { source, watch })
            }
        };
        let stream = MediaSourceStream::new(source, Default::default());
        let mut hint = Hint::new();
        hint.with_extension(container.name());
        let format = symphonia::default::get_probe()
            .probe(&hint, stream, FormatOptions::default(), MetadataOptions::default())
            .map_err(unsupported)?;

        let tracks: Vec<&Track> = format.tracks().iter().collect();
        let audio: Vec<&Track> = tracks.iter().copied().filter(|track| is_audio(track)).collect();
        let audio_tracks = audio_tracks.unwrap_or(audio.len());
        let track = match index {
            Some(index) => tracks.get(index).copied().filter(|track| is_audio(track)),
            None => audio.get(choose(audio.len(), wanted, container)?).copied(),
        };
        let track = track.ok_or_else(|| Failure::Unsupported("its codec".into()))?.clone();
        let decoder = make_decoder(&track)?;
        let padding = (decoder.codec_params().codec == CODEC_ID_MP3)
            .then(|| Some((track.num_frames?, track.num_frames? + u64::from(track.padding?))))
            .flatten();
        let mut this = InProcess {
            info: Info {
                container: container_name(container, format.format_info().short_name).into(),
                codec: decoder.codec_info().short_name.into(),
                sample_rate: 0,
                channels: 0,
                duration: None,
                audio_tracks,
                decoder: Decoder::InProcess,
            },
            format,
            decoder,
            track,
            skip: 0,
            keep: u64::MAX,
            lead: 0,
            padding,
            waiting: None,
            broken: 0,
            broken_in_a_row: 0,
        };
        this.start(edit)?;
        Ok(this)
    }

    /// Decodes the first packet and turns times into frames with the rate it shows.
    fn start(&mut self, edit: Edit) -> Result<(), Failure> {
        let mut first = Block::default();
        if !self.decode_one(&mut first)? {
            return Err(Failure::Unsupported("no audio in its packets".into()));
        }
        let aac = self.decoder.codec_params().codec == CODEC_ID_AAC;
        // See `adts_is_plain`: half of the spectrum may hide from this decoder.
        if aac && (first.rate <= 24_000 || first.channels > 2) {
            return Err(Failure::Unsupported("aac with band replication or many channels".into()));
        }
        // Vorbis and FLAC order their channels each in its own way; wav and flac are compared with ffmpeg in the tests.
        if first.channels > 2 && !matches!(self.info.container.as_str(), "wav" | "flac") {
            return Err(Failure::Unsupported("many channels".into()));
        }
        if !RATES.contains(&first.rate) {
            let reason = format!("a sample rate of {} Hz", first.rate);
            return Err(MediaError::Decode { container: self.info.container.clone(), reason }.into());
        }
        let rate = f64::from(first.rate);
        self.info.sample_rate = first.rate;
        self.info.channels = first.channels as u16;
        self.info.duration = match edit.keep {
            Some(keep) => Some(edit.lead + keep),
            None => track_seconds(&self.track).map(|seconds| (edit.lead + seconds - edit.skip).max(0.0)),
        };
        if self.info.duration == Some(0.0) {
            // A recorder that never came back to write the length; ffmpeg reads to the end.
            return Err(Failure::Unsupported("a length of zero".into()));
        }
        self.lead = (edit.lead * rate).round() as u64;
        self.skip = (edit.skip * rate).round() as u64;
        self.keep = edit.keep.map_or(u64::MAX, |keep| (keep * rate).ceil() as u64);
        self.waiting = Some(first);
        Ok(())
    }

    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    /// Whether the duration is the file's own word; of an MP3 without a tag it is a guess from the first frame.
    pub(crate) fn knows_duration(&self) -> bool {
        self.decoder.codec_params().codec != CODEC_ID_MP3 || self.track.delay.is_some()
    }

    /// How many packets could not be decoded and became silence.
    pub(crate) fn broken(&self) -> u64 {
        self.broken
    }

    /// Replaces `block` with the next one; false at the end.
    pub(crate) fn next(&mut self, block: &mut Block) -> Result<bool, Failure> {
        guarded(|| self.next_unguarded(block))?
    }

    fn next_unguarded(&mut self, block: &mut Block) -> Result<bool, Failure> {
        if self.lead > 0 {
            let frames = self.lead.min(u64::from(self.info.sample_rate)) as usize;
            self.lead -= frames as u64;
            block.silence(self.info.sample_rate, usize::from(self.info.channels), frames);
            return Ok(true);
        }
        if self.keep == 0 {
            return Ok(false);
        }
        match self.waiting.take() {
            Some(first) => *block = first,
            None => {
                if !self.decode_one(block)? {
                    return Ok(false);
                }
            }
        }
        let drop = self.skip.min(block.frames() as u64);
        block.drop_front(drop as usize);
        self.skip -= drop;
        block.truncate(self.keep);
        if self.keep != u64::MAX {
            self.keep -= block.frames() as u64;
        }
        Ok(true)
    }

    /// Decodes the next packet of the track; a broken one becomes silence of the same length.
    fn decode_one(&mut self, block: &mut Block) -> Result<bool, Failure> {
        loop {
            let packet = match self.format.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(false),
                Err(Error::IoError(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(false);
                }
                Err(Error::IoError(error)) => return Err(MediaError::Io(error).into()),
                Err(Error::ResetRequired) => {
                    // A chained Ogg stream: the next part has tracks of its own.
                    let next = self.format.tracks().iter().find(|track| is_audio(track));
                    self.track = next.ok_or_else(|| Failure::Unsupported("a change of tracks".into()))?.clone();
                    self.decoder = make_decoder(&self.track)?;
                    continue;
                }
                Err(Error::DecodeError(_)) => {
                    if self.count_broken() {
                        return Ok(false);
                    }
                    continue;
                }
                Err(error) => return Err(unsupported(error)),
            };
            if packet.track_id != self.track.id {
                continue;
            }
            match self.decoder.decode(&packet) {
                Ok(decoded) => {
                    self.broken_in_a_row = 0;
                    block.rate = decoded.spec().rate();
                    block.channels = decoded.spec().channels().count();
                    block.mask = match decoded.spec().channels() {
                        Channels::Positioned(positions) => Some(positions.bits()),
                        _ => None,
                    };
                    decoded.copy_to_vec_interleaved(&mut block.samples);
                    if block.channels == 0 {
                        continue;
                    }
                    self.trim(&packet, block);
                    if block.samples.is_empty() {
                        continue;
                    }
                    return Ok(true);
                }
                Err(Error::DecodeError(_) | Error::IoError(_)) => {
                    if self.count_broken() {
                        return Ok(false);
                    }
                    // Before the first good packet there is no timeline to keep.
                    if self.info.sample_rate > 0 {
                        let frames = self.frames_of(&packet);
                        block.silence(self.info.sample_rate, usize::from(self.info.channels), frames);
                        return Ok(true);
                    }
                }
                Err(Error::ResetRequired) => self.decoder.reset(),
                Err(error) => return Err(unsupported(error)),
            }
        }
    }

    /// Counts one broken packet; true when the rest is not worth trying.
    fn count_broken(&mut self) -> bool {
        self.broken += 1;
        self.broken_in_a_row += 1;
        self.broken_in_a_row > MAX_BROKEN_IN_A_ROW
    }

    /// Drops the encoder's delay and padding from an MP3 packet. Symphonia's own trimming would drop all that
    /// follows the length in the first tag, and so the second half of two files joined end to end.
    fn trim(&self, packet: &Packet, block: &mut Block) {
        if self.decoder.codec_params().codec != CODEC_ID_MP3 {
            return;
        }
        let before = packet.trim_start.get() as usize;
        if let (Some((from, to)), Ok(at)) = (self.padding, u64::try_from(packet.pts.get())) {
            if at < from {
                block.truncate(from - at);
            } else if at < to {
                block.drop_front((to - at) as usize);
            }
        }
        block.drop_front(before);
    }

    fn frames_of(&self, packet: &Packet) -> usize {
        let seconds = self.track.time_base.map_or(0.0, |base| base.calc_duration_saturating(packet.dur).as_secs_f64());
        (seconds.min(MAX_BROKEN_SECONDS) * f64::from(self.info.sample_rate)).round() as usize
    }
}

/// The index of the track to read among `count` audio tracks.
fn choose(count: usize, wanted: Option<usize>, container: Container) -> Result<usize, MediaError> {
    match wanted.unwrap_or(0) {
        _ if count == 0 => Err(MediaError::NoAudio { container: container.name().into() }),
        track if track < count => Ok(track),
        track => Err(MediaError::NoSuchTrack { track, tracks: count }),
    }
}

fn is_audio(track: &Track) -> bool {
    matches!(track.codec_params, Some(CodecParameters::Audio(_)))
}

fn make_decoder(track: &Track) -> Result<Box<dyn AudioDecoder>, Failure> {
    let Some(CodecParameters::Audio(params)) = &track.codec_params else {
        return Err(Failure::Unsupported("its codec".into()));
    };
    let options = AudioDecoderOptions::default().gapless(params.codec != CODEC_ID_MP3);
    symphonia::default::get_codecs().make_audio_decoder(params, &options).map_err(unsupported)
}

fn track_seconds(track: &Track) -> Option<f64> {
    let from_duration = || {
        let base = track.time_base?;
        Some(base.calc_duration_saturating(track.duration?).as_secs_f64())
    };
    let from_frames = || {
        let Some(CodecParameters::Audio(params)) = &track.codec_params else {
            return None;
        };
        Some(track.num_frames? as f64 / f64::from(params.sample_rate.filter(|&rate| rate > 0)?))
    };
    from_frames().or_else(from_duration)
}

/// An ID3 tag may stand before more than MP3, so Symphonia has the last word there.
fn container_name(container: Container, found: &'static str) -> &'static str {
    match container {
        Container::Mp3 => found,
        known => known.name(),
    }
}

fn unsupported(error: Error) -> Failure {
    Failure::Unsupported(error.to_string())
}

/// Runs `work`; a panic in a decoder, which only a hostile file should bring about, becomes a failure like any other.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic: Box<dyn Any + Send>| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|message| (*message).to_owned()))
            .unwrap_or_default();
        tracing::warn!(message, "media.decoder_panicked");
        Failure::Unsupported("its damage".into())
    })
}

//! Waveforms: the peaks of recordings, for drawing.
//!
//! A recording is decoded once, as a stream and in flat memory, into [`STORED_POINTS`] peaks, which are stored; every number of points is made of those.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use hark_api::{ErrorKind, Waveform};
use hark_media::{AudioStream, CancelToken, Limits, MediaError, Options, OutputChannels, SAMPLE_RATE, Source};
use hark_store::{Owner, TranscriptId};
use tokio::sync::OwnedMutexGuard;

use crate::call_slots::{CallSlot, CallSlots};
use crate::error::Failure;
use crate::probe;

/// The most points of a waveform, and those that are stored.
pub(crate) const STORED_POINTS: usize = 4000;
/// Recordings that are decoded at once for their waveforms: each takes one core, which speech waits for.
const AT_ONCE: usize = 3;
/// Those of one owner, whatever the plan: others must find a slot.
const AT_ONCE_BY_OWNER: i64 = 2;
/// The longest decoding: about a day of sound.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The layout of what is stored: this byte, the seconds of sound, the peaks.
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 9;

/// Who computes waveforms in this process.
pub(crate) struct Waveforms {
    slots: CallSlots,
    /// Transcripts whose waveforms are being computed.
    turns: Mutex<HashMap<TranscriptId, Weak<tokio::sync::Mutex<()>>>>,
}

impl Default for Waveforms {
    fn default() -> Self {
        let slots = CallSlots::new(AT_ONCE, "too many waveforms are being computed");
        Waveforms { slots, turns: Mutex::default() }
    }
}

impl Waveforms {
    /// Waits while another request computes the waveform of this transcript.
    pub(crate) async fn turn(&self, id: TranscriptId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            turns.get(&id).and_then(Weak::upgrade).unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(id, Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }

    /// Takes a slot to decode a recording; waits for others to end.
    pub(crate) async fn enter(&self, owner: Owner) -> Result<CallSlot, Failure> {
        self.slots.enter(owner, AT_ONCE_BY_OWNER).await
    }
}

/// The peaks of a recording as they are stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredWaveform {
    seconds: f64,
    /// 0 to 100 of full scale, [`STORED_POINTS`] of them.
    peaks: Vec<u8>,
}

impl StoredWaveform {
    /// Decodes a recording; blocks.
    pub(crate) fn decode(source: Source, cancel: CancelToken) -> Result<Self, Failure> {
        let deadline = Instant::now() + TIMEOUT;
        Self::decode_until(source, cancel, deadline).map_err(|error| {
            if Instant::now() < deadline {
                return probe::refused(error);
            }
            Failure::new(ErrorKind::Timeout, "the recording takes too long to decode: it has no waveform")
        })
    }

    fn decode_until(source: Source, cancel: CancelToken, deadline: Instant) -> Result<Self, MediaError> {
        let limits = Limits { ffmpeg_cpu_seconds: TIMEOUT.as_secs(), ..Limits::default() };
        // All channels: mixed, a voice in one of two is half as loud.
        let options =
            Options { channels: OutputChannels::All, limits, cancel, deadline: Some(deadline), ..Options::default() };
        let mut stream = AudioStream::open(source, &options)?;
        let mut peaks = Peaks::new(usize::from(stream.spec().channels));
        let mut block = Vec::new();
        while stream.read(&mut block)? > 0 {
            peaks.push(&block);
            block.clear();
        }
        if peaks.frames == 0 {
            return Err(MediaError::Empty);
        }
        let seconds = (peaks.frames as f64 / f64::from(SAMPLE_RATE) * 1000.0).round() / 1000.0;
        Ok(StoredWaveform { seconds, peaks: peaks.reduced(STORED_POINTS) })
    }

    /// Seconds of sound.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// With this many points.
    pub(crate) fn with_points(&self, points: usize) -> Waveform {
        let peaks = reduced(&self.peaks, self.peaks.len() as u64, 1, points);
        Waveform { duration: self.seconds, points: points as i64, peaks: peaks.into_iter().map(i32::from).collect() }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [&[VERSION][..], &self.seconds.to_le_bytes(), &self.peaks].concat()
    }

    /// `None` for what another version has stored.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (header, peaks) = bytes.split_at_checked(HEADER_BYTES)?;
        if header[0] != VERSION || peaks.len() != STORED_POINTS {
            return None;
        }
        let seconds = f64::from_le_bytes(header[1..].try_into().ok()?);
        Some(StoredWaveform { seconds, peaks: peaks.to_vec() })
    }
}

/// Peaks of a recording of unknown length: whenever there are [`Peaks::MOST`], two neighbours become one.
struct Peaks {
    channels: usize,
    frames: u64,
    /// Frames of each peak.
    span: u64,
    /// Frames of the last peak so far.
    filled: u64,
    peaks: Vec<f32>,
}

impl Peaks {
    /// Several for each point, so that those lie where they belong.
    const MOST: usize = 8 * STORED_POINTS;

    fn new(channels: usize) -> Self {
        Peaks { channels: channels.max(1), frames: 0, span: 1, filled: 1, peaks: Vec::new() }
    }

    fn push(&mut self, interleaved: &[f32]) {
        for frame in interleaved.chunks(self.channels) {
            let peak = frame.iter().fold(0.0f32, |most, sample| most.max(sample.abs()));
            if self.filled == self.span {
                if self.peaks.len() == Self::MOST {
                    self.halve();
                }
                self.peaks.push(0.0);
                self.filled = 0;
            }
            if let Some(last) = self.peaks.last_mut() {
                *last = last.max(peak);
            }
            self.filled += 1;
            self.frames += 1;
        }
    }

    fn halve(&mut self) {
        self.peaks = self.peaks.chunks(2).map(|pair| pair.iter().fold(0.0f32, |most, peak| most.max(*peak))).collect();
        self.span *= 2;
        self.filled = self.span;
    }

    fn reduced(&self, points: usize) -> Vec<u8> {
        let peaks: Vec<u8> = self.peaks.iter().map(|peak| (peak * 100.0).round().clamp(0.0, 100.0) as u8).collect();
        reduced(&peaks, self.frames, self.span, points)
    }
}

/// The peak in each of `points` equal parts of `frames`, of peaks that are each of `span` of them.
fn reduced(peaks: &[u8], frames: u64, span: u64, points: usize) -> Vec<u8> {
    let parts = points as u64 * span;
    (0..points as u64)
        .map(|point| {
            let from = (point * frames / parts) as usize;
            let to = ((point + 1) * frames).div_ceil(parts) as usize;
            let part = peaks.get(from..to.min(peaks.len())).unwrap_or_default();
            part.iter().copied().max().unwrap_or(0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn wav(samples: &[f32], rate: u32) -> Source {
        let mut wav = Vec::new();
        hark_media::write_wav(&mut wav, samples, rate).unwrap();
        Source::Reader(Box::new(std::io::Cursor::new(wav)))
    }

    fn peaks_of(samples: &[f32], points: usize) -> Vec<i32> {
        let stored = StoredWaveform::decode(wav(samples, SAMPLE_RATE), CancelToken::default()).unwrap();
        assert_eq!(StoredWaveform::from_bytes(&stored.to_bytes()).as_ref(), Some(&stored));
        let waveform = stored.with_points(points);
        assert_eq!(waveform.peaks.len(), points);
        assert!((waveform.duration - samples.len() as f64 / f64::from(SAMPLE_RATE)).abs() < 0.001);
        waveform.peaks
    }

    #[test]
    fn peaks_are_where_it_is_loud_whatever_the_length() {
        // Fewer samples than points, a few, and many that do not divide.
        for count in [7, 100, 3999, 16_000, 160_000, 1_234_567] {
            let samples: Vec<f32> = (0..count).map(|n| if n * 2 < count { 0.0 } else { -0.5 }).collect();
            for points in [100, 999, 1000, 4000] {
                let peaks = peaks_of(&samples, points);
                let middle = points / 2;
                // One part may hold both, and a peak among the parts that are stored another.
                let blur = 2 + points / count;
                assert!(peaks[..middle - blur].iter().all(|&peak| peak == 0), "{count} {points}: {peaks:?}");
                assert!(peaks[middle + blur..].iter().all(|&peak| peak == 50), "{count} {points}: {peaks:?}");
            }
        }
    }

    #[test]
    fn a_click_is_in_every_drawing_of_a_long_recording() {
        let mut samples = vec![0.0; 60 * SAMPLE_RATE as usize];
        samples[700_000] = 1.0;
        for points in [100, 1000, 4000] {
            let peaks = peaks_of(&samples, points);
            let at = 700_000 * points / samples.len();
            assert_eq!((peaks[at], peaks.iter().filter(|&&peak| peak > 0).count() <= 2), (100, true), "{points}");
        }
    }

    #[test]
    fn what_is_louder_than_full_scale_is_100_and_a_channel_counts_by_itself() {
        let mut peaks = Peaks::new(2);
        peaks.push(&[0.0, 0.25, -3.0, 0.0]);
        assert_eq!(peaks.reduced(2), [25, 100]);
        let nothing = StoredWaveform::decode(wav(&[], SAMPLE_RATE), CancelToken::default());
        assert_eq!(nothing.unwrap_err().error.status(), 400);
    }

    #[test]
    fn what_another_version_stored_is_not_read() {
        let stored = StoredWaveform { seconds: 1.5, peaks: vec![7; STORED_POINTS] };
        let mut bytes = stored.to_bytes();
        assert_eq!(StoredWaveform::from_bytes(&bytes[..100]), None);
        assert_eq!(StoredWaveform::from_bytes(&[]), None);
        bytes[0] += 1;
        assert_eq!(StoredWaveform::from_bytes(&bytes), None);
    }

    #[tokio::test]
    async fn one_request_at_a_time_computes_a_waveform() {
        let waveforms = Waveforms::default();
        let (one, other) = (TranscriptId(1), TranscriptId(2));
        let first = waveforms.turn(one).await;
        drop(waveforms.turn(other).await);
        let mut second = Box::pin(waveforms.turn(one));
        assert!((&mut second).now_or_never().is_none(), "two compute the same");
        drop(first);
        drop(second.await);
        drop(waveforms.turn(other).await);
        assert_eq!(waveforms.turns.lock().unwrap().len(), 1, "turns that nobody waits for are forgotten");
    }
}

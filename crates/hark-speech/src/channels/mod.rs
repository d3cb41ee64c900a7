//! The channels of a recording, transcribed by themselves and merged on one clock.
//!
//! Recorders of calls put each side on a channel of its own. What one side says while the other speaks is lost in a mix, and who
//! speaks has to be found out from voices. Here every channel goes its own way through voice activity, windows and the scheduler, and
//! is one speaker: the label `SPEAKER_00` is the first channel, whoever speaks first.

mod apart;
mod crosstalk;

use std::collections::BTreeMap;

use hark_media::{AudioStream, MediaError, OutputChannels, Source};
use hark_transcript::{Channels, Segment};

use self::crosstalk::CrosstalkGate;
use crate::SpeechError;
use crate::diarization::Speakers;
use crate::findings::Findings;
use crate::recording::Recording;
use crate::speakers::{label, speakers_of};
use crate::transcriber::{Progress, Request, Transcriber, Transcription};

/// Channels that are transcribed apart at most: each takes the work of a recording.
const MAX_CHANNELS: usize = 8;

/// Opens a source: with all of its channels if they are to be transcribed apart, else mixed into one. With [`Channels::Auto`] two channels
/// that share nothing are kept apart, if the source can be read twice; a stream is mixed. Says whether that was found.
pub(crate) fn open(
    source: Source,
    choice: Channels,
    media: &hark_media::Options,
) -> Result<(AudioStream, bool), SpeechError> {
    let all = hark_media::Options { channels: OutputChannels::All, ..media.clone() };
    let (source, again) = source.doubled().map_err(MediaError::from)?;
    match choice {
        Channels::Mono => Ok((AudioStream::open(source, media)?, false)),
        Channels::Separate => Ok((checked(AudioStream::open(source, &all)?)?, false)),
        Channels::Auto => {
            let mixed = AudioStream::open(source, media)?;
            let Some(again) = again.filter(|_| mixed.info().channels == 2) else { return Ok((mixed, false)) };
            let (probe, again) = again.doubled().map_err(MediaError::from)?;
            match again {
                Some(again) if apart::share_nothing(probe, &all) => Ok((AudioStream::open(again, &all)?, true)),
                _ => Ok((mixed, false)),
            }
        }
    }
}

/// Tells the owner of a recording that its channels were found to share nothing. Without diarization nobody asked for speakers, and the
/// labels go.
pub(crate) fn tell(done: &mut Transcription, request: &Request) {
    let mut warning = "the two channels share nothing, so each was transcribed by itself".to_owned();
    if request.speakers == Speakers::Off {
        done.result.segments.iter_mut().for_each(|segment| segment.speaker = None);
        done.result.speakers.clear();
    } else {
        let [left, right] = [0, 1].map(label);
        warning += &format!(": {left} is the left one, {right} the right one");
    }
    done.result.warnings.push(warning);
}

fn checked(audio: AudioStream) -> Result<AudioStream, SpeechError> {
    let count = usize::from(audio.spec().channels);
    if count > MAX_CHANNELS { Err(SpeechError::TooManyChannels { count, most: MAX_CHANNELS }) } else { Ok(audio) }
}

/// Transcribes each channel of a stream by itself.
pub(crate) fn transcribe(
    transcriber: &Transcriber,
    audio: &mut AudioStream,
    request: &Request,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Transcription, SpeechError> {
    let count = usize::from(audio.spec().channels);
    let mut channels = SeparateChannels::new(transcriber, request, count, audio.info().duration)?;
    let outcome = channels.run(audio, progress);
    if outcome.is_err() {
        channels.recordings.iter_mut().for_each(Recording::cancel);
    }
    outcome
}

/// The transcriptions of the channels of one recording.
struct SeparateChannels<'a> {
    recordings: Vec<Recording<'a>>,
    merged: MergedProgress,
}

impl<'a> SeparateChannels<'a> {
    fn new(
        transcriber: &'a Transcriber,
        request: &'a Request,
        count: usize,
        duration: Option<f64>,
    ) -> Result<Self, SpeechError> {
        // A channel is one speaker, whose voice is only listened to where it may be a known one.
        let speakers = if request.known.is_empty() { Speakers::Off } else { Speakers::Exactly(1) };
        let recordings = (0..count).map(|_| Recording::new(transcriber, request, speakers, duration));
        Ok(SeparateChannels { recordings: recordings.collect::<Result<_, _>>()?, merged: MergedProgress::new(count) })
    }

    fn run(
        &mut self,
        audio: &mut AudioStream,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Transcription, SpeechError> {
        let (mut block, mut samples) = (Vec::new(), Vec::new());
        let count = self.recordings.len();
        let mut gate = CrosstalkGate::new(count);
        while audio.read(&mut block)? > 0 {
            gate.apply(&mut block);
            self.each(progress, |channel, recording, progress| {
                samples.clear();
                samples.extend(block.iter().skip(channel).step_by(count));
                recording.push(&samples, progress)
            })?;
            block.clear();
        }
        self.each(progress, |_, recording, progress| recording.end(progress))?;
        self.each(progress, |_, recording, progress| recording.drain(progress))?;
        let parts = self.recordings.iter_mut().map(|recording| (recording.finish(Vec::new()), recording.findings()));
        Ok(merge(parts.collect(), audio.warnings()))
    }

    /// Does the same to each channel, whose number and place for progress are given.
    fn each(
        &mut self,
        progress: &mut dyn FnMut(Progress<'_>),
        mut work: impl FnMut(usize, &mut Recording<'a>, &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError>,
    ) -> Result<(), SpeechError> {
        let merged = &mut self.merged;
        self.recordings.iter_mut().enumerate().try_for_each(|(channel, recording)| {
            work(channel, recording, &mut |so_far: Progress<'_>| merged.report(channel, so_far, progress))
        })
    }
}

/// The progress of several channels as that of one recording.
struct MergedProgress {
    /// Seconds done of each channel, and how many segments its draft has.
    done: Vec<(f64, usize)>,
    draft: Vec<Segment>,
}

impl MergedProgress {
    fn new(channels: usize) -> Self {
        MergedProgress { done: vec![(0.0, 0); channels], draft: Vec::new() }
    }

    fn report(&mut self, channel: usize, so_far: Progress<'_>, progress: &mut dyn FnMut(Progress<'_>)) {
        if self.done[channel].1 != so_far.segments.len() {
            let label = Some(label(channel));
            self.draft.retain(|segment| segment.speaker != label);
            let said = |segment: &Segment| Segment { speaker: label.clone(), ..segment.clone() };
            self.draft.extend(so_far.segments.iter().map(said));
            sort(&mut self.draft);
        }
        self.done[channel] = (so_far.audio_done, so_far.segments.len());
        let audio_done = self.done.iter().map(|channel| channel.0).sum::<f64>() / self.done.len() as f64;
        progress(Progress { audio_done, audio_total: so_far.audio_total, segments: &self.draft });
    }
}

/// Sorts segments by their start; those of different channels may overlap, and their times stay.
fn sort(segments: &mut [Segment]) {
    segments.sort_by(|a, b| a.start.total_cmp(&b.start));
}

/// The transcripts of all channels as one, each channel a speaker.
fn merge(parts: Vec<(Transcription, Findings)>, warnings: &[String]) -> Transcription {
    let mut warnings = warnings.to_vec();
    let mut findings = Findings::default();
    let mut merged = Transcription::default();
    let (mut most, mut segments, mut names) = (0, Vec::new(), BTreeMap::new());
    for (channel, (part, found)) in parts.into_iter().enumerate() {
        findings = findings.with(found);
        let (windows, second_looks) = (merged.windows + part.windows, merged.second_looks + part.second_looks);
        names.extend(part.names.values().map(|name| (label(channel), name.clone())));
        warnings.extend(part.result.warnings.iter().map(|warning| format!("channel {}: {warning}", channel + 1)));
        let said = part.result.segments.iter().cloned();
        let of_channel = |said| Segment { speaker: Some(label(channel)), overlapping_speakers: Vec::new(), ..said };
        segments.extend(said.map(of_channel));
        // The language is that of the channel with the most text.
        if channel == 0 || part.result.text.len() > most {
            most = part.result.text.len();
            merged = part;
        }
        (merged.windows, merged.second_looks) = (windows, second_looks);
    }
    sort(&mut segments);
    if segments.is_empty() {
        warnings.push(findings.why_no_words());
    }
    merged.names = names;
    merged.result.text = segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" ");
    merged.result.speakers = speakers_of(&segments);
    merged.result.segments = segments;
    merged.result.warnings = warnings;
    merged
}

#[cfg(test)]
mod tests {
    use hark_transcript::TranscriptionResult;

    use super::*;

    fn said(start: f64, end: f64, text: &str) -> Segment {
        Segment { start, end, text: text.into(), ..Segment::default() }
    }

    fn part(language: &str, segments: Vec<Segment>) -> (Transcription, Findings) {
        let text = segments.iter().map(|segment| segment.text.as_str()).collect();
        let result = TranscriptionResult { text, language: language.into(), segments, ..Default::default() };
        let mut findings = Findings::default();
        findings.hear(&[0.5]);
        (Transcription { result, windows: 2, ..Transcription::default() }, findings)
    }

    #[test]
    fn channels_are_merged_by_time_and_labelled_by_their_number() {
        let left = part("en", vec![said(1.0, 3.0, "No, you first."), said(8.0, 9.0, "Bye.")]);
        let right = part("de", vec![said(0.5, 2.0, "So."), said(2.0, 4.0, "And a long answer that goes on.")]);
        let merged = merge(vec![left, right], &["it ends early".into()]);
        let lines: Vec<_> = merged.result.segments.iter().map(|s| (s.speaker.as_deref().unwrap(), s.start)).collect();
        assert_eq!(lines, [("SPEAKER_01", 0.5), ("SPEAKER_00", 1.0), ("SPEAKER_01", 2.0), ("SPEAKER_00", 8.0)]);
        assert_eq!(merged.result.text, "So. No, you first. And a long answer that goes on. Bye.");
        assert_eq!(merged.result.speakers, ["SPEAKER_01", "SPEAKER_00"]);
        assert_eq!((merged.result.language.as_str(), merged.windows), ("de", 4));
        assert_eq!(merged.result.warnings, ["it ends early"]);
    }

    #[test]
    fn channels_that_were_found_apart_are_told_and_are_speakers_only_where_those_are_asked_for() {
        for (speakers, labels) in [(Speakers::Auto, 2), (Speakers::Off, 0)] {
            let parts = vec![part("en", vec![said(0.0, 1.0, "Hi.")]), part("en", vec![said(1.0, 2.0, "Hello.")])];
            let mut merged = merge(parts, &[]);
            tell(&mut merged, &Request { speakers, ..Request::default() });
            assert_eq!(merged.result.speakers.len(), labels);
            assert_eq!(merged.result.segments.iter().filter(|segment| segment.speaker.is_some()).count(), labels);
            assert!(merged.result.warnings[0].contains("share nothing"));
        }
    }

    #[test]
    fn channels_without_words_give_one_reason() {
        let merged = merge(vec![part("", Vec::new()), part("", Vec::new())], &[]);
        assert_eq!(merged.result.warnings, ["no words: no speech was found in the sound"]);
    }

    #[test]
    fn progress_is_the_mean_of_the_channels_and_the_draft_has_them_in_order() {
        let mut merged = MergedProgress::new(2);
        let (left, right) = ([said(5.0, 6.0, "b")], [said(1.0, 2.0, "a"), said(7.0, 8.0, "c")]);
        let mut seen = Vec::new();
        for (channel, audio_done, segments) in [(0, 6.0, &left[..]), (1, 8.0, &right[..])] {
            let so_far = Progress { audio_done, audio_total: Some(10.0), segments };
            merged.report(channel, so_far, &mut |p| {
                let texts: Vec<String> = p.segments.iter().map(|segment| segment.text.clone()).collect();
                seen.push((p.audio_done, texts.concat()));
            });
        }
        assert_eq!(seen, [(3.0, "b".to_owned()), (7.0, "abc".to_owned())]);
    }
}

//! An engine without models that answers at once: for benches of the rest of the service, and for tests of
//! limits. No command of `hark` serves with it.

use std::sync::Arc;
use std::time::Duration;

use hark_api::TranscriptionResult;
use hark_media::Source;
use hark_speech::{CancelToken, EMBEDDING_WIDTH, Progress, SpeechError, Voiceprint};
use hark_store::Capabilities;

use super::instant_live::InstantLive;
use super::{
    EngineError, Engines, Enhance, EnhanceWork, Enhanced, Live, LiveHandle, Models, SoundOutput, Transcribe,
    Transcribed, Voices, Wake, Work, enhance,
};

/// Answers every recording with the same few words, at once or after a set time.
#[derive(Debug, Clone, Default)]
pub struct InstantEngine {
    /// How long a recording takes.
    pub takes: Duration,
}

/// How often a waiting recording checks whether it was cancelled.
const POLL: Duration = Duration::from_millis(5);

impl Models for InstantEngine {
    fn models(&self) -> Vec<hark_api::Model> {
        Vec::new()
    }

    fn resolve(&self, model: &str) -> Result<String, EngineError> {
        match model {
            known if known.starts_with("instant-") => Ok(known.to_owned()),
            "none" => Err(EngineError::UnknownModel(model.to_owned())),
            _ => Ok(format!("instant-{model}")),
        }
    }

    fn device(&self) -> Option<String> {
        Some("none (instant)".into())
    }
}

impl Transcribe for InstantEngine {
    fn transcribe(
        &self,
        source: Source,
        work: &Work,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        // Decoded and counted as by the real engine: the container's duration is not trusted.
        let (budget, cancel_token) = (work.budget.clone(), cancel.clone());
        let options = hark_media::Options { budget, cancel: cancel_token, ..hark_media::Options::default() };
        let mut stream = hark_media::AudioStream::open(source, &options).map_err(SpeechError::from)?;
        let (mut block, mut samples) = (Vec::new(), 0);
        while let count @ 1.. = stream.read(&mut block).map_err(SpeechError::from)? {
            samples += count;
            block.clear();
        }
        let duration = samples as f64 / f64::from(hark_media::SAMPLE_RATE);
        let mut report = |audio_done, audio_total| progress(Progress { audio_done, audio_total, segments: &[] });
        self.pass_time(duration, &mut report, cancel)?;
        let segment = hark_api::Segment { end: duration, text: "nothing was heard".into(), ..Default::default() };
        let result = TranscriptionResult {
            text: segment.text.clone(),
            language: work.language.clone().unwrap_or_else(|| "en".into()),
            duration,
            segments: vec![segment],
            model: work.model.clone(),
            ..TranscriptionResult::default()
        };
        Ok(Transcribed { result, ..Transcribed::default() })
    }
}

impl Voices for InstantEngine {
    fn voiceprint(&self, source: Source, cancel: CancelToken) -> Result<Voiceprint, EngineError> {
        let options = hark_media::Options { cancel, ..hark_media::Options::default() };
        let mut stream = hark_media::AudioStream::open(source, &options).map_err(SpeechError::from)?;
        let mut samples = Vec::new();
        while stream.read(&mut samples).map_err(SpeechError::from)? > 0 {
            samples.clear();
        }
        Voiceprint::new(&[1.0; EMBEDDING_WIDTH]).ok_or_else(|| EngineError::Failed("no print".into()))
    }

    fn check_voices(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Enhance for InstantEngine {
    fn check_enhance(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The recording as it is.
    fn enhance(
        &self,
        source: Source,
        work: &EnhanceWork,
        out: SoundOutput,
        progress: &mut dyn FnMut(f64, Option<f64>),
        cancel: &CancelToken,
    ) -> Result<Enhanced, EngineError> {
        let mut audio = enhance::open(source, work, cancel)?;
        let (frames, channels) = enhance::write(&mut audio, work, out, cancel, |audio, writer| {
            let mut block = Vec::new();
            while audio.read(&mut block).map_err(SpeechError::from)? > 0 {
                writer.write(&block).map_err(SpeechError::from)?;
                block.clear();
            }
            self.pass_time(audio.info().duration.unwrap_or(1.0), progress, cancel)
        })?;
        Ok(Enhanced { model: "instant".to_owned(), frames, channels })
    }
}

impl InstantEngine {
    /// Takes as long as it was told.
    fn pass_time(
        &self,
        duration: f64,
        progress: &mut dyn FnMut(f64, Option<f64>),
        cancel: &CancelToken,
    ) -> Result<(), EngineError> {
        let begun = std::time::Instant::now();
        while begun.elapsed() < self.takes {
            if cancel.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
            std::thread::sleep(POLL.min(self.takes));
            let share = begun.elapsed().as_secs_f64() / self.takes.as_secs_f64();
            progress(duration * share.min(1.0), Some(duration));
        }
        Ok(())
    }
}

impl Live for InstantEngine {
    fn start_session(&self, work: &Work, wake: Wake) -> Result<LiveHandle, EngineError> {
        Ok(LiveHandle::new(InstantLive::new(work, wake), ()))
    }
}

impl From<InstantEngine> for Engines {
    fn from(engine: InstantEngine) -> Self {
        let engine = Arc::new(engine);
        Engines::new(Arc::clone(&engine))
            .with_live(Arc::clone(&engine) as Arc<dyn Live>)
            .with_voices(Arc::clone(&engine) as Arc<dyn Voices>)
            .with_enhance(engine)
    }
}

/// An engine without installed models.
#[derive(Debug, Clone, Default)]
pub struct NoModelsEngine;

impl Models for NoModelsEngine {
    fn models(&self) -> Vec<hark_api::Model> {
        Vec::new()
    }

    fn resolve(&self, model: &str) -> Result<String, EngineError> {
        Err(EngineError::ModelMissing(model.to_owned()))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    fn device(&self) -> Option<String> {
        None
    }
}

impl Transcribe for NoModelsEngine {
    fn transcribe(
        &self,
        _: Source,
        work: &Work,
        _: &mut dyn FnMut(Progress<'_>),
        _: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        Err(EngineError::ModelMissing(work.model.clone()))
    }
}

impl From<NoModelsEngine> for Engines {
    fn from(engine: NoModelsEngine) -> Self {
        Engines::new(Arc::new(engine))
    }
}

//! Speech: word errors, speed beside ONNX Runtime, time to the first sound.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use hark_compute::Compute;
use hark_media::CancelToken;
use hark_models::Role;
use hark_voice::{FileFormat, Key, Marker, Narrator, NarratorOptions, SpeechRequest, VoiceChoice};
use serde::Serialize;
use serde_json::json;

use super::contest::{Contestant, Done, Speed, take_turns};
use super::driver::{SpeakAnswer, SpeakRequest};
use super::peers::ONNX_RUNTIME;
use super::texts::{Sentence, Texts, spread};
use super::{VoiceArgs, failed};
use crate::audio::Scratch;
use crate::error::BenchError;
use crate::process::Process;
use crate::protocol::Request;
use crate::spread::Spread;
use crate::systems::{self, Device, NotRun, Setup};
use crate::text::server::Server;
use crate::wer::WordErrors;

/// The voice of all texts: the default one.
const VOICE: &str = "af_heart";
/// The rate of synthetic speech.
const RATE: f64 = 24_000.0;
/// Sentences of a round of the speed.
const TIMED_SENTENCES: usize = 10;
/// Texts of each kind whose first sound is waited for.
const TIMED_TEXTS: usize = 10;
/// Bytes that are a first sound: 50 ms, which is more than a player buffers at least.
const FIRST_BYTES: usize = 2400;

/// How well speech is understood.
#[derive(Debug, Serialize)]
pub(super) struct Words {
    pub(super) sentences: usize,
    pub(super) seconds: f64,
    pub(super) recognizer: String,
    pub(super) errors: WordErrors,
    pub(super) rate: Option<f64>,
    /// Each sentence with an error, and what was heard.
    pub(super) misheard: Vec<(String, String)>,
}

/// Speed beside the peer.
#[derive(Debug, Serialize)]
pub(super) struct Speeds {
    pub(super) systems: Vec<Speed>,
    /// Ours over the peer's, round by round.
    pub(super) ratio: Option<Spread>,
    pub(super) not_run: Vec<NotRun>,
}

/// Seconds until the first 50 ms of sound came over a loopback socket.
#[derive(Debug, Serialize)]
pub(super) struct FirstSound {
    pub(super) several_sentences: Spread,
    pub(super) one_sentence: Spread,
}

/// Loads the program's own way from text to sound; `with_matching` with what matching a voice needs.
pub(super) fn narrator(args: &VoiceArgs, with_matching: bool) -> Result<Narrator, BenchError> {
    let matching = match with_matching {
        true => Some((systems::installed_for(Role::Vad)?, systems::installed_for(Role::Embedding)?)),
        false => None,
    };
    let options = NarratorOptions {
        dictionary: systems::installed_for(Role::Pronunciation).ok(),
        matching,
        match_time: std::time::Duration::from_secs_f64(args.match_seconds),
        ..NarratorOptions::new(systems::installed_for(Role::Voice)?)
    };
    Narrator::load(&Compute::from_options(args.threads, None), options).map_err(|error| failed("hark-voice", error))
}

/// Speaks a text into a WAV file as `hark speak` does, watermark included; gives its seconds and what the voice is.
pub(super) fn speak(
    narrator: &Narrator,
    text: &str,
    voice: VoiceChoice<'_>,
    path: &Path,
) -> Result<(f64, String), BenchError> {
    let wrong = |error| failed("hark-voice", error);
    let request =
        SpeechRequest { text, max_characters: usize::MAX, language: Some("en"), voice, speed: 1.0, is_streamed: false };
    let cancel = CancelToken::default();
    let script = narrator.prepare(&request, &cancel).map_err(wrong)?;
    let marker = Marker::new(Key::new([0x5a; 32]), None);
    let payload = marker.payload(text.as_bytes(), 0);
    let file = std::fs::File::create(path).map_err(|source| BenchError::File { path: path.to_owned(), source })?;
    let out: Box<dyn Write + Send> = Box::new(std::io::BufWriter::new(file));
    let spoken =
        narrator.speak(&script, FileFormat::Wav, false, &marker, &payload, out, &mut || {}, &cancel).map_err(wrong)?;
    Ok((spoken.seconds, script.voice().to_string()))
}

/// Has sentences spoken and transcribed.
pub(super) fn words(args: &VoiceArgs, texts: &Texts, bench: &Path) -> Result<Words, BenchError> {
    let narrator = narrator(args, false)?;
    let scratch = Scratch::new()?;
    let sentences = spread(&texts.sentences, args.sentences);
    let mut files = Vec::with_capacity(sentences.len());
    let mut seconds = 0.0;
    for (at, sentence) in sentences.iter().enumerate() {
        let path = scratch.file(&format!("{at}.wav"));
        seconds += speak(&narrator, &sentence.text, VoiceChoice::Named(VOICE), &path)?.0;
        files.push(path);
    }
    drop(narrator);
    let mut recognizer = Recognizer::start(args, bench, &scratch)?;
    let mut words = Words {
        sentences: sentences.len(),
        seconds,
        recognizer: args.recognizer.clone(),
        errors: WordErrors::default(),
        rate: None,
        misheard: Vec::new(),
    };
    for (sentence, file) in sentences.iter().zip(&files) {
        let heard = recognizer.hear(file)?;
        let errors = WordErrors::between(&sentence.text, &heard);
        if errors.rate() != Some(0.0) {
            words.misheard.push((sentence.text.clone(), heard));
        }
        words.errors += errors;
    }
    words.rate = words.errors.rate();
    Ok(words)
}

/// Our own transcription.
pub(super) struct Recognizer(Process);

impl Recognizer {
    pub(super) fn start(args: &VoiceArgs, bench: &Path, scratch: &Scratch) -> Result<Self, BenchError> {
        let setup = Setup {
            model_folder: systems::installed(&args.recognizer)?,
            model: args.recognizer.clone(),
            words: false,
            beam: None,
            threads: args.threads(),
            isa: None,
            device: Device::Cpu,
            bench_folder: Some(bench.to_owned()),
        };
        let system = systems::hark(&setup)?;
        Ok(Recognizer(Process::start(&system.name, system.command, scratch.file("recognizer.log"))?))
    }

    pub(super) fn hear(&mut self, file: &Path) -> Result<String, BenchError> {
        let request = Request {
            id: 0,
            audio: file.to_string_lossy().into_owned(),
            language: "en".to_owned(),
            interactive: true,
            speakers: None,
        };
        Ok(self.0.transcribe(&request)?.text)
    }
}

/// Has the same sentences spoken by Hark and ONNX Runtime, in turns.
pub(super) fn speeds(args: &VoiceArgs, texts: &Texts, bench: &Path) -> Result<Speeds, BenchError> {
    let scratch = Scratch::new()?;
    let mut own = Command::new(crate::own_binary()?);
    own.args(["voice-driver", "--threads", &args.threads().to_string()]);
    let mut contestants = vec![Contestant::start("hark", own, &scratch)?];
    let mut not_run = Vec::new();
    if args.with_peers {
        let model = systems::installed_for(Role::Voice)?;
        let command = ONNX_RUNTIME.command(Some(bench), args.threads()).map(|mut command| {
            command.arg("--model").arg(&model);
            command
        });
        match command {
            Ok(command) => contestants.push(Contestant::start(ONNX_RUNTIME.name, command, &scratch)?),
            Err(why) => not_run.push(why),
        }
    }
    let sentences = spread(&texts.sentences, TIMED_SENTENCES);
    for contestant in &mut contestants {
        speak_round(contestant, &sentences[..sentences.len().min(2)])?;
    }
    take_turns(&mut contestants, args.rounds, |contestant| speak_round(contestant, &sentences))?;
    let ratio = match contestants.as_slice() {
        [own, peer] => own.ratio_to(peer),
        _ => None,
    };
    let systems = contestants.into_iter().map(Contestant::speed).collect::<Result<_, BenchError>>()?;
    Ok(Speeds { systems, ratio, not_run })
}

fn speak_round(contestant: &mut Contestant, sentences: &[&Sentence]) -> Result<Done, BenchError> {
    let (mut took, mut samples) = (0.0, 0);
    for sentence in sentences {
        let request =
            SpeakRequest { phonemes: sentence.phonemes.clone(), ids: sentence.ids(), voice: VOICE.to_owned() };
        let answer: SpeakAnswer = contestant.process.call(&request)?;
        took += answer.seconds;
        samples += answer.samples;
    }
    Ok(Done { sound: samples as f64 / RATE, took })
}

/// Waits for the first sound of short texts from a `hark serve` of its own.
pub(super) fn first_sound(args: &VoiceArgs, texts: &Texts) -> Result<FirstSound, BenchError> {
    let scratch = Scratch::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed("the runtime", error))?;
    let server = runtime.block_on(Server::without_transcripts(&scratch.file("server"), args.threads))?;
    let wait = |text: &str| -> Result<f64, BenchError> {
        let body = json!({ "model": "any", "input": text, "voice": VOICE, "response_format": "pcm" });
        let reply = server.clients[0].stream_bytes("/v1/audio/speech", &body, FIRST_BYTES)?;
        reply.first.ok_or_else(|| failed("hark serve", format!("no sound came for {text:?}")))
    };
    // The model is in memory before anything counts.
    wait("The meeting begins at nine.")?;
    let all = |texts: &[String]| -> Result<Spread, BenchError> {
        let times: Result<Vec<f64>, BenchError> =
            spread(texts, TIMED_TEXTS).into_iter().map(|text| wait(text)).collect();
        Spread::of(times?).ok_or(BenchError::NoRounds)
    };
    Ok(FirstSound { several_sentences: all(&texts.several)?, one_sentence: all(&texts.single)? })
}

/// The bench folder, which has the texts.
pub(super) fn bench_folder() -> Result<PathBuf, BenchError> {
    let why = "the bench folder was not found; run from the repository or set HARK_BENCH";
    systems::bench_folder().ok_or_else(|| failed("hark bench voice", why))
}

impl Words {
    pub(super) fn table(&self) -> String {
        let WordErrors { substitutions, insertions, deletions, reference_words } = self.errors;
        let mut text = format!(
            "\n## Words\n\n{} sentences, {reference_words} words, {:.0} s, voice {VOICE}, heard by {}: {:.2} % word errors ({substitutions} substituted, {insertions} inserted, {deletions} deleted)\n",
            self.sentences,
            self.seconds,
            self.recognizer,
            100.0 * self.rate.unwrap_or_default()
        );
        if !self.misheard.is_empty() {
            text.push_str("\nmisheard:\n");
        }
        for (said, heard) in &self.misheard {
            let _ = writeln!(text, "- {said}\n  {}", heard.trim());
        }
        text
    }
}

impl Speeds {
    pub(super) fn table(&self) -> String {
        let mut text = String::from(
            "\n## Speed of speech\n\n| system | × real time | processor s a round | sound s | load s | memory MB |\n|---|---|---|---|---|---|\n",
        );
        for one in &self.systems {
            let cpu = one.cpu_seconds.as_ref().map_or("–".to_owned(), |cpu| format!("{cpu:.1}"));
            let memory = one.peak_memory_bytes.map_or("–".to_owned(), |bytes| (bytes >> 20).to_string());
            let _ = writeln!(
                text,
                "| {} ({}) | {:.2} | {cpu} | {:.1} | {:.1} | {memory} |",
                one.name, one.version, one.speed, one.sound, one.load_seconds
            );
        }
        if let Some(ratio) = &self.ratio {
            let _ = writeln!(text, "\nratio: {ratio:.2}");
        }
        for NotRun { name, why } in &self.not_run {
            let _ = writeln!(text, "\n{name}: not run: {why}");
        }
        text
    }
}

impl FirstSound {
    pub(super) fn table(&self) -> String {
        format!(
            "\n## First sound\n\nseconds until 50 ms of sound were received, texts of 190 to 210 characters: several sentences {:.2}, one sentence {:.2}\n",
            self.several_sentences, self.one_sentence
        )
    }
}

//! `hark watermark`: whether sounds carry the mark of a key, and what it says.

use std::path::{Path, PathBuf};

use hark_media::{AudioStream, Options, OutputChannels, Source, Tags};
use hark_watermark::{Detection, Detector, KEY_FILE, Key, discloses};
use serde::Serialize;

use crate::cli::{Common, WatermarkArgs, WatermarkCommand, WatermarkDetectArgs};
use crate::config::Config;
use crate::{CliError, output, serve};

/// The rate at which marks are looked for: they lie below 3.6 kHz at every speed that is searched.
const RATE: u32 = 16_000;

/// Dates are counted in microseconds.
const MICROSECONDS_A_DAY: i64 = 86_400_000_000;

/// What is printed of a file with `--json`.
#[derive(Serialize)]
struct FileReport<'a> {
    file: &'a Path,
    #[serde(flatten)]
    detection: Option<Detection>,
    /// What the metadata says, where it speaks of synthetic speech.
    disclosure: Option<String>,
    error: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &WatermarkArgs, common: &Common) -> Result<(), CliError> {
    match &args.command {
        WatermarkCommand::Detect(args) => detect(args, common),
    }
}

fn detect(args: &WatermarkDetectArgs, common: &Common) -> Result<(), CliError> {
    let key = read_key(args, &Config::load(common)?)?;
    let (mut failed, mut absent) = (false, false);
    for file in &args.files {
        let disclosure = disclosure(file);
        let (detection, error) = match examine(file, &key) {
            Ok(detection) => (Some(detection), None),
            Err(error) => (None, Some(error)),
        };
        failed |= error.is_some();
        absent |= detection.as_ref().is_some_and(|detection| !detection.present);
        if args.json {
            let report = FileReport { file, detection, disclosure, error };
            let line = serde_json::to_string(&report).map_err(|error| CliError::Failed(error.to_string()))?;
            output::print(format!("{line}\n"))?;
            continue;
        }
        if let Some(error) = error {
            eprintln!("hark: {}: {error}", file.display());
        }
        if let Some(detection) = detection {
            output::print(describe(file, &detection, disclosure.as_deref()))?;
        }
    }
    match (failed, absent) {
        (true, _) => Err(CliError::Reported),
        (false, true) => Err(CliError::Absent),
        (false, false) => Ok(()),
    }
}

/// The key: from the environment, from a file that was named, or from the data folder.
fn read_key(args: &WatermarkDetectArgs, config: &Config) -> Result<Key, CliError> {
    let usage = |error: hark_watermark::WatermarkError| CliError::Usage(error.to_string());
    if args.key_file.is_none()
        && let Some(key) = key_from_environment()?
    {
        return Ok(key);
    }
    let file = match &args.key_file {
        Some(file) => file.clone(),
        None => key_file(args.data.as_deref(), config)?,
    };
    Key::read_file(&file).map_err(usage)?.ok_or_else(|| {
        CliError::Usage(format!(
            "there is no watermark key at {}: marks can only be found with the key that made them; \
             name it with --key-file, --data or HARK_WATERMARK_KEY",
            file.display()
        ))
    })
}

fn key_from_environment() -> Result<Option<Key>, CliError> {
    let Some(text) = std::env::var_os("HARK_WATERMARK_KEY").filter(|text| !text.is_empty()) else { return Ok(None) };
    let key = Key::from_hex(&text.to_string_lossy());
    key.map(Some).map_err(|error| CliError::Usage(format!("HARK_WATERMARK_KEY: {error}")))
}

/// The file of the key: the configured one, else the one in the data folder.
pub(crate) fn key_file(data: Option<&Path>, config: &Config) -> Result<PathBuf, CliError> {
    match &config.server.watermark_key_file {
        Some(file) if data.is_none() => Ok(file.clone()),
        _ => Ok(serve::data_dir(data, config)?.join(KEY_FILE)),
    }
}

/// The key that marks sounds: from the environment or from its file, which is made where there is none.
pub(crate) fn marking_key(data: Option<&Path>, config: &Config) -> Result<Key, CliError> {
    match key_from_environment()? {
        Some(key) => Ok(key),
        None => {
            let file = key_file(data, config)?;
            Key::read_or_create_file(&file).map_err(|error| CliError::Failed(error.to_string()))
        }
    }
}

fn examine(file: &Path, key: &Key) -> Result<Detection, String> {
    let options = Options { rate: RATE, channels: OutputChannels::Mono, ..Options::default() };
    let mut audio = AudioStream::open(Source::Path(file.to_owned()), &options).map_err(|error| error.to_string())?;
    let mut detector = Detector::new(RATE, 1, key).map_err(|error| error.to_string())?;
    let mut block = Vec::new();
    while audio.read(&mut block).map_err(|error| error.to_string())? > 0 {
        detector.push(&block, &|| false).map_err(|error| error.to_string())?;
        block.clear();
    }
    detector.finish(&|| false).map_err(|error| error.to_string())
}

/// What the metadata says of synthetic speech. A file that can't be read is reported by `examine`.
fn disclosure(file: &Path) -> Option<String> {
    let source = std::fs::File::open(file).ok()?;
    let comment = Tags::read(std::io::BufReader::new(source)).ok()?.comment?;
    discloses(&comment).then_some(comment)
}

fn describe(file: &Path, found: &Detection, disclosure: Option<&str>) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{}: ", file.display());
    if found.present {
        let _ = writeln!(text, "watermark found, chance of a false alarm below 1e{:.0}", found.log10_false_alarm);
    } else {
        let _ = writeln!(text, "no watermark of this key");
    }
    match found.payload {
        Some(payload) => {
            let (issuer, day, request) = (payload.issuer, payload.day, payload.request);
            let date = hark_api::DateTime(i64::from(day) * MICROSECONDS_A_DAY).date();
            let _ = writeln!(text, "  issuer {issuer}, made on {date}, request {request:08x}");
        }
        None if found.present => text.push_str("  its payload can't be read: the sound is too short or too damaged\n"),
        None => {}
    }
    if let Some(speed) = found.speed.filter(|speed| (speed - 1.0).abs() > 0.001) {
        let _ = writeln!(text, "  speed {:+.1} %", (speed - 1.0) * 100.0);
    }
    for span in &found.spans {
        let _ = writeln!(text, "  from {:.1} s to {:.1} s of {:.1} s", span.start, span.end, found.seconds);
    }
    if let Some(disclosure) = disclosure {
        let _ = writeln!(text, "  metadata: {disclosure}");
    }
    text
}

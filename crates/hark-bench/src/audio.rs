//! The audio that a run measures: WAV files found on disk with their references, and files made for a scenario.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::BenchError;

/// The rate of everything the benchmark writes, which is what Whisper hears.
pub const RATE: u32 = 16_000;

/// One file to transcribe, with the words said in it where they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Where it lies.
    pub path: PathBuf,
    /// Its length.
    pub seconds: f64,
    /// What is said in it.
    pub reference: Option<String>,
}

/// The WAV files among `paths` (folders are searched one level deep, in order of name), with references by file stem.
///
/// `refs` has lines of `<stem> TAB <words>`; without it a `refs.tsv` beside the first file is used when there is one.
pub fn recordings(paths: &[PathBuf], refs: Option<&Path>) -> Result<Vec<Recording>, BenchError> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|source| BenchError::File { path: path.clone(), source })?;
            let mut found: Vec<PathBuf> =
                entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_wav(path)).collect();
            found.sort();
            files.append(&mut found);
        } else {
            files.push(path.clone());
        }
    }
    let Some(first) = files.first() else {
        return Err(BenchError::NoAudio { place: paths.first().cloned().unwrap_or_default() });
    };
    let beside = first.with_file_name("refs.tsv");
    let references = match refs {
        Some(path) => read_references(path)?,
        None if beside.is_file() => read_references(&beside)?,
        None => HashMap::new(),
    };
    files
        .into_iter()
        .map(|path| {
            let seconds = wav_seconds(&path)?;
            let reference = path.file_stem().and_then(|stem| references.get(stem.to_string_lossy().as_ref()).cloned());
            Ok(Recording { path, seconds, reference })
        })
        .collect()
}

fn is_wav(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("wav"))
}

fn read_references(path: &Path) -> Result<HashMap<String, String>, BenchError> {
    let text = std::fs::read_to_string(path).map_err(|source| BenchError::File { path: path.to_owned(), source })?;
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| match line.split_once('\t') {
            Some((stem, words)) => Ok((stem.to_owned(), words.to_owned())),
            None => Err(BenchError::References { path: path.to_owned(), line: line.chars().take(80).collect() }),
        })
        .collect()
}

/// Where the samples of a WAV file are and how long they last.
struct WavLayout {
    data_at: u64,
    data_bytes: u64,
    bytes_per_second: u32,
}

fn wav_layout(path: &Path) -> Result<WavLayout, BenchError> {
    let not_wav = |why: &str| BenchError::Wav { path: path.to_owned(), why: why.to_owned() };
    let broken = |source| BenchError::File { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(broken)?);
    let mut header = [0u8; 12];
    file.read_exact(&mut header).map_err(broken)?;
    if &header[..4] != b"RIFF" || &header[8..] != b"WAVE" {
        return Err(not_wav("it does not begin with RIFF…WAVE"));
    }
    let file_bytes = std::fs::metadata(path).map_err(broken)?.len();
    let mut bytes_per_second = None;
    let mut at = 12;
    loop {
        let mut chunk = [0u8; 8];
        file.read_exact(&mut chunk).map_err(|_| not_wav("it has no data chunk"))?;
        at += 8;
        let length = u64::from(u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]));
        if &chunk[..4] == b"data" {
            let bytes_per_second =
                bytes_per_second.filter(|rate| *rate > 0).ok_or_else(|| not_wav("its data comes before its format"))?;
            return Ok(WavLayout { data_at: at, data_bytes: length.min(file_bytes - at), bytes_per_second });
        }
        let mut rest = length + length % 2;
        if &chunk[..4] == b"fmt " && length >= 16 {
            let mut format = [0u8; 16];
            file.read_exact(&mut format).map_err(broken)?;
            bytes_per_second = Some(u32::from_le_bytes([format[8], format[9], format[10], format[11]]));
            rest -= 16;
            at += 16;
        }
        file.seek(SeekFrom::Current(rest as i64)).map_err(broken)?;
        at += rest;
    }
}

fn wav_seconds(path: &Path) -> Result<f64, BenchError> {
    let layout = wav_layout(path)?;
    Ok(layout.data_bytes as f64 / f64::from(layout.bytes_per_second))
}

/// Writes `seconds` of `source` from `start` on to `target`, beginning again at its start as often as needed.
///
/// The source must be what the benchmark writes: 16 kHz, mono, 16 bit. Memory stays small however long the target.
pub fn cut(source: &Path, start: f64, seconds: f64, target: &Path) -> Result<(), BenchError> {
    let broken = |path: &Path| {
        let path = path.to_owned();
        move |source| BenchError::File { path, source }
    };
    let layout = wav_layout(source)?;
    if layout.bytes_per_second != RATE * 2 || layout.data_bytes < 2 {
        return Err(BenchError::Wav {
            path: source.to_owned(),
            why: "this scenario needs 16 kHz mono 16-bit speech".to_owned(),
        });
    }
    let mut input = File::open(source).map_err(broken(source))?;
    let samples = (seconds * f64::from(RATE)) as u64;
    let mut output = WavWriter::create(target, samples)?;
    let whole_samples = layout.data_bytes / 2;
    let mut at = (start * f64::from(RATE)) as u64 % whole_samples;
    let mut left = samples;
    let mut buffer = vec![0u8; 1 << 20];
    while left > 0 {
        let take = left.min(whole_samples - at).min(buffer.len() as u64 / 2);
        let bytes = &mut buffer[..take as usize * 2];
        input.seek(SeekFrom::Start(layout.data_at + at * 2)).map_err(broken(source))?;
        input.read_exact(bytes).map_err(broken(source))?;
        output.write_bytes(bytes)?;
        left -= take;
        at = (at + take) % whole_samples;
    }
    output.finish()
}

/// The samples of a file that the benchmark wrote: 16 kHz, mono, 16 bit.
pub fn samples_of(path: &Path) -> Result<Vec<f32>, BenchError> {
    let layout = wav_layout(path)?;
    if layout.bytes_per_second != RATE * 2 {
        let why = "this benchmark needs 16 kHz mono 16-bit speech".to_owned();
        return Err(BenchError::Wav { path: path.to_owned(), why });
    }
    let bytes = std::fs::read(path).map_err(|source| BenchError::File { path: path.to_owned(), source })?;
    let data = &bytes[layout.data_at as usize..][..layout.data_bytes as usize];
    Ok(data.chunks_exact(2).map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0).collect())
}

/// A 16 kHz mono 16-bit WAV file in the making.
pub struct WavWriter {
    path: PathBuf,
    out: BufWriter<File>,
}

impl WavWriter {
    /// Begins a file that will hold exactly `samples`.
    pub fn create(path: &Path, samples: u64) -> Result<Self, BenchError> {
        // A RIFF length is 32 bits: 37 hours of this format.
        let data = u32::try_from(samples * 2).ok().filter(|data| *data <= u32::MAX - 36).ok_or_else(|| {
            BenchError::Wav { path: path.to_owned(), why: "a WAV file can't be longer than 37 hours".to_owned() }
        })?;
        let file = File::create(path).map_err(|source| BenchError::File { path: path.to_owned(), source })?;
        let mut writer = Self { path: path.to_owned(), out: BufWriter::new(file) };
        let mut header = Vec::with_capacity(44);
        header.extend(b"RIFF");
        header.extend((36 + data).to_le_bytes());
        header.extend(b"WAVEfmt ");
        header.extend(16u32.to_le_bytes());
        header.extend(1u16.to_le_bytes());
        header.extend(1u16.to_le_bytes());
        header.extend(RATE.to_le_bytes());
        header.extend((RATE * 2).to_le_bytes());
        header.extend(2u16.to_le_bytes());
        header.extend(16u16.to_le_bytes());
        header.extend(b"data");
        header.extend(data.to_le_bytes());
        writer.write_bytes(&header)?;
        Ok(writer)
    }

    /// Appends samples of -1 to 1.
    pub fn write(&mut self, samples: &[f32]) -> Result<(), BenchError> {
        let bytes: Vec<u8> =
            samples.iter().flat_map(|sample| ((sample.clamp(-1.0, 1.0) * 32_767.0) as i16).to_le_bytes()).collect();
        self.write_bytes(&bytes)
    }

    /// Writes what is still in memory.
    pub fn finish(mut self) -> Result<(), BenchError> {
        self.out.flush().map_err(|source| BenchError::File { path: self.path.clone(), source })
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.out.write_all(bytes).map_err(|source| BenchError::File { path: self.path.clone(), source })
    }
}

/// A folder for the files of one run, removed with them when the run ends.
pub struct Scratch {
    /// The folder.
    pub folder: PathBuf,
}

impl Scratch {
    /// Makes a new empty folder in the system's place for temporary files.
    pub fn new() -> Result<Self, BenchError> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hark-bench-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).map_err(|source| BenchError::File { path: folder.clone(), source })?;
        Ok(Self { folder })
    }

    /// A path inside.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_ramp(path: &Path, samples: usize) {
        let mut writer = WavWriter::create(path, samples as u64).unwrap();
        let ramp: Vec<f32> = (0..samples).map(|at| at as f32 / 32_767.0).collect();
        writer.write(&ramp).unwrap();
        writer.finish().unwrap();
    }

    fn samples(path: &Path) -> Vec<i16> {
        std::fs::read(path).unwrap()[44..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn a_file_written_is_found_with_its_length_and_its_words() {
        let scratch = Scratch::new().unwrap();
        write_ramp(&scratch.file("b.wav"), 8_000);
        write_ramp(&scratch.file("a.wav"), 16_000);
        std::fs::write(scratch.file("notes.txt"), "not audio").unwrap();
        std::fs::write(scratch.file("refs.tsv"), "a\thello world\n").unwrap();
        let found = recordings(std::slice::from_ref(&scratch.folder), None).unwrap();
        let summary: Vec<(f64, Option<&str>)> =
            found.iter().map(|file| (file.seconds, file.reference.as_deref())).collect();
        assert_eq!(summary, [(1.0, Some("hello world")), (0.5, None)]);
    }

    #[test]
    fn chunks_before_the_samples_are_stepped_over() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.file("odd.wav");
        write_ramp(&path, 1_600);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.splice(36..36, *b"LIST\x03\0\0\0abc\0");
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(wav_seconds(&path).unwrap(), 0.1);
    }

    #[test]
    fn a_cut_begins_where_it_was_told_and_goes_round_at_the_end() {
        let scratch = Scratch::new().unwrap();
        let (source, target) = (scratch.file("source.wav"), scratch.file("cut.wav"));
        write_ramp(&source, 160);
        cut(&source, 0.005, 0.0125, &target).unwrap();
        let expected: Vec<i16> = (80..160).chain(0..120).collect();
        assert_eq!(samples(&target), expected);
        assert_eq!(wav_seconds(&target).unwrap(), 0.0125);
    }

    #[test]
    fn a_folder_without_audio_and_a_file_that_is_no_wav_are_errors() {
        let scratch = Scratch::new().unwrap();
        assert!(matches!(recordings(std::slice::from_ref(&scratch.folder), None), Err(BenchError::NoAudio { .. })));
        std::fs::write(scratch.file("x.wav"), "this is not a wav file at all").unwrap();
        assert!(matches!(recordings(std::slice::from_ref(&scratch.folder), None), Err(BenchError::Wav { .. })));
    }

    #[test]
    fn a_reference_line_without_a_tab_is_an_error() {
        let scratch = Scratch::new().unwrap();
        write_ramp(&scratch.file("a.wav"), 160);
        std::fs::write(scratch.file("refs.tsv"), "a hello\n").unwrap();
        assert!(matches!(recordings(std::slice::from_ref(&scratch.folder), None), Err(BenchError::References { .. })));
    }

    #[test]
    fn scratch_folders_go_away_with_their_owner() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.folder.clone();
        write_ramp(&scratch.file("a.wav"), 16);
        drop(scratch);
        assert!(!folder.exists());
    }
}

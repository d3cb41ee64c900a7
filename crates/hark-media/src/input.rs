//! The bytes of a source: a file that seeks, something else that seeks, or a stream whose beginning is kept until a decoder has accepted it.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use symphonia::core::io::MediaSource;

use crate::MediaError;
use crate::faststart::Faststart;
use crate::sniff::HEAD_BYTES;
use crate::watch::{Watch, Watched};

/// Where audio comes from.
pub enum Source {
    /// A file; pipes and devices work too.
    Path(PathBuf),
    /// A stream that cannot seek; a container that must be read out of order is spooled to a temporary file.
    Reader(Box<dyn Read + Send + Sync>),
    /// Something that seeks and is no file, such as a recording that is encrypted at rest. None of it is ever written to disk.
    Seekable(Box<dyn ReadSeek>),
}

impl Source {
    /// The same source twice, where it can be read more than once; streams can't.
    pub fn doubled(self) -> io::Result<(Source, Option<Source>)> {
        Ok(match self {
            Source::Path(path) => {
                let again = path.is_file().then(|| Source::Path(path.clone()));
                (Source::Path(path), again)
            }
            Source::Reader(reader) => (Source::Reader(reader), None),
            Source::Seekable(source) => {
                let source = Seekable::new(source)?;
                let again = Source::Seekable(Box::new(source.reopened()));
                (Source::Seekable(Box::new(source)), Some(again))
            }
        })
    }
}

/// Something that can be read and sought in.
pub trait ReadSeek: Read + Seek + Send + Sync {}
impl<T: Read + Seek + Send + Sync> ReadSeek for T {}

/// A source whose first bytes have been read.
pub(crate) enum Input {
    File(File),
    Stream(Stream),
    Seekable(Seekable),
}

impl Input {
    /// Opens `source` and reads its first bytes, from which it can still be read again.
    pub(crate) fn open(source: Source) -> Result<(Self, Vec<u8>), MediaError> {
        let reader = match source {
            Source::Reader(reader) => reader,
            Source::Seekable(source) => {
                let mut source = Seekable::new(source)?;
                let mut head = Vec::new();
                (&mut source).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
                source.rewind()?;
                return Ok((Input::Seekable(source), head));
            }
            Source::Path(path) => {
                let mut file = File::open(&path)?;
                let metadata = file.metadata()?;
                if metadata.is_dir() {
                    return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder").into());
                }
                if metadata.is_file() {
                    let mut head = Vec::new();
                    (&mut file).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
                    file.rewind()?;
                    return Ok((Input::File(file), head));
                }
                Box::new(file)
            }
        };
        let mut stream = Stream::new(reader);
        let mut head = Vec::new();
        (&mut stream).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        stream.rewind();
        Ok((Input::Stream(stream), head))
    }

    /// Copies a stream of at most `limit` bytes to an unnamed temporary file.
    pub(crate) fn spooled(self, limit: u64, watch: &Watch) -> Result<Self, MediaError> {
        let Input::Stream(mut stream) = self else {
            return Ok(self);
        };
        let mut file = tempfile::tempfile()?;
        stream.accept();
        let mut watched = Watched { source: (&mut stream).take(limit), watch: watch.clone() };
        let copied = io::copy(&mut watched, &mut file);
        watch.check()?;
        let copied = copied?;
        if copied == limit && stream.read(&mut [0])? > 0 {
            return Err(MediaError::Limit(format!("the stream is longer than the {limit} bytes that may be spooled")));
        }
        file.flush()?;
        file.rewind()?;
        Ok(Input::File(file))
    }

    /// The same bytes from the start for one more decoder, or None when a stream has run too far to return.
    pub(crate) fn again(&self) -> io::Result<Option<Self>> {
        match self {
            Input::File(file) => {
                let mut file = file.try_clone()?;
                file.rewind()?;
                Ok(Some(Input::File(file)))
            }
            Input::Stream(stream) => Ok(stream.rewind().then(|| Input::Stream(stream.clone()))),
            Input::Seekable(source) => Ok(Some(Input::Seekable(source.reopened()))),
        }
    }

    /// The length, where it is known.
    pub(crate) fn length(&self) -> io::Result<Option<u64>> {
        match self {
            Input::File(file) => Ok(Some(file.metadata()?.len())),
            Input::Seekable(source) => Ok(Some(source.length)),
            Input::Stream(_) => Ok(None),
        }
    }

    /// The same for a child process, which reads a file or a pipe. What seeks and is no file must not come to disk: it is streamed where front to back is
    /// enough (`streams`) or can be made so (`is_mp4`), else held in memory up to `memory` bytes.
    pub(crate) fn for_child(self, streams: bool, is_mp4: bool, memory: u64) -> io::Result<Self> {
        let Input::Seekable(source) = self else { return Ok(self) };
        if is_mp4 && let Some(moved) = Faststart::new(source.reopened())? {
            return Ok(Input::Stream(Stream::new(Box::new(moved))));
        }
        if !streams && source.length <= memory {
            return in_memory(source).map(Input::File);
        }
        Ok(Input::Stream(Stream::new(Box::new(source))))
    }
}

/// A file that is in memory only.
#[cfg(target_os = "linux")]
fn in_memory(mut source: Seekable) -> io::Result<File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the name is a valid string with its end; the call keeps no pointer to it.
    let descriptor = unsafe { libc::memfd_create(c"hark-sound".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and is nobody else's.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    io::copy(&mut source, &mut file)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn in_memory(_: Seekable) -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no files in memory"))
}

/// A source that seeks, for several decoders in turn: each has a position of its own.
pub(crate) struct Seekable {
    source: Arc<Mutex<Box<dyn ReadSeek>>>,
    position: u64,
    length: u64,
}

impl Seekable {
    fn new(mut source: Box<dyn ReadSeek>) -> io::Result<Self> {
        let length = source.seek(SeekFrom::End(0))?;
        Ok(Seekable { source: Arc::new(Mutex::new(source)), position: 0, length })
    }

    fn reopened(&self) -> Self {
        Seekable { source: Arc::clone(&self.source), position: 0, length: self.length }
    }
}

impl Read for Seekable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.seek(SeekFrom::Start(self.position))?;
        let count = source.read(buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Seekable {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "seek before the start"))?;
        Ok(self.position)
    }
}

impl MediaSource for Seekable {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.length)
    }
}

/// How much of a stream is buffered for a second decoder while the first one looks at it.
const REPLAY_BYTES: usize = 8 << 20;

/// A stream that several decoders may try in turn.
#[derive(Clone)]
pub(crate) struct Stream(Arc<Mutex<Replayable>>);

struct Replayable {
    reader: Box<dyn Read + Send + Sync>,
    buffer: Cursor<Vec<u8>>,
    is_buffering: bool,
}

impl Stream {
    fn new(reader: Box<dyn Read + Send + Sync>) -> Self {
        Stream(Arc::new(Mutex::new(Replayable { reader, buffer: Cursor::default(), is_buffering: true })))
    }

    fn lock(&self) -> MutexGuard<'_, Replayable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes back to the start when everything read so far is in the buffer.
    fn rewind(&self) -> bool {
        let mut stream = self.lock();
        stream.buffer.set_position(0);
        stream.is_buffering
    }

    /// Buffers nothing more: a decoder has taken the stream.
    pub(crate) fn accept(&self) {
        self.lock().is_buffering = false;
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut guard = self.lock();
        let Replayable { reader, buffer: replay, is_buffering } = &mut *guard;
        let again = replay.read(buffer)?;
        if again > 0 {
            return Ok(again);
        }
        if !*is_buffering && !replay.get_ref().is_empty() {
            *replay = Cursor::default();
        }
        let fresh = reader.read(buffer)?;
        if *is_buffering {
            if replay.get_ref().len() + fresh > REPLAY_BYTES {
                *is_buffering = false;
                *replay = Cursor::default();
            } else {
                replay.get_mut().extend_from_slice(&buffer[..fresh]);
                let end = replay.get_ref().len() as u64;
                replay.set_position(end);
            }
        }
        Ok(fresh)
    }
}

impl Seek for Stream {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl MediaSource for Stream {
    fn is_seekable(&self) -> bool {
        false
    }

    fn byte_len(&self) -> Option<u64> {
        None
    }
}

//! A recording as a multipart form, read from its file while it is sent: memory does not grow with it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};

use bytes::Bytes;

use super::client::{RemoteError, random_name};
use crate::transcribe::{Input, noticed};

/// Bytes that are read and sent at once. Each piece costs two switches between threads: smaller ones were slower than curl
/// (docs/experiments/kept-crates.md).
const PIECE: usize = 512 << 10;
/// How much of a pipe is kept, so that it can be sent again to a server that refuses an upload at its beginning. A refusal
/// arrives before more is on its way, since a connection begins slowly.
const REPLAY_LIMIT: usize = 8 << 20;

/// The form of one transcription.
pub(crate) struct Form {
    head: io::Cursor<Vec<u8>>,
    recording: Recording,
    tail: io::Cursor<Vec<u8>>,
    boundary: String,
    /// Bytes in all, where the recording has a length.
    length: Option<u64>,
    sent: u64,
}

enum Recording {
    /// A file and its size when it was opened: a file that grows meanwhile is sent as it was.
    File(io::Take<File>, u64),
    /// A pipe or a device, which has no length of its own.
    Pipe(ReplayPipe),
}

/// A pipe that can be read again from its beginning until more than [`REPLAY_LIMIT`] bytes were read.
struct ReplayPipe {
    pipe: Box<dyn Read + Send>,
    read_so_far: Option<Vec<u8>>,
    position: usize,
}

impl Form {
    /// Opens the recording and writes the fields before it, so that a mistake in them is reported before it is sent.
    pub(crate) fn open(input: &Input, fields: &[(&'static str, String)]) -> Result<Self, RemoteError> {
        let (recording, name) = match input {
            Input::Stdin => (Recording::pipe(io::stdin()), "stdin".to_owned()),
            Input::File(path) => {
                let file = File::open(path).map_err(local)?;
                let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|data| data.len());
                let name = path.file_name().unwrap_or(OsStr::new("recording")).to_string_lossy().into_owned();
                let recording = match size {
                    Some(size) => Recording::File(file.take(size), size),
                    None => Recording::pipe(file),
                };
                (recording, name)
            }
        };
        let boundary = format!("hark-{}", random_name());
        let mut head = Vec::new();
        for (field, value) in fields {
            let part = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n");
            head.extend_from_slice(part.as_bytes());
        }
        let part = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n",
            quoted(&name)
        );
        head.extend_from_slice(part.as_bytes());
        let tail = format!("\r\n--{boundary}--\r\n").into_bytes();
        let length = match &recording {
            Recording::File(_, size) => Some(head.len() as u64 + size + tail.len() as u64),
            Recording::Pipe(_) => None,
        };
        Ok(Form { head: io::Cursor::new(head), recording, tail: io::Cursor::new(tail), boundary, length, sent: 0 })
    }

    pub(crate) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Begins again, to be sent once more; false where a pipe has gone too far for that.
    pub(crate) fn restart(&mut self) -> Result<bool, RemoteError> {
        match &mut self.recording {
            Recording::File(file, size) => {
                file.get_mut().rewind().map_err(local)?;
                file.set_limit(*size);
            }
            Recording::Pipe(pipe) if pipe.read_so_far.is_some() => pipe.position = 0,
            Recording::Pipe(_) => return Ok(false),
        }
        self.head.set_position(0);
        self.tail.set_position(0);
        self.sent = 0;
        Ok(true)
    }

    /// The next bytes to send, none at the end; `on_progress` gets the bytes so far and in all.
    pub(crate) fn next_piece(&mut self, on_progress: &mut dyn FnMut(u64, Option<u64>)) -> io::Result<Option<Bytes>> {
        if noticed().is_some() {
            return Err(io::Error::other("interrupted"));
        }
        let mut piece = vec![0; PIECE];
        let mut read = self.head.read(&mut piece)?;
        if read == 0 {
            read = self.recording.read(&mut piece)?;
        }
        if read == 0 {
            read = self.tail.read(&mut piece)?;
        }
        if read == 0 {
            return Ok(None);
        }
        self.sent += read as u64;
        on_progress(self.sent, self.length);
        piece.truncate(read);
        Ok(Some(piece.into()))
    }
}

impl Recording {
    fn pipe(pipe: impl Read + Send + 'static) -> Self {
        Recording::Pipe(ReplayPipe { pipe: Box::new(pipe), read_so_far: Some(Vec::new()), position: 0 })
    }
}

impl Read for Recording {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Recording::File(file, _) => file.read(buffer),
            Recording::Pipe(pipe) => pipe.read(buffer),
        }
    }
}

impl Read for ReplayPipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(before) = &mut self.read_so_far else { return self.pipe.read(buffer) };
        if self.position < before.len() {
            let read = (&before[self.position..]).read(buffer)?;
            self.position += read;
            return Ok(read);
        }
        let read = self.pipe.read(buffer)?;
        if before.len() + read > REPLAY_LIMIT {
            self.read_so_far = None;
        } else {
            before.extend_from_slice(&buffer[..read]);
            self.position += read;
        }
        Ok(read)
    }
}

fn local(error: io::Error) -> RemoteError {
    RemoteError::Local(error.to_string())
}

/// A file's name inside quotes, as browsers write it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(form: &mut Form) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(piece) = form.next_piece(&mut |_, _| {}).unwrap() {
            whole.extend_from_slice(&piece);
        }
        whole
    }

    #[test]
    fn a_form_is_as_long_as_it_says_and_holds_the_fields_before_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a \"b\".wav");
        std::fs::write(&path, b"sound").unwrap();
        let mut form = Form::open(&Input::File(path), &[("language", "en".to_owned())]).unwrap();
        let (length, boundary) = (form.length().unwrap(), form.boundary.clone());
        let mut progress = Vec::new();
        let mut text = Vec::new();
        while let Some(piece) = form.next_piece(&mut |sent, total| progress.push((sent, total))).unwrap() {
            text.extend_from_slice(&piece);
        }
        assert_eq!(text.len() as u64, length);
        assert_eq!(progress.last(), Some(&(length, Some(length))));
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"language\"\r\n\r\nen\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"file\"; filename=\"a %22b%22.wav\"\r\n\
             Content-Type: application/octet-stream\r\n\r\nsound\r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert!(form.restart().unwrap());
        assert_eq!(String::from_utf8(rest(&mut form)).unwrap(), expected, "a file is sent again from its beginning");
    }

    #[test]
    fn a_pipe_is_sent_again_as_long_as_its_beginning_is_kept() {
        let sound: Vec<u8> = (0..REPLAY_LIMIT + 2).map(|at| (at / 7) as u8).collect();
        let open = || {
            let mut form = Form::open(&Input::Stdin, &[]).unwrap();
            form.recording = Recording::pipe(io::Cursor::new(sound.clone()));
            form
        };
        let whole = rest(&mut open());
        let boundary_free = |form: &[u8]| form.windows(sound.len()).any(|part| part == sound);
        assert!(boundary_free(&whole));

        let mut form = open();
        for _ in 0..9 {
            form.next_piece(&mut |_, _| {}).unwrap().unwrap();
        }
        assert!(form.restart().unwrap());
        form.next_piece(&mut |_, _| {}).unwrap().unwrap();
        assert!(form.restart().unwrap());
        assert!(boundary_free(&rest(&mut form)), "what was read comes again, and then the rest");
        assert!(!form.restart().unwrap(), "it was longer than what is kept");
        assert_eq!(form.length(), None);
    }
}

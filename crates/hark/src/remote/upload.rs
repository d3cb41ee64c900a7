//! A recording as a form, read from its file while it is sent: memory does not grow with it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};

use super::client::{RemoteError, random_name};
use crate::transcribe::{Input, noticed};

/// The form of one transcription.
pub(crate) struct Form {
    head: io::Cursor<Vec<u8>>,
    recording: Box<dyn Read + Send>,
    tail: io::Cursor<Vec<u8>>,
    boundary: String,
    /// Bytes in all, where the recording has a length.
    length: Option<u64>,
    sent: u64,
}

impl Form {
    /// Opens the recording and writes the fields before it, so that a mistake in them is told before it is sent.
    pub(crate) fn open(input: &Input, fields: &[(&'static str, String)]) -> Result<Self, RemoteError> {
        let (recording, size, name): (Box<dyn Read + Send>, Option<u64>, String) = match input {
            Input::Stdin => (Box::new(io::stdin()), None, "stdin".to_owned()),
            Input::File(path) => {
                let file = File::open(path).map_err(|error| RemoteError::Here(error.to_string()))?;
                // A pipe or a device has no length of its own.
                let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|data| data.len());
                let name = path.file_name().unwrap_or(OsStr::new("recording")).to_string_lossy().into_owned();
                (Box::new(file), size, name)
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
        let length = size.map(|size| head.len() as u64 + size + tail.len() as u64);
        // A file that grows meanwhile is sent as it was when it was opened.
        let recording = match size {
            Some(size) => Box::new(recording.take(size)),
            None => recording,
        };
        Ok(Form { head: io::Cursor::new(head), recording, tail: io::Cursor::new(tail), boundary, length, sent: 0 })
    }

    pub(crate) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Whether any of it was read.
    pub(crate) fn has_begun(&self) -> bool {
        self.sent > 0
    }

    /// The form as it is sent; `told` hears bytes so far and in all.
    pub(crate) fn reader<'a>(&'a mut self, told: &'a mut dyn FnMut(u64, Option<u64>)) -> impl Read + 'a {
        Sending { form: self, told }
    }
}

struct Sending<'a> {
    form: &'a mut Form,
    told: &'a mut dyn FnMut(u64, Option<u64>),
}

impl Read for Sending<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if noticed().is_some() {
            return Err(io::Error::other("interrupted"));
        }
        let form = &mut *self.form;
        let mut read = form.head.read(buffer)?;
        if read == 0 {
            read = form.recording.read(buffer)?;
        }
        if read == 0 {
            read = form.tail.read(buffer)?;
        }
        form.sent += read as u64;
        if read > 0 {
            (self.told)(form.sent, form.length);
        }
        Ok(read)
    }
}

/// A file's name inside quotes, as browsers write it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_as_long_as_it_says_and_holds_the_fields_before_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a \"b\".wav");
        std::fs::write(&path, b"sound").unwrap();
        let mut form = Form::open(&Input::File(path), &[("language", "en".to_owned())]).unwrap();
        assert!(!form.has_begun());
        let (length, boundary) = (form.length().unwrap(), form.boundary.clone());
        let mut told = Vec::new();
        let mut text = String::new();
        form.reader(&mut |sent, total| told.push((sent, total))).read_to_string(&mut text).unwrap();
        assert_eq!(text.len() as u64, length);
        assert_eq!(told.last(), Some(&(length, Some(length))));
        assert!(form.has_begun());
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"language\"\r\n\r\nen\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"file\"; filename=\"a %22b%22.wav\"\r\n\
             Content-Type: application/octet-stream\r\n\r\nsound\r\n--{boundary}--\r\n"
        );
        assert_eq!(text, expected);
    }
}

//! A small HTTP server that answers as the hub does: ranges, ETags, redirects to a store, and faults on request.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest, Sha256};

/// One way to misbehave, for requests whose path ends in a given name.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Close the connection after so many bytes of the body, so many times.
    Cut { after: usize, times: u32 },
    /// Send so many bytes and then nothing, with the connection open, so many times.
    Stall { after: usize, times: u32 },
    /// Close the connection without an answer, so many times.
    Close { times: u32 },
    /// Answer with a status, so many times.
    Status { status: u16, times: u32, retry_after: Option<u32> },
    /// Ignore ranges.
    NoRanges,
    /// Say no length.
    NoLength,
    /// State the hash of something else.
    WrongEtag,
    /// Pause between eighths of the body.
    Slow { millis: u64 },
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub range: Option<u64>,
    pub if_range: Option<String>,
    pub token: bool,
}

#[derive(Default)]
struct State {
    files: HashMap<String, Vec<u8>>,
    faults: Vec<(String, Fault)>,
    requests: Vec<Request>,
    redirect: bool,
    store: String,
}

pub struct Server {
    port: u16,
    state: Arc<Mutex<State>>,
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn git_blob(bytes: &[u8]) -> String {
    let mut hasher = sha1::Sha1::new();
    sha1::Digest::update(&mut hasher, format!("blob {}\0", bytes.len()).as_bytes());
    sha1::Digest::update(&mut hasher, bytes);
    sha1::Digest::finalize(hasher).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An example program, which `cargo test` builds beside the tests.
pub fn example(name: &str) -> std::path::PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(std::path::Path::parent).unwrap().join("examples");
    let path = built.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "{} is missing; build it with `cargo build -p hark-models --examples`", path.display());
    path
}

impl Server {
    pub fn start(files: HashMap<String, Vec<u8>>) -> Server {
        let state = Arc::new(Mutex::new(State { files, ..State::default() }));
        let port = listen(&state);
        // The store that large files are redirected to is another host to the client.
        let store = listen(&state);
        state.lock().unwrap().store = format!("http://localhost:{store}");
        Server { port, state }
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn fault(&self, name: &str, fault: Fault) {
        self.state.lock().unwrap().faults.push((name.to_owned(), fault));
    }

    pub fn redirect(&self) {
        self.state.lock().unwrap().redirect = true;
    }

    pub fn requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().requests.clone()
    }
}

fn listen(state: &Arc<Mutex<State>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&state);
            // A client that goes away is what many of these tests are about.
            std::thread::spawn(move || answer(stream, &state).ok());
        }
    });
    port
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let path = lines.next().unwrap_or(Ok(String::new()))?.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = HashMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let range = headers.get("range").and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<u64>().ok());
    let request = Request {
        path: path.clone(),
        range,
        if_range: headers.get("if-range").cloned(),
        token: headers.contains_key("authorization"),
    };
    let (file, faults, redirect, store) = {
        let mut state = state.lock().unwrap();
        state.requests.push(request.clone());
        let key = path.strip_prefix("/cdn").or(path.strip_prefix("/api/resolve-cache")).unwrap_or(&path).to_owned();
        let faults = take_faults(&mut state.faults, &path);
        (state.files.get(&key).cloned(), faults, state.redirect && !path.starts_with("/cdn"), state.store.clone())
    };
    for fault in &faults {
        match fault {
            Fault::Close { .. } => return Ok(()),
            Fault::Status { status, retry_after, .. } => {
                let wait = retry_after.map_or(String::new(), |seconds| format!("Retry-After: {seconds}\r\n"));
                return write!(
                    stream,
                    "HTTP/1.1 {status} Trouble\r\n{wait}Content-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
            _ => {}
        }
    }
    let Some(file) = file else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let large = file.len() > 10_000;
    let has = |wanted: fn(&Fault) -> bool| faults.iter().any(wanted);
    let stated = if has(|f| matches!(f, Fault::WrongEtag)) { b"else".to_vec() } else { file.clone() };
    if redirect && large {
        let linked = sha256(&stated);
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {store}/cdn{path}\r\nX-Linked-ETag: \"{linked}\"\r\nX-Linked-Size: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            file.len()
        );
    }
    if redirect && !path.starts_with("/api/") {
        return write!(
            stream,
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: /api/resolve-cache{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let etag = if large { sha256(&stated) } else { git_blob(&stated) };
    let unchanged = request.if_range.as_ref().is_none_or(|known| *known == format!("\"{etag}\""));
    let start = range.filter(|_| unchanged && !has(|f| matches!(f, Fault::NoRanges))).unwrap_or(0) as usize;
    let body = &file[start.min(file.len())..];
    let head = if start > 0 {
        format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{}", file.len() - 1, file.len())
    } else {
        "200 OK".to_owned()
    };
    let length = if has(|f| matches!(f, Fault::NoLength)) {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    // Package indexes are pages, and pip reads no other kind.
    let kind = if path.ends_with('/') { "text/html" } else { "application/octet-stream" };
    write!(stream, "HTTP/1.1 {head}\r\nContent-Type: {kind}\r\nETag: \"{etag}\"\r\n{length}Connection: close\r\n\r\n")?;
    send(&mut stream, body, &faults)
}

fn send(stream: &mut TcpStream, body: &[u8], faults: &[Fault]) -> std::io::Result<()> {
    for fault in faults {
        match fault {
            Fault::Cut { after, .. } => return stream.write_all(&body[..body.len().min(*after)]),
            Fault::Stall { after, .. } => {
                stream.write_all(&body[..body.len().min(*after)])?;
                std::thread::sleep(Duration::from_secs(30));
                return Ok(());
            }
            Fault::Slow { millis } => {
                for part in body.chunks(body.len().div_ceil(8).max(1)) {
                    stream.write_all(part)?;
                    std::thread::sleep(Duration::from_millis(*millis));
                }
                return Ok(());
            }
            _ => {}
        }
    }
    stream.write_all(body)
}

/// The faults that hold for this request: every lasting one, and of those with a count the first that is not used up.
fn take_faults(faults: &mut [(String, Fault)], path: &str) -> Vec<Fault> {
    let mut taken = Vec::new();
    let mut counted = false;
    for (_, fault) in faults.iter_mut().filter(|(name, _)| path.ends_with(name.as_str())) {
        let before = fault.clone();
        match fault {
            Fault::Cut { times, .. }
            | Fault::Stall { times, .. }
            | Fault::Close { times }
            | Fault::Status { times, .. } => {
                if *times == 0 || counted {
                    continue;
                }
                *times -= 1;
                counted = true;
            }
            _ => {}
        }
        taken.push(before);
    }
    taken
}

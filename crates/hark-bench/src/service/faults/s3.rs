//! A bucket for recordings: an S3 server (moto) as a child process, and a proxy before it that can refuse connections.
//!
//! The server keeps its objects in memory, so it is never killed: a bucket that is gone is one whose proxy does not listen, or whose server stands still.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::service::client::Connection;
use crate::service::failed;

/// The bucket.
const BUCKET: &str = "hark-bench";
/// Where the store finds it, as S3's own tools are told.
const ENDPOINT: &str = "AWS_ENDPOINT";
/// What the server may take to start on a busy machine.
const START: Duration = Duration::from_secs(60);

/// The running server.
pub(in crate::service) struct S3 {
    child: Child,
    server: SocketAddr,
    is_listening: watch::Sender<bool>,
}

/// The program, where it is installed: by `tests/s3/install`, or on the path.
pub(super) fn program() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let own = cache.join("hark/tools/s3/bin/moto_server");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::iter::once(own).chain(std::env::split_paths(&path).map(|folder| folder.join("moto_server")));
    found.find(|path| path.is_file())
}

/// What the bench and the service need in their environment to use a bucket, at an address that is free now.
pub(super) fn environment() -> Result<Vec<(&'static str, String)>, BenchError> {
    let address = free_address()?;
    Ok(vec![
        (ENDPOINT, format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", "bench".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "bench".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ])
}

fn free_address() -> Result<SocketAddr, BenchError> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    listener.local_addr().map_err(failed)
}

impl S3 {
    /// Starts a server with an empty bucket, reached at the address in the environment.
    pub(super) async fn start() -> Result<Self, BenchError> {
        let endpoint = std::env::var(ENDPOINT).map_err(|_| failed("no address for a bucket"))?;
        let address = endpoint.trim_start_matches("http://").parse().map_err(failed)?;
        let program = program().ok_or_else(|| failed("moto_server is not installed: run tests/s3/install"))?;
        let server = free_address()?;
        let child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &server.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| BenchError::Start { system: "moto_server".to_owned(), source })?;
        let (is_listening, listening) = watch::channel(true);
        let s3 = S3 { child, server, is_listening };
        let started = Instant::now();
        while let Err(error) = s3.ask("PUT", &format!("/{BUCKET}")).await {
            if started.elapsed() > START {
                return Err(failed(format!("moto_server does not answer: {error}")));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::spawn(forward(address, server, listening));
        Ok(s3)
    }

    /// Where a store keeps its recordings in the bucket.
    pub(super) fn place(prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// Connections are refused, and those that are open break.
    pub(super) fn refuse(&self) {
        let _ = self.is_listening.send(false);
    }

    /// Connections are taken again.
    pub(super) fn accept(&self) {
        let _ = self.is_listening.send(true);
    }

    /// The server stands still: connections are taken, and nothing is answered.
    pub(super) fn freeze(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// The server goes on.
    pub(super) fn thaw(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) {
        if let Ok(process) = i32::try_from(self.child.id()) {
            // SAFETY: the call touches no memory; the process is our child, which has not been waited for, so the id is its.
            unsafe { libc::kill(process, signal) };
        }
    }

    /// The names of all objects behind `prefix/`.
    pub(in crate::service) async fn names(&self, prefix: &str) -> Result<BTreeSet<String>, BenchError> {
        let (mut names, mut after) = (BTreeSet::new(), String::new());
        loop {
            let page = self.ask("GET", &format!("/{BUCKET}?list-type=2&prefix={prefix}/&start-after={after}")).await;
            let page = page.map_err(failed)?;
            let found: Vec<&str> = values(&page, "Key").collect();
            names.extend(found.iter().map(|name| name.trim_start_matches(prefix).trim_start_matches('/').to_owned()));
            match found.last() {
                Some(last) if values(&page, "IsTruncated").next() == Some("true") => after = (*last).to_owned(),
                _ => return Ok(names),
            }
        }
    }

    /// Asks the server itself, not through the proxy.
    async fn ask(&self, method: &str, path: &str) -> std::io::Result<String> {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n", self.server);
        let answer = Connection::open(self.server).await?.ask(head.as_bytes()).await?;
        match answer.status {
            200 => Ok(String::from_utf8_lossy(&answer.body).into_owned()),
            status => Err(std::io::Error::other(format!("{method} {path}: {status}"))),
        }
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // The proxy ends with the sender of its switch.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What stands between each pair of these tags.
fn values<'a>(xml: &'a str, tag: &'a str) -> impl Iterator<Item = &'a str> {
    let end = format!("</{tag}>");
    xml.split(&format!("<{tag}>"))
        .skip(1)
        .filter_map(move |rest| rest.split_once(&end).map(|(value, _)| value))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Passes connections on while it is told to listen; otherwise they are refused.
async fn forward(address: SocketAddr, server: SocketAddr, mut listening: watch::Receiver<bool>) {
    loop {
        if listening.wait_for(|listening| *listening).await.is_err() {
            return;
        }
        let Ok(listener) = TcpListener::bind(address).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                changed = listening.wait_for(|listening| !listening) => match changed {
                    // Dropped with the listener: open connections break.
                    Ok(_) => break,
                    Err(_) => return,
                },
                Ok((mut client, _)) = listener.accept() => {
                    connections.spawn(async move {
                        if let Ok(mut upstream) = TcpStream::connect(server).await {
                            let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
                        }
                    });
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_read_from_a_list() {
        let xml = "<R><IsTruncated>false</IsTruncated><Contents><Key>a/1</Key></Contents><Contents><Key>a/2</Key></Contents></R>";
        assert_eq!(super::values(xml, "Key").collect::<Vec<_>>(), ["a/1", "a/2"]);
        assert_eq!(super::values(xml, "IsTruncated").next(), Some("false"));
    }
}

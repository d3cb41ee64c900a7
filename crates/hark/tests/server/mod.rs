//! `hark serve` as tests start it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::hark;

/// A server of its own on the folder's data; ends with the test.
pub struct Server {
    pub child: Child,
    pub url: String,
    /// The key of the account that a first start makes; later ones make none.
    pub key: String,
}

impl Server {
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        Server::start_with(folder, arguments, &[])
    }

    /// Starts a server with environment variables of its own.
    pub fn start_with(folder: &Path, arguments: &[&str], variables: &[(&str, &Path)]) -> Self {
        let mut command = hark(folder);
        command.arg("serve").args(arguments).envs(variables.iter().copied());
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut key = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line.trim().starts_with("svc_") {
                key = line.trim().to_owned();
            }
            if let Some(url) = line.strip_prefix("hark listens on ") {
                return Server { child, url: url.to_owned(), key };
            }
        }
        panic!("the server ended before it listened: {:?}", child.wait());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

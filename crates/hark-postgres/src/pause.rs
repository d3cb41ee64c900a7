//! A server that stands still: its connections stay open and nobody answers, as when its machine hangs.

use std::path::Path;

use crate::Server;

impl Server {
    /// Stops every process of the server where it is.
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// Lets every process go on.
    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        for process in processes(&self.cluster.folder.join("data")) {
            // SAFETY: a signal to a process of ours, found a moment ago; at worst it is gone.
            unsafe { libc::kill(process, signal) };
        }
    }
}

/// The server over this folder of data, by its command line, and all of its children.
fn processes(data: &Path) -> Vec<libc::pid_t> {
    let numbers = || {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok()))
    };
    let data = data.as_os_str().as_encoded_bytes();
    let is_server = |process: &libc::pid_t| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let mut arguments = line.split(|byte| *byte == 0);
        arguments.next().is_some_and(|program| program.ends_with(b"/postgres")) && arguments.any(|one| one == data)
    };
    let mut found: Vec<libc::pid_t> = numbers().filter(is_server).collect();
    // Children rename themselves: they are found by their parent.
    let servers = found.clone();
    found.extend(numbers().filter(|process| parent(*process).is_some_and(|parent| servers.contains(&parent))));
    found
}

fn parent(process: libc::pid_t) -> Option<libc::pid_t> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it stands in parentheses and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

//! A program in ffmpeg's place that tries to get out. Its standard input says what to try with (`name=value` lines after a binary
//! head); its output is a WAV stream with one sample for each attempt: 0.75 where it succeeded, 0.25 where it was refused.

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    pub(super) fn main() {
        let mut input = Vec::new();
        std::io::stdin().read_to_end(&mut input).unwrap_or_default();
        let text = String::from_utf8_lossy(&input);
        let orders: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
        let order = |name: &str| orders.get(name).copied().unwrap_or_default();
        eprintln!("Error: {} could not be decoded", order("secret"));
        match order("mode") {
            "hang" => std::thread::sleep(std::time::Duration::from_secs(600)),
            "spin" => loop {
                std::hint::spin_loop();
            },
            "fail" => std::process::exit(1),
            _ => {}
        }
        // SAFETY: a plain system call that can't fail.
        let parent = unsafe { libc::getppid() };
        let attempts = [
            std::fs::read(order("database")).is_ok(),
            std::fs::read_dir(order("folder")).is_ok(),
            std::fs::read("/etc/passwd").is_ok(),
            std::fs::read(format!("/proc/{parent}/environ")).is_ok(),
            File::open(format!("/proc/{parent}/mem")).is_ok(),
            std::fs::write(format!("{}/written", order("folder")), "").is_ok(),
            std::fs::create_dir(format!("{}/made", order("folder"))).is_ok(),
            std::env::var_os("PATH").is_some(),
            (3..256).any(is_open),
            TcpStream::connect(order("address")).is_ok(),
            UdpSocket::bind("127.0.0.1:0").is_ok(),
            UnixStream::connect(order("socket")).is_ok(),
            // SAFETY: signal 0 only asks whether a signal could be sent.
            unsafe { libc::kill(parent, 0) == 0 },
            // SAFETY: seizing does not stop the parent, and ends with this program.
            unsafe { libc::ptrace(libc::PTRACE_SEIZE, parent, 0, 0) == 0 },
            reads_memory(parent, order("memory").parse().unwrap_or(0)),
            raises_limit(parent),
            makes_process(),
        ];
        let mut wav = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x03\0\x01\0".to_vec();
        wav.extend(16_000u32.to_le_bytes());
        wav.extend(64_000u32.to_le_bytes());
        wav.extend(b"\x04\0\x20\0data\xff\xff\xff\xff");
        wav.extend(attempts.iter().flat_map(|&done| (if done { 0.75f32 } else { 0.25 }).to_le_bytes()));
        std::io::stdout().write_all(&wav).unwrap_or_default();
    }

    fn is_open(descriptor: libc::c_int) -> bool {
        // SAFETY: asking for the flags of a descriptor changes nothing.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
    }

    fn reads_memory(process: libc::pid_t, address: usize) -> bool {
        let mut byte = 0u8;
        let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 1 };
        // SAFETY: the local buffer has the one byte that is asked for; the remote address is another process's.
        unsafe { libc::process_vm_readv(process, &local, 1, &remote, 1, 0) == 1 }
    }

    fn raises_limit(process: libc::pid_t) -> bool {
        // SAFETY: without a new and an old value the call only checks whether it may.
        unsafe { libc::prlimit(process, libc::RLIMIT_CPU, std::ptr::null(), std::ptr::null_mut()) == 0 }
    }

    fn makes_process() -> bool {
        // SAFETY: the child ends at once, and is waited for.
        unsafe {
            match libc::fork() {
                -1 => false,
                0 => libc::_exit(0),
                child => libc::waitpid(child, std::ptr::null_mut(), 0) == child,
            }
        }
    }
}

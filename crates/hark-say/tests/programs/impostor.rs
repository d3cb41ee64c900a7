//! A program in espeak-ng's place that tries to get out. Its answer has a sound for each attempt: `i` where it succeeded, `u` where it was refused. When the text
//! has the word "hang" it does not answer.

use std::io::Read as _;
use std::net::UdpSocket;
use std::os::unix::process::parent_id;
use std::process::Command;

/// What its environment may have.
const VARIABLES: [&str; 3] = ["LC_ALL", "LD_LIBRARY_PATH", "ESPEAK_DATA_PATH"];

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap_or_default();
    if text.contains("hang") {
        std::thread::sleep(std::time::Duration::from_secs(600));
    }
    let written = std::env::temp_dir().join(format!("hark-say-impostor-{}", std::process::id()));
    let attempts = [
        std::env::vars_os().any(|(name, _)| !VARIABLES.iter().any(|known| name == *known)),
        std::fs::read("/etc/passwd").is_ok(),
        std::fs::read_dir("/").is_ok(),
        std::fs::write(&written, "").is_ok(),
        std::fs::read(format!("/proc/{}/environ", parent_id())).is_ok(),
        Command::new("/bin/true").status().is_ok(),
        UdpSocket::bind("127.0.0.1:0").is_ok(),
        Vec::<u8>::new().try_reserve_exact(2 << 30).is_ok(),
    ];
    let _ = std::fs::remove_file(written);
    let sounds = attempts.map(|done| if done { "i" } else { "u" });
    #[expect(clippy::print_stdout, reason = "its answer, as espeak-ng gives it")]
    {
        println!("{}", sounds.join(" "));
    }
}

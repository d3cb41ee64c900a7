//! A synthetic voice.

use std::path::Path;
use std::process::Command;

/// The first sentence of this voice lies between texts for whisper-base ("The weather is ice today", "But wherever is ice
/// tonight"): rounding settles which, so no test stands on it.
pub const SENTENCE: &str = "The weather is nice today. We are going to the market to buy some apples and bread.";

/// Says a text into a WAV file.
pub fn speak(text: &str, path: &Path) {
    let spoken = Command::new("espeak-ng").args(["-s", "140", "-w"]).arg(path).arg(text).status();
    assert!(spoken.expect("espeak-ng is not there: `./hark test` installs what tests need").success());
}

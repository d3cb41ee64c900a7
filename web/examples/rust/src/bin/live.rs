// Words while they are spoken. cargo add serde_json; cargo add tungstenite -F rustls-tls-webpki-roots
use serde_json::{Value, json};
use std::io::Read;
use std::process::{Command, Stdio};
use std::{env, error::Error};
use tungstenite::{Message, connect};

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);
    let recording = env::args().nth(1).ok_or("which file?")?;

    let (mut socket, _) = connect(format!("{}/v1/stream", url.replacen("http", "ws", 1)))?;
    socket.send(Message::text(json!({"token": key, "language": "en"}).to_string()))?;

    // A file, as fast as it comes. A program that listens to a microphone sends and reads on two threads.
    let mut ffmpeg = Command::new("ffmpeg")
        .args(["-v", "error", "-i", &recording, "-f", "s16le", "-ar", "16000", "-ac", "1", "-"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut sound = Vec::new();
    ffmpeg.stdout.take().ok_or("no sound")?.read_to_end(&mut sound)?;
    for piece in sound.chunks(3200) {
        socket.send(Message::binary(piece.to_vec()))?;
    }
    socket.send(Message::text(json!({"action": "stop"}).to_string()))?;

    loop {
        let Message::Text(message) = socket.read()? else { continue };
        let said: Value = serde_json::from_str(message.as_str())?;
        if let Some(error) = said["error"].as_str() {
            return Err(error.into());
        }
        if said["is_final"] == true {
            return Ok(());
        }
        if let Some(text) = said["text"].as_str() {
            println!("{text}");
        }
    }
}

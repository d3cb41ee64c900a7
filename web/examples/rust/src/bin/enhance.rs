// The recording without its noise. cargo add ureq -F multipart
use std::{env, error::Error, fs::File, io};
use ureq::unversioned::multipart::Form;

fn main() -> Result<(), Box<dyn Error>> {
    let (url, key) = (env::var("HARK_URL")?, env::var("HARK_KEY")?);
    let recording = env::args().nth(1).ok_or("which file?")?;

    let answer = ureq::post(format!("{url}/v1/enhance-audio"))
        .header("Authorization", format!("Bearer {key}"))
        // Also: audio/flac, audio/mpeg, audio/ogg
        .header("Accept", "audio/wav")
        .send(Form::new().file("file", &recording)?)?;
    io::copy(&mut answer.into_body().into_reader(), &mut File::create("clean.wav")?)?;
    Ok(())
}

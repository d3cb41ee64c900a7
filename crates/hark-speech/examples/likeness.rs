//! How alike voices are: `likeness MODELS FILE…` prints the cosines between clips of one person and between clips of two.
//! The name of a file up to its first `-` says who speaks.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::path::PathBuf;

use hark_media::{Options, Source};
use hark_speech::{Compute, Voiceprint, Voices};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let models = arguments.next().ok_or("usage: likeness MODELS FILE…")?;
    let voices = Voices::load(
        &models.join("pyannote-segmentation-3"),
        &models.join("campplus-zh-en"),
        &Compute::from_options(None, None),
    )?;
    let mut prints: Vec<(String, Voiceprint)> = Vec::new();
    for path in arguments {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match voices.print(Source::Path(path), &Options::default()) {
            Ok(print) => prints.push((name.split('-').next().unwrap_or_default().to_owned(), print)),
            Err(error) => println!("{name}: {error}"),
        }
    }
    let (mut same, mut other) = (Vec::new(), Vec::new());
    for (place, (who, print)) in prints.iter().enumerate() {
        for (whose, beside) in &prints[place + 1..] {
            if who == whose { &mut same } else { &mut other }.push(print.likeness(beside));
        }
    }
    for (title, mut cosines) in [("one person", same), ("two people", other)] {
        cosines.sort_by(f32::total_cmp);
        let Some(last) = cosines.len().checked_sub(1) else { continue };
        let at = |share: f64| cosines[(share * last as f64).round() as usize];
        let shares = [0.0, 0.01, 0.05, 0.5, 0.95, 0.99, 1.0].map(|share| format!("{:.2}", at(share)));
        println!("{title}: {} pairs, least, 1 %, 5 %, median, 95 %, 99 %, most: {}", last + 1, shares.join(" "));
    }
    Ok(())
}

//! Systems that do the same work in turns, and how fast they are.

use std::process::Command;

use serde::Serialize;

use crate::audio::Scratch;
use crate::error::BenchError;
use crate::process::Process;
use crate::spread::Spread;

/// A system that takes part.
pub(super) struct Contestant {
    pub(super) name: &'static str,
    pub(super) process: Process,
    /// Times real time, a figure for each round.
    speeds: Vec<f64>,
    cpu: Vec<f64>,
    sound: f64,
}

/// What a system did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    /// Seconds of sound.
    pub(super) sound: f64,
    /// Seconds that it took.
    pub(super) took: f64,
}

/// How fast a system is.
#[derive(Debug, Serialize)]
pub(super) struct Speed {
    pub(super) name: String,
    pub(super) version: String,
    /// Times real time, a figure for each round.
    pub(super) speed: Spread,
    /// Processor seconds of a round.
    pub(super) cpu_seconds: Option<Spread>,
    /// Seconds of sound in a round.
    pub(super) sound: f64,
    pub(super) load_seconds: f64,
    pub(super) peak_memory_bytes: Option<u64>,
}

impl Contestant {
    pub(super) fn start(name: &'static str, command: Command, scratch: &Scratch) -> Result<Self, BenchError> {
        let process = Process::start(name, command, scratch.file(&format!("{name}.log")))?;
        Ok(Contestant { name, process, speeds: Vec::new(), cpu: Vec::new(), sound: 0.0 })
    }

    /// Its speed over another's, round by round.
    pub(super) fn ratio_to(&self, other: &Contestant) -> Option<Spread> {
        Spread::of(self.speeds.iter().zip(&other.speeds).map(|(own, other)| own / other).collect())
    }

    pub(super) fn speed(self) -> Result<Speed, BenchError> {
        Ok(Speed {
            name: self.name.to_owned(),
            version: self.process.version.clone(),
            speed: Spread::of(self.speeds).ok_or(BenchError::NoRounds)?,
            cpu_seconds: Spread::of(self.cpu),
            sound: self.sound,
            load_seconds: self.process.load_seconds,
            peak_memory_bytes: self.process.peak_memory(),
        })
    }
}

/// Has everybody do the same work in each round; another one begins each round.
pub(super) fn take_turns(
    contestants: &mut [Contestant],
    rounds: usize,
    mut work: impl FnMut(&mut Contestant) -> Result<Done, BenchError>,
) -> Result<(), BenchError> {
    let count = contestants.len();
    for round in 0..rounds {
        for turn in 0..count {
            let one = &mut contestants[(round + turn) % count];
            let before = one.process.cpu_seconds();
            let Done { sound, took } = work(one)?;
            one.sound = sound;
            one.speeds.push(sound / took);
            if let (Some(before), Some(after)) = (before, one.process.cpu_seconds()) {
                one.cpu.push(after - before);
            }
            eprintln!("round {} of {rounds}: {} {:.2} × real time", round + 1, one.name, sound / took);
        }
    }
    Ok(())
}

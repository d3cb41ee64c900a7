//! Bars on stderr while files are worked on: how far, how fast, how long still. Nothing unless stderr is a terminal.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::remote::Stage;

/// The bars of one run.
pub(crate) struct Screen {
    bars: MultiProgress,
    overall: Option<Overall>,
    visible: bool,
}

struct Overall {
    bar: ProgressBar,
    begun: Instant,
    /// Seconds of audio done over all files.
    audio: Mutex<f64>,
}

impl Screen {
    pub(crate) fn new(files: usize, quiet: bool) -> Self {
        let visible = !quiet && std::io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        let overall = (files > 1).then(|| {
            let bar = bars.add(ProgressBar::new(files as u64));
            bar.set_style(style("{prefix:24!} {bar:24} {pos:>3}/{len} files  {msg}"));
            bar.set_prefix("all");
            Overall { bar, begun: Instant::now(), audio: Mutex::new(0.0) }
        });
        Self { bars, overall, visible }
    }

    /// A bar for one file, above the overall one.
    pub(crate) fn begin(&self, name: &str) -> FileProgress<'_> {
        let bar = match &self.overall {
            Some(overall) => self.bars.insert_before(&overall.bar, ProgressBar::new(100)),
            None => self.bars.add(ProgressBar::new(100)),
        };
        bar.set_style(style("{prefix:24!} {spinner} {msg}"));
        bar.set_prefix(ending_of(name, 24));
        if self.visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        FileProgress { screen: self, bar, begun: Instant::now(), audio_done: 0.0, has_total: false }
    }

    /// Writes lines to stderr or stdout without tearing the bars.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bars.suspend(write)
    }

    /// Takes all bars off the screen.
    pub(crate) fn clear(&self) {
        let _ = self.bars.clear();
    }
}

/// The bar of one file; gone when dropped.
pub(crate) struct FileProgress<'a> {
    screen: &'a Screen,
    bar: ProgressBar,
    begun: Instant,
    audio_done: f64,
    has_total: bool,
}

impl FileProgress<'_> {
    /// Seconds of audio finished, of how many where that is known.
    pub(crate) fn update(&mut self, audio_done: f64, audio_total: Option<f64>) {
        if let Some(overall) = &self.screen.overall {
            let mut audio = overall.audio.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *audio += (audio_done - self.audio_done).max(0.0);
            overall.bar.set_message(format!("{} ×", speed(*audio, overall.begun.elapsed())));
        }
        self.audio_done = audio_done.max(self.audio_done);
        let elapsed = self.begun.elapsed();
        let speed = speed(self.audio_done, elapsed);
        match audio_total.filter(|total| *total > 0.0) {
            Some(total) => {
                if !self.has_total {
                    self.has_total = true;
                    self.bar.set_style(style("{prefix:24!} {bar:24} {percent:>3} %  {msg}"));
                }
                self.bar.set_position((100.0 * self.audio_done / total).min(100.0) as u64);
                let left = elapsed.as_secs_f64() * (total - self.audio_done).max(0.0) / self.audio_done.max(1e-9);
                let left = if self.audio_done > 0.0 { format!("  {} left", clock(left)) } else { String::new() };
                self.bar.set_message(format!("{} / {}  {speed} ×{left}", clock(self.audio_done), clock(total)));
            }
            None => self.bar.set_message(format!("{}  {speed} ×", clock(self.audio_done))),
        }
    }
}

impl FileProgress<'_> {
    /// How far a recording is that a server works on.
    pub(crate) fn far_away(&mut self, stage: Stage) {
        let (share, message) = match stage {
            Stage::Sending(sent, Some(total)) if sent >= total => (None, "sent, waiting for the server".to_owned()),
            Stage::Sending(sent, total) => {
                let message = format!("{} sent", indicatif::HumanBytes(sent));
                (total.map(|total| 100 * sent / total.max(1)), message)
            }
            Stage::Queued(Some(position)) => (None, format!("place {position} in the queue")),
            Stage::Queued(None) => (None, "the server is busy, waiting".to_owned()),
            Stage::Working(percent) => (Some(u64::from(percent)), "the server works on it".to_owned()),
        };
        if share.is_some() != self.has_total {
            self.has_total = share.is_some();
            let template = match share {
                Some(_) => "{prefix:24!} {bar:24} {percent:>3} %  {msg}",
                None => "{prefix:24!} {spinner} {msg}",
            };
            self.bar.set_style(style(template));
        }
        self.bar.set_position(share.unwrap_or(0));
        self.bar.set_message(message);
    }
}

impl Drop for FileProgress<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.screen.bars.remove(&self.bar);
        if let Some(overall) = &self.screen.overall {
            overall.bar.inc(1);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are the only ones: a wrong one shows in the first run.
    ProgressStyle::with_template(template).expect("a template of ours").progress_chars("━╸─")
}

/// The end of a long name tells more than its beginning.
fn ending_of(name: &str, columns: usize) -> String {
    let length = name.chars().count();
    if length <= columns {
        return name.to_owned();
    }
    format!("…{}", name.chars().skip(length + 1 - columns).collect::<String>())
}

/// How many times faster than real time: one decimal below ten.
pub(crate) fn speed(audio_seconds: f64, elapsed: Duration) -> String {
    let times = audio_seconds / elapsed.as_secs_f64().max(1e-3);
    if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") }
}

/// `4:05`, `1:04:05`.
pub(crate) fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_show_hours_only_where_there_are_some() {
        assert_eq!(clock(0.4), "0:00");
        assert_eq!(clock(245.0), "4:05");
        assert_eq!(clock(3845.0), "1:04:05");
    }

    #[test]
    fn speed_has_a_decimal_only_where_it_matters() {
        assert_eq!(speed(5.0, Duration::from_secs(2)), "2.5");
        assert_eq!(speed(200.0, Duration::from_secs(2)), "100");
        assert_eq!(speed(0.0, Duration::ZERO), "0.0");
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(ending_of("short.mp3", 12), "short.mp3");
        assert_eq!(ending_of("a/very/long/path/talk.mp3", 12), "…th/talk.mp3");
    }

    #[test]
    fn bars_that_nobody_sees_still_count_their_audio() {
        let screen = Screen::new(2, true);
        let mut bar = screen.begin("a.mp3");
        bar.update(10.0, Some(20.0));
        bar.update(15.0, Some(20.0));
        drop(bar);
        let overall = screen.overall.as_ref().unwrap();
        assert_eq!(*overall.audio.lock().unwrap(), 15.0);
        assert_eq!(overall.bar.position(), 1);
    }
}

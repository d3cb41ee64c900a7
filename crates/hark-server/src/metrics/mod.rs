//! Counters and timings in the Prometheus text format.

pub(crate) mod integrity;
mod process;
pub(crate) mod readiness;
pub(crate) mod text;
mod voice;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::{EngineReport, EngineState, EngineStats, GpuReading};
use integrity::IntegrityMetrics;
pub(crate) use process::resident_bytes;
use readiness::ReadinessMetrics;
use text::TextMetrics;
use voice::VoiceMetrics;

/// Upper bounds of the histogram buckets, in seconds: from a cached response to a long transcription.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// The metrics of the service.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(String, &'static str, u16), Timings>>,
    /// Requests in progress.
    pub(crate) in_flight: AtomicI64,
    /// Open connections.
    pub(crate) connections: AtomicI64,
    /// Rejected connections.
    pub(crate) connections_refused: AtomicU64,
    /// Live sessions, with a connection or waiting for one.
    pub(crate) streams: AtomicI64,
    /// Media probes in progress.
    pub(crate) probes_running: AtomicI64,
    /// Recordings received.
    pub(crate) uploads: AtomicU64,
    /// Bytes of recordings received.
    pub(crate) upload_bytes: AtomicU64,
    /// Recordings that were transcribed.
    pub(crate) jobs_completed: AtomicU64,
    /// Recordings whose transcription failed.
    pub(crate) jobs_failed: AtomicU64,
    /// Attempts after which a job is retried.
    pub(crate) jobs_retried: AtomicU64,
    /// Jobs that failed and can be retried, when last counted.
    pub(crate) jobs_dead: AtomicI64,
    /// Queued jobs that need capabilities this process lacks, when last counted.
    pub(crate) jobs_unclaimable: AtomicI64,
    /// 1 while this process claims no jobs.
    pub(crate) claiming_paused: AtomicI64,
    /// Jobs released to the queue.
    pub(crate) jobs_given_back: AtomicU64,
    /// Running jobs.
    pub(crate) jobs_running: AtomicI64,
    /// Milliseconds of audio transcribed.
    pub(crate) audio_milliseconds: AtomicU64,
    /// Milliseconds that jobs ran.
    pub(crate) work_milliseconds: AtomicU64,
    /// Unknown files removed after their quarantine.
    pub(crate) recordings_purged: AtomicU64,
    /// What integrity checks found.
    pub(crate) integrity: IntegrityMetrics,
    /// Results of the last readiness checks.
    pub(crate) readiness: ReadinessMetrics,
    /// Work on text.
    pub(crate) text: TextMetrics,
    /// Speech synthesis.
    pub(crate) voice: VoiceMetrics,
}

#[derive(Default)]
struct Timings {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Timings {
    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.count += 1;
        self.seconds += seconds;
        if let Some(bucket) = BUCKETS.iter().position(|&end| seconds <= end) {
            self.buckets[bucket] += 1;
        }
    }
}

impl Metrics {
    /// Counts an answered request.
    pub(crate) fn answered(&self, route: &str, method: &'static str, status: u16, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        requests.entry((route.to_owned(), method, status)).or_default().add(took);
    }

    /// All metrics in the text format; `queue_length` comes from the store.
    pub(crate) fn render(&self, queue_length: Option<u64>) -> String {
        let mut text = String::new();
        let single = |text: &mut String, name: &str, kind: &str, help: &str, value: String| {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        };
        let counters = [
            ("hark_uploads_total", "Recordings received.", &self.uploads),
            ("hark_upload_bytes_total", "Bytes of recordings received.", &self.upload_bytes),
            ("hark_connections_refused_total", "Connections that were one too many.", &self.connections_refused),
            ("hark_jobs_completed_total", "Recordings transcribed.", &self.jobs_completed),
            ("hark_jobs_failed_total", "Recordings that could not be transcribed.", &self.jobs_failed),
            ("hark_jobs_retried_total", "Attempts after which a job waits again.", &self.jobs_retried),
            ("hark_jobs_given_back_total", "Recordings given back to the queue.", &self.jobs_given_back),
            ("hark_recordings_purged_total", "Unknown files removed after their quarantine.", &self.recordings_purged),
        ];
        for (name, help, value) in counters {
            single(&mut text, name, "counter", help, value.load(Ordering::Relaxed).to_string());
        }
        let audio = self.audio_milliseconds.load(Ordering::Relaxed) as f64 / 1000.0;
        single(&mut text, "hark_audio_seconds_total", "counter", "Seconds of audio transcribed.", audio.to_string());
        let work = self.work_milliseconds.load(Ordering::Relaxed) as f64 / 1000.0;
        let help = "Seconds that recordings were worked on, from their claim to their end.";
        single(&mut text, "hark_job_seconds_total", "counter", help, work.to_string());
        for (name, kind, help, value) in process::values() {
            single(&mut text, name, kind, help, value.to_string());
        }
        let gauges = [
            ("hark_requests_in_flight", "Requests under way.", &self.in_flight),
            ("hark_connections", "Connections open.", &self.connections),
            ("hark_streams", "Live sessions.", &self.streams),
            ("hark_jobs_running", "Recordings being worked on here.", &self.jobs_running),
            ("hark_probes_running", "Uploads whose length is being looked up.", &self.probes_running),
            ("hark_jobs_dead", "Jobs that failed and can be retried.", &self.jobs_dead),
            ("hark_jobs_unclaimable", "Jobs that wait for what this process does not have.", &self.jobs_unclaimable),
            ("hark_claiming_paused", "1 while this process claims no jobs.", &self.claiming_paused),
        ];
        for (name, help, value) in gauges {
            single(&mut text, name, "gauge", help, value.load(Ordering::Relaxed).to_string());
        }
        if let Some(length) = queue_length {
            single(&mut text, "hark_queue_length", "gauge", "Transcriptions that wait.", length.to_string());
        }
        self.integrity.render(&mut text);
        self.readiness.render(&mut text);
        self.text.render(&mut text);
        self.voice.render(&mut text);
        let name = "hark_request_seconds";
        let _ = write!(text, "# HELP {name} Time from a request's head to its answer's.\n# TYPE {name} histogram\n");
        for ((route, method, status), timings) in
            &*self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        {
            timings.render(&mut text, name, &format!("route=\"{route}\",method=\"{method}\",status=\"{status}\""));
        }
        text
    }
}

/// Writes the metrics of the quarantine, the same for all processes that share the store.
pub(crate) fn render_recordings(text: &mut String, quarantined: u64, is_mismatch: bool) {
    for (name, help, value) in [
        ("hark_recordings_quarantined", "Files that the database does not know, kept for now.", quarantined),
        (
            "hark_recordings_mismatch",
            "1 when the last sweep stopped at too many unknown files.",
            u64::from(is_mismatch),
        ),
    ] {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
    }
}

/// Writes the metrics of the engines.
pub(crate) fn render_engines(text: &mut String, engines: &[EngineReport]) {
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&EngineReport) -> String| {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for engine in engines {
            let _ = writeln!(text, "{name}{{model=\"{}\"}} {}", engine.model, value(engine));
        }
    };
    let help = "Times that a model's engine failed and was loaded again.";
    family("hark_engine_restarts_total", "counter", help, &|engine| engine.restarts.to_string());
    let help = "1 while a model is in memory and its engine runs.";
    let is_up = |engine: &EngineReport| u8::from(engine.state.is_some_and(EngineState::decodes)).to_string();
    family("hark_engine_up", "gauge", help, &is_up);
    let help = "Bytes that a model in memory takes at most.";
    family("hark_model_memory_bytes", "gauge", help, &|engine| engine.bytes.to_string());
    /// How often, and for how long.
    type Work = fn(&EngineStats) -> (u64, Duration);
    let work: [(&str, &str, Work); 4] = [
        ("encodings", "a window was encoded", |work| work.encoded),
        ("prompts", "a batch of prompts was read", |work| work.prompted),
        ("steps", "a batch of tokens was decoded", |work| work.stepped),
        ("alignments", "a text was aligned with its words", |work| work.aligned),
    ];
    for (what, does, of) in work {
        let help = format!("Times that {does}, since the model was loaded.");
        family(&format!("hark_engine_{what}_total"), "counter", &help, &|engine| of(&engine.work).0.to_string());
        let help = format!("Seconds that it took when {does}, since the model was loaded.");
        let name = format!("hark_engine_{what}_seconds_total");
        family(&name, "counter", &help, &|engine| of(&engine.work).1.as_secs_f64().to_string());
    }
}

/// Writes the metrics of the GPUs.
pub(crate) fn render_gpus(text: &mut String, gpus: &[GpuReading]) {
    let mut family = |name: &str, help: &str, value: &dyn Fn(&GpuReading) -> Option<f64>| {
        if gpus.is_empty() {
            return;
        }
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
        for (gpu, value) in gpus.iter().filter_map(|gpu| Some((gpu, value(gpu)?))) {
            let _ = writeln!(text, "{name}{{gpu=\"{}\",name=\"{}\"}} {value}", gpu.ordinal, gpu.name);
        }
    };
    family("hark_gpu_memory_bytes", "Memory of a GPU.", &|gpu| Some(gpu.memory_total as f64));
    family("hark_gpu_memory_free_bytes", "Free memory of a GPU.", &|gpu| Some(gpu.memory_free as f64));
    let help = "Share of the last moments in which a GPU computed.";
    family("hark_gpu_utilization_ratio", help, &|gpu| gpu.utilization.map(|percent| f64::from(percent) / 100.0));
    family("hark_gpu_power_watts", "Power that a GPU draws.", &|gpu| {
        gpu.milliwatts.map(|power| f64::from(power) / 1e3)
    });
    family("hark_gpu_temperature_celsius", "Temperature of a GPU.", &|gpu| gpu.temperature.map(f64::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_tell_how_often_they_were_loaded_again_and_what_they_did() {
        let work = EngineStats { stepped: (12, Duration::from_millis(2500)), ..EngineStats::default() };
        let engine = EngineReport {
            model: "whisper-base".into(),
            state: Some(EngineState::Running),
            restarts: 2,
            bytes: 7,
            work,
        };
        let gone = EngineReport {
            model: "whisper-small".into(),
            state: None,
            restarts: 0,
            bytes: 0,
            work: EngineStats::default(),
        };
        let mut text = String::new();
        render_engines(&mut text, &[engine, gone]);
        for line in [
            "hark_engine_restarts_total{model=\"whisper-base\"} 2",
            "hark_engine_restarts_total{model=\"whisper-small\"} 0",
            "hark_engine_up{model=\"whisper-base\"} 1",
            "hark_engine_up{model=\"whisper-small\"} 0",
            "hark_model_memory_bytes{model=\"whisper-base\"} 7",
            "hark_engine_steps_total{model=\"whisper-base\"} 12",
            "hark_engine_steps_seconds_total{model=\"whisper-base\"} 2.5",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
    }

    #[test]
    fn gpus_tell_what_is_known_of_them() {
        let one = GpuReading { name: "NVIDIA H200".into(), memory_total: 8, memory_free: 3, ..GpuReading::default() };
        let two = GpuReading { ordinal: 1, utilization: Some(93), milliwatts: Some(688_500), ..one.clone() };
        let mut text = String::new();
        render_gpus(&mut text, &[one, two]);
        for line in [
            "hark_gpu_memory_free_bytes{gpu=\"0\",name=\"NVIDIA H200\"} 3",
            "hark_gpu_utilization_ratio{gpu=\"1\",name=\"NVIDIA H200\"} 0.93",
            "hark_gpu_power_watts{gpu=\"1\",name=\"NVIDIA H200\"} 688.5",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        assert!(!text.contains("hark_gpu_power_watts{gpu=\"0\""), "what is not known is left out: {text}");
        let mut none = String::new();
        render_gpus(&mut none, &[]);
        assert!(none.is_empty());
    }

    #[test]
    fn buckets_add_up_and_slow_requests_are_counted_too() {
        let metrics = Metrics::default();
        for milliseconds in [1, 20, 700_000] {
            metrics.answered("/v1/models", "GET", 200, Duration::from_millis(milliseconds));
        }
        let text = metrics.render(Some(4));
        let labels = "route=\"/v1/models\",method=\"GET\",status=\"200\"";
        assert!(text.contains(&format!("hark_request_seconds_bucket{{{labels},le=\"0.025\"}} 2\n")), "{text}");
        assert!(text.contains(&format!("hark_request_seconds_bucket{{{labels},le=\"600\"}} 2\n")));
        assert!(text.contains(&format!("hark_request_seconds_bucket{{{labels},le=\"+Inf\"}} 3\n")));
        assert!(text.contains("hark_queue_length 4\n"));
        let memory = text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(memory.unwrap().parse::<u64>().unwrap() > 1 << 20, "{text}");
    }
}

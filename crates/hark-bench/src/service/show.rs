//! The figures as people read them.

use super::callers::Times;
use super::kills::check::Found;
use super::{crowd, faults, kills, overhead, upload};

/// Requests a second.
pub(super) fn overhead(lines: &[overhead::Line]) -> String {
    let row = |what: &str, columns: [String; 5]| {
        let [per_second, p50, p99, server, client] = columns;
        format!("{what:<32}{per_second:>23}{p50:>20}{p99:>22}{server:>17}{client:>17}\n")
    };
    let names = ["a second", "p50 ms", "p99 ms", "server CPU µs", "client CPU µs"];
    let mut text = row("small requests", names.map(str::to_owned));
    for line in lines {
        let columns = [
            format!("{:.0}", line.per_second),
            format!("{:.2}", line.p50_ms),
            format!("{:.2}", line.p99_ms),
            format!("{:.0}", line.server_cpu_us.median),
            format!("{:.0}", line.client_cpu_us.median),
        ];
        text += &row(line.what, columns);
        if line.refused > 0 {
            text += &format!("  {} answers were no success\n", line.refused);
        }
    }
    text + "\n"
}

/// An upload.
pub(super) fn upload(report: &upload::Report) -> String {
    format!(
        "upload of {} MB, on disk (fsync)\n  cat     {:.0} MB/s\n  upload  {:.0} MB/s\n  share   {:.2}, with an Idempotency-Key {:.2}\n  server  {:.2} s of a processor, {:.0} MB of memory at most\n\n",
        report.megabytes,
        report.cat_mb_per_second,
        report.upload_mb_per_second,
        report.share,
        report.share_with_key,
        report.server_cpu_seconds,
        report.peak_memory_mb
    )
}

/// A crowd.
pub(super) fn crowd(report: &crowd::Report) -> String {
    let line = |what: String, times: &Times| {
        let Times { requests, per_second, p50, p99, max, refused } = times;
        format!(
            "  {what:<52}{requests:>7} requests {per_second:>6.0}/s  p50 {p50:.2}  p99 {p99:.2}  max {max:.1} ms  refused {refused}\n"
        )
    };
    let crowd::Report { idle, active, slow_uploads, slow_readers, .. } = report;
    let mut text = format!("{active} active clients\n");
    text += &line("alone".to_owned(), &report.alone);
    text += &line(format!("with {idle} idle"), &report.with_idle);
    let slow = format!("with {idle} idle, {slow_uploads} slow uploads, {slow_readers} slow readers");
    text += &line(slow, &report.with_idle_and_slow);
    text += &format!(
        "  {} of {} slow and {} of {idle} idle connections still served; memory {:.0} MB, at most {:.0} MB\n\n",
        report.slow_alive,
        slow_uploads + slow_readers,
        report.idle_alive,
        report.memory_mb,
        report.peak_memory_mb
    );
    text
}

/// Memory over time.
pub(super) fn memory(report: &crowd::Memory) -> String {
    let series: Vec<String> = report.series_mb.iter().map(|mb| format!("{mb:.0}")).collect();
    format!(
        "memory over {} minutes: {} requests, {} uploads, {} refused\n  first {:.1} MB, last {:.1} MB, peak {:.1} MB\n  {}\n\n",
        report.minutes,
        report.requests,
        report.uploads,
        report.refused,
        report.first_mb,
        report.last_mb,
        report.peak_mb,
        series.join(" ")
    )
}

/// Kills.
pub(super) fn kills(report: &kills::Report) -> String {
    let kills::Report { database, kills, early_kills, seconds, answers, found, wrong } = report;
    let head = format!("{database}: {kills} kills under load and {early_kills} while starting, in {seconds:.0} s\n");
    head + &outcome(*answers, found, None, wrong)
}

/// Faults.
pub(super) fn faults(report: &faults::Report) -> String {
    let faults::Report { database, has_bucket, seed, seconds, answers, rounds, found, live, wrong } = report;
    let place = if *has_bucket { ", recordings in a bucket" } else { "" };
    let mut text = format!("{database}{place}: {} faults in {seconds:.0} s (seed {seed})\n", rounds.len());
    for kind in <faults::Kind as clap::ValueEnum>::value_variants() {
        let of_kind: Vec<&faults::Round> = rounds.iter().filter(|round| round.kind == *kind).collect();
        if !of_kind.is_empty() {
            text += &recovery(kind.name(), &of_kind);
        }
    }
    text + &outcome(*answers, found, Some(live), wrong)
}

/// How long faults of one kind lasted, and the median and longest time until everything worked again.
fn recovery(kind: &str, rounds: &[&faults::Round]) -> String {
    let longest = rounds.iter().map(|round| round.lasted).fold(0.0, f64::max);
    let mut text = format!("  {kind:<11}{:>4} times, {longest:>4.1} s at most; works again after", rounds.len());
    for probe in [faults::Probe::List, faults::Probe::Key, faults::Probe::Transcribe] {
        let of_probe = rounds.iter().flat_map(|round| &round.recovery).filter(|one| one.probe == probe);
        let (mut seconds, mut never) = (Vec::new(), 0);
        for one in of_probe {
            match one.seconds {
                Some(found) => seconds.push(found),
                None => never += 1,
            }
        }
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| seconds.get(((seconds.len().max(1) - 1) as f64 * share).round() as usize);
        let shown = |found: Option<&f64>| found.map_or("-".to_owned(), |found| format!("{found:.2}"));
        text += &format!("  {} {} / {} s", probe.name(), shown(at(0.5)), shown(at(1.0)));
        if never > 0 {
            text += &format!(" ({never} times NOT within 60 s)");
        }
    }
    text + "\n"
}

/// What clients did, what became of it, and what does not add up.
fn outcome(answers: u64, found: &Found, live: Option<&faults::Live>, wrong: &[String]) -> String {
    let Found { broken, repeats, limited, excused, sent, promised, completed, failed, deleted, .. } = found;
    let Found { charges, credits_charged, keys, recordings_kept, swept, .. } = found;
    let mut text = format!(
        "  {answers} answers, {excused} failures while a fault lasted, {broken} connections broken, {repeats} requests repeated, {limited} asked to come back later\n  \
         {sent} recordings sent, {promised} promised: {completed} completed, {failed} failed with a reason, {deleted} deleted\n  \
         {charges} charges of {credits_charged} credits, {keys} keys made, {recordings_kept} recordings kept, {swept} leftovers swept\n"
    );
    if let Some(live) = live {
        let faults::Live { sessions, finished, resumed, cut, seconds_sent, seconds_stored, minutes_charged } = live;
        text += &format!(
            "  {sessions} live sessions: {finished} finished, {cut} cut off, {resumed} times resumed; {seconds_sent} s sent, {seconds_stored} s stored, {minutes_charged} minutes charged\n"
        );
    }
    for line in wrong {
        text += &format!("  WRONG: {line}\n");
    }
    if wrong.is_empty() {
        text += "  everything adds up\n";
    }
    text + "\n"
}

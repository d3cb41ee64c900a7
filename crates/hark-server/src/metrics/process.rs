//! Process metrics from the kernel, under the names that Prometheus clients use.

/// Name, kind, help and value of what can be read here; nothing where there is no `/proc`.
pub(super) fn values() -> Vec<(&'static str, &'static str, &'static str, f64)> {
    let mut values = Vec::new();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(bytes) = kilobytes(&status, "VmRSS:") {
        values.push(("process_resident_memory_bytes", "gauge", "Memory in use.", bytes * 1024.0));
    }
    if let Some(bytes) = kilobytes(&status, "VmHWM:") {
        values.push(("hark_process_peak_memory_bytes", "gauge", "The most memory that was in use.", bytes * 1024.0));
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(seconds) = processor_seconds(&stat) {
        values.push(("process_cpu_seconds_total", "counter", "Processor time used.", seconds));
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        values.push(("process_open_fds", "gauge", "Files and sockets open.", files.count() as f64));
    }
    values
}

/// Memory in use, in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kilobytes(&status, "VmRSS:").map(|count| count as u64 * 1024)
}

fn kilobytes(status: &str, name: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// User and system time of proc(5), fields 14 and 15, which count ticks of 10 ms on every Linux that we run on.
fn processor_seconds(stat: &str) -> Option<f64> {
    // The name of the program is in parentheses and may contain anything; field 3 follows it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_a_name_that_holds_parentheses() {
        let stat = "7 (a) b (c) R 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0";
        assert_eq!(processor_seconds(stat), Some(2.0));
        assert_eq!(processor_seconds(""), None);
    }
}

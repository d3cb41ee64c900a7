//! The memory budget of models.

use serde::{Deserialize, Deserializer, de};

/// A number of bytes, written as such or with a unit: `"4 GB"`, `"512 MiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Bytes {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..digits].parse().ok()?;
        let unit: f64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            "kib" => 1024.0,
            "mib" => 1024.0 * 1024.0,
            "gib" => 1024.0 * 1024.0 * 1024.0,
            _ => return None,
        };
        let bytes = number * unit;
        (1.0..1e16).contains(&bytes).then_some(Bytes(bytes as u64))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        let bytes = match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Some(Bytes(bytes)).filter(|bytes| bytes.0 > 0),
            Written::Text(text) => Bytes::parse(&text),
        };
        bytes.ok_or_else(|| de::Error::custom("write a number of bytes, or one with a unit such as \"4 GB\""))
    }
}

/// The default memory budget: half of the machine's memory, or of the limit of its control group.
pub fn default_memory_budget() -> Bytes {
    /// If neither is known.
    const OTHERWISE: u64 = 8 << 30;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse::<u64>().ok());
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let total = group.into_iter().chain(machine).min().unwrap_or(OTHERWISE);
    Bytes(total / 2)
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in
            [("4 GB", 4_000_000_000), ("512MiB", 512 << 20), ("1.5 gb", 1_500_000_000), ("70000", 70_000)]
        {
            assert_eq!(Bytes::parse(text), Some(Bytes(bytes)), "{text}");
        }
        for text in ["", "GB", "4 apples", "0", "-1 GB", "1e3", "9999999 TB"] {
            assert_eq!(Bytes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_default_is_half_of_what_there_is() {
        assert_eq!(total_of("MemTotal:       24117248 kB\nMemFree: 1 kB\n"), Some(24_117_248 * 1024));
        let budget = default_memory_budget().0;
        assert!(budget > 64 << 20 && budget < 1 << 50, "{budget}");
    }
}

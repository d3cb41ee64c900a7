//! `hark doctor`: what this machine has, what is missing, and how to fix it.

mod endpoint;
mod machine;

pub(crate) use machine::machine_memory;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use hark_models::ModelStore;
use serde::Serialize;

use crate::cli::{Common, DoctorArgs};
use crate::config::Config;
use crate::{CliError, models, output};

/// How a finding stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// There.
    Ok,
    /// Not there, and hark works without it, only not as well.
    Optional,
    /// Not there, and hark does not work without it.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    pub(crate) detail: String,
    /// What to do about it; absent where all is well.
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, detail: detail.into(), fix: None }
    }

    pub(crate) fn optional(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Optional, detail: detail.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn missing(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Missing, detail: detail.into(), fix: Some(fix.into()) }
    }
}

/// Runs the command: an error when something required is missing.
pub(crate) fn run(args: DoctorArgs, common: &Common) -> Result<(), CliError> {
    let findings = examine(common);
    let ready = findings.iter().all(|finding| finding.status != Status::Missing);
    if args.json {
        let report = serde_json::json!({ "ready": ready, "findings": findings });
        output::print(format!("{report:#}\n"))?;
    } else {
        output::print(table(&findings))?;
    }
    if ready { Ok(()) } else { Err(CliError::Reported) }
}

fn examine(common: &Common) -> Vec<Finding> {
    let (config, configuration) = match Config::load(common) {
        Ok(config) => {
            let detail = match &config.file {
                Some(path) => path.display().to_string(),
                None => "no hark.toml: built-in settings".to_owned(),
            };
            (config, Finding::ok("configuration", detail))
        }
        Err(error) => {
            let fix = "correct the setting that is named";
            (Config::default(), Finding::missing("configuration", error.to_string(), fix))
        }
    };
    let mut findings = vec![
        machine::cpu(),
        machine::cores(),
        machine::memory(),
        machine::gpu(&config),
        machine::ffmpeg(),
        machine::espeak(),
        machine::sandbox(),
        configuration,
    ];
    let folder = models::folder(&config);
    findings.push(writable("models folder", &folder));
    findings.push(disk(&folder));
    findings.push(writable("temporary folder", &std::env::temp_dir()));
    findings.extend(models::findings(&config));
    findings.extend(endpoint::finding(&config));
    findings
}

/// Whether files can be made in `folder`, or in the nearest folder above it when it is still to be made.
fn writable(name: &'static str, folder: &Path) -> Finding {
    let Some(existing) = nearest_existing(folder) else {
        return Finding::missing(name, format!("{}: no such folder", folder.display()), "choose another folder");
    };
    match tempfile::Builder::new().prefix(".hark-").tempfile_in(&existing) {
        Ok(_) if existing == folder => Finding::ok(name, folder.display().to_string()),
        Ok(_) => Finding::ok(name, format!("{} (made when needed)", folder.display())),
        Err(error) => Finding::missing(
            name,
            format!("{}: not writable ({error})", existing.display()),
            "change its owner or mode, or choose another folder (HARK_MODELS, TMPDIR)",
        ),
    }
}

fn disk(folder: &Path) -> Finding {
    /// The largest model of the catalogue and its download together.
    const ROOMY: u64 = 8 << 30;
    /// The models of a fresh machine.
    const NEEDED: u64 = 1 << 30;
    let Some(free) = ModelStore::new(folder).disk_free() else {
        return Finding::optional("disk", "free space unknown", "check it with df");
    };
    let detail = format!("{} free for models", bytes(free));
    match free {
        ROOMY.. => Finding::ok("disk", detail),
        NEEDED.. => Finding::optional("disk", detail, "the large models need up to 8 GB: free some space for them"),
        _ => Finding::optional("disk", detail, "free some space, or set HARK_MODELS to a larger disk"),
    }
}

fn nearest_existing(folder: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(folder).ok()?;
    absolute.ancestors().find(|path| path.is_dir()).map(Path::to_owned)
}

/// `145 MB`, `3.1 GB`.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1_000_000 => format!("{} kB", count.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", (count + 500_000) / 1_000_000),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for finding in findings {
        let status = match finding.status {
            Status::Ok => "ok      ",
            Status::Optional => "optional",
            Status::Missing => "missing ",
        };
        let _ = writeln!(out, "{status}  {:width$}  {}", finding.name, finding.detail);
        if let Some(fix) = &finding.fix {
            let _ = writeln!(out, "{:10}{:width$}  → {fix}", "", "");
        }
    }
    let missing = findings.iter().filter(|finding| finding.status == Status::Missing).count();
    let _ = match missing {
        0 => writeln!(out, "\nready"),
        1 => writeln!(out, "\n1 thing is missing: see → above"),
        _ => writeln!(out, "\n{missing} things are missing: see → above"),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_a_line_and_each_fix_stands_below_its_finding() {
        let table = table(&[
            Finding::ok("cpu", "AMX"),
            Finding::missing("speech model", "whisper-base", "hark models pull whisper-base"),
        ]);
        assert_eq!(
            table,
            "ok        cpu           AMX\n\
             missing   speech model  whisper-base\n\
             \x20                       → hark models pull whisper-base\n\
             \n1 thing is missing: see → above\n"
        );
    }

    #[test]
    fn a_folder_still_to_be_made_is_judged_by_the_one_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let finding = writable("models folder", &folder.path().join("a/b"));
        assert_eq!(finding.status, Status::Ok);
        assert!(finding.detail.ends_with("(made when needed)"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn sizes_are_written_for_people() {
        assert_eq!(bytes(938_013), "939 kB");
        assert_eq!(bytes(145_217_532), "145 MB");
        assert_eq!(bytes(3_090_000_000), "3.1 GB");
    }
}

//! The needs of jobs and the capabilities of workers: a worker claims only jobs that it can run, so nodes with different models share one queue.

use std::collections::BTreeSet;
use std::fmt;

use crate::db::Value;

/// A capability that a job needs of its worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// A model, by its name in the worker's engine.
    Model(String),
    /// Another capability that not every worker has, such as `identify`.
    Capability(&'static str),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Model(name) => write!(f, "model:{name}"),
            Need::Capability(name) => write!(f, "capability:{name}"),
        }
    }
}

/// The capabilities of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capabilities {
    /// Everything: for engines of tests.
    All,
    /// These, as [`Need`] displays them.
    Only(BTreeSet<String>),
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities::none()
    }
}

impl Capabilities {
    /// Exactly these.
    pub fn only(all: impl IntoIterator<Item = Need>) -> Self {
        Capabilities::Only(all.into_iter().map(|need| need.to_string()).collect())
    }

    /// None: such a worker claims no job.
    pub fn none() -> Self {
        Capabilities::Only(BTreeSet::new())
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        matches!(self, Capabilities::Only(all) if all.is_empty())
    }

    /// The same without one; `All` stays `All`.
    pub fn without(&self, need: &Need) -> Self {
        match self {
            Capabilities::All => Capabilities::All,
            Capabilities::Only(all) => {
                let mut remaining = all.clone();
                remaining.remove(&need.to_string());
                Capabilities::Only(remaining)
            }
        }
    }

    /// Whether a job with these needs can run.
    pub fn cover<'a>(&self, mut needs: impl Iterator<Item = &'a str>) -> bool {
        match self {
            Capabilities::All => true,
            Capabilities::Only(all) => needs.all(|need| all.contains(need)),
        }
    }

    /// The SQL condition that a need `n` is not met, or `None` if all are; its parameters are appended to `values`.
    pub(crate) fn missing<'a>(&'a self, values: &mut Vec<Value<'a>>) -> Option<String> {
        let Capabilities::Only(all) = self else { return None };
        if all.is_empty() {
            return Some("1 = 1".to_owned());
        }
        let first = values.len() + 1;
        values.extend(all.iter().map(Value::from));
        let list: Vec<String> = (first..=values.len()).map(|number| format!("${number}")).collect();
        Some(format!("n.need NOT IN ({})", list.join(", ")))
    }

    /// The SQL condition that a job `j` can run here; its parameters are appended to `values`.
    pub(crate) fn condition<'a>(&'a self, values: &mut Vec<Value<'a>>) -> String {
        match self.missing(values) {
            Some(missing) => format!("NOT EXISTS (SELECT 1 FROM job_needs n WHERE n.job_id = j.id AND {missing})"),
            None => "1 = 1".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_covers_what_it_has_and_nothing_else() {
        let base = Need::Model("whisper-base".into());
        let worker = Capabilities::only([base.clone(), Need::Capability("identify")]);
        assert!(worker.cover(["model:whisper-base", "capability:identify"].into_iter()));
        assert!(!worker.cover(["model:whisper-base", "model:whisper-small"].into_iter()));
        assert!(!worker.without(&base).cover(["model:whisper-base"].into_iter()));
        assert!(Capabilities::All.cover(["model:any"].into_iter()));
        assert!(Capabilities::none().is_none() && !worker.is_none() && !Capabilities::All.is_none());
    }
}

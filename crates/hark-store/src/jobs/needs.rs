//! What a job needs of a worker, and what a worker has: a worker claims only what it can run, so nodes with different models share one queue.

use std::collections::BTreeSet;
use std::fmt;

use crate::db::Value;

/// One thing that a worker must have to run a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// A model, by the name that the worker's engine resolves.
    Model(String),
    /// Something else that not every worker can do, such as `identify`.
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

/// What a worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capabilities {
    /// Whatever any job needs: for engines that only pretend.
    All,
    /// These things, as [`Need`] writes them.
    Only(BTreeSet<String>),
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities::none()
    }
}

impl Capabilities {
    /// These things.
    pub fn only(all: impl IntoIterator<Item = Need>) -> Self {
        Capabilities::Only(all.into_iter().map(|need| need.to_string()).collect())
    }

    /// Nothing: such a worker claims no job.
    pub fn none() -> Self {
        Capabilities::Only(BTreeSet::new())
    }

    /// Whether there is nothing that a job could need.
    pub fn is_none(&self) -> bool {
        matches!(self, Capabilities::Only(all) if all.is_empty())
    }

    /// The same without one thing; what can do everything stays as it is.
    pub fn without(&self, need: &Need) -> Self {
        match self {
            Capabilities::All => Capabilities::All,
            Capabilities::Only(all) => {
                let mut left = all.clone();
                left.remove(&need.to_string());
                Capabilities::Only(left)
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

    /// A condition that a need `n` is not met here, or nothing where all are; what it compares with is appended to `values`.
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

    /// A condition that a job `j` can run here; what it compares with is appended to `values`.
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

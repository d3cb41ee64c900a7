//! `hark jobs`: the queue of a service on this machine, for its operator.

use hark_api::DateTime;
use hark_store::{FaultKind, JobFilter, JobId, JobSummary, RetryLimits};
use serde_json::{Value, json};

use crate::cli::{Common, FailedJobs, JobsArgs, JobsCommand};
use crate::config::Config;
use crate::local_store::LocalStore;
use crate::table::{moment, table};
use crate::{CliError, output};

/// Runs the command.
pub(crate) fn run(args: JobsArgs, common: &Common) -> Result<(), CliError> {
    let local = LocalStore::open(args.data.data.as_deref(), Config::load(common)?, false)?;
    let done = dispatch(&local, args.command, args.data.json);
    local.close();
    done
}

fn dispatch(local: &LocalStore, command: JobsCommand, json: bool) -> Result<(), CliError> {
    match command {
        JobsCommand::List { state, error_kind, limit } => {
            let filter = JobFilter { state: state.as_deref(), error_kind, limit: Some(limit) };
            let jobs = local.wait(local.store.jobs().list(&filter))?;
            if json {
                let list: Vec<Value> = jobs.iter().map(as_json).collect();
                return output::print(format!("{:#}\n", json!({ "jobs": list })));
            }
            output::print(as_table(&jobs))
        }
        JobsCommand::Retry(which) => {
            let jobs = chosen(local, &which)?;
            each(&jobs, "retried", json, |job| local.wait(local.store.jobs().retry(job, RetryLimits::default())))
        }
        JobsCommand::Drop(which) => {
            let jobs = chosen(local, &which)?;
            each(&jobs, "dropped", json, |job| local.wait(local.store.jobs().drop_failed(job)))
        }
    }
}

/// The failed jobs that the arguments name.
fn chosen(local: &LocalStore, which: &FailedJobs) -> Result<Vec<JobId>, CliError> {
    if which.jobs.is_empty() && !which.all && which.error_kind.is_none() {
        return Err(CliError::Usage("give the numbers of jobs, --error-kind or --all".to_owned()));
    }
    if !which.jobs.is_empty() {
        return Ok(which.jobs.iter().copied().map(JobId).collect());
    }
    let filter = JobFilter { state: Some("failed"), error_kind: which.error_kind, limit: Some(i64::MAX) };
    Ok(local.wait(local.store.jobs().list(&filter))?.iter().map(|job| job.id).collect())
}

/// Does it to each; what can't be done is said and does not keep the others from it.
fn each(jobs: &[JobId], done: &str, json: bool, act: impl Fn(JobId) -> Result<(), CliError>) -> Result<(), CliError> {
    let mut whole = Vec::new();
    for job in jobs {
        match act(*job) {
            Ok(()) => whole.push(job.0),
            Err(error) => eprintln!("{job}: {error}"),
        }
    }
    output::print(if json {
        format!("{:#}\n", json!({ done: whole }))
    } else {
        format!("{} of {} {done}\n", whole.len(), jobs.len())
    })?;
    if whole.len() == jobs.len() { Ok(()) } else { Err(CliError::Reported) }
}

fn as_table(jobs: &[JobSummary]) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            vec![
                job.id.to_string(),
                job.kind.clone(),
                job.state.clone(),
                or_dash(job.transcript.map(|id| id.to_string())),
                job.account.to_string(),
                job.attempts.to_string(),
                moment(DateTime(job.queued_at)),
                job.needs.join(" "),
                or_dash(job.error_kind.map(|kind| kind.name().to_owned())),
                job.error.clone().unwrap_or_default(),
            ]
        })
        .collect();
    table(
        &["id", "kind", "state", "transcript", "account", "attempts", "queued (UTC)", "needs", "fault", "error"],
        &rows,
    )
}

fn as_json(job: &JobSummary) -> Value {
    json!({
        "id": job.id.0,
        "kind": job.kind,
        "state": job.state,
        "account": job.account.0,
        "transcript": job.transcript.map(|id| id.0),
        "needs": job.needs,
        "attempts": job.attempts,
        "error_kind": job.error_kind.map(FaultKind::name),
        "error": job.error,
        "queued_at": DateTime(job.queued_at).to_string(),
        "not_before": DateTime(job.not_before).to_string(),
        "failed_at": job.failed_at.map(|at| DateTime(at).to_string()),
    })
}

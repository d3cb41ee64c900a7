//! `/v1/admin/queue`: the queue of jobs, and what becomes of those that failed.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{DateTime, Done, QueueJob, QueueJobState, QueueState};
use hark_store::{FaultKind, JobFilter, JobId, JobSummary, RetryLimits};

use super::Admin;
use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::Path;
use crate::routes::{AnyError, Contradicted, Forbidden, Missing, Payment, Unauthorized};

/// Jobs of an answer.
const MAX_JOBS: i64 = 100;

/// The queue of jobs
#[utoipa::path(get, path = "/v1/admin/queue", tag = "administration", operation_id = "adminQueue",
    responses((status = 200, body = QueueState), Unauthorized, Forbidden, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn show(State(app): State<App>, _: Admin) -> Result<Answer<QueueState>, Failure> {
    let counts = app.store.jobs().counts().await?;
    let mut jobs = in_state(&app, "processing", MAX_JOBS).await?;
    let left = MAX_JOBS - jobs.len() as i64;
    // Neither those that failed nor those that wait hide the others.
    jobs.extend(in_state(&app, "failed", (left - counts.queued).max(left / 2)).await?);
    jobs.extend(in_state(&app, "queued", MAX_JOBS - jobs.len() as i64).await?);
    Ok(Answer(QueueState {
        queued: counts.queued,
        running: counts.running,
        failed: counts.failed,
        oldest_wait_seconds: counts.oldest_wait.map(|wait| wait.as_secs_f64()),
        jobs: jobs.into_iter().map(wire_job).collect(),
    }))
}

async fn in_state(app: &App, state: &str, limit: i64) -> Result<Vec<JobSummary>, Failure> {
    let filter = JobFilter { state: Some(state), limit: Some(limit), ..JobFilter::default() };
    Ok(app.store.jobs().list(&filter).await?)
}

fn wire_job(job: JobSummary) -> QueueJob {
    QueueJob {
        id: job.id.0,
        kind: job.kind,
        state: match job.state.as_str() {
            "queued" => QueueJobState::Queued,
            "processing" => QueueJobState::Running,
            _ => QueueJobState::Failed,
        },
        account_id: job.account.0,
        transcript_id: job.transcript.map(|id| id.0),
        attempts: job.attempts,
        created_at: DateTime(job.queued_at),
        failed_at: job.failed_at.map(DateTime),
        duration: (job.seconds > 0.0).then_some(job.seconds),
        needs: job.needs,
        error_kind: job.error_kind.map(|kind| FaultKind::name(kind).to_owned()),
        error: job.error,
    }
}

/// Queue a failed job again
///
/// With all its attempts and a hold of its own.
#[utoipa::path(post, path = "/v1/admin/queue/{job}/retry", tag = "administration", operation_id = "adminRetryJob",
    params(("job" = i64, Path, description = "the job's number")),
    responses((status = 200, body = Done), Unauthorized, Payment, Forbidden, Missing, Contradicted, AnyError),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn retry(State(app): State<App>, admin: Admin, Path(job): Path<i64>) -> Result<Answer<Done>, Failure> {
    let entry = admin.audit(audit::JOB_RETRIED);
    app.store.jobs().audited(&entry).retry(JobId(job), RetryLimits::default()).await?;
    Ok(Answer(Done { ok: true }))
}

/// Drop a failed job
///
/// Its recording goes with it; its transcript stays, failed.
#[utoipa::path(delete, path = "/v1/admin/queue/{job}", tag = "administration", operation_id = "adminDropJob",
    params(("job" = i64, Path, description = "the job's number")),
    responses((status = 200, body = Done), Unauthorized, Forbidden, Missing, Contradicted, AnyError),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn drop_failed(
    State(app): State<App>,
    admin: Admin,
    Path(job): Path<i64>,
) -> Result<Answer<Done>, Failure> {
    let entry = admin.audit(audit::JOB_DROPPED);
    app.store.jobs().audited(&entry).drop_failed(JobId(job)).await?;
    Ok(Answer(Done { ok: true }))
}

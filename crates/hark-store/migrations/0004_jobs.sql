-- A job is of a kind: what is done (payload), what a worker must have to do it (job_needs), and how its faults are retried. Transcription is the
-- first kind. A job that used up its attempts stays, in the state 'failed', until it is retried or dropped.
{sqlite}
-- SQLite can't change constraints, so the table is made anew. Ids go on where they were: the ledger names jobs by them.
CREATE TABLE jobs_new (
    id {id},
    kind TEXT NOT NULL,
    -- The transcript that it makes or is about, where there is one.
    transcript_id BIGINT REFERENCES transcripts (id) ON DELETE CASCADE,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- Whom the job counts for: an account, or an address for anonymous use.
    owner TEXT NOT NULL,
    lane BIGINT NOT NULL,
    -- queued, processing or failed.
    state TEXT NOT NULL,
    payload {blob} NOT NULL,
    -- What the payload is sealed for.
    payload_key TEXT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    minutes BIGINT NOT NULL,
    -- Credits to hold while it waits or runs.
    hold BIGINT NOT NULL,
    key_id BIGINT,
    key_month BIGINT,
    anonymous_day BIGINT,
    attempts BIGINT NOT NULL,
    -- How often it went back to the queue without counting as an attempt.
    deferrals BIGINT NOT NULL,
    -- How often it was retried after it had failed; each time holds credits under a reference of its own.
    retries BIGINT NOT NULL,
    worker TEXT,
    lease TEXT,
    -- How long a lease lasts, and when this one ends.
    lease_duration BIGINT,
    lease_until BIGINT,
    queued_at BIGINT NOT NULL,
    -- Nobody claims it before.
    not_before BIGINT NOT NULL,
    -- The last fault.
    error_kind TEXT,
    error TEXT,
    failed_at BIGINT
);
INSERT INTO jobs_new (id, kind, transcript_id, account_id, owner, lane, state, payload, payload_key, seconds, minutes, hold, key_id, key_month,
    anonymous_day, attempts, deferrals, retries, worker, lease, lease_duration, lease_until, queued_at, not_before)
SELECT id, 'transcribe', transcript_id, account_id, owner, lane, state, request, CAST(transcript_id AS TEXT), seconds, minutes,
    COALESCE((SELECT h.amount FROM holds h WHERE h.reference = 'job:' || CAST(jobs.id AS TEXT)), 0), key_id, key_month,
    anonymous_day, attempts, 0, 0, worker, lease, CASE WHEN lease IS NOT NULL THEN 30000000 END, lease_until, queued_at, 0
FROM jobs;
DELETE FROM sqlite_sequence WHERE name = 'jobs_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'jobs_new', seq FROM sqlite_sequence WHERE name = 'jobs';
DROP TABLE jobs;
ALTER TABLE jobs_new RENAME TO jobs;
CREATE INDEX jobs_by_turn ON jobs (state, lane, queued_at, id);
CREATE INDEX jobs_by_owner ON jobs (owner, state);
CREATE INDEX jobs_by_account ON jobs (account_id);
{end}
{postgres}
ALTER TABLE jobs DROP CONSTRAINT jobs_transcript_id_key;
ALTER TABLE jobs ALTER COLUMN transcript_id DROP NOT NULL;
ALTER TABLE jobs RENAME COLUMN request TO payload;
ALTER TABLE jobs ADD COLUMN kind TEXT NOT NULL DEFAULT 'transcribe';
ALTER TABLE jobs ALTER COLUMN kind DROP DEFAULT;
ALTER TABLE jobs ADD COLUMN payload_key TEXT;
UPDATE jobs SET payload_key = CAST(transcript_id AS TEXT);
ALTER TABLE jobs ALTER COLUMN payload_key SET NOT NULL;
ALTER TABLE jobs ADD COLUMN hold BIGINT;
UPDATE jobs SET hold = COALESCE((SELECT h.amount FROM holds h WHERE h.reference = 'job:' || CAST(jobs.id AS TEXT)), 0);
ALTER TABLE jobs ALTER COLUMN hold SET NOT NULL;
ALTER TABLE jobs ADD COLUMN deferrals BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ALTER COLUMN deferrals DROP DEFAULT;
ALTER TABLE jobs ADD COLUMN retries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ALTER COLUMN retries DROP DEFAULT;
ALTER TABLE jobs ADD COLUMN lease_duration BIGINT;
UPDATE jobs SET lease_duration = 30000000 WHERE lease IS NOT NULL;
ALTER TABLE jobs ADD COLUMN not_before BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ALTER COLUMN not_before DROP DEFAULT;
ALTER TABLE jobs ADD COLUMN error_kind TEXT;
ALTER TABLE jobs ADD COLUMN error TEXT;
ALTER TABLE jobs ADD COLUMN failed_at BIGINT;
{end}
-- A transcript is made by one job; others may be about it.
CREATE UNIQUE INDEX jobs_transcription ON jobs (transcript_id) WHERE kind = 'transcribe';
CREATE INDEX jobs_by_transcript ON jobs (transcript_id);
CREATE INDEX jobs_by_failure ON jobs (failed_at) WHERE state = 'failed';

-- What a worker must have to run a job: model:NAME or capability:NAME.
CREATE TABLE job_needs (
    job_id BIGINT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    need TEXT NOT NULL,
    PRIMARY KEY (job_id, need)
);
INSERT INTO job_needs (job_id, need)
SELECT j.id, 'model:' || t.model FROM jobs j JOIN transcripts t ON t.id = j.transcript_id WHERE t.model <> '';

-- Whose fault it was that a transcript failed.
ALTER TABLE transcripts ADD COLUMN error_kind TEXT;
UPDATE transcripts SET error_kind = CASE
    WHEN error LIKE 'the recording could not be transcribed%' THEN 'internal'
    WHEN error LIKE 'cancelled: the client went away%' THEN 'cancelled'
    ELSE 'input' END
WHERE status = 'failed';

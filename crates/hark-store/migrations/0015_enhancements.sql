-- Recordings whose noise is reduced. The result is a recording of the account until the enhancement is deleted or too old.
CREATE TABLE enhancements (
    -- Random, as those of transcripts.
    id BIGINT NOT NULL PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- queued, processing, completed or failed.
    status TEXT NOT NULL,
    progress BIGINT NOT NULL,
    -- Length of the audio: as probed, then as enhanced.
    duration_seconds DOUBLE PRECISION NOT NULL,
    -- The format of the result, as the server names it.
    format TEXT NOT NULL,
    -- Samples of each channel and channels of the result; 0 until it is completed.
    frames BIGINT NOT NULL,
    channels BIGINT NOT NULL,
    -- The model that ran; empty until it is completed.
    model TEXT NOT NULL,
    error TEXT,
    error_kind TEXT,
    created_at BIGINT NOT NULL,
    completed_at BIGINT
);
CREATE INDEX enhancements_by_account ON enhancements (account_id);
CREATE INDEX enhancements_by_completion ON enhancements (completed_at);

ALTER TABLE jobs ADD COLUMN enhancement_id BIGINT REFERENCES enhancements (id) ON DELETE CASCADE;
CREATE INDEX jobs_by_enhancement ON jobs (enhancement_id);

-- The enhancement that a recording belongs to, instead of a transcript, and whether it is the result or what was sent.
ALTER TABLE blobs ADD COLUMN enhancement_id BIGINT;
ALTER TABLE blobs ADD COLUMN is_result BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX blobs_by_enhancement ON blobs (enhancement_id);

ALTER TABLE idempotency ADD COLUMN enhancement_id BIGINT REFERENCES enhancements (id) ON DELETE CASCADE;
CREATE INDEX idempotency_by_enhancement ON idempotency (enhancement_id);

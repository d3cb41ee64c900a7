-- Times are microseconds since 1970 UTC, days are UTC days since 1970. Columns of type {blob} named like text hold sealed text.

CREATE TABLE accounts (
    id {id},
    email TEXT,
    -- The address in lower case, so that an address is one account however it is typed.
    email_key TEXT NOT NULL UNIQUE,
    password_hash TEXT,
    plan TEXT NOT NULL,
    plan_active BOOLEAN NOT NULL,
    -- The running sum of the ledger.
    credits BIGINT NOT NULL CHECK (credits >= 0),
    next_billing_at BIGINT,
    lang TEXT NOT NULL,
    is_confirmed BOOLEAN NOT NULL,
    is_admin BOOLEAN NOT NULL,
    mail_marketing BOOLEAN NOT NULL,
    mail_newsletter BOOLEAN NOT NULL,
    mail_product_updates BOOLEAN NOT NULL,
    mail_usage_alerts BOOLEAN NOT NULL,
    -- The account's data key, wrapped by the master key that master_id names.
    data_key {blob},
    master_id TEXT,
    created_at BIGINT NOT NULL
);

CREATE TABLE keys (
    id {id},
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    hash {blob} NOT NULL UNIQUE,
    is_active BOOLEAN NOT NULL,
    rate_limit BIGINT NOT NULL,
    monthly_limit_minutes BIGINT NOT NULL,
    last_used BIGINT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT
);
CREATE INDEX keys_by_account ON keys (account_id, kind);

CREATE TABLE key_months (
    key_id BIGINT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    month BIGINT NOT NULL,
    minutes BIGINT NOT NULL,
    PRIMARY KEY (key_id, month)
);

CREATE TABLE ledger (
    id {id},
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    amount BIGINT NOT NULL,
    -- What the entry is about: "job:7" or a call's own name. An entry of a kind is posted once for it.
    reference TEXT,
    note TEXT NOT NULL
);
CREATE UNIQUE INDEX ledger_once ON ledger (reference, kind);
CREATE INDEX ledger_by_account ON ledger (account_id, id);

-- Holds that are neither settled nor released.
CREATE TABLE holds (
    reference TEXT NOT NULL PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    amount BIGINT NOT NULL,
    -- Null for a job's hold, which its job releases.
    expires_at BIGINT
);
CREATE INDEX holds_by_expiry ON holds (expires_at);

CREATE TABLE transcripts (
    id BIGINT NOT NULL PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    title {blob} NOT NULL,
    status TEXT NOT NULL,
    progress BIGINT NOT NULL,
    language TEXT NOT NULL,
    duration_seconds DOUBLE PRECISION NOT NULL,
    word_count BIGINT NOT NULL,
    num_speakers BIGINT NOT NULL,
    source_type TEXT NOT NULL,
    model TEXT NOT NULL,
    summary {blob},
    is_encrypted BOOLEAN NOT NULL,
    share_token TEXT UNIQUE,
    is_shared BOOLEAN NOT NULL,
    error TEXT,
    created_at BIGINT NOT NULL,
    completed_at BIGINT
);
CREATE INDEX transcripts_by_account ON transcripts (account_id, created_at, id);

CREATE TABLE segments (
    transcript_id BIGINT NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    start_seconds DOUBLE PRECISION NOT NULL,
    end_seconds DOUBLE PRECISION NOT NULL,
    speaker TEXT,
    confidence DOUBLE PRECISION NOT NULL,
    -- Sealed JSON: the text and the words with their times.
    body {blob} NOT NULL,
    PRIMARY KEY (transcript_id, position)
);

CREATE TABLE speaker_names (
    transcript_id BIGINT NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    label TEXT NOT NULL,
    name {blob} NOT NULL,
    PRIMARY KEY (transcript_id, label)
);

-- What was made of a transcript and need not be made again: summaries, analyses, embeddings.
CREATE TABLE derived (
    transcript_id BIGINT NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    body {blob} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (transcript_id, kind)
);

-- Jobs that wait or run; a finished job leaves its traces in transcripts, ledger and usage.
CREATE TABLE jobs (
    id {id},
    transcript_id BIGINT NOT NULL UNIQUE REFERENCES transcripts (id) ON DELETE CASCADE,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- Whom the job counts for: an account, or an address for anonymous use.
    owner TEXT NOT NULL,
    lane BIGINT NOT NULL,
    state TEXT NOT NULL,
    request {blob} NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    minutes BIGINT NOT NULL,
    key_id BIGINT,
    key_month BIGINT,
    anonymous_day BIGINT,
    attempts BIGINT NOT NULL,
    worker TEXT,
    lease TEXT,
    lease_until BIGINT,
    queued_at BIGINT NOT NULL
);
CREATE INDEX jobs_by_turn ON jobs (state, lane, queued_at, id);
CREATE INDEX jobs_by_owner ON jobs (owner, state);
CREATE INDEX jobs_by_account ON jobs (account_id);

CREATE TABLE blobs (
    key TEXT NOT NULL PRIMARY KEY,
    account_id BIGINT,
    transcript_id BIGINT,
    -- uploading: before the first byte; live: belongs to a transcript; deleting: nobody wants it any more.
    state TEXT NOT NULL,
    size BIGINT NOT NULL,
    is_sealed BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX blobs_by_transcript ON blobs (transcript_id);
CREATE INDEX blobs_by_account ON blobs (account_id);
CREATE INDEX blobs_by_state ON blobs (state, created_at);

CREATE TABLE idempotency (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    fingerprint {blob} NOT NULL,
    transcript_id BIGINT REFERENCES transcripts (id) ON DELETE CASCADE,
    -- Sealed, with the status before it; null while the first request is under way.
    answer {blob},
    status BIGINT,
    content_type TEXT,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);
CREATE INDEX idempotency_by_transcript ON idempotency (transcript_id);
CREATE INDEX idempotency_by_account ON idempotency (account_id);

CREATE TABLE usage_days (
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    day BIGINT NOT NULL,
    transcripts BIGINT NOT NULL,
    duration_seconds DOUBLE PRECISION NOT NULL,
    words BIGINT NOT NULL,
    PRIMARY KEY (account_id, day)
);

CREATE TABLE anonymous_days (
    day BIGINT NOT NULL,
    address TEXT NOT NULL,
    transcriptions BIGINT NOT NULL,
    minutes BIGINT NOT NULL,
    PRIMARY KEY (day, address)
);

CREATE TABLE chat_days (
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    day BIGINT NOT NULL,
    questions BIGINT NOT NULL,
    PRIMARY KEY (account_id, day)
);

CREATE TABLE chat_sessions (
    id TEXT NOT NULL PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    transcript_id BIGINT NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL
);
CREATE INDEX chat_sessions_by_transcript ON chat_sessions (transcript_id);
CREATE INDEX chat_sessions_by_account ON chat_sessions (account_id);

CREATE TABLE chat_turns (
    session_id TEXT NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    role TEXT NOT NULL,
    body {blob} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, position)
);

CREATE TABLE webhooks (
    id {id},
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    transcript_id BIGINT NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    -- Sealed: the address and the secret that signs.
    target {blob} NOT NULL,
    -- waiting: for its transcript; due: to deliver at next_at.
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    lease TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX webhooks_by_turn ON webhooks (state, next_at);
CREATE INDEX webhooks_by_transcript ON webhooks (transcript_id);
CREATE INDEX webhooks_by_account ON webhooks (account_id);

CREATE TABLE cloud_instances (
    id {id},
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    region TEXT NOT NULL,
    status TEXT NOT NULL,
    gpu TEXT NOT NULL,
    base_url TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX cloud_instances_by_account ON cloud_instances (account_id);

-- Live sessions that are not over. Text and charge are written as a session goes, so that a crash loses seconds of it.
CREATE TABLE live_sessions (
    transcript_id BIGINT NOT NULL PRIMARY KEY REFERENCES transcripts (id) ON DELETE CASCADE,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- The name that its client knows it by.
    session TEXT NOT NULL UNIQUE,
    -- Random; whoever continues the session replaces it, and whoever had it before can write no more.
    lease TEXT NOT NULL,
    -- Grows with every write: a session whose count stands still has lost its process.
    renewals BIGINT NOT NULL,
    heard_seconds DOUBLE PRECISION NOT NULL,
    charged_minutes BIGINT NOT NULL
);
CREATE INDEX live_sessions_by_account ON live_sessions (account_id);

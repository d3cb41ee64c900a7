-- What is known about the store as a whole: its id, which stands beside the recordings, too.
CREATE TABLE store_meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- Files among the recordings that the database does not know. They stay where they are until they were seen, unknown, for days.
CREATE TABLE quarantine (
    key TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL
);

-- Tasks that one process at a time does for all.
CREATE TABLE maintenance (
    task TEXT NOT NULL PRIMARY KEY,
    -- The process at it; null when none is.
    holder TEXT,
    lease_until BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    -- What came of the last run, as JSON.
    report TEXT
);

-- The token of a public page: its SHA-256 to find it by, and the token itself, sealed, to show it to its owner.
-- transcripts.share_token held it in the clear; its values are moved when the store is opened.
ALTER TABLE transcripts ADD COLUMN share_hash {blob};
ALTER TABLE transcripts ADD COLUMN share_sealed {blob};
CREATE UNIQUE INDEX transcripts_by_share_hash ON transcripts (share_hash);

-- Bytes of an account's recordings are summed up from the index alone.
CREATE INDEX blobs_by_account_size ON blobs (account_id, state, size);

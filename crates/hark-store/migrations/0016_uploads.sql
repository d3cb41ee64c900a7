-- Uploads that go on after a connection broke. What arrived is kept as pieces, which are joined when the upload is used.
CREATE TABLE uploads (
    -- Random, as those of transcripts.
    id BIGINT NOT NULL PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- The name of the file, sealed.
    name {blob} NOT NULL,
    size BIGINT NOT NULL,
    -- Bytes that are stored in pieces.
    received BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- SHA-256 of the whole, sealed, once a request that may be repeated has used it; its pieces are gone then.
    hash {blob}
);
CREATE INDEX uploads_by_account ON uploads (account_id);
CREATE INDEX uploads_by_expiry ON uploads (expires_at);

-- A recording in the state 'piece' is a part of an upload, and begins at an offset of it.
ALTER TABLE blobs ADD COLUMN upload_id BIGINT;
ALTER TABLE blobs ADD COLUMN upload_offset BIGINT;
CREATE INDEX blobs_by_upload ON blobs (upload_id);

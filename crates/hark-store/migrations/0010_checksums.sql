-- SHA-256 of a recording that lies in the clear, in hexadecimal digits, known since its upload. A sealed recording has none: its chunks are authenticated, and a
-- hash of its content would tell whoever can read the database what it is.
ALTER TABLE blobs ADD COLUMN sha256 TEXT;

-- Minutes that a live session counted for a key, by month. A session that ends without words gives them back.
CREATE TABLE live_minutes (
    transcript_id BIGINT NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    key_id BIGINT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    month BIGINT NOT NULL,
    minutes BIGINT NOT NULL,
    PRIMARY KEY (transcript_id, key_id, month)
);
CREATE INDEX live_minutes_by_key ON live_minutes (key_id);

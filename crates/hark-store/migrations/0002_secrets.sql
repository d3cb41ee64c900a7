-- What the service keeps secret for itself: what keys its hashes and signs its calls. No credential of anybody.
CREATE TABLE secrets (
    name TEXT NOT NULL PRIMARY KEY,
    -- Sealed with the key of the anonymous account, which is always there.
    value {blob} NOT NULL,
    -- Null for one that lasts.
    expires_at BIGINT
);
CREATE INDEX secrets_by_expiry ON secrets (expires_at);

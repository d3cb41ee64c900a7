-- What a key may do, from where, how much it may spend in all, and the secret that it had before it was rolled over.
ALTER TABLE keys ADD COLUMN scopes TEXT;
ALTER TABLE keys ADD COLUMN allowed_addresses TEXT;
ALTER TABLE keys ADD COLUMN spending_limit BIGINT;
ALTER TABLE keys ADD COLUMN previous_hash {blob};
ALTER TABLE keys ADD COLUMN previous_until BIGINT;
CREATE UNIQUE INDEX keys_by_previous_hash ON keys (previous_hash);

-- How often the secret of an account's webhooks was rotated, and until when the one before signs too.
ALTER TABLE accounts ADD COLUMN webhook_rotation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN webhook_previous_until BIGINT;

-- Who did what. Rows are only added, and deleted when they are too old. No reference to accounts: what was done outlives them.
CREATE TABLE audit (
    id {id},
    at BIGINT NOT NULL,
    -- The account that it is about; null where it is about none, such as a sign-in to an address that has no account.
    account_id BIGINT,
    -- account, key, operator or visitor.
    actor TEXT NOT NULL,
    -- The key, token or session that was used.
    key_id BIGINT,
    -- Where a visitor or an account came from, deleted earlier than the row.
    address TEXT,
    event TEXT NOT NULL,
    -- What it was done to: "key 7", "transcript 42".
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX audit_by_account ON audit (account_id, id);
CREATE INDEX audit_by_time ON audit (at);

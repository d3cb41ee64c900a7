-- Voices that an account wants to know again.
CREATE TABLE voiceprints (
    id {id},
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- Both sealed. An account's names differ, which only whoever can open them can tell.
    name {blob} NOT NULL,
    print {blob} NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX voiceprints_by_account ON voiceprints (account_id);

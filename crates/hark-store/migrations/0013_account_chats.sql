-- Conversations about all transcripts of an account have no transcript.
{postgres}
ALTER TABLE chat_sessions ALTER COLUMN transcript_id DROP NOT NULL;
{end}
{sqlite}
CREATE TABLE chat_sessions_next (
    id TEXT NOT NULL PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    transcript_id BIGINT REFERENCES transcripts (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL
);
INSERT INTO chat_sessions_next (id, account_id, transcript_id, created_at)
    SELECT id, account_id, transcript_id, created_at FROM chat_sessions;
CREATE TABLE chat_turns_next (
    session_id TEXT NOT NULL REFERENCES chat_sessions_next (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    role TEXT NOT NULL,
    body {blob} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, position)
);
INSERT INTO chat_turns_next (session_id, position, role, body, created_at)
    SELECT session_id, position, role, body, created_at FROM chat_turns;
DROP TABLE chat_turns;
DROP TABLE chat_sessions;
-- References follow the new names.
ALTER TABLE chat_sessions_next RENAME TO chat_sessions;
ALTER TABLE chat_turns_next RENAME TO chat_turns;
CREATE INDEX chat_sessions_by_transcript ON chat_sessions (transcript_id);
CREATE INDEX chat_sessions_by_account ON chat_sessions (account_id);
{end}

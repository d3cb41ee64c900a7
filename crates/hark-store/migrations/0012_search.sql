-- The search index over the transcripts of accounts. One row for each completed transcript of an account: what is due to be indexed, and what was made of it.
CREATE TABLE search_documents (
    transcript_id BIGINT NOT NULL PRIMARY KEY REFERENCES transcripts (id) ON DELETE CASCADE,
    account_id BIGINT NOT NULL,
    -- When it is to be indexed, or tried again; null once it is indexed. Whoever indexes it holds the lease, until this time.
    due_at BIGINT,
    lease TEXT,
    attempts BIGINT NOT NULL,
    -- The version of the passages and terms; 0 while there are none.
    version BIGINT NOT NULL,
    -- Whether its terms are keyed by the account's data key.
    is_keyed BOOLEAN NOT NULL,
    -- The model of the vectors; null where there are none.
    model TEXT,
    -- Sealed: a vector for each passage.
    vectors {blob}
);
CREATE INDEX search_documents_by_due ON search_documents (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX search_documents_by_account ON search_documents (account_id, transcript_id);

CREATE TABLE search_passages (
    id {id},
    transcript_id BIGINT NOT NULL REFERENCES search_documents (transcript_id) ON DELETE CASCADE,
    account_id BIGINT NOT NULL,
    position BIGINT NOT NULL,
    first_segment BIGINT NOT NULL,
    last_segment BIGINT NOT NULL,
    -- Bytes of the joined text of its segments.
    text_offset BIGINT NOT NULL,
    text_length BIGINT NOT NULL,
    term_count BIGINT NOT NULL,
    -- Keyed hashes of words, never words.
{sqlite}
    terms TEXT NOT NULL
{end}
{postgres}
    terms TSVECTOR NOT NULL
{end}
);
CREATE UNIQUE INDEX search_passages_by_transcript ON search_passages (transcript_id, position);
CREATE INDEX search_passages_by_account ON search_passages (account_id, term_count);
{postgres}
CREATE INDEX search_passages_by_term ON search_passages USING GIN (terms);
{end}
{sqlite}
CREATE VIRTUAL TABLE search_terms USING fts5(terms, content='search_passages', content_rowid='id', detail='none', columnsize=0, tokenize='ascii');
-- Remove the terms of deleted passages from the index at once, not when its segments are merged.
INSERT INTO search_terms (search_terms, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER search_passages_inserted AFTER INSERT ON search_passages BEGIN
    INSERT INTO search_terms (rowid, terms) VALUES (new.id, new.terms);
END;
CREATE TRIGGER search_passages_deleted AFTER DELETE ON search_passages BEGIN
    INSERT INTO search_terms (search_terms, rowid, terms) VALUES ('delete', old.id, old.terms);
END;
{end}

INSERT INTO search_documents (transcript_id, account_id, due_at, attempts, version, is_keyed)
SELECT id, account_id, 0, 0, 0, FALSE FROM transcripts WHERE status = 'completed' AND substr(owner, 1, 8) = 'account:';

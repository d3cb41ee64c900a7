-- Counts changes of a transcript's text, so that what was made of an older text is not stored with the new one.
ALTER TABLE transcripts ADD COLUMN text_revision BIGINT NOT NULL DEFAULT 0;

-- Credits of calls that are not minutes of audio (a summary, an analysis). They count against the spending limit of a key, not against its minutes.
ALTER TABLE key_months ADD COLUMN credits BIGINT NOT NULL DEFAULT 0;

-- The key and month that the credits of a hold were counted for. What is not charged is subtracted again.
ALTER TABLE holds ADD COLUMN key_id BIGINT REFERENCES keys (id) ON DELETE SET NULL;
ALTER TABLE holds ADD COLUMN month BIGINT;
CREATE INDEX holds_by_key ON holds (key_id);

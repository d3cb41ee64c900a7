-- The processes that serve, each with what it last said of itself. A row whose process has been silent for a while is removed by the others.
CREATE TABLE nodes (
    -- Random, new at each start.
    id TEXT NOT NULL PRIMARY KEY,
    host TEXT NOT NULL,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    role TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    -- JSON: load, models, what it runs.
    state TEXT NOT NULL
);
CREATE INDEX nodes_by_seen ON nodes (seen_at);

-- What readiness checks write, so that a database that takes no writes is noticed before a request does.
CREATE TABLE probes (
    name TEXT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL
);

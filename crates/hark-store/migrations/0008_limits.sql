-- What addresses did on a day, by a keyed hash of the address or of the network around it whose key is deleted after the day.
CREATE TABLE address_days (
    day BIGINT NOT NULL,
    purpose TEXT NOT NULL,
    address TEXT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (day, purpose, address)
);

-- Addresses (keyed hashes) that an account signed in from: who guesses its password elsewhere must not slow them down.
CREATE TABLE known_addresses (
    account_id BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    address TEXT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, address)
);
CREATE INDEX known_addresses_by_time ON known_addresses (last_at);

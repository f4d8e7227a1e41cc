-- Chains of handles and the sparse Merkle map over them. Everything here is public and has no owner, so no row-level
-- policy; the log of the operations is in schema tlog.

-- migrate:up
CREATE TABLE operation (
  log text NOT NULL,
  handle text NOT NULL,
  -- Its place in the history of the handle, whatever the subject; 0 is the first. The primary key refuses a second
  -- operation in one place: a history cannot fork here, whatever the program does.
  place bigint NOT NULL CHECK (place >= 0),
  mid bytea NOT NULL CHECK (octet_length(mid) = 32),
  -- Its index in the log.
  idx bigint NOT NULL CHECK (idx >= 0),
  -- The time of its leaf, ms since the epoch: what the 72 hours of a recovery count by.
  time_ms bigint NOT NULL CHECK (time_ms > 0),
  -- Serialised Envelope, as received.
  envelope bytea NOT NULL CHECK (octet_length(envelope) <= 8192),
  PRIMARY KEY (log, handle, place),
  UNIQUE (log, mid),
  UNIQUE (log, idx)
);

-- Tiles of the map as of the last operation of the log: four levels each, by the hex prefix of the keys below.
CREATE TABLE tile (
  log text NOT NULL,
  path text NOT NULL COLLATE "C" CHECK (path ~ '^[0-9a-f]{0,63}$'),
  slots bytea NOT NULL,
  PRIMARY KEY (log, path)
);
ALTER TABLE tile ALTER COLUMN slots SET STORAGE EXTERNAL;  -- hashes do not compress

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of % is refused: a chain only grows', TG_OP, TG_TABLE_NAME USING ERRCODE = 'IN002';
END $$;
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON operation EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT ON operation TO indai_app;
GRANT SELECT, INSERT, UPDATE ON tile TO indai_app;

-- migrate:down

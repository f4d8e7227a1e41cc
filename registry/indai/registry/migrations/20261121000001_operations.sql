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

-- Names by what they look like, for a warning to who claims a name that looks like another one.
CREATE TABLE name (
  log text NOT NULL,
  handle text NOT NULL,
  skeleton text NOT NULL COLLATE "C",
  PRIMARY KEY (log, handle)
);
CREATE INDEX name_skeleton ON name (log, skeleton);

-- Invite codes as digests, each bound to the one claim that used it.
CREATE TABLE invite (
  log text NOT NULL,
  digest bytea NOT NULL CHECK (octet_length(digest) = 32),
  mid bytea CHECK (octet_length(mid) = 32),
  PRIMARY KEY (log, digest)
);

-- What the domains of branded handles said when they were last asked; failing_since_ms is 0 for one that confirms.
CREATE TABLE domain (
  log text NOT NULL,
  handle text NOT NULL,
  subject_id text NOT NULL,
  confirmed_at_ms bigint NOT NULL,
  checked_at_ms bigint NOT NULL,
  failing_since_ms bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (log, handle)
);
CREATE INDEX domain_checked ON domain (log, checked_at_ms);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of % is refused: a chain only grows', TG_OP, TG_TABLE_NAME USING ERRCODE = 'IN002';
END $$;
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON operation EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT ON operation TO indai_app;
GRANT SELECT, INSERT, UPDATE ON tile, invite, domain TO indai_app;
GRANT SELECT, INSERT ON name TO indai_app;

-- migrate:down

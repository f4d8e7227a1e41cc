-- migrate:up
-- The keys that the log has announced after its first one. Public, and without an owner.
CREATE TABLE log_key (
  log text NOT NULL,
  -- The index of the leaf that announces it.
  idx bigint NOT NULL CHECK (idx >= 0),
  vkey text NOT NULL,
  -- The last head of the key before, under the quorum; with it the key has taken over.
  note bytea,
  PRIMARY KEY (log, idx)
);
GRANT SELECT, INSERT, UPDATE ON log_key TO indai_app;

-- migrate:down

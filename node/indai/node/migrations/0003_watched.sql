-- migrate:up
-- What this node last saw of each of its own handles in the registry, so that whatever happened to one while the node
-- was down is noticed when it is back. Not owner-scoped: public facts, read for all owners at once.
CREATE TABLE node.watched (
  owner         text PRIMARY KEY,
  subject_id    text NOT NULL,
  seq           bigint NOT NULL,
  mid           bytea NOT NULL CHECK (length(mid) = 32),
  rotation_keys text[] NOT NULL,  -- key ids
  home          text NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON node.watched TO indai_app;

-- migrate:down

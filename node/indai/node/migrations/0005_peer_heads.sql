-- Signed heads of other nodes' ledgers, as they came beside messages: what keeps those nodes from showing two histories.
-- Of nobody in particular, so not scoped by owner; each was verified by the key in its node's record.

-- migrate:up
CREATE TABLE node.peer_heads (
  log      text   NOT NULL,
  size     bigint NOT NULL,
  root     bytea  NOT NULL CHECK (length(root) = 32),
  note     bytea  NOT NULL,
  heard_ms bigint NOT NULL,
  PRIMARY KEY (log, size, root)  -- two roots of one size are two rows: both are kept, as evidence
);
GRANT SELECT, INSERT ON node.peer_heads TO indai_app;
-- migrate:down

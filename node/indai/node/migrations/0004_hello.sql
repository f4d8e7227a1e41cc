-- migrate:up
-- The newest card of each agent that lives here. The generation goes up with each change of the digest, never down.
CREATE TABLE node.cards (
  owner      text PRIMARY KEY,
  generation bigint NOT NULL CHECK (generation > 0),
  digest     bytea NOT NULL CHECK (length(digest) = 32)
);

-- What each agent here remembers of its peers: a peer that shows less than this is a rollback.
CREATE TABLE node.pins (
  owner       text NOT NULL,
  subject_id  text NOT NULL,   -- of the peer; its handle can change hands
  generation  bigint NOT NULL CHECK (generation > 0),
  card_digest bytea NOT NULL CHECK (length(card_digest) = 32),
  expires_ms  bigint NOT NULL,
  PRIMARY KEY (owner, subject_id)
);
ALTER TABLE node.pins ENABLE ROW LEVEL SECURITY;
ALTER TABLE node.pins FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON node.pins USING (node.mine(owner)) WITH CHECK (node.mine(owner));
GRANT SELECT, INSERT, UPDATE ON node.cards, node.pins TO indai_app;

-- migrate:down

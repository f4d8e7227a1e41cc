-- With whom an owner deals, one row for each: a desk shows people and says how well somebody is known without reading all
-- that was ever said with them. Kept by triggers, so that whatever writes threads keeps it too.

-- migrate:up
CREATE TABLE node.peers (
  owner    text NOT NULL,
  peer     text NOT NULL,
  threads  bigint NOT NULL,
  agreed   bigint NOT NULL,     -- of them, those that came to a commitment
  first_ms bigint NOT NULL,     -- when the first thread began
  last_ms  bigint NOT NULL,     -- when the newest began
  PRIMARY KEY (owner, peer)
);
CREATE INDEX peers_newest ON node.peers (owner, last_ms DESC, peer DESC);
-- Whoever migrates sees all rows for it, whatever role they are.
ALTER TABLE node.threads NO FORCE ROW LEVEL SECURITY;
INSERT INTO node.peers (owner, peer, threads, agreed, first_ms, last_ms)
  SELECT owner, peer, count(*), count(*) FILTER (WHERE phase = 'COMMITTED'), min(created_ms), max(created_ms)
  FROM node.threads GROUP BY owner, peer;
ALTER TABLE node.threads FORCE ROW LEVEL SECURITY;

ALTER TABLE node.peers ENABLE ROW LEVEL SECURITY;
ALTER TABLE node.peers FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON node.peers USING (node.mine(owner)) WITH CHECK (node.mine(owner));
GRANT SELECT, INSERT, UPDATE ON node.peers TO indai_app;

CREATE FUNCTION node.count_peer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO node.peers AS p (owner, peer, threads, agreed, first_ms, last_ms)
    VALUES (NEW.owner, NEW.peer, 1, (NEW.phase = 'COMMITTED')::int, NEW.created_ms, NEW.created_ms)
    ON CONFLICT (owner, peer) DO UPDATE SET threads = p.threads + 1, agreed = p.agreed + excluded.agreed,
      first_ms = least(p.first_ms, excluded.first_ms), last_ms = greatest(p.last_ms, excluded.last_ms);
  RETURN NULL;
END $$;
CREATE TRIGGER count_peer AFTER INSERT ON node.threads FOR EACH ROW EXECUTE FUNCTION node.count_peer();

CREATE FUNCTION node.count_agreed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE node.peers p SET agreed = p.agreed + 1 WHERE p.owner = NEW.owner AND p.peer = NEW.peer;
  RETURN NULL;
END $$;
CREATE TRIGGER count_agreed AFTER UPDATE OF phase ON node.threads FOR EACH ROW
  WHEN (OLD.phase <> 'COMMITTED' AND NEW.phase = 'COMMITTED') EXECUTE FUNCTION node.count_agreed();

-- migrate:down

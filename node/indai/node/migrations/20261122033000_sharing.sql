-- What an owner has to share and to answer with, what was shared under a consent, and an office's requests.

-- migrate:up
-- A profile field, e.g. `email`. The value is sealed by the node key for its owner and field.
CREATE TABLE node.profile_fields (
  owner      text NOT NULL,
  field      text NOT NULL,
  tags       text[] NOT NULL,
  sealed     bytea NOT NULL,
  updated_ms bigint NOT NULL,
  PRIMARY KEY (owner, field)
);

-- A document; its bytes are sealed by the node key for its owner and id.
CREATE TABLE node.documents (
  owner      text NOT NULL,
  id         text NOT NULL,
  title      text NOT NULL,
  media_type text NOT NULL,
  size_bytes int NOT NULL,
  tags       text[] NOT NULL,
  sealed     bytea NOT NULL,
  updated_ms bigint NOT NULL,
  PRIMARY KEY (owner, id)
);

-- What an offer of ours binds by its hash, sealed for the receiver's key: this node can't read it again.
CREATE TABLE node.shared (
  owner      text NOT NULL,
  sha256     bytea NOT NULL CHECK (length(sha256) = 32),
  thread     bytea,           -- NULL until the thread is known that offers it
  sealed     bytea NOT NULL,
  created_ms bigint NOT NULL,
  PRIMARY KEY (owner, sha256)
);
CREATE INDEX shared_of_thread ON node.shared (owner, thread);

-- What others shared with the owner, kept as long as the consent allows; sealed by the node key.
CREATE TABLE node.kept (
  owner     text NOT NULL,
  mid       bytea NOT NULL CHECK (length(mid) = 32),
  thread    bytea NOT NULL,
  sealed    bytea NOT NULL,
  read_ms   bigint NOT NULL,
  until_ms  bigint,           -- NULL: for ever
  PRIMARY KEY (owner, mid)
);
CREATE INDEX kept_until ON node.kept (until_ms) WHERE until_ms IS NOT NULL;

-- What a peer was told outside of threads: one row for each read of a content, and for each sort of answer and UTC day.
CREATE TABLE node.disclosures (
  owner      text NOT NULL,
  peer       text NOT NULL,
  item       text NOT NULL,
  commitment bytea NOT NULL,  -- empty for none
  begun_ms   bigint NOT NULL,
  last_ms    bigint NOT NULL,
  parts      bigint NOT NULL,
  PRIMARY KEY (owner, peer, item, commitment, begun_ms)
);
CREATE INDEX disclosures_newest ON node.disclosures (owner, last_ms DESC);

-- An owner's own answer to a question, until the thread it is for has ended.
CREATE TABLE node.own_answers (
  owner  text NOT NULL,
  thread bytea NOT NULL,
  sealed bytea NOT NULL,
  PRIMARY KEY (owner, thread)
);

-- An office's departments, and where each request stands.
CREATE TABLE node.offices (
  owner text PRIMARY KEY,
  doc   jsonb NOT NULL
);
CREATE TABLE node.request_stages (
  owner      text NOT NULL,
  thread     bytea NOT NULL,
  stage      text NOT NULL,
  updated_ms bigint NOT NULL,
  PRIMARY KEY (owner, thread)
);

CREATE INDEX threads_of_peer ON node.threads (owner, peer);

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['profile_fields', 'documents', 'shared', 'kept', 'disclosures', 'own_answers', 'offices',
                           'request_stages'] LOOP
    EXECUTE format('ALTER TABLE node.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE node.%I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY owner ON node.%I USING (node.mine(owner)) WITH CHECK (node.mine(owner))', t);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON node.%I TO indai_app', t);
  END LOOP;
END $$;

-- What is erased of a thread goes here too.
CREATE FUNCTION node.forget_shared() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM node.shared s WHERE s.owner = NEW.owner AND s.thread = NEW.thread;
  DELETE FROM node.kept k WHERE k.owner = NEW.owner AND k.thread = NEW.thread;
  DELETE FROM node.own_answers a WHERE a.owner = NEW.owner AND a.thread = NEW.thread;
  DELETE FROM node.request_stages r WHERE r.owner = NEW.owner AND r.thread = NEW.thread;
  RETURN NULL;
END $$;
CREATE TRIGGER forget_shared AFTER UPDATE OF erased_ms ON node.threads FOR EACH ROW
  WHEN (OLD.erased_ms IS NULL AND NEW.erased_ms IS NOT NULL) EXECUTE FUNCTION node.forget_shared();
-- migrate:down

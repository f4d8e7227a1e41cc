-- migrate:up
-- The node's own state: agents, threads, messages, and everything that must change together with them.
-- Owner-scoped throughout: row-level security is forced, and a transaction names the owners it works for in
-- `indai.owners` (comma-separated handles; a handle has no comma).

CREATE EXTENSION IF NOT EXISTS btree_gist WITH SCHEMA public;

CREATE FUNCTION node.mine(owner text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN owner = ANY (string_to_array(current_setting('indai.owners', true), ','));

-- One agent for each handle that lives here. Not owner-scoped: it is how an owner is found (by handle or token).
CREATE TABLE node.agents (
  owner         text PRIMARY KEY,
  token_sha256  bytea NOT NULL UNIQUE,
  calendar_path text NOT NULL,
  time_zone     text NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now()
);

-- Agent keys, sealed by the node key. The registry says which of them is valid.
CREATE TABLE node.agent_keys (
  owner       text NOT NULL REFERENCES node.agents,
  key_id      text NOT NULL,
  sealed_seed bytea NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, key_id)
);

-- `side` is one party's pure state (indai.protocol.party); the columns beside it are for lists and timers.
CREATE TABLE node.threads (
  owner      text NOT NULL,
  thread     bytea NOT NULL CHECK (length(thread) = 16),
  peer       text NOT NULL,
  side       text NOT NULL,
  phase      text NOT NULL,
  outgoing   boolean NOT NULL,
  title      text NOT NULL,
  start_ms   bigint,
  end_ms     bigint,
  mid        bytea,
  reason     text NOT NULL DEFAULT '',
  words      text NOT NULL DEFAULT '',
  receipt_log   text NOT NULL DEFAULT '',
  receipt_index bigint,
  ledger_index bigint,        -- of the COMMIT leaf in our own ledger
  reserved_mid bytea,         -- the reservation this thread holds
  peer_key   text NOT NULL DEFAULT '',  -- key id the peer signed its last message with: the one an offer names
  title_prefix text NOT NULL DEFAULT '',  -- what the owner's rule wants before the title in their calendar
  request_id text,
  wake_ms    bigint,          -- when the next timer of this thread is due; NULL for none
  created_ms bigint NOT NULL,
  updated_ms bigint NOT NULL,
  PRIMARY KEY (owner, thread),
  UNIQUE (owner, request_id)
);
CREATE INDEX threads_newest ON node.threads (owner, created_ms DESC, thread);
CREATE INDEX threads_due ON node.threads (wake_ms) WHERE wake_ms IS NOT NULL;

-- Every message of every thread, exact bytes; for incoming ones this row is the replay row.
CREATE TABLE node.messages (
  owner      text NOT NULL,
  mid        bytea NOT NULL CHECK (length(mid) = 32),
  move       text NOT NULL,
  thread     bytea NOT NULL,
  outgoing   boolean NOT NULL,
  header_id  bytea NOT NULL CHECK (length(header_id) = 16),
  envelope   bytea NOT NULL,
  cause_mid  bytea,           -- the incoming message this one answers at once: the stored outcome of that message
  cause_move text,
  decision   bytea,           -- serialised Decision, when our policy was asked
  position   bigint GENERATED ALWAYS AS IDENTITY,
  stored_ms  bigint NOT NULL,
  PRIMARY KEY (owner, mid, move)
);
CREATE INDEX messages_by_thread ON node.messages (owner, thread, position);
-- An id that comes again with other bytes is refused by the table itself; OFFER and ACCEPT share their bytes.
CREATE UNIQUE INDEX messages_id_reuse ON node.messages (owner, header_id, move);
CREATE INDEX messages_by_cause ON node.messages (owner, cause_mid, cause_move) WHERE cause_mid IS NOT NULL;

-- What waits to be delivered. The row goes away in the transaction that takes the peer's answer.
CREATE TABLE node.outbox (
  owner     text NOT NULL,
  mid       bytea NOT NULL,
  move      text NOT NULL,
  recipient text NOT NULL,
  PRIMARY KEY (owner, mid, move)
);

-- Slots promised or agreed. The exclusion constraint is what makes a double booking impossible, whoever writes.
CREATE TABLE node.reservations (
  owner    text NOT NULL,
  mid      bytea NOT NULL,
  slot     tstzrange NOT NULL CHECK (NOT isempty(slot)),
  consumed boolean NOT NULL DEFAULT false,
  PRIMARY KEY (owner, mid),
  EXCLUDE USING gist (owner WITH =, slot WITH &&)
);

-- The offerer's one decision for each offer: open, then committed or lapsed, for good.
CREATE TABLE node.offers (
  owner      text NOT NULL,
  mid        bytea NOT NULL,
  state      text NOT NULL CHECK (state IN ('open', 'committed', 'lapsed')),
  expires_ms bigint NOT NULL,
  PRIMARY KEY (owner, mid)
);

-- Questions to the owner, each bound to the hash of the exact terms.
CREATE TABLE node.approvals (
  owner       text NOT NULL,
  action_hash bytea NOT NULL CHECK (length(action_hash) = 32),
  thread      bytea NOT NULL,
  terms       text NOT NULL,
  why         text NOT NULL,
  state       text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'declined', 'expired')),
  expires_ms  bigint NOT NULL,
  created_ms  bigint NOT NULL,
  PRIMARY KEY (owner, action_hash)
);
CREATE INDEX approvals_pending ON node.approvals (owner, expires_ms) WHERE state = 'pending';

-- The owner's private log.
CREATE TABLE node.journal (
  owner  text NOT NULL,
  id     bigint GENERATED ALWAYS AS IDENTITY,
  at_ms  bigint NOT NULL,
  thread bytea,
  mid    bytea,
  peer   text NOT NULL,
  event  text NOT NULL,
  reason text NOT NULL,
  words  text NOT NULL,
  PRIMARY KEY (owner, id)
);

-- Writes outside the database that follow from committed state. Idempotent by key, retried until done.
CREATE TABLE node.effects (
  owner      text NOT NULL,
  key        text NOT NULL,   -- iCalendar UID
  kind       text NOT NULL CHECK (kind IN ('calendar-put')),
  doc        jsonb NOT NULL,
  thread     bytea NOT NULL,
  done       boolean NOT NULL DEFAULT false,
  created_ms bigint NOT NULL,
  PRIMARY KEY (owner, kind, key)
);
CREATE INDEX effects_waiting ON node.effects (owner) WHERE NOT done;

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['threads', 'messages', 'outbox', 'reservations', 'offers', 'approvals', 'journal', 'effects'] LOOP
    EXECUTE format('ALTER TABLE node.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE node.%I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY owner ON node.%I USING (node.mine(owner)) WITH CHECK (node.mine(owner))', t);
  END LOOP;
END $$;

-- What a batch must know and has not in memory, in one round trip. Rows are typed by `what`. `p_busy_owners` are the
-- owners whose reservations are wanted; the newest signed form of a thread's commitment comes with the thread.
CREATE FUNCTION node.load_batch(
  p_owners text[], p_thread_owners text[], p_threads bytea[], p_busy_owners text[], p_busy_from_ms bigint
) RETURNS TABLE (what text, owner text, key bytea, num1 bigint, num2 bigint, doc jsonb, raw bytea)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('indai.owners', array_to_string(p_owners, ','), true);
  RETURN QUERY
    SELECT 'clock', '', NULL::bytea, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, NULL::bigint, NULL::jsonb,
           NULL::bytea
    UNION ALL
    SELECT 'thread', t.owner, t.thread, NULL, NULL, to_jsonb(t),
           (SELECT m.envelope FROM node.messages m
             WHERE m.owner = t.owner AND m.mid = t.mid AND m.move IN ('OFFER', 'ACCEPT') ORDER BY m.move LIMIT 1)
      FROM unnest(p_thread_owners, p_threads) AS q (owner, thread)
      JOIN node.threads t ON t.owner = q.owner AND t.thread = q.thread
    UNION ALL
    SELECT 'reserved', r.owner, r.mid, (extract(epoch FROM lower(r.slot)) * 1000)::bigint,
           (extract(epoch FROM upper(r.slot)) * 1000)::bigint, NULL, NULL
      FROM unnest(p_busy_owners) AS q (owner)
      JOIN node.reservations r ON r.owner = q.owner
       AND r.slot && tstzrange(to_timestamp(p_busy_from_ms / 1000.0), 'infinity');
END $$;

-- Everything a batch changes, in one statement and so in one transaction; the ledger's append is its last act.
-- Bytes travel as '\x…' text inside the document.
CREATE FUNCTION node.apply_batch(p_owners text[], p_doc jsonb, p_log text, p_epoch bigint, p_size bigint)
RETURNS bigint  -- the database's clock, ms
LANGUAGE plpgsql AS $$
DECLARE
  wanted bigint;
  changed bigint;
BEGIN
  PERFORM set_config('indai.owners', array_to_string(p_owners, ','), true);

  -- New and known threads apart: a thread that the writer believes new and is not fails here, and is looked up.
  IF p_doc ? 'new_threads' THEN
    INSERT INTO node.threads SELECT r.* FROM jsonb_populate_recordset(NULL::node.threads, p_doc -> 'new_threads') AS r;
  END IF;
  IF p_doc ? 'threads' THEN
    UPDATE node.threads t SET
      side = r.side, phase = r.phase, start_ms = r.start_ms, end_ms = r.end_ms, mid = r.mid, reason = r.reason,
      words = r.words, receipt_log = r.receipt_log, receipt_index = r.receipt_index, ledger_index = r.ledger_index, reserved_mid = r.reserved_mid, title_prefix = r.title_prefix, peer_key = r.peer_key,
      wake_ms = r.wake_ms, updated_ms = r.updated_ms
      FROM jsonb_populate_recordset(NULL::node.threads, p_doc -> 'threads') AS r
      WHERE t.owner = r.owner AND t.thread = r.thread;
  END IF;

  IF p_doc ? 'messages' THEN
  INSERT INTO node.messages (owner, mid, move, thread, outgoing, header_id, envelope, cause_mid, cause_move, decision, stored_ms)
    SELECT r.owner, r.mid, r.move, r.thread, r.outgoing, r.header_id, r.envelope, r.cause_mid, r.cause_move, r.decision, r.stored_ms
      FROM jsonb_to_recordset(p_doc -> 'messages') AS r (owner text, mid bytea, move text, thread bytea, outgoing boolean,
        header_id bytea, envelope bytea, cause_mid bytea, cause_move text, decision bytea, stored_ms bigint);
  END IF;

  IF p_doc ? 'acks' THEN
    DELETE FROM node.outbox o USING jsonb_to_recordset(p_doc -> 'acks') AS r (owner text, mid bytea, move text)
      WHERE o.owner = r.owner AND o.mid = r.mid AND o.move = r.move;
  END IF;
  IF p_doc ? 'outbox' THEN
    INSERT INTO node.outbox (owner, mid, move, recipient)
      SELECT r.owner, r.mid, r.move, r.recipient
        FROM jsonb_to_recordset(p_doc -> 'outbox') AS r (owner text, mid bytea, move text, recipient text)
      ON CONFLICT DO NOTHING;
  END IF;

  -- Release first: a slot given back in this batch may be promised again in it.
  IF p_doc ? 'release' THEN
    DELETE FROM node.reservations v USING jsonb_to_recordset(p_doc -> 'release') AS r (owner text, mid bytea)
      WHERE v.owner = r.owner AND v.mid = r.mid AND NOT v.consumed;
  END IF;
  IF p_doc ? 'reserve' THEN
    INSERT INTO node.reservations (owner, mid, slot)
      SELECT r.owner, r.mid, tstzrange(to_timestamp(r.start_ms / 1000.0), to_timestamp(r.end_ms / 1000.0))
        FROM jsonb_to_recordset(p_doc -> 'reserve') AS r (owner text, mid bytea, start_ms bigint, end_ms bigint);
  END IF;
  IF p_doc ? 'consume' THEN
    UPDATE node.reservations v SET consumed = true
      FROM jsonb_to_recordset(p_doc -> 'consume') AS r (owner text, mid bytea)
      WHERE v.owner = r.owner AND v.mid = r.mid;
    GET DIAGNOSTICS changed = ROW_COUNT;
    wanted := jsonb_array_length(p_doc -> 'consume');
    IF changed <> wanted THEN
      RAISE EXCEPTION 'a commitment without its reservation (% of % found)', changed, wanted USING ERRCODE = 'IND10';
    END IF;
  END IF;

  IF p_doc ? 'offers' THEN
    INSERT INTO node.offers (owner, mid, state, expires_ms)
      SELECT r.owner, r.mid, 'open', r.expires_ms
        FROM jsonb_to_recordset(p_doc -> 'offers') AS r (owner text, mid bytea, expires_ms bigint);
  END IF;
  IF p_doc ? 'decide' THEN
    -- The compare-and-set behind "the offerer decides once": only an open offer can change.
    UPDATE node.offers o SET state = r.state
      FROM jsonb_to_recordset(p_doc -> 'decide') AS r (owner text, mid bytea, state text)
      WHERE o.owner = r.owner AND o.mid = r.mid AND o.state = 'open';
    GET DIAGNOSTICS changed = ROW_COUNT;
    wanted := jsonb_array_length(p_doc -> 'decide');
    IF changed <> wanted THEN
      RAISE EXCEPTION 'an offer was decided before (% of % open)', changed, wanted USING ERRCODE = 'IND11';
    END IF;
  END IF;

  IF p_doc ? 'answers' THEN
    -- Single use: a question that was answered or ran out can't be answered again.
    UPDATE node.approvals a SET state = r.state
      FROM jsonb_to_recordset(p_doc -> 'answers') AS r (owner text, action_hash bytea, state text)
      WHERE a.owner = r.owner AND a.action_hash = r.action_hash AND a.state = 'pending';
    GET DIAGNOSTICS changed = ROW_COUNT;
    wanted := jsonb_array_length(p_doc -> 'answers');
    IF changed <> wanted THEN
      RAISE EXCEPTION 'an approval was answered before' USING ERRCODE = 'IND12';
    END IF;
  END IF;
  IF p_doc ? 'void' THEN
    UPDATE node.approvals a SET state = 'expired'
      FROM jsonb_to_recordset(p_doc -> 'void') AS r (owner text, thread bytea)
      WHERE a.owner = r.owner AND a.thread = r.thread AND a.state = 'pending';
  END IF;
  IF p_doc ? 'approvals' THEN
    INSERT INTO node.approvals (owner, action_hash, thread, terms, why, expires_ms, created_ms)
      SELECT r.owner, r.action_hash, r.thread, r.terms, r.why, r.expires_ms, r.created_ms
        FROM jsonb_to_recordset(p_doc -> 'approvals') AS r (owner text, action_hash bytea, thread bytea, terms text, why text,
          expires_ms bigint, created_ms bigint);
  END IF;
  IF p_doc ? 'effects' THEN
    INSERT INTO node.effects (owner, key, kind, doc, thread, created_ms)
      SELECT r.owner, r.key, r.kind, r.doc, r.thread, r.created_ms
        FROM jsonb_to_recordset(p_doc -> 'effects') AS r (owner text, key text, kind text, doc jsonb, thread bytea, created_ms bigint)
      ON CONFLICT (owner, kind, key) DO NOTHING;
  END IF;
  IF p_doc ? 'journal' THEN
    INSERT INTO node.journal (owner, at_ms, thread, mid, peer, event, reason, words)
      SELECT r.owner, r.at_ms, r.thread, r.mid, r.peer, r.event, r.reason, r.words
        FROM jsonb_to_recordset(p_doc -> 'journal') AS r (owner text, at_ms bigint, thread bytea, mid bytea, peer text,
          event text, reason text, words text);
  END IF;

  -- Last: takes the head's lock, and holds it only until this statement commits.
  IF p_doc ? 'ledger' THEN
    PERFORM ledger.record(p_log, p_epoch, p_size,
      array_agg(r.owner ORDER BY r.ord), array_agg(r.mid ORDER BY r.ord), array_agg(r.kind ORDER BY r.ord),
      array_agg(r.envelope ORDER BY r.ord), array_agg(r.opening ORDER BY r.ord), array_agg(r.leaf ORDER BY r.ord),
      array_agg(timestamptz 'epoch' + r.time_ms * interval '1 millisecond' ORDER BY r.ord))
      FROM jsonb_to_recordset(p_doc -> 'ledger') AS r (ord int, owner text, mid bytea, kind smallint, envelope bytea,
        opening bytea, leaf bytea, time_ms bigint);
  END IF;
  RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
END $$;

GRANT SELECT, INSERT, UPDATE ON node.agents, node.threads, node.offers, node.approvals, node.effects TO indai_app;
GRANT SELECT, INSERT ON node.agent_keys, node.messages, node.journal TO indai_app;
GRANT SELECT, INSERT, DELETE ON node.outbox TO indai_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON node.reservations TO indai_app;
-- migrate:down

-- What the leaves of a commitment ledger commit to. The tree itself is in schema tlog; a leaf is a blinded hash,
-- and the row here is what opens it. Deleting a row erases the content and leaves the tree valid.

-- migrate:up
CREATE TABLE contents (
  log text NOT NULL,
  -- Of its leaf. Who looks for a message finds its index in tlog.entry, so no second index by mid is kept here.
  idx bigint NOT NULL,
  owner text NOT NULL,
  -- Of the message a leaf is about: with owner and kind it makes recording idempotent.
  mid bytea NOT NULL CHECK (octet_length(mid) = 32),
  kind smallint NOT NULL,
  -- Serialised Envelope. Commitments carry their signatures, decisions and policy versions none.
  envelope bytea NOT NULL,
  -- Key of the HMAC in the leaf. Whoever has it and the envelope can show that the leaf stands for it.
  opening bytea NOT NULL CHECK (octet_length(opening) = 32),
  PRIMARY KEY (log, idx)
);

GRANT SELECT, INSERT ON contents TO indai_app;
ALTER TABLE contents ENABLE ROW LEVEL SECURITY;
ALTER TABLE contents FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON contents
  USING (owner = ANY ((SELECT string_to_array(current_setting('indai.owners', true), ','))::text[]));

-- Records entries in a ledger: the last statement of the caller's own transaction, since it takes the lock on the
-- log's head, which is held until COMMIT. All arrays have one element for each entry.
--   p_expected_size  NULL, or the size the log must have now (the caller has predicted its indexes from it)
--   p_times          the times in the leaves
-- An entry that is there already (same owner, mid and kind) keeps its first opening and gets its index again.
-- Raises IN001 if one is there with another envelope; else what tlog.append raises.
-- Sequential scans are off because a session keeps the plan it made while the tables were small.
CREATE FUNCTION record(
  p_log text, p_epoch bigint, p_expected_size bigint, p_owners text[], p_mids bytea[], p_kinds smallint[],
  p_envelopes bytea[], p_openings bytea[], p_leaves bytea[], p_times timestamptz[]
) RETURNS TABLE (ord integer, idx bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  v_idx bigint[];
  v_added boolean[];
BEGIN
  SELECT array_agg(a.idx ORDER BY a.ord), array_agg(a.added ORDER BY a.ord) INTO v_idx, v_added
  FROM tlog.append(
    p_log, p_epoch, p_expected_size, p_owners, p_mids, p_kinds, p_leaves,
    (SELECT array_agg(tlog.epoch_ms(t.at) ORDER BY t.ord) FROM unnest(p_times) WITH ORDINALITY AS t (at, ord))
  ) WITH ORDINALITY AS a (idx, time_ms, added, ord);

  INSERT INTO ledger.contents (log, idx, owner, mid, kind, envelope, opening)
  SELECT p_log, e.idx, e.owner, e.mid, e.kind, e.envelope, e.opening
  FROM unnest(p_owners, p_mids, p_kinds, v_idx, v_added, p_envelopes, p_openings)
    AS e (owner, mid, kind, idx, added, envelope, opening)
  WHERE e.added;

  IF false = ANY (v_added) AND EXISTS (
    SELECT FROM unnest(v_idx, p_envelopes) AS e (idx, envelope)
    WHERE e.envelope <> (SELECT c.envelope FROM ledger.contents c WHERE c.log = p_log AND c.idx = e.idx)
  ) THEN
    RAISE EXCEPTION 'an entry of this owner, mid and kind is recorded with another envelope'
      USING ERRCODE = 'IN001';
  END IF;

  RETURN QUERY SELECT i.ord::integer, i.idx FROM unnest(v_idx) WITH ORDINALITY AS i (idx, ord) ORDER BY i.ord;
END
$$;
GRANT EXECUTE ON FUNCTION record TO indai_app;

-- migrate:down

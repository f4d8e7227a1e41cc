-- Contents are sealed, each by a key of its own, which stands apart; erasing removes both and says so.

-- migrate:up
DO $$ BEGIN
  IF EXISTS (SELECT FROM ledger.contents) THEN
    RAISE EXCEPTION 'this ledger has contents of a version before sealing: export it with that version, and begin a new one';
  END IF;
END $$;
DROP FUNCTION record;

-- version (1) || fingerprint of the envelope (32) || nonce || sealed opening and envelope. See indai.ledger.vault.
ALTER TABLE contents RENAME COLUMN envelope TO content;
ALTER TABLE contents DROP COLUMN opening;
ALTER TABLE contents ADD CHECK (octet_length(content) > 33);
ALTER TABLE contents ALTER COLUMN content SET STORAGE EXTERNAL;  -- what is sealed does not compress

-- What opens a content. A backup without this table holds nothing that can be read.
CREATE TABLE content_keys (
  log text NOT NULL,
  idx bigint NOT NULL,
  owner text NOT NULL,
  key bytea NOT NULL,
  PRIMARY KEY (log, idx)
);

-- Contents that were erased on purpose: without a row here, a missing content is a loss.
CREATE TABLE erasures (
  log text NOT NULL,
  idx bigint NOT NULL,
  owner text NOT NULL,
  time timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (log, idx)
);

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['content_keys', 'erasures'] LOOP
    EXECUTE format('ALTER TABLE ledger.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE ledger.%I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY owners ON ledger.%I USING (owner = ANY ((SELECT string_to_array(current_setting(''indai.owners'', true), '',''))::text[]))', t);
  END LOOP;
END $$;
GRANT SELECT, INSERT ON content_keys TO indai_app;
GRANT SELECT ON erasures TO indai_app;

-- Records entries in a ledger: the last statement of the caller's own transaction, since it takes the lock on the
-- log's head, which is held until COMMIT. All arrays have one element for each entry.
--   p_expected_size  NULL, or the size the log must have now (the caller has predicted its indexes from it)
--   p_contents, p_keys  as the vault sealed them
--   p_times          the times in the leaves
-- An entry that is there already (same owner, mid and kind) keeps its first content and gets its index again.
-- Raises IN001 if one is there with another envelope; else what tlog.append raises. An erased content can't be
-- compared with, and is not written again.
-- Sequential scans are off because a session keeps the plan it made while the tables were small.
CREATE FUNCTION record(
  p_log text, p_epoch bigint, p_expected_size bigint, p_owners text[], p_mids bytea[], p_kinds smallint[],
  p_contents bytea[], p_keys bytea[], p_leaves bytea[], p_times timestamptz[]
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

  WITH added AS (
    SELECT e.* FROM unnest(p_owners, p_mids, p_kinds, v_idx, v_added, p_contents, p_keys)
      AS e (owner, mid, kind, idx, added, content, key)
    WHERE e.added
  ), keys AS (
    INSERT INTO ledger.content_keys (log, idx, owner, key) SELECT p_log, a.idx, a.owner, a.key FROM added a
  )
  INSERT INTO ledger.contents (log, idx, owner, mid, kind, content)
  SELECT p_log, a.idx, a.owner, a.mid, a.kind, a.content FROM added a;

  IF false = ANY (v_added) AND EXISTS (
    SELECT FROM unnest(v_idx, p_contents) AS e (idx, content)
    WHERE substr(e.content, 1, 33)
       <> (SELECT substr(c.content, 1, 33) FROM ledger.contents c WHERE c.log = p_log AND c.idx = e.idx)
  ) THEN
    RAISE EXCEPTION 'an entry of this owner, mid and kind is recorded with another envelope'
      USING ERRCODE = 'IN001';
  END IF;

  RETURN QUERY SELECT i.ord::integer, i.idx FROM unnest(v_idx) WITH ORDINALITY AS i (idx, ord) ORDER BY i.ord;
END
$$;
GRANT EXECUTE ON FUNCTION record TO indai_app;

-- Erases what an owner's entries about these messages contain; their leaves stay. Returns how many were erased.
-- SECURITY DEFINER, because the application may remove nothing in any other way. Whoever calls it must be the owner.
CREATE FUNCTION erase(p_log text, p_owner text, p_mids bytea[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_temp AS $$
DECLARE
  v_erased bigint;
BEGIN
  IF p_owner <> ALL (string_to_array(coalesce(current_setting('indai.owners', true), ''), ',')) THEN
    RAISE EXCEPTION 'only the owner erases a content' USING ERRCODE = 'insufficient_privilege';
  END IF;
  WITH gone AS (
    DELETE FROM contents c USING tlog.entry e
    WHERE e.log = p_log AND e.owner = p_owner AND e.mid = ANY (p_mids) AND c.log = e.log AND c.idx = e.idx
    RETURNING c.idx
  ), keyless AS (
    DELETE FROM content_keys k USING gone WHERE k.log = p_log AND k.idx = gone.idx
  ), noted AS (
    INSERT INTO erasures (log, idx, owner) SELECT p_log, gone.idx, p_owner FROM gone RETURNING 1
  )
  SELECT count(*) INTO v_erased FROM noted;
  RETURN v_erased;
END
$$;
REVOKE ALL ON FUNCTION erase FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase TO indai_app;

-- migrate:down

-- An erasure says what it erased: without that, the leaf of an erased event looks like that of an erased commitment.

-- migrate:up
-- Both ids are hashes over random bytes, and say nothing about a content. NULL in rows from before.
ALTER TABLE erasures ADD COLUMN mid bytea;
-- Of the commitment that it is, or is an event of; NULL for decisions, and whatever else is no deed.
ALTER TABLE erasures ADD COLUMN about bytea;
DROP FUNCTION erase(text, text, bytea[]);

-- Erases what an owner's entries about these messages contain; their leaves stay. Returns how many were erased.
-- The messages are those of one thread: the first deed among them is its commitment, and all later ones are events.
-- SECURITY DEFINER, because the application may remove nothing in any other way. Whoever calls it must be the owner.
CREATE FUNCTION erase(p_log text, p_owner text, p_mids bytea[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_temp AS $$
DECLARE
  v_erased bigint;
  v_deed bytea;
BEGIN
  IF p_owner <> ALL (string_to_array(coalesce(current_setting('indai.owners', true), ''), ',')) THEN
    RAISE EXCEPTION 'only the owner erases a content' USING ERRCODE = 'insufficient_privilege';
  END IF;
  SELECT e.mid INTO v_deed FROM tlog.entry e
    WHERE e.log = p_log AND e.owner = p_owner AND e.mid = ANY (p_mids) AND e.kind = 1 ORDER BY e.idx LIMIT 1;
  WITH gone AS (
    DELETE FROM contents c USING tlog.entry e
    WHERE e.log = p_log AND e.owner = p_owner AND e.mid = ANY (p_mids) AND c.log = e.log AND c.idx = e.idx
    RETURNING c.idx, e.mid, e.kind
  ), keyless AS (
    DELETE FROM content_keys k USING gone WHERE k.log = p_log AND k.idx = gone.idx
  ), noted AS (
    INSERT INTO erasures (log, idx, owner, mid, about)
    SELECT p_log, gone.idx, p_owner, gone.mid, CASE WHEN gone.kind = 1 THEN v_deed END FROM gone RETURNING 1
  )
  SELECT count(*) INTO v_erased FROM noted;
  RETURN v_erased;
END
$$;
REVOKE ALL ON FUNCTION erase FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase TO indai_app;

-- migrate:down

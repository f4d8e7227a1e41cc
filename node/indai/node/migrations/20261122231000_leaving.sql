-- An owner leaves: everything that is theirs goes, but for what must stay (the list in `forget_owner`).

-- migrate:up
-- Who left, when, and how much went. A row without an end is carried on with by the next start.
CREATE TABLE node.leavings (
  owner       text NOT NULL,
  asked_ms    bigint NOT NULL,
  asked_by    text NOT NULL CHECK (asked_by IN ('owner', 'operator')),
  -- Whether what still went on was dropped.
  at_once     boolean NOT NULL,
  removed     jsonb NOT NULL DEFAULT '{}',  -- table: rows
  finished_ms bigint,
  PRIMARY KEY (owner, asked_ms)
);
CREATE UNIQUE INDEX leavings_going ON node.leavings (owner) WHERE finished_ms IS NULL;
GRANT SELECT, INSERT ON node.leavings TO indai_app;
GRANT UPDATE (at_once, removed, finished_ms) ON node.leavings TO indai_app;
ALTER TABLE node.leavings ENABLE ROW LEVEL SECURITY;
ALTER TABLE node.leavings FORCE ROW LEVEL SECURITY;
-- The node's start and its operator look at all of them.
CREATE POLICY owners ON node.leavings
  USING (node.mine(owner) OR current_setting('indai.leavings', true) = 'all')
  WITH CHECK (node.mine(owner));

CREATE FUNCTION node.tallied(p_counts jsonb, p_name text, p_more bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_more > 0
    THEN p_counts || jsonb_build_object(p_name, coalesce((p_counts ->> p_name)::bigint, 0) + p_more) ELSE p_counts END
$$;

-- Removes every row of an owner from every table of this database that names its owner, present and future: a table
-- is left alone only if it stands in the list. Returns how many rows of which table went, or would go.
--   node.threads, node.messages   blinded: ids and places in ledgers, by which later messages are refused
--   ledger, tlog                  leaves stay; contents and their keys go (`ledger.erase`)
--   web.audit_log, llm.calls      who did what, and what it cost: no words of anybody
--   memory                        has a forgetting of its own
-- SECURITY DEFINER, because the application may remove most of this in no other way. Whoever calls it must be the owner.
CREATE FUNCTION node.forget_owner(p_owner text, p_now_ms bigint, p_only_count boolean)
RETURNS jsonb  -- {table: rows}
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_kept constant text[] := ARRAY['node.threads', 'node.messages', 'node.leavings', 'web.audit_log', 'llm.calls'];
  v_people uuid[];
  v_values text[];
  v_again boolean := true;
  v_removed jsonb := '{}';
  v_rows bigint;
  v_each record;
BEGIN
  IF p_owner <> ALL (string_to_array(coalesce(current_setting('indai.owners', true), ''), ',')) THEN
    RAISE EXCEPTION 'only the owner is forgotten' USING ERRCODE = 'insufficient_privilege';
  END IF;
  PERFORM set_config('indai.leaving', 'on', true);  -- the policies of runtime, llm and edge

  -- The owner themselves, and those who have talked to nobody else's agent.
  SELECT array_agg(DISTINCT p.person) INTO v_people FROM (
    SELECT i.person FROM runtime.identities i WHERE i.kind = 'handle' AND i.verified AND i.value = p_owner
    UNION
    SELECT s.person FROM runtime.sessions s WHERE s.owner = p_owner AND NOT EXISTS (
      SELECT FROM runtime.sessions o WHERE o.person = s.person AND o.owner <> p_owner)
  ) p;
  SELECT array_agg(i.value) INTO v_values FROM runtime.identities i WHERE i.person = ANY (v_people);

  SELECT count(*) INTO v_rows FROM ledger.contents c WHERE c.owner = p_owner;
  v_removed := node.tallied(v_removed, 'ledger.contents', v_rows);
  SELECT count(*) INTO v_rows FROM node.threads t WHERE t.owner = p_owner AND t.erased_ms IS NULL;
  v_removed := node.tallied(v_removed, 'node.threads', v_rows);
  IF NOT p_only_count THEN
    -- Whatever still went on ends here, unheard of by the other side.
    DELETE FROM node.outbox o WHERE o.owner = p_owner;
    DELETE FROM node.effects e WHERE e.owner = p_owner;
    UPDATE node.threads t SET phase = 'LAPSED'
      WHERE t.owner = p_owner AND t.phase NOT IN ('COMMITTED', 'REJECTED', 'WITHDRAWN', 'LAPSED');
    FOR v_each IN SELECT t.thread, l.log FROM node.threads t, (SELECT DISTINCT e.log FROM tlog.entry e WHERE e.owner = p_owner) l
      WHERE t.owner = p_owner LOOP
      PERFORM node.erase_thread(p_owner, v_each.thread, v_each.log, p_now_ms);
    END LOOP;
    FOR v_each IN SELECT DISTINCT e.log, e.mid FROM ledger.contents c JOIN tlog.entry e ON e.log = c.log AND e.idx = c.idx
      WHERE c.owner = p_owner LOOP
      PERFORM ledger.erase(v_each.log, p_owner, ARRAY[v_each.mid]);
    END LOOP;
  END IF;

  -- A table whose rows another one still names waits for the next round.
  WHILE v_again LOOP
    v_again := false;
    FOR v_each IN
      SELECT n.nspname AS schema, c.relname AS tab, a.attname AS col
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT a.attisdropped AND a.atttypid = 'text'::regtype
        AND (n.nspname, a.attname) IN (
          ('node', 'owner'), ('runtime', 'owner'), ('tools', 'holder'), ('policy', 'owner'), ('policy', 'scope'),
          ('llm', 'owner'), ('dpi', 'owner'), ('a2a', 'owner'), ('web', 'owner'), ('web', 'scope'))
        AND n.nspname || '.' || c.relname <> ALL (v_kept)
      ORDER BY 1, 2
    LOOP
      BEGIN
        IF p_only_count THEN
          EXECUTE format('SELECT count(*) FROM %I.%I WHERE %I = $1', v_each.schema, v_each.tab, v_each.col)
            INTO v_rows USING p_owner;
        ELSE
          EXECUTE format('DELETE FROM %I.%I WHERE %I = $1', v_each.schema, v_each.tab, v_each.col) USING p_owner;
          GET DIAGNOSTICS v_rows = ROW_COUNT;
        END IF;
        v_removed := node.tallied(v_removed, v_each.schema || '.' || v_each.tab, v_rows);
      EXCEPTION WHEN foreign_key_violation THEN
        v_again := true;
      END;
    END LOOP;
  END LOOP;

  IF NOT p_only_count THEN
    DELETE FROM runtime.link_codes k WHERE k.person = ANY (v_people);
    DELETE FROM runtime.identities i WHERE i.person = ANY (v_people);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_removed := node.tallied(v_removed, 'runtime.identities', v_rows);
    -- Where the owner was somebody else's visitor, that one's conversation keeps a person without a name.
    UPDATE runtime.users u SET display_name = '' WHERE u.id = ANY (v_people);
    DELETE FROM runtime.users u WHERE u.id = ANY (v_people)
      AND NOT EXISTS (SELECT FROM runtime.sessions s WHERE s.person = u.id);
    IF to_regclass('edge.inbox') IS NOT NULL THEN
      -- What is done there has no words and no address any more; the rest waits to be said, or to be read.
      EXECUTE 'DELETE FROM edge.inbox WHERE address = ANY ($1)' USING v_values;
      EXECUTE 'DELETE FROM edge.outbox WHERE address = ANY ($1)' USING v_values;
      EXECUTE 'UPDATE edge.peers SET handle = $2, choices = $3 WHERE handle = $1' USING p_owner, '', ARRAY[]::text[];
    END IF;
  END IF;
  RETURN v_removed;
END $$;
REVOKE ALL ON FUNCTION node.forget_owner FROM PUBLIC;
GRANT EXECUTE ON FUNCTION node.forget_owner TO indai_app;

-- migrate:down

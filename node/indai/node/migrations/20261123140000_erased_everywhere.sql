-- A node may have begun another ledger since a thread was recorded: what the thread says is erased in each of them.

-- migrate:up
ALTER FUNCTION node.erase_thread(text, bytea, text, bigint) RENAME TO erase_thread_of;

CREATE FUNCTION node.erase_thread(p_owner text, p_thread bytea, p_log text, p_now_ms bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_erased bigint := node.erase_thread_of(p_owner, p_thread, p_log, p_now_ms);
  v_log text;
BEGIN
  IF v_erased IS NOT NULL THEN
    FOR v_log IN SELECT h.log FROM tlog.head h WHERE h.log <> p_log LOOP
      v_erased := v_erased + ledger.erase(v_log, p_owner, ARRAY(
        SELECT DISTINCT m.mid FROM node.messages m WHERE m.owner = p_owner AND m.thread = p_thread));
    END LOOP;
  END IF;
  RETURN v_erased;
END $$;
-- migrate:down

-- An owner may erase what a thread that has ended says. What stays is what later messages are refused by.

-- migrate:up
ALTER TABLE node.threads ADD COLUMN erased_ms bigint;  -- when its content was erased; NULL for never

-- Erases the content of one thread, in the ledger too. Runs only where nothing can change any more: the thread has
-- ended, and nothing of it waits to be delivered or written. Returns the number of ledger entries erased, or NULL.
--   messages   keep id, move, header id and time: they are the replay rows
--   threads    keep peer, phase and places in the ledgers
--   journal    keeps that and when something was decided
--   reservations  a slot still to come stays taken, without saying what for
CREATE FUNCTION node.erase_thread(p_owner text, p_thread bytea, p_log text, p_now_ms bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  v_mids bytea[];
BEGIN
  PERFORM set_config('indai.owners', p_owner, true);
  PERFORM FROM node.threads t
    WHERE t.owner = p_owner AND t.thread = p_thread AND t.phase IN ('COMMITTED', 'REJECTED', 'WITHDRAWN', 'LAPSED')
    FOR UPDATE;
  IF NOT FOUND OR EXISTS (
    SELECT FROM node.outbox o JOIN node.messages m USING (owner, mid, move)
    WHERE m.owner = p_owner AND m.thread = p_thread
  ) OR EXISTS (
    SELECT FROM node.effects e WHERE e.owner = p_owner AND e.thread = p_thread AND NOT e.done
  ) THEN
    RETURN NULL;
  END IF;
  SELECT array_agg(DISTINCT m.mid) INTO v_mids FROM node.messages m WHERE m.owner = p_owner AND m.thread = p_thread;

  UPDATE node.messages m SET envelope = '', decision = NULL WHERE m.owner = p_owner AND m.thread = p_thread;
  UPDATE node.threads t SET side = '', title = '', title_prefix = '', words = '', start_ms = NULL, end_ms = NULL,
      erased_ms = coalesce(t.erased_ms, p_now_ms), updated_ms = p_now_ms
    WHERE t.owner = p_owner AND t.thread = p_thread;
  UPDATE node.approvals a SET terms = '', why = '' WHERE a.owner = p_owner AND a.thread = p_thread;
  UPDATE node.effects e SET doc = '{}' WHERE e.owner = p_owner AND e.thread = p_thread;
  UPDATE node.journal j SET words = '' WHERE j.owner = p_owner AND j.thread = p_thread;
  DELETE FROM node.reservations r
    WHERE r.owner = p_owner AND r.mid = ANY (v_mids) AND upper(r.slot) < to_timestamp(p_now_ms / 1000.0);
  RETURN ledger.erase(p_log, p_owner, v_mids);
END $$;

-- Column by column: nothing else of a message or of the owner's log is ever changed.
GRANT UPDATE (envelope, decision) ON node.messages TO indai_app;
GRANT UPDATE (words) ON node.journal TO indai_app;
-- migrate:down

-- What somebody who follows a turn has to hear, in one round trip: opening a stream was nine.

-- migrate:up
-- Who an identity is, how a turn of theirs stands, and its events after p_after, in order; one row without an event where
-- there is none. No row for somebody who was never here; no state for a turn that is not theirs.
CREATE FUNCTION runtime.follow(
    p_kind text, p_value text, p_verified boolean, p_channel text, p_turn uuid, p_after integer
) RETURNS TABLE (state text, event bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    t runtime.turns;
BEGIN
    PERFORM set_config('indai.identity', p_kind || E'\n' || p_value, true);
    PERFORM 1 FROM runtime.who(p_kind, p_value, p_verified, p_channel);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO t FROM runtime.turns WHERE id = p_turn;
    IF NOT FOUND THEN
        RETURN QUERY SELECT NULL::text, NULL::bytea;
        RETURN;
    END IF;
    PERFORM set_config('indai.owners', t.owner, true);
    RETURN QUERY
        SELECT t.state, e.event FROM (SELECT 1) AS always
        LEFT JOIN runtime.turn_events e ON e.turn = p_turn AND e.seq > p_after ORDER BY e.seq;
END $$;

-- migrate:down

-- What the toolbox asks and keeps for a call, in one round trip each.

-- migrate:up
-- How often a tool failed in this session, and what this turn's calls have read and done.
CREATE FUNCTION tools.before(p_holder text, p_session text, p_tool text, p_turn text)
RETURNS TABLE (faults bigint, touched text[]) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.owners', p_holder, true);
    RETURN QUERY SELECT
        (SELECT count(*) FROM tools.tool_calls c
         WHERE c.holder = p_holder AND c.session = p_session AND c.tool = p_tool AND c.faulty),
        ARRAY(SELECT DISTINCT unnest(c.touches) FROM tools.tool_calls c
              WHERE c.holder = p_holder AND c.session = p_session AND c.turn = p_turn AND c.status <> 'failed');
END $$;

-- Keeps what a call did.
CREATE FUNCTION tools.note(
    p_id uuid, p_holder text, p_tenant text, p_binding text, p_session text, p_turn text, p_door text, p_channel text,
    p_tool text, p_action_hash bytea, p_arguments jsonb, p_result text, p_status text, p_error text, p_faulty boolean,
    p_cached boolean, p_touches text[], p_latency_ms integer, p_created_ms bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.owners', p_holder, true);
    INSERT INTO tools.tool_calls (id, holder, tenant, binding, session, turn, door, channel, tool, action_hash, arguments,
        result, status, error, faulty, cached, touches, latency_ms, created_ms)
    VALUES (p_id, p_holder, p_tenant, p_binding, p_session, p_turn, p_door, p_channel, p_tool, p_action_hash, p_arguments,
        p_result, p_status, p_error, p_faulty, p_cached, p_touches, p_latency_ms, p_created_ms);
END $$;

GRANT EXECUTE ON FUNCTION tools.before, tools.note TO indai_app;

-- migrate:down

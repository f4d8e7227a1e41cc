-- migrate:up
-- Rules beside an owner's own: of everyone (scope `*`, layer operator), of an authority (its domain,
-- organisation), and below the owner (their handle: agent, or session with the session's name).
CREATE TABLE layer (
    scope text NOT NULL,
    layer text NOT NULL,
    session text NOT NULL DEFAULT '',
    source text NOT NULL,
    set_at timestamptz NOT NULL,
    PRIMARY KEY (scope, layer, session)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON layer TO indai_app;
ALTER TABLE layer ENABLE ROW LEVEL SECURITY;
ALTER TABLE layer FORCE ROW LEVEL SECURITY;
CREATE POLICY scopes ON layer
    USING (scope = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- What decides for an owner, in a single round trip: the active version, and the state of the other layers.
CREATE FUNCTION active_state(p_owner text, p_authority text, p_session text)
RETURNS TABLE (policy_hash bytea, layers text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.owners', concat_ws(',', p_owner, p_authority, '*'), true);
    RETURN QUERY SELECT
        (SELECT a.policy_hash FROM policy.active a WHERE a.owner = p_owner),
        (SELECT coalesce(string_agg(l.layer || ':' || md5(l.source), ',' ORDER BY l.layer), '')
         FROM policy.layer l
         WHERE (l.scope, l.layer) IN (('*', 'operator'), (p_authority, 'organisation'), (p_owner, 'agent'))
            OR ((l.scope, l.layer) = (p_owner, 'session') AND p_session <> '' AND l.session = p_session));
END $$;
GRANT EXECUTE ON FUNCTION active_state TO indai_app;
-- Its place is taken by the one above.
DROP FUNCTION active_hash;

ALTER TABLE version ADD COLUMN others jsonb NOT NULL DEFAULT '{}';

-- migrate:down

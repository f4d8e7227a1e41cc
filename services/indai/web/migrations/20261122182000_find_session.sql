-- Whose session a token's hash is, in one round trip: each call of a page asks it.

-- migrate:up
CREATE FUNCTION find_session(p_digest bytea) RETURNS TABLE (
  id uuid, account uuid, scope text, role text, name text, way text, device text,
  created_ms bigint, seen_ms bigint, expires_ms bigint, settings jsonb, account_revoked_ms bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_scope text;
BEGIN
  -- Who presents it may read that row alone, and so learns the scope whose rows may then be read.
  PERFORM set_config('indai.presented', encode(p_digest, 'hex'), true);
  SELECT s.scope INTO v_scope FROM web.sessions s WHERE s.token_sha256 = p_digest AND s.revoked_ms IS NULL;
  IF v_scope IS NULL THEN
    RETURN;
  END IF;
  PERFORM set_config('indai.owners', v_scope, true);
  RETURN QUERY
    SELECT s.id, s.account, s.scope, a.role, a.name, s.way, s.device, s.created_ms, s.seen_ms, s.expires_ms,
           a.settings, a.revoked_ms
    FROM web.sessions s JOIN web.accounts a ON a.id = s.account AND a.scope = s.scope
    WHERE s.token_sha256 = p_digest;
END $$;

-- migrate:down

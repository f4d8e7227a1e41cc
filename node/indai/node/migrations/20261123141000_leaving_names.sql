-- What stays of an owner who leaves, because it is others' too, names them no more: a word that means nobody stands in its
-- place, another one for each who leaves, kept nowhere. So an organisation's books and its log of acts still add up.

-- migrate:up
ALTER FUNCTION node.forget_owner(text, bigint, boolean) RENAME TO forget_rows;
REVOKE EXECUTE ON FUNCTION node.forget_rows FROM indai_app;

CREATE FUNCTION node.forget_owner(p_owner text, p_now_ms bigint, p_only_count boolean)
RETURNS jsonb  -- {table: rows}
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_removed jsonb := node.forget_rows(p_owner, p_now_ms, p_only_count);  -- whoever calls it must be the owner
  v_nobody constant text := 'gone-' || left(replace(gen_random_uuid()::text, '-', ''), 16);
  -- The handle where it stands alone: ind.ai/al is no part of ind.ai/alice.
  v_named constant text := '(?<![[:alnum:]./_-])' || regexp_replace(p_owner, '([.+*?()\[\]{}|^$\\])', '\\\1', 'g')
    || '(?![[:alnum:]/_-]|[.][[:alnum:]])';
  v_table text;
  v_rows bigint;
BEGIN
  FOREACH v_table IN ARRAY ARRAY['limits', 'accounts'] LOOP  -- by owner only those; a tenant's are its own
    IF to_regclass('llm.' || v_table) IS NOT NULL THEN
      IF p_only_count THEN
        EXECUTE format('SELECT count(*) FROM llm.%I WHERE key = ''owner'' AND subject = $1', v_table) INTO v_rows USING p_owner;
      ELSE
        EXECUTE format('DELETE FROM llm.%I WHERE key = ''owner'' AND subject = $1', v_table) USING p_owner;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
      END IF;
      v_removed := node.tallied(v_removed, 'llm.' || v_table, v_rows);
    END IF;
  END LOOP;
  IF p_only_count THEN
    RETURN v_removed;
  END IF;
  IF to_regclass('llm.calls') IS NOT NULL THEN
    EXECUTE 'UPDATE llm.calls SET owner = $2, session = '''' WHERE owner = $1' USING p_owner, v_nobody;
  END IF;
  IF to_regclass('web.audit_log') IS NOT NULL THEN
    -- At their own desk: who they were, and what it was done to. Elsewhere only their handle.
    EXECUTE 'UPDATE web.audit_log SET scope = $2, account = NULL, actor = split_part(actor, '' '', 1), target = '''''
            ' WHERE scope = $1' USING p_owner, v_nobody;
    EXECUTE 'UPDATE web.audit_log SET actor = regexp_replace(actor, $1, $2, ''g''), target = regexp_replace(target, $1, $2, ''g'')'
            ' WHERE actor ~ $1 OR target ~ $1' USING v_named, v_nobody;
  END IF;
  RETURN v_removed;
END $$;
REVOKE ALL ON FUNCTION node.forget_owner FROM PUBLIC;
GRANT EXECUTE ON FUNCTION node.forget_owner TO indai_app;

-- migrate:down

-- What was agreed can be called off: a cancelled meeting gives its slot back.

-- migrate:up
CREATE INDEX threads_agreed ON node.threads (owner, end_ms DESC, thread) WHERE phase = 'COMMITTED';

ALTER FUNCTION node.apply_batch(text[], jsonb, text, bigint, bigint) RENAME TO apply_rows;

-- Everything a batch changes, in one statement and so in one transaction. A slot that is given back goes first: it may
-- be promised again in the same batch.
CREATE FUNCTION node.apply_batch(p_owners text[], p_doc jsonb, p_log text, p_epoch bigint, p_size bigint)
RETURNS bigint  -- the database's clock, ms
LANGUAGE plpgsql AS $$
BEGIN
  IF p_doc ? 'unbook' THEN
    PERFORM set_config('indai.owners', array_to_string(p_owners, ','), true);
    DELETE FROM node.reservations v USING jsonb_to_recordset(p_doc -> 'unbook') AS r (owner text, mid bytea)
      WHERE v.owner = r.owner AND v.mid = r.mid;
  END IF;
  RETURN node.apply_rows(p_owners, p_doc, p_log, p_epoch, p_size);
END $$;
-- migrate:down

-- What sub-agents have promised or spent under each delegation, counted where their money comes from.

-- migrate:up
-- A row for each delegation above a spender, so its owner is who delegated. It goes with the hold it stands for, and
-- stays when that is consumed.
CREATE TABLE node.delegated (
  owner        text NOT NULL,
  delegate     text NOT NULL,
  spender      text NOT NULL,
  mid          bytea NOT NULL,
  currency     text NOT NULL,
  amount_minor bigint NOT NULL CHECK (amount_minor > 0),
  PRIMARY KEY (owner, delegate, spender, mid),
  FOREIGN KEY (spender, mid) REFERENCES node.holds (owner, mid) ON DELETE CASCADE
);
CREATE INDEX delegated_of_hold ON node.delegated (spender, mid);
ALTER TABLE node.delegated ENABLE ROW LEVEL SECURITY;
ALTER TABLE node.delegated FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON node.delegated USING (node.mine(owner)) WITH CHECK (node.mine(owner));
GRANT SELECT, INSERT ON node.delegated TO indai_app;

-- Counts what the batch's holds cost each delegation above them. Holds under one delegation are judged one after the other.
CREATE FUNCTION node.apply_delegated(p_doc jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  links jsonb;
BEGIN
  SELECT jsonb_agg(l || jsonb_build_object('spender', h ->> 'owner', 'mid', h ->> 'mid', 'currency', h ->> 'currency',
                                           'amount_minor', (h ->> 'amount_minor')::bigint))
    INTO links FROM jsonb_array_elements(p_doc -> 'holds') AS h, jsonb_array_elements(h -> 'links') AS l;
  IF links IS NULL THEN
    RETURN;
  END IF;
  PERFORM set_config('indai.owners', (SELECT string_agg(DISTINCT l ->> 'delegator', ',') FROM jsonb_array_elements(links) AS l), true);
  PERFORM pg_advisory_xact_lock(k.lock) FROM (
    SELECT DISTINCT hashtextextended(r.delegator || ',' || r.delegate || ',' || r.currency, 6) AS lock
      FROM jsonb_to_recordset(links) AS r (delegator text, delegate text, currency text) ORDER BY 1) AS k;
  INSERT INTO node.delegated (owner, delegate, spender, mid, currency, amount_minor)
    SELECT r.delegator, r.delegate, r.spender, r.mid, r.currency, r.amount_minor FROM jsonb_to_recordset(links)
      AS r (delegator text, delegate text, spender text, mid bytea, currency text, amount_minor bigint);
  IF EXISTS (
    SELECT FROM (SELECT delegator AS owner, delegate, currency, min(budget_minor) AS budget_minor
                   FROM jsonb_to_recordset(links) AS r (delegator text, delegate text, currency text, budget_minor bigint)
                   GROUP BY delegator, delegate, currency) AS r
      JOIN node.delegated d USING (owner, delegate, currency)
      GROUP BY r.owner, r.delegate, r.currency, r.budget_minor HAVING sum(d.amount_minor) > r.budget_minor
  ) THEN
    RAISE EXCEPTION 'more money is promised than was delegated' USING ERRCODE = 'IND15';
  END IF;
END $$;

-- As before; what is delegated is counted after the holds it stands for.
CREATE OR REPLACE FUNCTION node.apply_batch(p_owners text[], p_doc jsonb, p_log text, p_epoch bigint, p_size bigint)
RETURNS bigint  -- the database's clock, ms
LANGUAGE plpgsql AS $$
BEGIN
  IF p_doc ?| ARRAY['holds', 'free_holds', 'consume_holds'] THEN
    PERFORM set_config('indai.owners', array_to_string(p_owners, ','), true);
    PERFORM node.apply_holds(p_doc);
    IF p_doc @? '$.holds[*].links[*]' THEN
      PERFORM node.apply_delegated(p_doc);
    END IF;
  END IF;
  RETURN node.apply_slots(p_owners, p_doc, p_log, p_epoch, p_size);
END $$;
-- migrate:down

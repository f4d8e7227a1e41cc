-- What an owner sells, where they are paid, what they have permitted for good, and what a provider says has arrived.

-- migrate:up
-- How an item is offered: title, price, step, cancelling (`indai.node.stock`).
ALTER TABLE node.stock ADD COLUMN doc jsonb NOT NULL DEFAULT '{}';

-- Standing permissions to pay `payee` up to an amount in each period.
CREATE TABLE node.mandates (
  owner            text NOT NULL,
  id               uuid NOT NULL,
  payee            text NOT NULL,
  max_amount_minor bigint NOT NULL CHECK (max_amount_minor > 0),
  currency         text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  period           text NOT NULL CHECK (period IN ('DAY', 'WEEK', 'MONTH')),
  expires_ms       bigint NOT NULL,
  revoked_ms       bigint NOT NULL DEFAULT 0,
  created_ms       bigint NOT NULL,
  PRIMARY KEY (owner, id)
);

-- Where an owner is paid. `hook` is the unguessable part of the webhook's path; secrets stand elsewhere, by reference.
CREATE TABLE node.pay_accounts (
  owner              text PRIMARY KEY,
  hook               text NOT NULL UNIQUE,
  payee              text NOT NULL,
  name               text NOT NULL,
  webhook_secret_ref text NOT NULL,
  provider_url       text NOT NULL,
  provider_key_ref   text NOT NULL
);

-- What a provider's signed word says has arrived, once for each of its payments.
CREATE TABLE node.payments (
  owner        text NOT NULL,
  payment_id   text NOT NULL,
  mid          bytea NOT NULL CHECK (length(mid) = 32),
  amount_minor bigint NOT NULL CHECK (amount_minor > 0),
  received_ms  bigint NOT NULL,
  PRIMARY KEY (owner, payment_id)
);
CREATE INDEX payments_of_mid ON node.payments (owner, mid);

-- Pages of a provider's on which a commitment can be paid.
CREATE TABLE node.pay_links (
  owner   text NOT NULL,
  mid     bytea NOT NULL CHECK (length(mid) = 32),
  link_id text NOT NULL,
  url     text NOT NULL,
  PRIMARY KEY (owner, mid)
);

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['mandates', 'pay_accounts', 'payments', 'pay_links'] LOOP
    EXECUTE format('ALTER TABLE node.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE node.%I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY owner ON node.%I USING (node.mine(owner)) WITH CHECK (node.mine(owner))', t);
  END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON node.mandates, node.pay_accounts, node.payments, node.pay_links TO indai_app;

-- As before, but each row's limit is for what was held when it was decided: rows after it in the document do not count.
CREATE OR REPLACE FUNCTION node.apply_holds(p_doc jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  wanted bigint;
  changed bigint;
BEGIN
  IF p_doc ? 'free_holds' THEN
    DELETE FROM node.holds h USING jsonb_to_recordset(p_doc -> 'free_holds') AS r (owner text, mid bytea, consumed boolean)
      WHERE h.owner = r.owner AND h.mid = r.mid AND (r.consumed OR NOT h.consumed);
  END IF;
  IF p_doc ? 'holds' THEN
    PERFORM pg_advisory_xact_lock(k.lock) FROM (
      SELECT DISTINCT hashtextextended(r.owner || ',' || coalesce(r.item, r.currency || ',' || r.day::text), 5) AS lock
        FROM jsonb_to_recordset(p_doc -> 'holds') AS r (owner text, item text, currency text, day date) ORDER BY 1) AS k;
    INSERT INTO node.holds (owner, mid, item, quantity, span, currency, amount_minor, day, peer, limit_minor)
      SELECT r.owner, r.mid, r.item, r.quantity,
             CASE WHEN r.item IS NOT NULL THEN
               tstzrange(to_timestamp(nullif(r.start_ms, 0) / 1000.0), to_timestamp(nullif(r.end_ms, 0) / 1000.0)) END,
             r.currency, r.amount_minor, r.day, r.peer, r.limit_minor
        FROM jsonb_to_recordset(p_doc -> 'holds') AS r (owner text, mid bytea, item text, quantity bigint, start_ms bigint,
          end_ms bigint, currency text, amount_minor bigint, day date, peer text, limit_minor bigint);
    -- The most units in use at once is reached where some hold begins.
    IF EXISTS (
      SELECT FROM jsonb_to_recordset(p_doc -> 'holds') AS r (owner text, mid bytea, item text)
        JOIN node.holds new ON new.owner = r.owner AND new.mid = r.mid
        JOIN node.holds at ON at.owner = new.owner AND at.item = new.item AND at.span && new.span
        JOIN node.holds h ON h.owner = at.owner AND h.item = at.item
         AND h.span @> greatest(coalesce(lower(at.span), '-infinity'), coalesce(lower(new.span), '-infinity'))
        LEFT JOIN node.stock s ON s.owner = new.owner AND s.item = new.item
        GROUP BY new.owner, new.mid, at.mid, s.units HAVING sum(h.quantity) > coalesce(s.units, 0)
    ) THEN
      RAISE EXCEPTION 'more units are promised than there are' USING ERRCODE = 'IND13';
    END IF;
    IF EXISTS (
      WITH new AS (
        SELECT * FROM ROWS FROM (jsonb_to_recordset(p_doc -> 'holds')
          AS (owner text, mid bytea, currency text, day date, limit_minor bigint))
          WITH ORDINALITY AS r (owner, mid, currency, day, limit_minor, place))
      SELECT FROM new r
        JOIN node.holds h ON h.owner = r.owner AND h.currency = r.currency AND h.day = r.day
        WHERE r.limit_minor IS NOT NULL
          AND NOT EXISTS (SELECT FROM new l WHERE l.owner = h.owner AND l.mid = h.mid AND l.place > r.place)
        GROUP BY r.owner, r.mid, r.limit_minor HAVING sum(h.amount_minor) > r.limit_minor
    ) THEN
      RAISE EXCEPTION 'more money is promised than may be spent that day' USING ERRCODE = 'IND14';
    END IF;
  END IF;
  IF p_doc ? 'consume_holds' THEN
    UPDATE node.holds h SET consumed = true
      FROM jsonb_to_recordset(p_doc -> 'consume_holds') AS r (owner text, mid bytea)
      WHERE h.owner = r.owner AND h.mid = r.mid;
    GET DIAGNOSTICS changed = ROW_COUNT;
    wanted := jsonb_array_length(p_doc -> 'consume_holds');
    IF changed <> wanted THEN
      RAISE EXCEPTION 'a commitment without its reservation (% of % found)', changed, wanted USING ERRCODE = 'IND10';
    END IF;
  END IF;
END $$;
-- migrate:down

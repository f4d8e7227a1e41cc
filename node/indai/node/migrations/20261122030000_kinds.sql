-- Reservations of every kind: beside slots, units of an owner's stock and money. Whoever writes, the tables refuse more
-- units than there are, and more money on one day than the limit that it was signed under.

-- migrate:up
ALTER TABLE node.threads ADD COLUMN kind text;  -- NULL in rows of a program that knew meetings only

-- What an owner can give of an item at any one time; goods are given for good.
CREATE TABLE node.stock (
  owner text NOT NULL,
  item  text NOT NULL,
  units bigint NOT NULL CHECK (units >= 0),
  PRIMARY KEY (owner, item)
);

-- Units or money held under one signature of the owner's. `span` of goods is all time; `day` is the owner's local day.
CREATE TABLE node.holds (
  owner        text NOT NULL,
  mid          bytea NOT NULL CHECK (length(mid) = 32),
  item         text,
  quantity     bigint CHECK (quantity > 0),
  span         tstzrange CHECK (NOT isempty(span)),
  currency     text,
  amount_minor bigint CHECK (amount_minor > 0),
  day          date,
  peer         text NOT NULL,
  limit_minor  bigint,
  consumed     boolean NOT NULL DEFAULT false,
  PRIMARY KEY (owner, mid),
  CHECK (CASE WHEN item IS NULL THEN num_nonnulls(currency, amount_minor, day) = 3 AND num_nonnulls(quantity, span) = 0
         ELSE num_nonnulls(quantity, span) = 2 AND num_nonnulls(currency, amount_minor, day) = 0 END)
);
CREATE INDEX holds_of_item ON node.holds USING gist (owner, item, span) WHERE item IS NOT NULL;
CREATE INDEX holds_of_day ON node.holds (owner, currency, day) WHERE currency IS NOT NULL;

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['stock', 'holds'] LOOP
    EXECUTE format('ALTER TABLE node.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE node.%I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY owner ON node.%I USING (node.mine(owner)) WITH CHECK (node.mine(owner))', t);
  END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON node.stock, node.holds TO indai_app;

-- Effects of other kinds than a calendar's: whoever carries them out looks for its own.
ALTER TABLE node.effects DROP CONSTRAINT effects_kind_check;
ALTER TABLE node.effects ADD CONSTRAINT effects_kind_check CHECK (kind ~ '^[a-z][a-z-]{0,31}$');

-- Stock and money an owner holds, for a writer that has them not in memory.
CREATE FUNCTION node.load_holds(p_owners text[], p_from_ms bigint)
RETURNS TABLE (owner text, mid bytea, item text, quantity bigint, start_ms bigint, end_ms bigint, currency text,
               amount_minor bigint, day text, peer text)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('indai.owners', array_to_string(p_owners, ','), true);
  RETURN QUERY
    SELECT h.owner, h.mid, h.item, h.quantity, coalesce((extract(epoch FROM lower(h.span)) * 1000)::bigint, 0),
           coalesce((extract(epoch FROM upper(h.span)) * 1000)::bigint, 0), h.currency, h.amount_minor, h.day::text, h.peer
      FROM node.holds h
      WHERE h.owner = ANY (p_owners)
        AND (h.span IS NULL OR h.span && tstzrange(to_timestamp(p_from_ms / 1000.0), NULL))
        AND (h.day IS NULL OR h.day >= (to_timestamp(p_from_ms / 1000.0) - interval '62 days')::date);
END $$;

-- Takes and gives back units and money. Rows of the same item or the same day are judged one after the other: the lock is
-- taken before they are counted.
CREATE FUNCTION node.apply_holds(p_doc jsonb) RETURNS void
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
      SELECT FROM jsonb_to_recordset(p_doc -> 'holds') AS r (owner text, mid bytea, currency text, day date, limit_minor bigint)
        JOIN node.holds h ON h.owner = r.owner AND h.currency = r.currency AND h.day = r.day
        WHERE r.limit_minor IS NOT NULL
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

ALTER FUNCTION node.apply_batch(text[], jsonb, text, bigint, bigint) RENAME TO apply_slots;

-- Everything a batch changes, in one statement and so in one transaction.
CREATE FUNCTION node.apply_batch(p_owners text[], p_doc jsonb, p_log text, p_epoch bigint, p_size bigint)
RETURNS bigint  -- the database's clock, ms
LANGUAGE plpgsql AS $$
BEGIN
  IF p_doc ?| ARRAY['holds', 'free_holds', 'consume_holds'] THEN
    PERFORM set_config('indai.owners', array_to_string(p_owners, ','), true);
    PERFORM node.apply_holds(p_doc);
  END IF;
  RETURN node.apply_slots(p_owners, p_doc, p_log, p_epoch, p_size);
END $$;
-- migrate:down

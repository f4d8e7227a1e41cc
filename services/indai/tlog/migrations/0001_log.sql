-- migrate:up

-- The head of each log as its appenders see it. Its row lock makes appends one after the other; a commit therefore
-- publishes a gapless prefix, and a reader that sees `size` sees every leaf below it.
CREATE TABLE head (
  log   text   PRIMARY KEY,
  size  bigint NOT NULL DEFAULT 0 CHECK (size >= 0),
  epoch bigint NOT NULL DEFAULT 0
);

-- What the world may see: bytes and their order. No owner, so no policy.
CREATE TABLE leaf (
  log  text        NOT NULL,
  idx  bigint      NOT NULL CHECK (idx >= 0),
  leaf bytea       NOT NULL CHECK (length(leaf) <= 65535),
  time timestamptz NOT NULL,
  PRIMARY KEY (log, idx)
);

-- Which leaf is whose: what makes a repeated append answer with the first one's index.
CREATE TABLE entry (
  log   text     NOT NULL,
  owner text     NOT NULL,
  mid   bytea    NOT NULL CHECK (length(mid) = 32),
  kind  smallint NOT NULL,
  idx   bigint   NOT NULL,
  PRIMARY KEY (log, owner, mid, kind)
);
ALTER TABLE entry ENABLE ROW LEVEL SECURITY;
ALTER TABLE entry FORCE ROW LEVEL SECURITY;
-- The subquery is evaluated once a statement, not once a row.
CREATE POLICY owners ON entry
  USING (owner = ANY ((SELECT string_to_array(current_setting('indai.owners', true), ','))::text[]));

-- Hash tiles: the full ones, and for each level the one that still grows. Every tile is complete up to `tree.size`.
CREATE TABLE tree (
  log   text   PRIMARY KEY,
  size  bigint NOT NULL DEFAULT 0 CHECK (size >= 0),
  epoch bigint NOT NULL DEFAULT 0
);
CREATE TABLE tile (
  log    text     NOT NULL,
  level  smallint NOT NULL,
  idx    bigint   NOT NULL,
  hashes bytea    NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0),
  PRIMARY KEY (log, level, idx)
);
ALTER TABLE tile ALTER COLUMN hashes SET STORAGE EXTERNAL;  -- hashes do not compress

-- Signed heads. One row a size: the primary key refuses a second root for it.
CREATE TABLE checkpoint (
  log  text        NOT NULL,
  size bigint      NOT NULL,
  root bytea       NOT NULL CHECK (length(root) = 32),
  note bytea       NOT NULL,
  time timestamptz NOT NULL,
  PRIMARY KEY (log, size)
);
-- The newest of them with its newest time, for every process that serves it.
CREATE TABLE published (
  log  text        PRIMARY KEY,
  size bigint      NOT NULL,
  note bytea       NOT NULL,
  time timestamptz NOT NULL
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of % is refused: a log only grows', TG_OP, TG_TABLE_NAME USING ERRCODE = 'TL003';
END $$;
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON leaf EXECUTE FUNCTION refuse_change();
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON entry EXECUTE FUNCTION refuse_change();
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON checkpoint EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON tile EXECUTE FUNCTION refuse_change();

CREATE FUNCTION refuse_other_hashes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.log, NEW.level, NEW.idx) IS DISTINCT FROM (OLD.log, OLD.level, OLD.idx)
     OR substr(NEW.hashes, 1, length(OLD.hashes)) <> OLD.hashes THEN
    RAISE EXCEPTION 'a tile of % only grows at its end', OLD.log USING ERRCODE = 'TL003';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER only_grows BEFORE UPDATE ON tile FOR EACH ROW EXECUTE FUNCTION refuse_other_hashes();

CREATE FUNCTION epoch_ms(at timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
  RETURN (extract(epoch FROM at) * 1000)::bigint;

-- Append entries to a log; the last statement of the caller's transaction, because it locks the head until COMMIT.
--
-- Answers one row for each entry, in their order: its index, its time in ms, and whether it is new. An entry that the
-- log already has, by (owner, mid, kind), gets the index and time it had. The session's `indai.owners` must name all
-- owners. Errors: TL001 the writer has another epoch (or the log was never taken), TL002 `expected_size` was given and
-- the log has another size (not raised when there is nothing new).
--
-- SECURITY DEFINER: the application may append through this function and in no other way. Sequential scans are off
-- because a session keeps the plan it made while the tables were small.
CREATE FUNCTION append(
  p_log text, p_epoch bigint, p_expected_size bigint,
  p_owners text[], p_mids bytea[], p_kinds smallint[], p_leaves bytea[], p_times_ms bigint[]
) RETURNS TABLE (idx bigint, time_ms bigint, added boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = tlog, pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
  v_size  bigint;
  v_epoch bigint;
  v_new   bigint;
BEGIN
  SELECT head.size, head.epoch INTO v_size, v_epoch FROM head WHERE head.log = p_log FOR UPDATE;
  IF v_epoch IS DISTINCT FROM p_epoch THEN
    RAISE EXCEPTION 'another writer has taken log %', p_log USING ERRCODE = 'TL001';
  END IF;

  -- Mostly every entry is new, and a plain insert finds out at no extra cost.
  IF p_expected_size IS NULL OR p_expected_size = v_size THEN
    BEGIN
      WITH input AS (
        SELECT * FROM unnest(p_owners, p_mids, p_kinds, p_leaves, p_times_ms)
          WITH ORDINALITY AS i(owner, mid, kind, leaf, ms, ord)
      ), new_leaves AS (
        INSERT INTO leaf (log, idx, leaf, time)
        SELECT p_log, v_size + i.ord - 1, i.leaf, timestamptz 'epoch' + i.ms * interval '1 millisecond' FROM input i
      )
      INSERT INTO entry (log, owner, mid, kind, idx)
      SELECT p_log, i.owner, i.mid, i.kind, v_size + i.ord - 1 FROM input i;
      UPDATE head SET size = v_size + cardinality(p_mids) WHERE head.log = p_log;
      RETURN QUERY SELECT v_size + i.ord - 1, i.ms, true FROM unnest(p_times_ms) WITH ORDINALITY AS i(ms, ord);
      RETURN;
    EXCEPTION WHEN unique_violation THEN
      NULL;  -- undone; some entry is a repetition
    END;
  END IF;

  -- The statement below sees the entries that the lock's previous holders committed: it has a snapshot of its own.
  -- Look-ups are scalar subqueries, not joins: those are always index probes, whatever the planner believes.
  RETURN QUERY
  WITH input AS (
    SELECT i.*, (SELECT e.idx FROM entry e WHERE e.log = p_log AND e.owner = i.owner AND e.mid = i.mid AND e.kind = i.kind)
      AS known
    FROM unnest(p_owners, p_mids, p_kinds, p_leaves, p_times_ms)
      WITH ORDINALITY AS i(owner, mid, kind, leaf, ms, ord)
  ), marked AS (
    SELECT i.*, i.known IS NULL AND row_number() OVER (PARTITION BY i.owner, i.mid, i.kind ORDER BY i.ord) = 1 AS fresh
    FROM input i
  ), numbered AS MATERIALIZED (
    SELECT m.*, CASE WHEN m.fresh THEN v_size - 1 + count(*) FILTER (WHERE m.fresh) OVER (ORDER BY m.ord) END AS new
    FROM marked m
  ), new_leaves AS (
    INSERT INTO leaf (log, idx, leaf, time)
    SELECT p_log, n.new, n.leaf, timestamptz 'epoch' + n.ms * interval '1 millisecond' FROM numbered n WHERE n.fresh
  ), new_entries AS (
    INSERT INTO entry (log, owner, mid, kind, idx)
    SELECT p_log, n.owner, n.mid, n.kind, n.new FROM numbered n WHERE n.fresh
  )
  SELECT
    coalesce(n.known, max(n.new) OVER same),
    CASE WHEN n.known IS NULL THEN first_value(n.ms) OVER (same ORDER BY n.ord)
      ELSE (SELECT epoch_ms(l.time) FROM leaf l WHERE l.log = p_log AND l.idx = n.known) END,
    n.fresh
  FROM numbered n WINDOW same AS (PARTITION BY n.owner, n.mid, n.kind)
  ORDER BY n.ord;

  SELECT coalesce(max(l.idx) + 1, 0) - v_size INTO v_new FROM leaf l WHERE l.log = p_log;
  IF v_new > 0 THEN
    IF v_size <> p_expected_size THEN
      RAISE EXCEPTION 'log % has % leaves, not %', p_log, v_size, p_expected_size USING ERRCODE = 'TL002';
    END IF;
    UPDATE head SET size = v_size + v_new WHERE head.log = p_log;
  END IF;
END $$;

-- What became of entries whose COMMIT got no answer: their indexes, NULL where the log does not have them. It waits
-- for an append still under way, so the answer is final for every connection that was lost before the call.
CREATE FUNCTION settle(p_log text, p_owners text[], p_mids bytea[], p_kinds smallint[])
RETURNS TABLE (idx bigint, time_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = tlog, pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
  PERFORM FROM head WHERE head.log = p_log FOR UPDATE;
  RETURN QUERY
  SELECT f.idx, (SELECT epoch_ms(l.time) FROM leaf l WHERE l.log = p_log AND l.idx = f.idx)
  FROM (
    SELECT i.ord, (SELECT e.idx FROM entry e WHERE e.log = p_log AND e.owner = i.owner AND e.mid = i.mid AND e.kind = i.kind)
      AS idx
    FROM unnest(p_owners, p_mids, p_kinds) WITH ORDINALITY AS i(owner, mid, kind, ord)
  ) f
  ORDER BY f.ord;
END $$;

-- Become the writer of a log, which is made if new: every earlier writer is fenced out from this COMMIT on.
CREATE FUNCTION take_over(p_log text) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = tlog, pg_temp
AS $$
  INSERT INTO head (log, epoch) VALUES (p_log, 1)
  ON CONFLICT (log) DO UPDATE SET epoch = head.epoch + 1
  RETURNING epoch
$$;

REVOKE ALL ON FUNCTION append, settle, take_over FROM PUBLIC;
GRANT EXECUTE ON FUNCTION append, settle, take_over TO indai_app;
GRANT SELECT ON head, leaf, entry TO indai_app;
GRANT SELECT, INSERT, UPDATE ON tree, tile, published TO indai_app;
GRANT SELECT, INSERT ON checkpoint TO indai_app;

-- migrate:down

-- A meeting may be moved to a time that overlaps its old one. What was agreed makes way (`place`) for the one commitment
-- that would take its place, and for nothing else: two slots of an owner's may overlap only if both are kept for the same
-- commitment. If that comes to nothing its own slot goes, and the old one has never been free for anybody else.

-- migrate:up
ALTER TABLE node.reservations ADD COLUMN place bytea;  -- mid of the commitment that this is kept for; NULL: its own row's
ALTER TABLE node.reservations ADD CONSTRAINT reservations_apart
  EXCLUDE USING gist (owner WITH =, slot WITH &&, (coalesce(place, mid)) WITH <>);
ALTER TABLE node.reservations DROP CONSTRAINT reservations_owner_slot_excl;

ALTER FUNCTION node.apply_batch(text[], jsonb, text, bigint, bigint) RENAME TO apply_held;

-- Everything a batch changes, in one statement and so in one transaction. Where something makes way, slots change in this
-- order: what is given back, what makes way, what is promised.
CREATE FUNCTION node.apply_batch(p_owners text[], p_doc jsonb, p_log text, p_epoch bigint, p_size bigint)
RETURNS bigint  -- the database's clock, ms
LANGUAGE plpgsql AS $$
BEGIN
  IF p_doc ? 'make_way' THEN
    PERFORM set_config('indai.owners', array_to_string(p_owners, ','), true);
    DELETE FROM node.reservations v USING jsonb_to_recordset(p_doc -> 'unbook') AS r (owner text, mid bytea)
      WHERE v.owner = r.owner AND v.mid = r.mid;
    DELETE FROM node.reservations v USING jsonb_to_recordset(p_doc -> 'release') AS r (owner text, mid bytea)
      WHERE v.owner = r.owner AND v.mid = r.mid AND NOT v.consumed;
    UPDATE node.reservations v SET place = r.place
      FROM jsonb_to_recordset(p_doc -> 'make_way') AS r (owner text, mid bytea, place bytea)
      WHERE v.owner = r.owner AND v.mid = r.mid;
    INSERT INTO node.reservations (owner, mid, slot, place)
      SELECT r.owner, r.mid, tstzrange(to_timestamp(r.start_ms / 1000.0), to_timestamp(r.end_ms / 1000.0)), r.place
        FROM jsonb_to_recordset(p_doc -> 'reserve')
          AS r (owner text, mid bytea, start_ms bigint, end_ms bigint, place bytea);
    p_doc := p_doc - ARRAY['unbook', 'release', 'reserve'];
  END IF;
  RETURN node.apply_held(p_owners, p_doc, p_log, p_epoch, p_size);
END $$;
-- migrate:down

-- migrate:up
-- How often anything that decides has changed, by the first byte of the scope's SHA-256: a replica that reads
-- these 256 numbers knows which of the policies it keeps it has to look at again, however many they are. They
-- say nothing of whose they are, so they are nobody's rows.
CREATE TABLE generation (
    bucket int PRIMARY KEY CHECK (bucket BETWEEN 0 AND 255),
    number bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
INSERT INTO generation (bucket) SELECT generate_series(0, 255);
GRANT SELECT, UPDATE ON generation TO indai_app;

-- In the transaction of the change, whoever makes it: the numbers are never older than what they count.
CREATE FUNCTION count_change(p_scope text) RETURNS void LANGUAGE sql AS $$
    UPDATE policy.generation SET number = number + 1
    WHERE bucket = get_byte(sha256(convert_to(p_scope, 'UTF8')), 0);
$$;
CREATE FUNCTION active_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM policy.count_change(coalesce(NEW.owner, OLD.owner));
    RETURN NULL;
END $$;
CREATE FUNCTION layer_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM policy.count_change(coalesce(NEW.scope, OLD.scope));
    RETURN NULL;
END $$;
GRANT EXECUTE ON FUNCTION count_change, active_changed, layer_changed TO indai_app;
CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON active
    FOR EACH ROW EXECUTE FUNCTION active_changed();
CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON layer
    FOR EACH ROW EXECUTE FUNCTION layer_changed();

-- migrate:down

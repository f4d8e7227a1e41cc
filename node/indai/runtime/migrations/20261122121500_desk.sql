-- migrate:up
-- What a tenant's desk asks for: who waits for a person and since when, and turns by time.
ALTER TABLE sessions ADD COLUMN handed_at timestamptz;
CREATE FUNCTION note_handed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status <> 'handed_off' THEN
        NEW.handed_at := NULL;
    ELSIF OLD.status <> 'handed_off' THEN
        NEW.handed_at := now();
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER sessions_handed BEFORE UPDATE OF status ON sessions FOR EACH ROW EXECUTE FUNCTION note_handed();
UPDATE sessions SET handed_at = last_active_at WHERE status = 'handed_off';
CREATE INDEX sessions_waiting ON sessions (owner, handed_at) WHERE status = 'handed_off';
CREATE INDEX turns_by_time ON turns (owner, accepted_at);

-- migrate:down

-- When an owner answered a question, and in which channel's conversation: an open desk shows what was decided elsewhere.

-- migrate:up
ALTER TABLE node.approvals
  ADD COLUMN answered_ms bigint,
  ADD COLUMN answered_on text NOT NULL DEFAULT '';
CREATE INDEX approvals_answered ON node.approvals (owner, answered_ms DESC) WHERE answered_ms IS NOT NULL;

-- The engine's statement names the state alone.
CREATE FUNCTION node.note_answer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.answered_ms := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
  RETURN NEW;
END $$;
CREATE TRIGGER approvals_are_answered BEFORE UPDATE OF state ON node.approvals
  FOR EACH ROW WHEN (OLD.state = 'pending' AND NEW.state IN ('approved', 'declined', 'countered'))
  EXECUTE FUNCTION node.note_answer();

-- migrate:down

-- What people name by a few digits is found by an index. The number of a request ends with its thread's last digits:
-- they are kept backwards, so that they are a beginning. An index over an expression would not do: its functions
-- could leak what row-level security hides, so Postgres would first read every row of the owner's.

-- migrate:up
ALTER TABLE node.threads ADD COLUMN tail text COLLATE "C";
-- Whoever migrates sees all rows for it, whatever role they are.
ALTER TABLE node.threads NO FORCE ROW LEVEL SECURITY;
UPDATE node.threads SET tail = reverse(encode(thread, 'hex')) WHERE kind = 'request';
ALTER TABLE node.threads FORCE ROW LEVEL SECURITY;
CREATE INDEX threads_by_tail ON node.threads (owner, tail) WHERE tail IS NOT NULL;
CREATE INDEX pay_links_by_id ON node.pay_links (owner, link_id);

CREATE FUNCTION node.keep_tail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.tail := reverse(encode(NEW.thread, 'hex'));
  RETURN NEW;
END $$;
CREATE TRIGGER keep_tail BEFORE INSERT ON node.threads
  FOR EACH ROW WHEN (NEW.kind = 'request') EXECUTE FUNCTION node.keep_tail();
-- migrate:down

-- Meetings that strangers asked for: what stands at the address that only the visitor has. A row's id is the hash of that
-- address' last part, so that who reads the table opens none of them.

-- migrate:up
CREATE TABLE visits (
  ticket_sha256 bytea PRIMARY KEY CHECK (length(ticket_sha256) = 32),
  owner         text NOT NULL,
  meeting       jsonb NOT NULL,
  end_ms        bigint NOT NULL
);
CREATE INDEX visits_of ON visits (owner, end_ms);

GRANT SELECT, INSERT, UPDATE, DELETE ON visits TO indai_app;

ALTER TABLE visits ENABLE ROW LEVEL SECURITY;
ALTER TABLE visits FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON visits
  USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

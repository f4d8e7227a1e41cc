-- What agents keep for a team: leads, sign-ups, intake forms, drafts. Which kinds there are is data (records.yaml).

-- migrate:up
CREATE TABLE tools.records (
  id          uuid PRIMARY KEY,
  holder      text NOT NULL,
  tenant      text NOT NULL,
  binding     text NOT NULL,
  kind        text NOT NULL,
  status      text NOT NULL,
  person      text NOT NULL,
  session     text NOT NULL,
  data        jsonb NOT NULL,
  at_ms       bigint,
  created_ms  bigint NOT NULL,
  updated_ms  bigint NOT NULL
);
CREATE INDEX records_of_kind ON tools.records (holder, kind, status, created_ms DESC);

GRANT SELECT, INSERT, UPDATE, DELETE ON tools.records TO indai_app;
ALTER TABLE tools.records ENABLE ROW LEVEL SECURITY;
ALTER TABLE tools.records FORCE ROW LEVEL SECURITY;
CREATE POLICY holders ON tools.records
  USING (holder = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

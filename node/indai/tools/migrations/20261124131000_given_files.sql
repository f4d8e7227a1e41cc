-- Which files an owner asked for as files of a chat, for as long as they are kept: together they have a limit.

-- migrate:up
CREATE TABLE tools.given_files (
  holder    text NOT NULL,
  digest    bytea NOT NULL CHECK (length(digest) = 32),
  size      bigint NOT NULL CHECK (size >= 0),
  given_ms  bigint NOT NULL,
  PRIMARY KEY (holder, digest)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON tools.given_files TO indai_app;
ALTER TABLE tools.given_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE tools.given_files FORCE ROW LEVEL SECURITY;
CREATE POLICY holders ON tools.given_files
  USING (holder = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

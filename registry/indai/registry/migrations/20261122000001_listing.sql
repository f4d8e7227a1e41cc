-- migrate:up
-- Handles that ask to be found, by what their newest record says. A cache for searches: it proves nothing.
CREATE TABLE listing (
  log text NOT NULL,
  handle text NOT NULL COLLATE "C",
  intents text[] NOT NULL,
  languages text[] NOT NULL,
  PRIMARY KEY (log, handle)
);
CREATE INDEX listing_intents ON listing USING gin (intents);
CREATE INDEX listing_languages ON listing USING gin (languages);
GRANT SELECT, INSERT, UPDATE, DELETE ON listing TO indai_app;

-- migrate:down

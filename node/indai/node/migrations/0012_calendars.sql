-- Calendars of an owner besides the file, what they like in a meeting, and what they changed of agreed meetings.

-- migrate:up
-- A CalDAV account. The password or token is sealed by the node key; at most one account of an owner is written.
CREATE TABLE node.calendar_accounts (
  owner         text NOT NULL REFERENCES node.agents,
  name          text NOT NULL,
  url           text NOT NULL,
  user_name     text NOT NULL,
  sealed_secret bytea NOT NULL,
  calendars     jsonb NOT NULL,  -- those that are read: path, name, writable, syncs, only_busy
  target        text NOT NULL,   -- path of the one that can be written; empty for none
  written       boolean NOT NULL,
  created_ms    bigint NOT NULL,
  PRIMARY KEY (owner, name)
);
CREATE UNIQUE INDEX calendar_written ON node.calendar_accounts (owner) WHERE written;

-- What an owner likes in a meeting, and what happens when they move one in their calendar.
CREATE TABLE node.meet_settings (
  owner text PRIMARY KEY REFERENCES node.agents,
  doc   jsonb NOT NULL
);

-- An agreed meeting that its owner moved or deleted in their calendar program.
CREATE TABLE node.calendar_changes (
  owner      text NOT NULL,
  thread     bytea NOT NULL,
  start_ms   bigint NOT NULL,  -- where it stands now; 0 for deleted
  end_ms     bigint NOT NULL,
  state      text NOT NULL CHECK (state IN ('open', 'done', 'kept', 'dropped')),
  noticed_ms bigint NOT NULL,
  PRIMARY KEY (owner, thread, start_ms, end_ms)
);
CREATE INDEX calendar_changes_open ON node.calendar_changes (owner, noticed_ms) WHERE state = 'open';

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['calendar_accounts', 'meet_settings', 'calendar_changes'] LOOP
    EXECUTE format('ALTER TABLE node.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE node.%I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY owner ON node.%I USING (node.mine(owner)) WITH CHECK (node.mine(owner))', t);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON node.%I TO indai_app', t);
  END LOOP;
END $$;
-- migrate:down

-- migrate:up
-- What was said is hot for ninety days, and then lies here: out of the way of every turn, and still read, exported and
-- forgotten with the rest.
CREATE TABLE archive (
    id uuid PRIMARY KEY,
    place bigint NOT NULL,
    owner text NOT NULL,
    session uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    segment uuid NOT NULL,
    turn uuid,
    outgoing boolean NOT NULL,
    by_human text NOT NULL,
    channel text NOT NULL,
    text text NOT NULL,
    body bytea NOT NULL,
    request_id text,
    created_at timestamptz NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX archive_session ON archive (session, place);
CREATE INDEX messages_age ON messages USING brin (created_at);

-- A segment that has ended is summarised once: NULL until it was looked at, empty where there was too little.
ALTER TABLE segments ADD COLUMN summary text;
CREATE INDEX segments_open ON segments (owner, started_at) WHERE ended_at IS NULL;
CREATE INDEX segments_unsummarised ON segments (owner, ended_at) WHERE ended_at IS NOT NULL AND summary IS NULL;

-- Who asked to forget by which conditions, and how much went; never what.
CREATE TABLE forgettings (
    id uuid PRIMARY KEY,
    owner text NOT NULL,
    conditions text[] NOT NULL,
    removed jsonb NOT NULL,
    forgotten_at timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT, DELETE ON archive TO indai_app;
GRANT SELECT, INSERT ON forgettings TO indai_app;
GRANT DELETE ON messages, segments, outbound, turn_events, guardrail_violations TO indai_app;

ALTER TABLE archive ENABLE ROW LEVEL SECURITY;
ALTER TABLE archive FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON archive
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE forgettings ENABLE ROW LEVEL SECURITY;
ALTER TABLE forgettings FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON forgettings
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

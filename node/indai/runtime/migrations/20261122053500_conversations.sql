-- migrate:up
-- Who talks to whose agent, what was said, and the turns that answer.
--
-- A row is seen by transactions that name its `owner` (indai.owners): the handle whose agent answers, or the tenant of a
-- branded one. People belong to no owner. One is seen through a session with them, by a transaction that speaks for
-- them (indai.people), or by one that names an identity of theirs exactly (indai.identity): nobody can list them.
CREATE TABLE users (
    id uuid PRIMARY KEY,
    display_name text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now()
);

-- The same value proved and not proved are two people: nobody becomes another by claiming their number.
CREATE TABLE identities (
    id uuid PRIMARY KEY,
    person uuid NOT NULL REFERENCES users (id),
    channel text NOT NULL,
    kind text NOT NULL,
    value text NOT NULL,
    verified boolean NOT NULL,
    display_name text NOT NULL DEFAULT '',
    verified_at timestamptz,
    last_used_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (channel, kind, value, verified)
);
CREATE INDEX identities_value ON identities (kind, value);
CREATE INDEX identities_person ON identities (person);

-- One for each person and binding of an owner, over all channels.
CREATE TABLE sessions (
    id uuid PRIMARY KEY,
    owner text NOT NULL,
    tenant text NOT NULL,
    binding text NOT NULL,
    handle text NOT NULL,
    door text NOT NULL CHECK (door IN ('private', 'public', 'distribution')),
    person uuid NOT NULL REFERENCES users (id),
    -- Whom the person was when it began: names their memory, also after identities were joined.
    scope_person uuid NOT NULL,
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'handed_off', 'closed')),
    taken_by text NOT NULL DEFAULT '',
    -- How often it changed hands: each time is told once.
    handovers integer NOT NULL DEFAULT 0,
    -- Where its messages went when two people turned out to be one.
    merged_into uuid,
    -- The newest message came here.
    channel text NOT NULL,
    account text NOT NULL DEFAULT '',
    language text NOT NULL DEFAULT '',
    time_zone text NOT NULL DEFAULT '',
    last_text text NOT NULL DEFAULT '',
    segment uuid NOT NULL,
    segment_messages integer NOT NULL DEFAULT 0,
    -- Working memory: what is being asked for, mood, counters; entries carry their own expiry.
    state jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    last_active_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX sessions_one ON sessions (owner, tenant, binding, person) WHERE status <> 'closed';
CREATE INDEX sessions_newest ON sessions (owner, last_active_at DESC, id);
CREATE INDEX sessions_person ON sessions (person, last_active_at DESC, id);

-- A part of a session without a long silence.
CREATE TABLE segments (
    id uuid PRIMARY KEY,
    owner text NOT NULL,
    session uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    channel text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz
);
CREATE INDEX segments_session ON segments (session, started_at DESC);

CREATE TABLE messages (
    id uuid PRIMARY KEY,
    place bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL,
    session uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    segment uuid NOT NULL,
    turn uuid,
    outgoing boolean NOT NULL,
    -- Who wrote in the agent's place.
    by_human text NOT NULL DEFAULT '',
    channel text NOT NULL,
    text text NOT NULL,
    -- Serialised indai.v1.Reply or InboundMessage: media, choices, place.
    body bytea NOT NULL,
    request_id text,
    -- Whether memory has it.
    remembered boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX messages_session ON messages (session, place);
CREATE INDEX messages_to_remember ON messages (owner, place) WHERE NOT remembered;
CREATE UNIQUE INDEX messages_request ON messages (session, request_id) WHERE request_id IS NOT NULL;

-- A provider's message is taken once. Seen by who names it exactly (indai.delivery), whoever the owner is.
CREATE TABLE deliveries (
    channel text NOT NULL,
    account text NOT NULL,
    provider_message_id text NOT NULL,
    owner text NOT NULL,
    turn uuid NOT NULL,
    person uuid NOT NULL,
    PRIMARY KEY (channel, account, provider_message_id)
);

-- worker: the epoch of the node that runs it. A node with a later epoch takes over what that one left.
CREATE TABLE turns (
    id uuid PRIMARY KEY,
    place bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL,
    session uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    person uuid NOT NULL,
    message uuid NOT NULL,
    request bytea NOT NULL,
    state text NOT NULL CHECK (state IN ('queued', 'running', 'finished')),
    worker bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    -- answered, degraded, stopped, handed_off, failed; empty until it ends.
    ending text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    -- Stage times in ms, and what each stage found out, for whoever reads the trace.
    stage_ms jsonb NOT NULL DEFAULT '{}',
    trace jsonb NOT NULL DEFAULT '{}',
    -- What taking the message in has done already, such as joining two identities.
    note jsonb NOT NULL DEFAULT '{}',
    cost_micros bigint NOT NULL DEFAULT 0,
    accepted_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
-- One at a time: this index is the lock, and no crash leaves it behind unowned.
CREATE UNIQUE INDEX turns_running ON turns (session) WHERE state = 'running';
CREATE INDEX turns_open ON turns (owner, session, place) WHERE state <> 'finished';
CREATE INDEX turns_day ON turns (owner, session, accepted_at);

CREATE TABLE turn_events (
    turn uuid NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    seq integer NOT NULL,
    owner text NOT NULL,
    event bytea NOT NULL,
    PRIMARY KEY (turn, seq)
);

-- What agents say of their own accord, until a channel has handed it to its provider.
CREATE TABLE outbound (
    id uuid PRIMARY KEY,
    place bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL,
    session uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    person uuid NOT NULL,
    channel text NOT NULL,
    account text NOT NULL DEFAULT '',
    reply bytea NOT NULL,
    template text NOT NULL DEFAULT '',
    -- Names what it tells, so that telling it again is one row.
    key text NOT NULL,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'failed')),
    provider_message_id text NOT NULL DEFAULT '',
    failure text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    UNIQUE (session, key)
);
CREATE INDEX outbound_waiting ON outbound (owner, channel, place) WHERE state = 'waiting';

-- A code is kept as its SHA-256, and seen by its maker and by who says it (indai.code).
CREATE TABLE link_codes (
    sha256 bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
    person uuid NOT NULL REFERENCES users (id),
    expires_at timestamptz NOT NULL,
    used_at timestamptz
);

-- What guardrails stopped or changed on its way out.
CREATE TABLE guardrail_violations (
    id uuid PRIMARY KEY,
    owner text NOT NULL,
    session uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn uuid NOT NULL,
    tenant text NOT NULL,
    binding text NOT NULL,
    tier text NOT NULL,
    rule_id text NOT NULL,
    severity text NOT NULL,
    blocked boolean NOT NULL,
    sentence text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX guardrail_violations_newest ON guardrail_violations (owner, created_at DESC);

-- Every owner that ever had a session: where a start looks for turns that were left. Names alone, so it has no policy.
CREATE TABLE conversation_owners (
    owner text PRIMARY KEY
);

GRANT SELECT, INSERT, UPDATE, DELETE ON users, identities TO indai_app;
GRANT SELECT, INSERT, UPDATE ON sessions, segments, messages, turns, outbound, link_codes TO indai_app;
GRANT SELECT, INSERT ON turn_events, deliveries, guardrail_violations, conversation_owners TO indai_app;

ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
CREATE POLICY people ON users
    USING (
        id::text = ANY (string_to_array(current_setting('indai.people', true), ','))
        OR EXISTS (SELECT 1 FROM sessions WHERE sessions.person = users.id)
    );
ALTER TABLE identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE identities FORCE ROW LEVEL SECURITY;
CREATE POLICY people ON identities
    USING (
        kind || E'\n' || value = current_setting('indai.identity', true)
        OR person::text = ANY (string_to_array(current_setting('indai.people', true), ','))
        OR EXISTS (SELECT 1 FROM sessions WHERE sessions.person = identities.person)
    );
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON sessions
    USING (
        owner = ANY (string_to_array(current_setting('indai.owners', true), ','))
        OR person::text = ANY (string_to_array(current_setting('indai.people', true), ','))
    );
ALTER TABLE segments ENABLE ROW LEVEL SECURITY;
ALTER TABLE segments FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON segments
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE messages FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON messages
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY deliveries ON deliveries
    USING (
        channel || E'\n' || account || E'\n' || provider_message_id = current_setting('indai.delivery', true)
    );
ALTER TABLE turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE turns FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON turns
    USING (
        owner = ANY (string_to_array(current_setting('indai.owners', true), ','))
        OR person::text = ANY (string_to_array(current_setting('indai.people', true), ','))
    );
ALTER TABLE turn_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE turn_events FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON turn_events
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE outbound ENABLE ROW LEVEL SECURITY;
ALTER TABLE outbound FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON outbound
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE link_codes ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_codes FORCE ROW LEVEL SECURITY;
CREATE POLICY codes ON link_codes
    USING (
        person::text = ANY (string_to_array(current_setting('indai.people', true), ','))
        OR encode(sha256, 'hex') = current_setting('indai.code', true)
    );
ALTER TABLE guardrail_violations ENABLE ROW LEVEL SECURITY;
ALTER TABLE guardrail_violations FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON guardrail_violations
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

-- migrate:up
-- Whose a channel is: one name in the whole node, as it stands in the webhook's address, so this table has no
-- tenant's policy.
CREATE TABLE names (
    name text PRIMARY KEY,
    tenant text NOT NULL
);

-- A number, bot or workspace. Secrets stand here as references only.
CREATE TABLE channels (
    tenant text NOT NULL,
    name text NOT NULL REFERENCES names (name) ON DELETE CASCADE,
    provider text NOT NULL,
    account text NOT NULL,
    settings jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Why nothing can be sent, machine-readable; empty when all is well.
    trouble text NOT NULL DEFAULT '',
    trouble_at timestamptz,
    PRIMARY KEY (tenant, name)
);

-- Somebody on a channel, known by a keyed hash of who they are there.
CREATE TABLE peers (
    tenant text NOT NULL,
    channel text NOT NULL,
    peer bytea NOT NULL CHECK (octet_length(peer) = 16),
    -- When they last wrote, by the provider's clock: the window for answers begins there.
    wrote_at timestamptz NOT NULL,
    -- The handle they named, and when they last spoke to it.
    handle text NOT NULL DEFAULT '',
    handle_at timestamptz,
    -- Ids of what was last offered to them by number.
    choices text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant, channel, peer),
    FOREIGN KEY (tenant, channel) REFERENCES channels (tenant, name) ON DELETE CASCADE
);

-- What people said, in the order it came. What it says is erased when it is done; the row stays for a while, so
-- that the same webhook is not taken twice.
CREATE TABLE inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    channel text NOT NULL,
    peer bytea NOT NULL CHECK (octet_length(peer) = 16),
    -- A keyed hash of the provider's id: some ids hold the number of who wrote.
    message_key bytea NOT NULL CHECK (octet_length(message_key) = 16),
    message bytea,
    address text,
    attachments jsonb,
    unreadable text NOT NULL DEFAULT '',
    attempts int NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL DEFAULT now(),
    arrived_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz,
    UNIQUE (tenant, channel, message_key),
    CHECK ((done_at IS NULL) = (message IS NOT NULL)),
    FOREIGN KEY (tenant, channel) REFERENCES channels (tenant, name) ON DELETE CASCADE
);
CREATE INDEX inbox_waiting ON inbox (channel, peer, id) WHERE done_at IS NULL;
CREATE INDEX inbox_done ON inbox (done_at) WHERE done_at IS NOT NULL;

-- What is to be said, a row for each message of the provider's. `source` names what it answers or brings.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    channel text NOT NULL,
    peer bytea NOT NULL CHECK (octet_length(peer) = 16),
    source text NOT NULL,
    part int NOT NULL,
    -- Erased when the provider says that it has arrived, or after some time.
    address text,
    payload jsonb,
    -- What may carry it outside the window.
    template jsonb,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'delivered', 'read', 'dead')),
    reason text NOT NULL DEFAULT '',
    attempts int NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    settled_at timestamptz,
    sent_key bytea CHECK (octet_length(sent_key) = 16),
    UNIQUE (tenant, channel, source, part),
    CHECK (state IN ('sent', 'delivered', 'read') OR (address IS NOT NULL AND payload IS NOT NULL)),
    FOREIGN KEY (tenant, channel) REFERENCES channels (tenant, name) ON DELETE CASCADE
);
CREATE INDEX outbox_waiting ON outbox (channel, peer, id) WHERE state = 'waiting';
CREATE INDEX outbox_dead ON outbox (tenant, id) WHERE state = 'dead';
CREATE INDEX outbox_sent ON outbox (channel, sent_key) WHERE sent_key IS NOT NULL;
CREATE INDEX outbox_settled ON outbox (settled_at) WHERE settled_at IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON names, channels, peers, inbox, outbox TO indai_app;

ALTER TABLE channels ENABLE ROW LEVEL SECURITY;
ALTER TABLE channels FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON channels
    USING (tenant = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE peers ENABLE ROW LEVEL SECURITY;
ALTER TABLE peers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON peers
    USING (tenant = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE inbox FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON inbox
    USING (tenant = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON outbox
    USING (tenant = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

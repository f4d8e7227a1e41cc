-- Changes of a persona that somebody proposes and an operator decides on. `change` is a merge patch of the persona;
-- `wish` names what people asked for, where that is why, and `sessions` in how many conversations.

-- migrate:up
CREATE TABLE persona_proposals (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    human text NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'accepted', 'rejected')),
    change jsonb NOT NULL,
    wish text NOT NULL DEFAULT '',
    reason text NOT NULL,
    created_by text NOT NULL,
    request_id text NOT NULL DEFAULT '',
    sessions uuid[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    decided_by text NOT NULL DEFAULT '',
    note text NOT NULL DEFAULT '',
    decided_at timestamptz,
    -- What an accepted one became.
    version int,
    CHECK ((state = 'open') = (decided_at IS NULL)),
    CHECK ((state = 'accepted') = (version IS NOT NULL))
);
CREATE INDEX persona_proposals_newest ON persona_proposals (tenant, human, created_at DESC);
CREATE UNIQUE INDEX persona_proposals_request ON persona_proposals (tenant, request_id) WHERE request_id <> '';
CREATE UNIQUE INDEX persona_proposals_wish ON persona_proposals (tenant, human, wish) WHERE state = 'open' AND wish <> '';

GRANT SELECT, INSERT ON persona_proposals TO indai_app;
GRANT UPDATE (state, sessions, decided_by, note, decided_at, version) ON persona_proposals TO indai_app;

ALTER TABLE persona_proposals ENABLE ROW LEVEL SECURITY;
ALTER TABLE persona_proposals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON persona_proposals
    USING (tenant = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

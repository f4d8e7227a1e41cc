-- migrate:up
-- The newest version of each configured thing. A tenant's row has its own slug as `tenant`.
CREATE TABLE tiers (
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('tenant', 'human', 'team', 'agent', 'binding')),
    slug text NOT NULL,
    version int NOT NULL CHECK (version > 0),
    config jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, kind, slug)
);

-- Every version that ever was: read, compared, restored; never changed.
CREATE TABLE tier_config_versions (
    tenant text NOT NULL,
    kind text NOT NULL,
    slug text NOT NULL,
    version int NOT NULL,
    config jsonb NOT NULL,
    created_by text NOT NULL,
    note text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, kind, slug, version)
);

-- Which binding answers at a number or host: one in the whole node, so the table has no tenant's policy.
CREATE TABLE routing_keys (
    routing_key text PRIMARY KEY,
    tenant text NOT NULL,
    binding text NOT NULL
);
CREATE INDEX routing_keys_of ON routing_keys (tenant, binding);

GRANT SELECT, INSERT, UPDATE ON tiers TO indai_app;
GRANT SELECT, INSERT ON tier_config_versions TO indai_app;
GRANT SELECT, INSERT, DELETE ON routing_keys TO indai_app;

ALTER TABLE tiers ENABLE ROW LEVEL SECURITY;
ALTER TABLE tiers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON tiers
    USING (tenant = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE tier_config_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE tier_config_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON tier_config_versions
    USING (tenant = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

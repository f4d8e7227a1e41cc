-- migrate:up
-- Every version an owner ever activated. Never changed: a recorded decision names its version by hash.
CREATE TABLE version (
    owner text NOT NULL,
    policy_hash bytea NOT NULL CHECK (octet_length(policy_hash) = 32),
    schema_hash bytea NOT NULL CHECK (octet_length(schema_hash) = 32),
    source text NOT NULL,
    -- [[name, grant, ask, unmatched], ...], the form that is hashed.
    layers jsonb NOT NULL,
    schema text NOT NULL,
    engine text NOT NULL,
    time_zone text NOT NULL,
    PRIMARY KEY (owner, policy_hash)
);

-- Which of them decides.
CREATE TABLE active (
    owner text PRIMARY KEY,
    policy_hash bytea NOT NULL,
    activated_at timestamptz NOT NULL,
    FOREIGN KEY (owner, policy_hash) REFERENCES version (owner, policy_hash)
);

GRANT SELECT, INSERT ON version TO indai_app;
GRANT SELECT, INSERT, UPDATE ON active TO indai_app;

ALTER TABLE version ENABLE ROW LEVEL SECURITY;
ALTER TABLE version FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON version
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE active ENABLE ROW LEVEL SECURITY;
ALTER TABLE active FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON active
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- The active version of one owner in a single round trip; the owner is named for this transaction only.
CREATE FUNCTION active_hash(p_owner text) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.owners', p_owner, true);
    RETURN (SELECT a.policy_hash FROM policy.active a WHERE a.owner = p_owner);
END $$;
GRANT EXECUTE ON FUNCTION active_hash TO indai_app;

-- migrate:down

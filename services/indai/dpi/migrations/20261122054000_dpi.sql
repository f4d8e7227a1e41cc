-- Connections to public services, what people have consented to, documents, payment links and splits. `owner` is the handle
-- whose agent acts, `person` the one who talks to it: at the private door the owner. No secret and no Aadhaar number is here.

-- migrate:up
-- One person's account at a service. The token is in the vault, under `token_ref`.
CREATE TABLE connections (
    owner text NOT NULL,
    person text NOT NULL,
    integration text NOT NULL CHECK (integration IN ('digilocker')),
    -- confirm: the person still has to repeat the code that their browser showed. reconnect: the service refuses the token.
    state text NOT NULL CHECK (state IN ('confirm', 'live', 'reconnect')),
    token_ref text NOT NULL CHECK (token_ref LIKE 'vault:%'),
    account text NOT NULL,
    code_sha256 bytea NOT NULL,
    tries int NOT NULL DEFAULT 0,
    consent uuid NOT NULL,
    changed_ms bigint NOT NULL,
    PRIMARY KEY (owner, person, integration)
);

-- An authorization that was begun: one use, found by the hash of its `state`.
CREATE TABLE flows (
    owner text NOT NULL,
    state_sha256 bytea NOT NULL CHECK (octet_length(state_sha256) = 32),
    person text NOT NULL,
    integration text NOT NULL,
    purpose text NOT NULL,
    expires_ms bigint NOT NULL,
    PRIMARY KEY (owner, state_sha256)
);

-- What somebody has consented to, for which purpose, until when. `detail` is what was asked for, without identifiers.
CREATE TABLE consents (
    owner text NOT NULL,
    id uuid NOT NULL,
    person text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('digilocker', 'aa', 'abdm')),
    purpose text NOT NULL CHECK (purpose <> ''),
    purpose_code text NOT NULL DEFAULT '',
    status text NOT NULL CHECK (status IN ('PENDING', 'ACTIVE', 'PAUSED', 'USED', 'REJECTED', 'REVOKED', 'EXPIRED', 'FAILED')),
    handle text NOT NULL DEFAULT '',
    artefact text NOT NULL DEFAULT '',
    signature text NOT NULL DEFAULT '',
    detail jsonb NOT NULL DEFAULT '{}',
    expires_ms bigint NOT NULL,
    created_ms bigint NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX consents_by_handle ON consents (owner, handle) WHERE handle <> '';

-- Every reading under a consent. Never changed.
CREATE TABLE uses (
    owner text NOT NULL,
    id uuid NOT NULL,
    consent uuid NOT NULL,
    what text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (owner, id),
    FOREIGN KEY (owner, consent) REFERENCES consents (owner, id)
);
CREATE INDEX uses_of_consent ON uses (owner, consent, at_ms);

-- A document that was pulled, sealed under the node key.
CREATE TABLE documents (
    owner text NOT NULL,
    id uuid NOT NULL,
    person text NOT NULL,
    consent uuid NOT NULL,
    reference text NOT NULL,
    name text NOT NULL,
    mime text NOT NULL,
    size int NOT NULL,
    sealed bytea NOT NULL,
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL,
    PRIMARY KEY (owner, id),
    FOREIGN KEY (owner, consent) REFERENCES consents (owner, id)
);

-- A page to pay on, made for a conversation and for no commitment.
CREATE TABLE payment_links (
    owner text NOT NULL,
    reference text NOT NULL,
    link_id text NOT NULL,
    url text NOT NULL,
    purpose text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    paid_minor bigint NOT NULL DEFAULT 0 CHECK (paid_minor >= 0),
    payment_id text NOT NULL DEFAULT '',
    status text NOT NULL CHECK (status IN ('open', 'paid', 'ended')),
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL,
    PRIMARY KEY (owner, reference)
);
CREATE INDEX payment_links_by_id ON payment_links (owner, link_id);

-- A payment is split once, in just this way.
CREATE TABLE splits (
    owner text NOT NULL,
    payment_id text NOT NULL,
    currency text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    shares jsonb NOT NULL,
    done boolean NOT NULL DEFAULT false,
    created_ms bigint NOT NULL,
    PRIMARY KEY (owner, payment_id)
);

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['connections', 'flows', 'consents', 'uses', 'documents', 'payment_links', 'splits'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY owners ON %I USING (owner = ANY (string_to_array(current_setting(''indai.owners'', true), '','')))', t);
  END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON connections TO indai_app;
GRANT SELECT, INSERT, DELETE ON flows TO indai_app;
GRANT SELECT, INSERT, UPDATE ON consents TO indai_app;
GRANT SELECT, INSERT ON uses TO indai_app;
GRANT SELECT, INSERT, DELETE ON documents TO indai_app;
GRANT SELECT, INSERT, UPDATE ON payment_links, splits TO indai_app;
-- migrate:down

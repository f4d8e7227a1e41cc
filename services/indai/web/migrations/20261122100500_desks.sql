-- Who signs in at the desks, how, and what they did. `scope` is a handle for its owner, a tenant's slug for its people,
-- and `*` for the operators of the node: what row-level security goes by.

-- migrate:up
CREATE TABLE accounts (
  id         uuid PRIMARY KEY,
  scope      text NOT NULL,
  role       text NOT NULL CHECK (role IN ('owner', 'admin', 'staff', 'operator', 'auditor')),
  name       text NOT NULL,     -- the handle of an owner; else how an administrator calls them, or their e-mail address
  settings   jsonb NOT NULL DEFAULT '{}',
  created_ms bigint NOT NULL,
  revoked_ms bigint,
  CHECK ((role = 'owner') = (scope = name))
);
CREATE UNIQUE INDEX accounts_in_force ON accounts (scope, name) WHERE revoked_ms IS NULL;

-- A code to sign in with, once; only its hash is kept.
CREATE TABLE sign_in_codes (
  code_sha256 bytea PRIMARY KEY CHECK (length(code_sha256) = 32),
  scope       text NOT NULL,
  account     uuid NOT NULL REFERENCES accounts,
  expires_ms  bigint NOT NULL,
  used_ms     bigint
);

CREATE TABLE sessions (
  token_sha256 bytea PRIMARY KEY CHECK (length(token_sha256) = 32),
  id           uuid NOT NULL UNIQUE,
  scope        text NOT NULL,
  account      uuid NOT NULL REFERENCES accounts,
  way          text NOT NULL CHECK (way IN ('code', 'passkey', 'oidc')),
  device       text NOT NULL,
  created_ms   bigint NOT NULL,
  seen_ms      bigint NOT NULL,
  expires_ms   bigint NOT NULL,
  revoked_ms   bigint
);
CREATE INDEX sessions_of ON sessions (scope, account, created_ms);

CREATE TABLE passkeys (
  credential_sha256 bytea PRIMARY KEY CHECK (length(credential_sha256) = 32),
  credential_id     bytea NOT NULL,
  scope             text NOT NULL,
  account           uuid NOT NULL REFERENCES accounts,
  public_key        bytea NOT NULL,
  sign_count        bigint NOT NULL,
  name              text NOT NULL,
  created_ms        bigint NOT NULL,
  used_ms           bigint
);
CREATE INDEX passkeys_of ON passkeys (scope, account);

-- Every act of a person at a desk. There is no UPDATE and no DELETE.
CREATE TABLE audit_log (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope   text NOT NULL,
  at_ms   bigint NOT NULL,
  account uuid,
  actor   text NOT NULL,
  act     text NOT NULL,
  target  text NOT NULL,
  outcome text NOT NULL
);
CREATE INDEX audit_log_of ON audit_log (scope, id);

GRANT SELECT, INSERT, UPDATE ON accounts, sign_in_codes, sessions TO indai_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON passkeys TO indai_app;
GRANT SELECT, INSERT ON audit_log TO indai_app;

ALTER TABLE accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE accounts FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON accounts
  USING (scope = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE sign_in_codes ENABLE ROW LEVEL SECURITY;
ALTER TABLE sign_in_codes FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON sign_in_codes
  USING (scope = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON sessions
  USING (scope = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE passkeys ENABLE ROW LEVEL SECURITY;
ALTER TABLE passkeys FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON passkeys
  USING (scope = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_log FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON audit_log
  USING (scope = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- Who presents a secret whose hash is kept may read that one row, and so learns whose it is. Nothing else: to change it,
-- the scope has to be set.
CREATE POLICY presented ON sign_in_codes FOR SELECT
  USING (encode(code_sha256, 'hex') = current_setting('indai.presented', true));
CREATE POLICY presented ON sessions FOR SELECT
  USING (encode(token_sha256, 'hex') = current_setting('indai.presented', true));
CREATE POLICY presented ON passkeys FOR SELECT
  USING (encode(credential_sha256, 'hex') = current_setting('indai.presented', true));

-- migrate:down

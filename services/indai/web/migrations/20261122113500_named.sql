-- Who signs in with their organisation presents an e-mail address that it vouches for, and names no scope. Owners' accounts
-- are not found this way.

-- migrate:up
CREATE POLICY presented ON accounts FOR SELECT
  USING (role <> 'owner' AND name = current_setting('indai.presented', true));
CREATE INDEX accounts_by_name ON accounts (name) WHERE revoked_ms IS NULL AND role <> 'owner';

-- migrate:down

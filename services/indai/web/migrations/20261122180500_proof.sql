-- What a code and an account are bound to beside their name.

-- migrate:up
-- The browser that asked for the code, as a hash; empty for one that somebody printed, who hands it on as they like.
ALTER TABLE sign_in_codes ADD COLUMN browser text NOT NULL DEFAULT '';
-- Whom an organisation proved when this account was first used: issuer and subject. An address may be given to somebody
-- else there one day, a subject never is (OpenID Connect Core 1.0, section 2).
ALTER TABLE accounts ADD COLUMN subject text NOT NULL DEFAULT '';

-- migrate:down

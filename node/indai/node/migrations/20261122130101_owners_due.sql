-- migrate:up
-- The next timer of one owner, without a look at anybody else's: the place of the index over all owners.
CREATE INDEX threads_owner_due ON node.threads (owner, wake_ms) WHERE wake_ms IS NOT NULL;
DROP INDEX node.threads_due;

-- migrate:down

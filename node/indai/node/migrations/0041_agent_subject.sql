-- migrate:up
-- The subject that an agent was made for: everything under its handle here is that one's, and no other's. Empty until the
-- registry has shown it.
ALTER TABLE node.agents ADD COLUMN subject_id text NOT NULL DEFAULT '';

-- migrate:down

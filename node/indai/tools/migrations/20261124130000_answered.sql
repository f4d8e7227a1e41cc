-- In which channel's conversation an owner answered: an open desk shows what was decided elsewhere.

-- migrate:up
ALTER TABLE tools.approvals ADD COLUMN answered_on text NOT NULL DEFAULT '';
CREATE INDEX approvals_answered ON tools.approvals (holder, answered_ms DESC) WHERE answered_ms IS NOT NULL;

-- migrate:down

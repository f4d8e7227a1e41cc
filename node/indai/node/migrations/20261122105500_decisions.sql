-- An owner's decisions of the last weeks, to be taken again under rules that are tried out.

-- migrate:up
CREATE INDEX messages_decided ON node.messages (owner, stored_ms) WHERE decision IS NOT NULL;

-- migrate:down

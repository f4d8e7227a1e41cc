-- migrate:up
-- The oldest that wait are found without looking at all that wait.
CREATE INDEX inbox_order ON inbox (id) WHERE done_at IS NULL;
CREATE INDEX outbox_order ON outbox (channel, id) WHERE state = 'waiting';

-- migrate:down

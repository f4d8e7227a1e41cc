-- One time of a meeting that repeats can be moved or deleted in a calendar by itself.

-- migrate:up
ALTER TABLE node.calendar_changes ADD COLUMN at_ms bigint NOT NULL DEFAULT 0;  -- of a series: when that time was agreed to begin
ALTER TABLE node.calendar_changes DROP CONSTRAINT calendar_changes_pkey;
ALTER TABLE node.calendar_changes ADD PRIMARY KEY (owner, thread, at_ms, start_ms, end_ms);
-- migrate:down

-- migrate:up
-- The binding that answers from the next message on, when a team has handed the person to another.
ALTER TABLE sessions ADD COLUMN handed_to text NOT NULL DEFAULT '';

-- migrate:down

-- A turn that somebody wants to end, at whichever process: the one that runs it is told, and who takes it over sees it.

-- migrate:up
ALTER TABLE runtime.turns ADD COLUMN stop_asked boolean NOT NULL DEFAULT false;

-- migrate:down

-- What a schema marks as secret, or as not to be kept, waits sealed for the word or the worker that needs it.

-- migrate:up
-- Under the node key, bound to its row: the arguments as they will run, and of a question its terms. NULL where `arguments`
-- has nothing left out, and from the moment on that nobody needs it any more.
ALTER TABLE tools.approvals ADD COLUMN sealed bytea;
ALTER TABLE tools.jobs ADD COLUMN sealed bytea;

-- migrate:down

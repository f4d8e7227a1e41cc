-- migrate:up

-- What a provider has answered to the upload of a file: after a kill the file is not uploaded again.
ALTER TABLE edge.outbox ADD COLUMN told jsonb;

-- migrate:down

-- migrate:up
-- A task as its client sees it. `owner` is the handle whose agent works on it, `caller` who may see it.
CREATE TABLE task (
    owner text NOT NULL,
    id uuid NOT NULL,
    caller text NOT NULL,
    context_id text NOT NULL,
    state smallint NOT NULL,
    -- Number of the newest event; it only grows.
    seq int NOT NULL,
    updated_at timestamptz NOT NULL,
    task bytea NOT NULL,
    PRIMARY KEY (owner, id)
);
-- ListTasks: a caller's own, newest first.
CREATE INDEX task_by_caller ON task (owner, caller, updated_at DESC, id DESC);

-- Where a client wants to be told, and of which state it was told last. `config` is sealed: it holds the
-- client's credentials.
CREATE TABLE push_config (
    owner text NOT NULL,
    task_id uuid NOT NULL,
    id text NOT NULL,
    config bytea NOT NULL,
    sent_seq int NOT NULL,
    failures int NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL,
    PRIMARY KEY (owner, task_id, id),
    FOREIGN KEY (owner, task_id) REFERENCES task (owner, id) ON DELETE CASCADE
);

-- Idempotency-Key: the same key with the same message is the same task.
CREATE TABLE idempotency_key (
    owner text NOT NULL,
    caller text NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    task_id uuid NOT NULL,
    PRIMARY KEY (owner, caller, key),
    -- The key is taken before the task is written, in the same transaction.
    FOREIGN KEY (owner, task_id) REFERENCES task (owner, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);

-- Keys that an owner gave to clients; only a hash is kept.
CREATE TABLE api_key (
    owner text NOT NULL,
    name text NOT NULL,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    PRIMARY KEY (owner, name)
);

GRANT SELECT, INSERT, UPDATE ON task TO indai_app;
GRANT SELECT, INSERT, UPDATE ON api_key TO indai_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON push_config TO indai_app;
GRANT SELECT, INSERT ON idempotency_key TO indai_app;

ALTER TABLE api_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_key FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON api_key
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE task ENABLE ROW LEVEL SECURITY;
ALTER TABLE task FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON task
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE push_config ENABLE ROW LEVEL SECURITY;
ALTER TABLE push_config FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON push_config
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE idempotency_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_key FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON idempotency_key
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- Stores a batch of changed tasks in one round trip. Answers, for each, whether it was stored: a new task
-- whose idempotency key another task has already is not.
CREATE FUNCTION store_tasks(
    p_owner text[], p_id uuid[], p_caller text[], p_context text[], p_state smallint[], p_seq int[],
    p_updated timestamptz[], p_task bytea[], p_key text[], p_digest bytea[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    v_keyed uuid[];
BEGIN
    WITH kept AS (
        INSERT INTO a2a.idempotency_key (owner, caller, key, digest, task_id)
        SELECT given.owner, given.caller, given.key, given.digest, given.id
        FROM unnest(p_owner, p_caller, p_key, p_digest, p_id) AS given(owner, caller, key, digest, id)
        WHERE given.key IS NOT NULL
        ON CONFLICT DO NOTHING
        RETURNING task_id
    )
    SELECT coalesce(array_agg(task_id), '{}') INTO v_keyed FROM kept;
    INSERT INTO a2a.task AS old (owner, id, caller, context_id, state, seq, updated_at, task)
    SELECT given.owner, given.id, given.caller, given.context, given.state, given.seq, given.updated, given.task
    FROM unnest(p_owner, p_id, p_caller, p_context, p_state, p_seq, p_updated, p_task, p_key)
      AS given(owner, id, caller, context, state, seq, updated, task, key)
    WHERE given.key IS NULL OR given.id = ANY (v_keyed)
    ON CONFLICT (owner, id) DO UPDATE
    SET state = excluded.state, seq = excluded.seq, updated_at = excluded.updated_at, task = excluded.task
    WHERE old.caller = excluded.caller AND old.seq < excluded.seq;
    RETURN (SELECT array_agg(given.key IS NULL OR given.id = ANY (v_keyed) ORDER BY given.at)
            FROM unnest(p_id, p_key) WITH ORDINALITY AS given(id, key, at));
END $$;
GRANT EXECUTE ON FUNCTION store_tasks TO indai_app;

-- migrate:down

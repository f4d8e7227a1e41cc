-- migrate:up
-- What owners want kept up over time, what was done for it, and what holds the agent back.
CREATE TABLE goals (
    id uuid PRIMARY KEY,
    owner text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('meet', 'follow_up', 'remind')),
    person text NOT NULL DEFAULT '',
    words text NOT NULL DEFAULT '',
    every_ms bigint NOT NULL CHECK (every_ms > 0),
    minutes integer NOT NULL DEFAULT 30,
    may_act boolean NOT NULL DEFAULT false,
    paused boolean NOT NULL DEFAULT false,
    -- The occasion that is due next, and when it is looked at: later where a gate holds it back.
    due_ms bigint NOT NULL,
    look_ms bigint NOT NULL,
    created_ms bigint NOT NULL
);
CREATE INDEX goals_due ON goals (owner, look_ms) WHERE NOT paused;

-- One for each occasion of a goal (and thread): its id is made from both, so doing it again after a crash is one act.
CREATE TABLE goal_acts (
    id uuid PRIMARY KEY,
    place bigint GENERATED ALWAYS AS IDENTITY,
    owner text NOT NULL,
    goal uuid NOT NULL REFERENCES goals (id) ON DELETE CASCADE,
    did text NOT NULL CHECK (did IN ('begun', 'told', 'acted', 'asked', 'held', 'met', 'failed')),
    words text NOT NULL DEFAULT '',
    thread text NOT NULL DEFAULT '',
    at_ms bigint NOT NULL
);
CREATE INDEX goal_acts_newest ON goal_acts (owner, place DESC);
CREATE INDEX goal_acts_of_goal ON goal_acts (goal, place DESC);

CREATE TABLE goal_gates (
    owner text PRIMARY KEY,
    allowed boolean NOT NULL,
    quiet_from integer NOT NULL CHECK (quiet_from BETWEEN 0 AND 1439),
    quiet_until integer NOT NULL CHECK (quiet_until BETWEEN 0 AND 1439),
    most_per_day integer NOT NULL CHECK (most_per_day BETWEEN 1 AND 50)
);

-- Every owner that ever had a goal: where the engine looks. Names alone, so it has no policy.
CREATE TABLE goal_owners (
    owner text PRIMARY KEY
);

-- What an owner's own agent knows of their goals, in one round trip.
CREATE FUNCTION runtime.goals_of(p_owner text, p_most integer) RETURNS SETOF runtime.goals LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.owners', p_owner, true);
    RETURN QUERY SELECT * FROM runtime.goals g WHERE g.owner = p_owner AND NOT g.paused
        ORDER BY g.due_ms, g.id LIMIT p_most;
END $$;

GRANT EXECUTE ON FUNCTION runtime.goals_of TO indai_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON goals TO indai_app;
GRANT SELECT, INSERT, UPDATE ON goal_acts, goal_gates TO indai_app;
GRANT SELECT, INSERT ON goal_owners TO indai_app;

ALTER TABLE goals ENABLE ROW LEVEL SECURITY;
ALTER TABLE goals FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON goals
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE goal_acts ENABLE ROW LEVEL SECURITY;
ALTER TABLE goal_acts FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON goal_acts
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE goal_gates ENABLE ROW LEVEL SECURITY;
ALTER TABLE goal_gates FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON goal_gates
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

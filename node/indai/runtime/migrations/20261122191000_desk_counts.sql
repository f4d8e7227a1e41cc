-- migrate:up
-- Sums for the desks of tenants, by day (of the tenant's zone) and binding, so that a page reads them instead of every turn.
-- `what` is a dimension of turns (topic, mood, ending, language, zone, channel, topic_zone) and `name` a value of it; for
-- `stage`, `name` is the stage and `bucket` a class of its time: see indai.node.tenancy.rollup.
CREATE TABLE desk_counts (
    owner text NOT NULL,
    tenant text NOT NULL,
    day date NOT NULL,
    binding text NOT NULL,
    what text NOT NULL,
    name text NOT NULL,
    bucket smallint NOT NULL DEFAULT 0,
    turns bigint NOT NULL,
    PRIMARY KEY (owner, tenant, day, binding, what, name, bucket)
);
-- Up to which moment finished turns are in those sums.
CREATE TABLE desk_folds (
    owner text NOT NULL,
    tenant text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (owner, tenant)
);
CREATE INDEX turns_finished ON turns (owner, finished_at) WHERE state = 'finished';
GRANT SELECT, INSERT, UPDATE ON desk_counts, desk_folds TO indai_app;
ALTER TABLE desk_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE desk_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON desk_counts
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
CREATE POLICY desks ON desk_counts AS RESTRICTIVE USING (current_setting('indai.desk', true) IN ('*', tenant));
ALTER TABLE desk_folds ENABLE ROW LEVEL SECURITY;
ALTER TABLE desk_folds FORCE ROW LEVEL SECURITY;
CREATE POLICY owners ON desk_folds
    USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
CREATE POLICY desks ON desk_folds AS RESTRICTIVE USING (current_setting('indai.desk', true) IN ('*', tenant));

-- migrate:down

-- migrate:up
-- What an owner's calls cost by day and binding, as `day_costs` has it for a tenant: their own page reads these. A
-- day is one of `zone`, which is where they live. See indai.llm.daycosts.
CREATE TABLE owner_costs (
    tenant text NOT NULL,
    owner text NOT NULL,
    zone text NOT NULL,
    day date NOT NULL,
    binding text NOT NULL,
    currency text NOT NULL,
    calls bigint NOT NULL,
    failed bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_hit_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cost_micros bigint NOT NULL,
    PRIMARY KEY (tenant, owner, zone, day, binding, currency)
);
-- Which of their rows are in those sums: stored after `since` and up to `until`.
CREATE TABLE owner_folds (
    tenant text NOT NULL,
    owner text NOT NULL,
    zone text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (tenant, owner, zone)
);
CREATE INDEX calls_of_owner_by_storing
    ON calls (tenant, owner, (CASE WHEN stored_at IS NULL THEN started_at ELSE stored_at END));
GRANT SELECT, INSERT, UPDATE ON owner_costs, owner_folds TO indai_app;
ALTER TABLE owner_costs ENABLE ROW LEVEL SECURITY;
ALTER TABLE owner_costs FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON owner_costs USING (llm.visible(tenant, owner));
ALTER TABLE owner_folds ENABLE ROW LEVEL SECURITY;
ALTER TABLE owner_folds FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON owner_folds USING (llm.visible(tenant, owner));

-- migrate:down

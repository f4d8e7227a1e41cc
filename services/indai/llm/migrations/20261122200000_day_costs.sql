-- migrate:up
-- When a row came to be stored, which is after its call ended: what a sum has seen and what not. Rows from before
-- have none, and count as stored when they started.
ALTER TABLE calls ADD COLUMN stored_at timestamptz;
ALTER TABLE calls ALTER COLUMN stored_at SET DEFAULT clock_timestamp();
-- No coalesce(): Postgres holds it for leaky, and searches no index for what is leaky under row-level security.
CREATE INDEX calls_by_storing ON calls (tenant, (CASE WHEN stored_at IS NULL THEN started_at ELSE stored_at END));

-- Sums of a tenant's calls by day and binding, so that a page reads them instead of every call. A day is one of
-- `zone`: who asks in another zone gets sums of that zone's days. See indai.llm.daycosts.
CREATE TABLE day_costs (
    tenant text NOT NULL,
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
    PRIMARY KEY (tenant, zone, day, binding, currency)
);
-- The parts that tiers have in prompts, in classes of their size.
CREATE TABLE day_tiers (
    tenant text NOT NULL,
    zone text NOT NULL,
    day date NOT NULL,
    binding text NOT NULL,
    tier text NOT NULL,
    bucket smallint NOT NULL,
    calls bigint NOT NULL,
    tokens bigint NOT NULL,
    largest bigint NOT NULL,
    PRIMARY KEY (tenant, zone, day, binding, tier, bucket)
);
-- Which rows are in those sums: stored after `since` and up to `until`.
CREATE TABLE day_folds (
    tenant text NOT NULL,
    zone text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (tenant, zone)
);
GRANT SELECT, INSERT, UPDATE ON day_costs, day_tiers, day_folds TO indai_app;
-- Sums are the tenant's: a session that names an owner sees none.
ALTER TABLE day_costs ENABLE ROW LEVEL SECURITY;
ALTER TABLE day_costs FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON day_costs USING (llm.visible(tenant, ''));
ALTER TABLE day_tiers ENABLE ROW LEVEL SECURITY;
ALTER TABLE day_tiers FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON day_tiers USING (llm.visible(tenant, ''));
ALTER TABLE day_folds ENABLE ROW LEVEL SECURITY;
ALTER TABLE day_folds FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON day_folds USING (llm.visible(tenant, ''));

-- As before; each row says when it was stored.
CREATE OR REPLACE FUNCTION settle(
    p_generation uuid, p_tenant text, p_binding text, p_owner text, p_now timestamptz, p_rows jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_held bigint;
    v_day date := (p_now AT TIME ZONE 'UTC')::date;
    v_cost bigint;
    v_stored llm.calls;
BEGIN
    PERFORM llm.act_for(p_tenant);
    v_stored.stored_at := clock_timestamp();
    INSERT INTO llm.calls SELECT * FROM jsonb_populate_recordset(v_stored, p_rows);
    SELECT coalesce(sum((one ->> 'cost_micros')::bigint), 0) INTO v_cost FROM jsonb_array_elements(p_rows) AS one;
    DELETE FROM llm.reservations r WHERE r.generation = p_generation AND r.tenant = p_tenant
      RETURNING r.micros, r.day INTO v_held, v_day;
    IF NOT FOUND THEN
        v_day := (p_now AT TIME ZONE 'UTC')::date;
    END IF;
    IF v_cost > 0 OR v_held IS NOT NULL THEN
        PERFORM llm.book(p_tenant, p_binding, p_owner, v_day, -coalesce(v_held, 0), v_cost);
    END IF;
END $$;

-- migrate:down

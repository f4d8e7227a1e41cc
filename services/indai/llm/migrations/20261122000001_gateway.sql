-- migrate:up
-- One row for each attempt at a provider. The gateway's own degraded answer is a row too, with an empty provider.
CREATE TABLE calls (
    id uuid PRIMARY KEY,
    generation uuid NOT NULL,
    attempt smallint NOT NULL,
    tenant text NOT NULL,
    binding text NOT NULL,
    owner text NOT NULL,
    session text NOT NULL,
    model_class text NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    why text NOT NULL,
    started_at timestamptz NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_hit_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cost_micros bigint NOT NULL CHECK (cost_micros >= 0),
    currency text NOT NULL,
    latency_ms integer NOT NULL,
    ttft_ms integer NOT NULL,
    finish text NOT NULL,
    error text NOT NULL,
    -- {"tokens_by_tier": {...}, "stage_ms": {...}}
    metadata jsonb NOT NULL
);
CREATE INDEX calls_by_time ON calls (tenant, started_at DESC, id DESC);
CREATE INDEX calls_by_generation ON calls (generation);

-- Limits. A call must fit into all that concern it: its tenant's, its binding's, its owner's; day, month, credit.
CREATE TABLE limits (
    tenant text NOT NULL,
    key text NOT NULL CHECK (key IN ('tenant', 'binding', 'owner')),
    subject text NOT NULL,
    period text NOT NULL CHECK (period IN ('day', 'month', 'credit')),
    limit_micros bigint NOT NULL CHECK (limit_micros >= 0),
    PRIMARY KEY (tenant, key, subject, period)
);

-- What is spent and held in one period of one limit.
CREATE TABLE accounts (
    tenant text NOT NULL,
    key text NOT NULL,
    subject text NOT NULL,
    period text NOT NULL,
    starts date NOT NULL,
    spent_micros bigint NOT NULL DEFAULT 0 CHECK (spent_micros >= 0),
    reserved_micros bigint NOT NULL DEFAULT 0 CHECK (reserved_micros >= 0),
    PRIMARY KEY (tenant, key, subject, period, starts)
) WITH (fillfactor = 70);

-- What a running generation holds. One that is never settled, since its process died, is let go when it expires.
CREATE TABLE reservations (
    generation uuid PRIMARY KEY,
    tenant text NOT NULL,
    binding text NOT NULL,
    owner text NOT NULL,
    day date NOT NULL,
    micros bigint NOT NULL CHECK (micros > 0),
    expires_at timestamptz NOT NULL
);
CREATE INDEX reservations_by_expiry ON reservations (tenant, expires_at);

-- What the owner should know; the same again counts up.
CREATE TABLE notices (
    tenant text NOT NULL,
    owner text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    day date NOT NULL,
    message text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    times integer NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant, owner, kind, subject, day)
);

GRANT SELECT, INSERT ON calls TO indai_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON limits TO indai_app;
GRANT SELECT, INSERT, UPDATE ON accounts TO indai_app;
GRANT SELECT, INSERT, DELETE ON reservations TO indai_app;
GRANT SELECT, INSERT, UPDATE ON notices TO indai_app;

-- A session names one tenant, and sees that tenant's rows only; if it names owners too, theirs only.
CREATE FUNCTION visible(p_tenant text, p_owner text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_tenant = current_setting('indai.tenant', true)
       AND (coalesce(current_setting('indai.owners', true), '') = ''
            OR p_owner = ANY (string_to_array(current_setting('indai.owners', true), ',')))
$$;
CREATE FUNCTION act_for(p_tenant text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.tenant', p_tenant, true);
END $$;

ALTER TABLE calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE calls FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON calls USING (llm.visible(tenant, owner));
ALTER TABLE limits ENABLE ROW LEVEL SECURITY;
ALTER TABLE limits FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON limits USING (llm.visible(tenant, CASE key WHEN 'owner' THEN subject ELSE '' END));
ALTER TABLE accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE accounts FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON accounts USING (llm.visible(tenant, CASE key WHEN 'owner' THEN subject ELSE '' END));
ALTER TABLE reservations ENABLE ROW LEVEL SECURITY;
ALTER TABLE reservations FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON reservations USING (llm.visible(tenant, owner));
ALTER TABLE notices ENABLE ROW LEVEL SECURITY;
ALTER TABLE notices FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON notices USING (llm.visible(tenant, owner));

CREATE FUNCTION period_start(p_period text, p_day date) RETURNS date LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_period WHEN 'day' THEN p_day WHEN 'month' THEN date_trunc('month', p_day)::date
                         ELSE DATE '1970-01-01' END
$$;

-- Moves what is held and what is spent, in every account that concerns the call. Accounts are locked in one order, so two
-- calls never wait for each other in a circle.
CREATE FUNCTION book(
    p_tenant text, p_binding text, p_owner text, p_day date, p_held bigint, p_spent bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM llm.accounts a JOIN llm.limits l USING (tenant, key, subject, period)
     WHERE a.tenant = p_tenant AND a.starts = llm.period_start(a.period, p_day)
       AND (a.key, a.subject) IN (('tenant', ''), ('binding', p_binding), ('owner', p_owner))
     ORDER BY a.key, a.subject, a.period FOR UPDATE OF a;
    UPDATE llm.accounts a
       SET reserved_micros = greatest(0, a.reserved_micros + p_held), spent_micros = a.spent_micros + p_spent
     WHERE a.tenant = p_tenant AND a.starts = llm.period_start(a.period, p_day)
       AND (a.key, a.subject) IN (('tenant', ''), ('binding', p_binding), ('owner', p_owner));
END $$;

-- Holds p_micros in every limit that concerns the call, or raises IN402 with the limit that has no room.
CREATE FUNCTION reserve(
    p_generation uuid, p_tenant text, p_binding text, p_owner text, p_now timestamptz, p_micros bigint, p_for_ms bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_day date := (p_now AT TIME ZONE 'UTC')::date;
    v_full record;
    v_old record;
BEGIN
    PERFORM llm.act_for(p_tenant);
    IF NOT EXISTS (SELECT 1 FROM llm.limits l WHERE l.tenant = p_tenant
                   AND (l.key, l.subject) IN (('tenant', ''), ('binding', p_binding), ('owner', p_owner))) THEN
        RETURN;
    END IF;
    -- An insert locks as an update does: the order is the same as in book().
    INSERT INTO llm.accounts (tenant, key, subject, period, starts)
         SELECT l.tenant, l.key, l.subject, l.period, llm.period_start(l.period, v_day) FROM llm.limits l
          WHERE l.tenant = p_tenant
            AND (l.key, l.subject) IN (('tenant', ''), ('binding', p_binding), ('owner', p_owner))
          ORDER BY l.key, l.subject, l.period
    ON CONFLICT DO NOTHING;
    -- What a dead process left is let go before the money is counted.
    FOR v_old IN DELETE FROM llm.reservations r WHERE r.tenant = p_tenant AND r.expires_at < p_now RETURNING r.* LOOP
        PERFORM llm.book(v_old.tenant, v_old.binding, v_old.owner, v_old.day, -v_old.micros, 0);
    END LOOP;
    PERFORM llm.book(p_tenant, p_binding, p_owner, v_day, p_micros, 0);
    SELECT l.key, l.subject, l.period INTO v_full
      FROM llm.accounts a JOIN llm.limits l USING (tenant, key, subject, period)
     WHERE a.tenant = p_tenant AND a.starts = llm.period_start(a.period, v_day)
       AND (a.key, a.subject) IN (('tenant', ''), ('binding', p_binding), ('owner', p_owner))
       AND a.spent_micros + a.reserved_micros > l.limit_micros
     ORDER BY l.key, l.subject, l.period LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'IN402',
            MESSAGE = concat_ws(' ', v_full.key, nullif(v_full.subject, ''), v_full.period);
    END IF;
    IF p_micros > 0 THEN
        INSERT INTO llm.reservations VALUES
            (p_generation, p_tenant, p_binding, p_owner, v_day, p_micros, p_now + p_for_ms * interval '1 millisecond');
    END IF;
END $$;

-- Stores the attempts of one generation (a JSON array of rows), books what they cost, and lets go what was held.
CREATE FUNCTION settle(
    p_generation uuid, p_tenant text, p_binding text, p_owner text, p_now timestamptz, p_rows jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_held bigint;
    v_day date := (p_now AT TIME ZONE 'UTC')::date;
    v_cost bigint;
BEGIN
    PERFORM llm.act_for(p_tenant);
    INSERT INTO llm.calls SELECT * FROM jsonb_populate_recordset(NULL::llm.calls, p_rows);
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

GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA llm TO indai_app;

-- migrate:down

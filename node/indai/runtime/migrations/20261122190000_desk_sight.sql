-- migrate:up
-- What somebody at a tenant's desk may see, whatever the query asks for: `indai.desk` is set to the tenant (or to `*` by the
-- node's operator, who may see those of all tenants) for such a transaction, and it narrows what `indai.owners` opens. What
-- people say to their own agents, at `personal` or at a private door, is in none of it. Elsewhere the setting is empty.
CREATE POLICY desks ON sessions AS RESTRICTIVE USING (
    coalesce(current_setting('indai.desk', true), '') = ''
    OR (door <> 'private' AND tenant <> 'personal' AND current_setting('indai.desk', true) IN ('*', tenant))
);
-- Rows of a session follow it: the inner query is held to the policies above.
CREATE POLICY desks ON messages AS RESTRICTIVE USING (
    coalesce(current_setting('indai.desk', true), '') = ''
    OR EXISTS (SELECT FROM sessions s WHERE s.id = messages.session)
);
CREATE POLICY desks ON turns AS RESTRICTIVE USING (
    coalesce(current_setting('indai.desk', true), '') = ''
    OR EXISTS (SELECT FROM sessions s WHERE s.id = turns.session)
);
CREATE POLICY desks ON guardrail_violations AS RESTRICTIVE USING (
    coalesce(current_setting('indai.desk', true), '') = ''
    OR EXISTS (SELECT FROM sessions s WHERE s.id = guardrail_violations.session)
);
-- Nothing at a desk reads these.
CREATE POLICY desks ON segments AS RESTRICTIVE USING (coalesce(current_setting('indai.desk', true), '') = '');
CREATE POLICY desks ON turn_events AS RESTRICTIVE USING (coalesce(current_setting('indai.desk', true), '') = '');
CREATE POLICY desks ON outbound AS RESTRICTIVE USING (coalesce(current_setting('indai.desk', true), '') = '');

-- migrate:down

-- What tools did and what waits for the owner's word.

-- migrate:up
-- Every call of a tool. `holder` is whose row it is: the owner's handle, or `tenant:` and a slug at an organisation's own
-- door. Arguments stand here without what their schema marks as secret, results are cut.
CREATE TABLE tools.tool_calls (
  id          uuid PRIMARY KEY,
  holder      text NOT NULL,
  tenant      text NOT NULL,
  binding     text NOT NULL,
  session     text NOT NULL,
  turn        text NOT NULL,
  door        text NOT NULL,
  channel     text NOT NULL,
  tool        text NOT NULL,
  action_hash bytea NOT NULL CHECK (length(action_hash) = 32),
  arguments   jsonb NOT NULL,
  result      text NOT NULL,
  status      text NOT NULL CHECK (status IN ('done', 'failed', 'needs_approval', 'running')),
  error       text NOT NULL,
  faulty      boolean NOT NULL,  -- the tool itself does not work: three of these in a session disable it
  cached      boolean NOT NULL,
  touches     text[] NOT NULL,
  latency_ms  int NOT NULL,
  created_ms  bigint NOT NULL
);
CREATE INDEX tool_calls_of_session ON tools.tool_calls (holder, session, created_ms);
CREATE INDEX tool_calls_newest ON tools.tool_calls (holder, created_ms DESC, id DESC);

-- What the owner is asked before it happens. `caller` and `arguments` are exactly what will run; `action_hash` binds them.
CREATE TABLE tools.approvals (
  id          uuid PRIMARY KEY,
  holder      text NOT NULL,
  code        text NOT NULL,
  action_hash bytea NOT NULL CHECK (length(action_hash) = 32),
  tool        text NOT NULL,
  caller      jsonb NOT NULL,
  arguments   jsonb NOT NULL,
  terms       text NOT NULL,
  why         text NOT NULL,
  state       text NOT NULL CHECK (state IN ('pending', 'approved', 'declined', 'expired', 'done')),
  outcome     jsonb,
  created_ms  bigint NOT NULL,
  expires_ms  bigint NOT NULL,
  answered_ms bigint,
  answered_by text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX approvals_asked_once ON tools.approvals (holder, action_hash) WHERE state = 'pending';
CREATE UNIQUE INDEX approvals_of_code ON tools.approvals (holder, code) WHERE state = 'pending';
CREATE INDEX approvals_waiting ON tools.approvals (holder, expires_ms) WHERE state = 'pending';

GRANT SELECT, INSERT ON tools.tool_calls TO indai_app;
GRANT SELECT, INSERT, UPDATE ON tools.approvals TO indai_app;

ALTER TABLE tools.tool_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE tools.tool_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY holders ON tools.tool_calls
  USING (holder = ANY (string_to_array(current_setting('indai.owners', true), ',')));
ALTER TABLE tools.approvals ENABLE ROW LEVEL SECURITY;
ALTER TABLE tools.approvals FORCE ROW LEVEL SECURITY;
CREATE POLICY holders ON tools.approvals
  USING (holder = ANY (string_to_array(current_setting('indai.owners', true), ',')));

-- migrate:down

-- migrate:up
-- What tools did in a turn goes with the turn, when its owner forgets it.
GRANT DELETE ON tools.tool_calls, tools.approvals, tools.jobs TO indai_app;

-- migrate:down

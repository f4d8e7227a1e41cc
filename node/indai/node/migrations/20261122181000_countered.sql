-- A third answer to a question: something else instead.

-- migrate:up
ALTER TABLE node.approvals DROP CONSTRAINT approvals_state_check;
ALTER TABLE node.approvals ADD CONSTRAINT approvals_state_check
  CHECK (state IN ('pending', 'approved', 'declined', 'countered', 'expired')) NOT VALID;

-- migrate:down

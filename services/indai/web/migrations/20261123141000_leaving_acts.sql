-- Who leaves is named no more in the log of acts (node.forget_owner, which runs as the role that migrates); acts stay.

-- migrate:up
CREATE POLICY leaving ON web.audit_log TO CURRENT_USER USING (current_setting('indai.leaving', true) = 'on');

-- migrate:down

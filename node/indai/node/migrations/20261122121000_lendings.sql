-- To which organisations an owner lends their handle: its requests, and its public conversations at their bindings.

-- migrate:up
CREATE TABLE node.lendings (
  owner      text NOT NULL,
  tenant     text NOT NULL,
  created_ms bigint NOT NULL,
  PRIMARY KEY (owner, tenant)
);
CREATE INDEX lendings_of_tenant ON node.lendings (tenant, owner);
GRANT SELECT, INSERT, DELETE ON node.lendings TO indai_app;
ALTER TABLE node.lendings ENABLE ROW LEVEL SECURITY;
ALTER TABLE node.lendings FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON node.lendings USING (node.mine(owner)) WITH CHECK (node.mine(owner));
-- A tenant learns which are lent to it; it lends and ends nothing.
CREATE POLICY tenant ON node.lendings FOR SELECT USING (node.mine(tenant));
-- migrate:down

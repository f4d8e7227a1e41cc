-- How an owner wants their agent to speak.

-- migrate:up
CREATE TABLE node.manners (
  owner text PRIMARY KEY,
  tone  smallint NOT NULL CHECK (tone BETWEEN 0 AND 3)   -- indai.v1.Tone
);
ALTER TABLE node.manners ENABLE ROW LEVEL SECURITY;
ALTER TABLE node.manners FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON node.manners USING (node.mine(owner)) WITH CHECK (node.mine(owner));
GRANT SELECT, INSERT, UPDATE ON node.manners TO indai_app;

-- migrate:down

-- Tables that came after the leaving of owners are reached by it too.

-- migrate:up
DO $$
DECLARE t record;
BEGIN
  FOR t IN SELECT relname FROM pg_class c WHERE relnamespace = 'llm'::regnamespace AND relkind IN ('r', 'p') AND relrowsecurity
      AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'leaving') LOOP
    EXECUTE format(
      'CREATE POLICY leaving ON llm.%I TO CURRENT_USER USING (current_setting(''indai.leaving'', true) = ''on'')', t.relname);
  END LOOP;
END $$;

-- migrate:down

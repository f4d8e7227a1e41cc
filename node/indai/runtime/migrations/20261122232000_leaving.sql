-- Who leaves is forgotten by node.forget_owner, which runs as the role that migrates: that role sees here, where it says
-- what for, rows that name no owner, or that policies show by something else. The application's role does not.

-- migrate:up
DO $$
DECLARE t record;
BEGIN
  FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'runtime'::regnamespace AND relkind IN ('r', 'p') AND relrowsecurity LOOP
    EXECUTE format(
      'CREATE POLICY leaving ON runtime.%I TO CURRENT_USER USING (current_setting(''indai.leaving'', true) = ''on'')', t.relname);
  END LOOP;
END $$;

-- migrate:down

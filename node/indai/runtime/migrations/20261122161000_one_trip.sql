-- What a turn does in the database, in one round trip each. Every function sets what its own transaction may see, under
-- row-level security as ever, and does what was several statements before.

-- migrate:up
-- Who an identity is, if they were here before; the transaction sees them from here on.
CREATE FUNCTION runtime.who(p_kind text, p_value text, p_verified boolean, p_channel text)
RETURNS TABLE (id uuid, person uuid, channel text, display_name text, handles text[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one runtime.identities;
BEGIN
    SELECT * INTO one FROM runtime.identities
    WHERE kind = p_kind AND value = p_value AND verified = p_verified
      AND (channel = p_channel OR (p_kind = 'handle' AND verified) OR p_kind = 'web_session')
    ORDER BY (channel = p_channel) DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM set_config('indai.people', one.person::text, true);
    RETURN QUERY SELECT one.id, one.person, one.channel, one.display_name, runtime.handles_of(one.person);
END $$;

-- The handles that somebody has proved, the last used first.
CREATE FUNCTION runtime.handles_of(p_person uuid) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT ARRAY(
        SELECT value FROM runtime.identities WHERE person = p_person AND kind = 'handle' AND verified
        GROUP BY value ORDER BY max(last_used_at) DESC
    )
$$;

-- Where a person's message to a binding goes, following at most p_hops hand-offs, and the session there, locked; its id is
-- null where there is none yet. `shared`: what the session that handed on knew.
CREATE FUNCTION runtime.arrive(p_owner text, p_tenant text, p_binding text, p_person uuid, p_hops integer)
RETURNS TABLE (
    binding text, shared jsonb, id uuid, segment uuid, segment_messages integer, silent_ms double precision, waiting bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    at text := p_binding;
    known jsonb := '{}';
    hand record;
BEGIN
    PERFORM set_config('indai.owners', p_owner, true);
    FOR hop IN 1..p_hops LOOP
        SELECT handed_to, state INTO hand FROM runtime.sessions
        WHERE owner = p_owner AND tenant = p_tenant AND binding = at AND person = p_person
          AND status <> 'closed' AND handed_to <> '';
        EXIT WHEN NOT FOUND;
        at := hand.handed_to;
        known := hand.state;
    END LOOP;
    RETURN QUERY
        SELECT at, known, s.id, s.segment, s.segment_messages,
               (extract(epoch FROM now() - s.last_active_at) * 1000)::double precision,
               (SELECT count(*) FROM runtime.turns t
                WHERE t.owner = p_owner AND t.session = s.id AND t.state <> 'finished')
        FROM runtime.sessions s
        WHERE s.owner = p_owner AND s.tenant = p_tenant AND s.binding = at AND s.person = p_person
          AND s.status <> 'closed' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT at, known, NULL::uuid, NULL::uuid, 0, 0::double precision, 0::bigint;
    END IF;
END $$;

-- The next turn of a session, now running at p_worker; no row when none waits or one runs. The session's lock makes two
-- claims wait for each other; the unique index is what nothing gets around. A claim that a power cut takes back is made
-- again: it need not wait for the disk.
CREATE FUNCTION runtime.claim(p_owner text, p_session uuid, p_worker bigint)
RETURNS TABLE (
    turn uuid, message uuid, request bytea, attempts integer, note jsonb, handles text[], id uuid, owner text, tenant text,
    binding text, handle text, door text, person uuid, scope_person uuid, segment uuid, status text, channel text,
    language text, time_zone text, state jsonb
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s runtime.sessions;
    t runtime.turns;
BEGIN
    PERFORM set_config('indai.owners', p_owner, true), set_config('synchronous_commit', 'off', true);
    SELECT * INTO s FROM runtime.sessions WHERE id = p_session FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE runtime.turns SET state = 'running', worker = p_worker, attempts = attempts + 1
    WHERE id = (SELECT id FROM runtime.turns WHERE session = p_session AND state = 'queued' ORDER BY place LIMIT 1)
      AND NOT EXISTS (SELECT 1 FROM runtime.turns WHERE session = p_session AND state = 'running')
    RETURNING * INTO t;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT t.id, t.message, t.request, t.attempts, t.note, runtime.handles_of(s.person), s.id, s.owner,
        s.tenant, s.binding, s.handle, s.door, s.person, s.scope_person, s.segment, s.status, s.channel, s.language,
        s.time_zone, s.state;
END $$;

-- Stores events of a running turn, and says how many; none when it is another node's by now. They survive this process; a
-- power cut may take the last half second.
CREATE FUNCTION runtime.tell(p_owner text, p_turn uuid, p_worker bigint, p_seqs integer[], p_events bytea[])
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    told integer;
BEGIN
    PERFORM set_config('indai.owners', p_owner, true), set_config('synchronous_commit', 'off', true);
    INSERT INTO runtime.turn_events (turn, seq, owner, event)
    SELECT p_turn, given.seq, p_owner, given.event FROM unnest(p_seqs, p_events) AS given (seq, event)
    WHERE EXISTS (SELECT 1 FROM runtime.turns WHERE id = p_turn AND worker = p_worker AND state = 'running');
    GET DIAGNOSTICS told = ROW_COUNT;
    RETURN told;
END $$;

-- The last messages of a session before one of them, the oldest first, and what the segment before p_segment was about.
-- `untrusted`: the answer came of reading outsiders; after a long silence such answers are left out.
CREATE FUNCTION runtime.said_before(p_owner text, p_session uuid, p_message uuid, p_segment uuid, p_most integer)
RETURNS TABLE (outgoing boolean[], texts text[], untrusted boolean[], summary text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('indai.owners', p_owner, true);
    RETURN QUERY SELECT array_agg(outgoing ORDER BY place), array_agg(text ORDER BY place),
        array_agg(untrusted ORDER BY place), (
            SELECT s.summary FROM runtime.segments s
            WHERE s.session = p_session AND s.id <> p_segment AND s.ended_at IS NOT NULL
            ORDER BY s.started_at DESC LIMIT 1
        )
    FROM (
        SELECT m.place, m.outgoing, m.text,
               coalesce((t.trace->>'untrusted')::boolean, false) AS untrusted
        FROM runtime.messages m LEFT JOIN runtime.turns t ON t.id = m.turn
        WHERE m.session = p_session AND m.place < (SELECT place FROM runtime.messages WHERE id = p_message)
          AND m.text <> ''
          AND (m.segment = p_segment OR NOT coalesce((t.trace->>'untrusted')::boolean, false))
        ORDER BY m.place DESC LIMIT p_most
    ) newest;
END $$;

-- The end of a turn: answer, working memory and last events; true when it was still p_worker's to end, else nothing happens.
CREATE FUNCTION runtime.finish(
    p_owner text, p_turn uuid, p_worker bigint, p_ending text, p_reason text, p_stage_ms jsonb, p_trace jsonb,
    p_cost_micros bigint, p_message uuid, p_session uuid, p_channel text, p_text text, p_body bytea, p_says boolean,
    p_language text, p_state jsonb, p_hand_over boolean, p_seqs integer[], p_events bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.owners', p_owner, true);
    UPDATE runtime.turns SET state = 'finished', ending = p_ending, reason = p_reason, stage_ms = p_stage_ms,
        trace = p_trace, cost_micros = p_cost_micros, finished_at = now()
    WHERE id = p_turn AND worker = p_worker AND state = 'running';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO runtime.messages (id, owner, session, segment, turn, outgoing, channel, text, body)
    SELECT p_message, p_owner, coalesce(s.merged_into, s.id), s.segment, p_turn, true, p_channel, p_text, p_body
    FROM runtime.sessions s WHERE s.id = p_session AND p_says;
    UPDATE runtime.sessions SET last_active_at = now(),
        language = CASE WHEN p_language = '' THEN language ELSE p_language END,
        last_text = CASE WHEN p_text = '' THEN last_text ELSE left(p_text, 200) END,
        state = coalesce(p_state, state),
        status = CASE WHEN p_hand_over AND status = 'active' THEN 'handed_off' ELSE status END
    WHERE id = p_session;
    INSERT INTO runtime.turn_events (turn, seq, owner, event)
    SELECT p_turn, given.seq, p_owner, given.event FROM unnest(p_seqs, p_events) AS given (seq, event);
    RETURN true;
END $$;

GRANT EXECUTE ON FUNCTION runtime.who, runtime.handles_of, runtime.arrive, runtime.claim, runtime.tell,
    runtime.said_before, runtime.finish TO indai_app;

-- migrate:down

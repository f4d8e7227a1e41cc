-- migrate:up
-- Every row lies in one scope of one tenant. A session sees the scopes that its transaction names
-- (indai.tenant and indai.scopes), whatever its query says; indai.wide opens a whole tenant, for erasure.
CREATE TABLE scopes (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('private', 'public', 'relationship', 'user_binding', 'team', 'human')),
    key text NOT NULL,
    -- Whose scope it is, where it is somebody's: forgetting them forgets it.
    person text NOT NULL DEFAULT '',
    UNIQUE (tenant, kind, key)
);
CREATE INDEX scopes_person ON scopes (tenant, person) WHERE person <> '';

-- Apart from what they count, so that counting rewrites nothing that is indexed by vectors.
-- path: growing scopes are written both ways and searched as small ones until the job has caught up.
CREATE TABLE scope_sizes (
    scope uuid PRIMARY KEY REFERENCES scopes (id) ON DELETE CASCADE,
    tenant text NOT NULL,
    chunks bigint NOT NULL DEFAULT 0,
    length bigint NOT NULL DEFAULT 0,
    path text NOT NULL DEFAULT 'small' CHECK (path IN ('small', 'growing', 'large'))
);

CREATE TABLE sessions (
    scope uuid NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    session text NOT NULL,
    id uuid NOT NULL UNIQUE,
    tenant text NOT NULL,
    places integer NOT NULL DEFAULT 0,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    -- Turns before this place are in a summary.
    summarised integer NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, session)
);

-- What recall finds. terms: the normalised terms of the content, each once, with how often it stands there.
CREATE TABLE chunks (
    scope uuid NOT NULL,
    id uuid NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('turn', 'summary', 'document', 'commitment')),
    source_id text NOT NULL,
    session text NOT NULL DEFAULT '',
    place integer NOT NULL DEFAULT 0,
    speaker text NOT NULL DEFAULT '',
    role text NOT NULL DEFAULT 'person' CHECK (role IN ('person', 'agent', 'system', 'tool', 'recalled')),
    person text NOT NULL DEFAULT '',
    content text NOT NULL,
    terms text[] NOT NULL,
    counts smallint[] NOT NULL,
    length integer NOT NULL,
    importance real NOT NULL DEFAULT 0.5,
    origin text NOT NULL,
    trust text NOT NULL CHECK (trust IN ('owner', 'verified', 'outside')),
    said_at timestamptz NOT NULL,
    -- The document of a document's chunk.
    document uuid,
    PRIMARY KEY (scope, id),
    UNIQUE (scope, kind, source_id)
);
CREATE INDEX chunks_place ON chunks (scope, session, place);
CREATE INDEX chunks_document ON chunks (scope, document) WHERE document IS NOT NULL;
CREATE INDEX chunks_person ON chunks (tenant, person) WHERE person <> '';

-- The lexical leg of large scopes, by term.
CREATE TABLE postings (
    scope uuid NOT NULL,
    term text NOT NULL,
    chunk uuid NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL,
    count smallint NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (scope, term, chunk) INCLUDE (kind, count, length),
    FOREIGN KEY (scope, chunk) REFERENCES chunks (scope, id) ON DELETE CASCADE
);
CREATE INDEX postings_chunk ON postings (scope, chunk);

-- Small scopes are compared exactly, through the primary key. Only rows of large ones are in the graph, so that
-- each scope in it is a large part of it, and a filter by scope finds enough.
CREATE TABLE embeddings (
    scope uuid NOT NULL,
    chunk uuid NOT NULL,
    model text NOT NULL,
    width integer NOT NULL CHECK (width = vector_dims(embedding)),
    tenant text NOT NULL,
    kind text NOT NULL,
    large boolean NOT NULL DEFAULT false,
    embedding vector NOT NULL,
    PRIMARY KEY (scope, chunk, model),
    FOREIGN KEY (scope, chunk) REFERENCES chunks (scope, id) ON DELETE CASCADE
);
CREATE INDEX embeddings_graph ON embeddings USING hnsw ((embedding::vector(384)) vector_cosine_ops)
    WITH (m = 16, ef_construction = 100) WHERE large AND width = 384;

-- Which models a scope has vectors of, for the job that follows a change of model. It names no tenant.
CREATE TABLE scope_models (
    scope uuid NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    model text NOT NULL,
    PRIMARY KEY (scope, model)
);

-- How often and when a chunk was last recalled.
CREATE TABLE reads (
    scope uuid NOT NULL,
    chunk uuid NOT NULL,
    tenant text NOT NULL,
    count bigint NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (scope, chunk),
    FOREIGN KEY (scope, chunk) REFERENCES chunks (scope, id) ON DELETE CASCADE
);

CREATE TABLE facts (
    scope uuid NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    tenant text NOT NULL,
    key text NOT NULL,
    value jsonb NOT NULL,
    -- SHA-256 of the value's canonical text.
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    confidence real NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    -- [subject, predicate, object] of a fact that is an edge, for when it holds.
    relation jsonb,
    pending boolean NOT NULL DEFAULT false,
    language text NOT NULL DEFAULT '',
    person text NOT NULL DEFAULT '',
    origin text NOT NULL,
    trust text NOT NULL CHECK (trust IN ('owner', 'verified', 'outside')),
    source uuid,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (scope, id)
);
-- One fact at a time for a key and a value: adding twice is one fact.
CREATE UNIQUE INDEX facts_open ON facts (scope, key, person, digest) WHERE valid_to IS NULL;
CREATE INDEX facts_key ON facts (scope, key, valid_from DESC);
CREATE INDEX facts_source ON facts (scope, source) WHERE source IS NOT NULL;
CREATE INDEX facts_person ON facts (tenant, person) WHERE person <> '';

-- Which turns have said a fact.
CREATE TABLE mentions (
    scope uuid NOT NULL,
    fact uuid NOT NULL,
    chunk uuid NOT NULL,
    tenant text NOT NULL,
    PRIMARY KEY (scope, fact, chunk),
    FOREIGN KEY (scope, fact) REFERENCES facts (scope, id) ON DELETE CASCADE,
    FOREIGN KEY (scope, chunk) REFERENCES chunks (scope, id) ON DELETE CASCADE
);
CREATE INDEX mentions_chunk ON mentions (scope, chunk);

-- The relations graph. Names are canonical; `names` knows the others.
CREATE TABLE relations (
    scope uuid NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    tenant text NOT NULL,
    subject text NOT NULL,
    predicate text NOT NULL,
    object text NOT NULL,
    confidence real NOT NULL,
    person text NOT NULL DEFAULT '',
    origin text NOT NULL,
    trust text NOT NULL CHECK (trust IN ('owner', 'verified', 'outside')),
    source uuid,
    -- The fact that says so: they end together.
    fact uuid,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (scope, id)
);
CREATE UNIQUE INDEX relations_open ON relations (scope, subject, predicate, object) WHERE valid_to IS NULL;
CREATE INDEX relations_object ON relations (scope, object);
CREATE INDEX relations_source ON relations (scope, source) WHERE source IS NOT NULL;

CREATE TABLE names (
    scope uuid NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    name text NOT NULL,
    canonical text NOT NULL,
    tenant text NOT NULL,
    -- The canonical name is spelled as it was first written.
    spelled text NOT NULL,
    PRIMARY KEY (scope, name)
);

CREATE TABLE working (
    scope uuid NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    session text NOT NULL,
    name text NOT NULL,
    tenant text NOT NULL,
    value jsonb NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (scope, session, name)
);

CREATE TABLE opinions (
    scope uuid NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    stance text NOT NULL,
    origin text NOT NULL,
    trust text NOT NULL CHECK (trust IN ('owner', 'verified', 'outside')),
    source uuid,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    PRIMARY KEY (scope, id)
);
CREATE UNIQUE INDEX opinions_open ON opinions (scope, topic) WHERE valid_to IS NULL;

CREATE TABLE documents (
    scope uuid NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    id uuid NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,
    title text NOT NULL,
    content text NOT NULL,
    digest bytea NOT NULL,
    version integer NOT NULL DEFAULT 1,
    origin text NOT NULL,
    trust text NOT NULL CHECK (trust IN ('owner', 'verified', 'outside')),
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (scope, id),
    UNIQUE (scope, name)
);

-- What a summary was made from: whoever forgets a source forgets what was derived from it.
CREATE TABLE derivations (
    scope uuid NOT NULL,
    derived uuid NOT NULL,
    source uuid NOT NULL,
    tenant text NOT NULL,
    PRIMARY KEY (scope, source, derived),
    FOREIGN KEY (scope, derived) REFERENCES chunks (scope, id) ON DELETE CASCADE,
    FOREIGN KEY (scope, source) REFERENCES chunks (scope, id) ON DELETE CASCADE
);
CREATE INDEX derivations_derived ON derivations (scope, derived);

-- Who asked for what to be forgotten: which conditions and how much, never the content.
CREATE TABLE forgettings (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    conditions text[] NOT NULL,
    removed jsonb NOT NULL,
    forgotten_at timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON
    scopes, scope_sizes, sessions, chunks, postings, embeddings, scope_models, reads, facts, mentions, relations,
    names, working, opinions, documents, derivations TO indai_app;
GRANT SELECT, INSERT ON forgettings TO indai_app;

DO $$
DECLARE
    name text;
    sight text := 'tenant = (SELECT current_setting(''indai.tenant'', true)) AND (%s = ANY ('
        '(SELECT string_to_array(current_setting(''indai.scopes'', true), '','')::uuid[])::uuid[])'
        ' OR (SELECT coalesce(current_setting(''indai.wide'', true), '''') = ''on''))';
BEGIN
    FOREACH name IN ARRAY ARRAY['scopes', 'scope_sizes', 'sessions', 'chunks', 'postings', 'embeddings', 'reads',
        'facts', 'mentions', 'relations', 'names', 'working', 'opinions', 'documents', 'derivations']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY sight ON %I USING (' || replace(sight, '%s', '%I') || ')', name,
            CASE name WHEN 'scopes' THEN 'id' ELSE 'scope' END);
    END LOOP;
    ALTER TABLE forgettings ENABLE ROW LEVEL SECURITY;
    ALTER TABLE forgettings FORCE ROW LEVEL SECURITY;
    CREATE POLICY sight ON forgettings USING (tenant = (SELECT current_setting('indai.tenant', true)));
END $$;

-- Opens the scopes of one call for this transaction: the given ones, and those of the tenant that are of the
-- given kinds. Returns which of them exist.
CREATE FUNCTION open_scopes(p_tenant text, p_scopes uuid[], p_kinds text[]) RETURNS uuid[]
LANGUAGE plpgsql AS $$
DECLARE
    found uuid[];
BEGIN
    PERFORM set_config('indai.tenant', p_tenant, true), set_config('indai.wide', 'on', true);
    found := ARRAY(SELECT s.id FROM memory.scopes s
        WHERE s.tenant = p_tenant AND (s.id = ANY (p_scopes) OR s.kind = ANY (p_kinds)));
    PERFORM set_config('indai.wide', '', true),
        set_config('indai.scopes', array_to_string(p_scopes || found, ','), true);
    RETURN found;
END $$;

-- The name behind a scope's id. A job knows the id and nothing else, so not the tenant either: for this one row
-- the policy of `scopes` takes the id as enough.
CREATE POLICY named ON scopes FOR SELECT USING (id = (SELECT nullif(current_setting('indai.named', true), '')::uuid));
CREATE FUNCTION scope_names(p_scope uuid) RETURNS TABLE (tenant text, kind text, key text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('indai.named', p_scope::text, true);
    RETURN QUERY SELECT tenant, kind, key FROM memory.scopes WHERE id = p_scope;
END $$;

-- Adds to a scope's counters, and says which way it is searched; `full` is a small one that should become large.
-- Holds the counters' row until the end.
CREATE FUNCTION count_chunks(p_tenant text, p_scope uuid, p_chunks bigint, p_length bigint) RETURNS text
LANGUAGE sql AS $$
    INSERT INTO memory.scope_sizes AS s (scope, tenant, chunks, length)
    VALUES (p_scope, p_tenant, p_chunks, p_length)
    ON CONFLICT (scope) DO UPDATE
        SET chunks = s.chunks + EXCLUDED.chunks, length = s.length + EXCLUDED.length
    RETURNING CASE WHEN s.path = 'small' AND s.chunks > 10000 THEN 'full' ELSE s.path END
$$;

-- The lexical leg's rows of these chunks, which large scopes need.
CREATE FUNCTION post_terms(p_scope uuid, p_chunks uuid[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO memory.postings (scope, term, chunk, tenant, kind, count, length)
    SELECT c.scope, t.term, c.id, c.tenant, c.kind, t.count, c.length
    FROM memory.chunks c, unnest(c.terms, c.counts) AS t (term, count)
    WHERE c.scope = p_scope AND c.id = ANY (p_chunks)
    ON CONFLICT DO NOTHING
$$;

-- Stores turns of one scope, in order, and returns those that were new. A known source_id is left alone. The
-- sessions' rows are locked first, so that places follow each other.
CREATE FUNCTION store_turns(
    p_tenant text, p_scope uuid, p_origin text, p_ids uuid[], p_sources text[], p_sessions text[],
    p_session_ids uuid[], p_speakers text[], p_roles text[], p_persons text[], p_contents text[], p_terms text[],
    p_counts text[], p_lengths integer[], p_trusts text[], p_said timestamptz[]
) RETURNS TABLE (id uuid, session uuid, place integer, way text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    path text;
    fresh uuid[];
BEGIN
    INSERT INTO memory.sessions AS s (scope, session, id, tenant, first_at, last_at)
        SELECT p_scope, t.session, (array_agg(t.id))[1], p_tenant, min(t.said), max(t.said)
        FROM unnest(p_sessions, p_session_ids, p_said) AS t (session, id, said)
        GROUP BY t.session ORDER BY t.session
        ON CONFLICT (scope, session) DO UPDATE SET last_at = greatest(s.last_at, EXCLUDED.last_at),
            first_at = least(s.first_at, EXCLUDED.first_at);
    WITH given AS (
        SELECT * FROM unnest(p_ids, p_sources, p_sessions, p_speakers, p_roles, p_persons, p_contents, p_terms,
            p_counts, p_lengths, p_trusts, p_said) WITH ORDINALITY
            AS t (id, source, session, speaker, role, person, content, terms, counts, length, trust, said, number)
    ), added AS (
        INSERT INTO memory.chunks (scope, id, tenant, kind, source_id, session, place, speaker, role, person,
            content, terms, counts, length, origin, trust, said_at)
        SELECT p_scope, g.id, p_tenant, 'turn', g.source, g.session,
            s.places + row_number() OVER (PARTITION BY g.session ORDER BY g.number), g.speaker, g.role, g.person,
            g.content, string_to_array(g.terms, ' '), string_to_array(g.counts, ' ')::smallint[], g.length,
            p_origin, g.trust, g.said
        FROM given g JOIN memory.sessions s ON s.scope = p_scope AND s.session = g.session
        WHERE NOT EXISTS (SELECT FROM memory.chunks c
            WHERE c.scope = p_scope AND c.kind = 'turn' AND c.source_id = g.source)
        ON CONFLICT DO NOTHING
        RETURNING id, session, length
    ), moved AS (
        UPDATE memory.sessions s SET places = s.places + a.n
        FROM (SELECT session, count(*)::integer AS n FROM added GROUP BY session) a
        WHERE s.scope = p_scope AND s.session = a.session
    )
    SELECT memory.count_chunks(p_tenant, p_scope, count(*), coalesce(sum(length), 0)), array_agg(id)
        INTO path, fresh FROM added;
    IF path IN ('growing', 'large') THEN
        PERFORM memory.post_terms(p_scope, fresh);
    END IF;
    RETURN QUERY SELECT c.id, s.id, c.place, path FROM memory.chunks c
        JOIN memory.sessions s ON s.scope = c.scope AND s.session = c.session
        WHERE c.scope = p_scope AND c.id = ANY (fresh) ORDER BY s.id, c.place;
END $$;

-- Everything that one recall looks at, in one round trip: what shares terms with the question (BM25 with
-- idf over the searched scopes), what is near it as a vector, and the neighbours of both, each with both
-- signals. Scopes that don't exist are left out. Small scopes are read exactly; large ones by postings and graph.
-- One plan serves every call: planning would cost twice what a search of a small scope does.
CREATE FUNCTION recall(
    p_tenant text, p_scopes uuid[], p_kinds text[], p_terms text[], p_weights real[], p_k1 real, p_b real,
    p_model text, p_vector vector, p_chunk_kinds text[], p_limit integer, p_reach integer
) RETURNS TABLE (
    id uuid, scope uuid, kind text, content text, lexical double precision, similarity double precision,
    speaker text, role text, session text, place integer, said_at timestamptz, importance real, origin text,
    trust text, source_id text, matched text[], scope_kind text, scope_key text
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    opened uuid[] := memory.open_scopes(p_tenant, p_scopes, p_kinds);
    small uuid[];
    large uuid[];
    compared uuid[];
    walked uuid[];
    graph_vector vector(384);
    total bigint;
    mean real;
BEGIN
    SELECT array_agg(s.scope) FILTER (WHERE s.path <> 'large'), array_agg(s.scope) FILTER (WHERE s.path = 'large'),
        sum(s.chunks), greatest(1, sum(s.length)::real / greatest(1, sum(s.chunks)))
        INTO small, large, total, mean FROM memory.scope_sizes s WHERE s.scope = ANY (opened);
    IF vector_dims(p_vector) = 384 THEN
        graph_vector := p_vector;
        compared := small;
        walked := large;
    ELSE
        compared := opened;  -- the graph is of another width
    END IF;
    IF walked IS NOT NULL THEN
        PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true),
            set_config('hnsw.ef_search', '100', true);
    END IF;
    RETURN QUERY
    WITH asked AS (
        SELECT * FROM unnest(p_terms, p_weights) AS q (term, weight)
    ), found AS MATERIALIZED (
        SELECT c.scope, c.id, c.length, q.term, q.weight, c.counts[array_position(c.terms, q.term)] AS count
        FROM memory.chunks c, asked q
        WHERE c.scope = ANY (small) AND c.terms && p_terms AND q.term = ANY (c.terms)
            AND (p_chunk_kinds IS NULL OR c.kind = ANY (p_chunk_kinds))
        UNION ALL
        SELECT p.scope, p.chunk, p.length, q.term, q.weight, p.count
        FROM unnest(large) AS l (scope), asked q, memory.postings p
        WHERE p.scope = l.scope AND p.term = q.term AND (p_chunk_kinds IS NULL OR p.kind = ANY (p_chunk_kinds))
    ), rarity AS (
        SELECT term, ln(1 + (total - count(*) + 0.5) / (count(*) + 0.5)) AS idf FROM found GROUP BY term
    ), scored AS MATERIALIZED (
        SELECT f.scope, f.id, array_agg(f.term) AS matched,
            sum(f.weight * r.idf * f.count * (p_k1 + 1)
                / (f.count + p_k1 * (1 - p_b + p_b * f.length / mean)))::double precision AS score
        FROM found f JOIN rarity r USING (term) GROUP BY f.scope, f.id
    ), near AS MATERIALIZED (
        (SELECT e.scope, e.chunk AS id FROM memory.embeddings e
        WHERE p_vector IS NOT NULL AND e.scope = ANY (compared) AND e.model = p_model
            AND (p_chunk_kinds IS NULL OR e.kind = ANY (p_chunk_kinds))
        ORDER BY e.embedding <=> p_vector LIMIT p_limit)
        UNION ALL
        SELECT n.scope, n.id FROM unnest(walked) AS l (scope), LATERAL (
            SELECT e.scope, e.chunk AS id FROM memory.embeddings e
            WHERE e.scope = l.scope AND e.large AND e.width = 384 AND e.model = p_model
                AND (p_chunk_kinds IS NULL OR e.kind = ANY (p_chunk_kinds))
            ORDER BY e.embedding::vector(384) <=> graph_vector LIMIT p_limit) n
    ), best AS MATERIALIZED (
        (SELECT s.scope, s.id FROM scored s ORDER BY s.score DESC LIMIT p_limit)
        UNION
        SELECT n.scope, n.id FROM near n
    ), centres AS MATERIALIZED (
        -- Sums may not be compared inside an index under row-level security (they could overflow, and tell), so
        -- they are made before.
        SELECT c.scope, c.session, c.place - p_reach AS low, c.place + p_reach AS high
        FROM best b JOIN memory.chunks c ON c.scope = b.scope AND c.id = b.id AND c.kind = 'turn'
    ), around AS (
        SELECT b.scope, b.id FROM best b
        UNION
        SELECT n.scope, n.id FROM centres c
        JOIN memory.chunks n ON n.scope = c.scope AND n.session = c.session
            AND n.place BETWEEN c.low AND c.high AND n.kind = 'turn'
    )
    SELECT c.id, c.scope, c.kind, c.content, coalesce(s.score, 0), 1 - (e.embedding <=> p_vector), c.speaker, c.role,
        c.session, c.place, c.said_at, c.importance, c.origin, c.trust, c.source_id, coalesce(s.matched, '{}'), w.kind,
        w.key
    FROM around a
    JOIN memory.scopes w ON w.id = a.scope
    JOIN memory.chunks c ON c.scope = a.scope AND c.id = a.id
    LEFT JOIN scored s ON s.scope = a.scope AND s.id = a.id
    LEFT JOIN memory.embeddings e ON e.scope = a.scope AND e.chunk = a.id AND e.model = p_model
        AND p_vector IS NOT NULL
    WHERE p_chunk_kinds IS NULL OR c.kind = ANY (p_chunk_kinds);
END $$;
GRANT EXECUTE ON FUNCTION open_scopes, scope_names, count_chunks, post_terms, store_turns, recall TO indai_app;

-- migrate:down

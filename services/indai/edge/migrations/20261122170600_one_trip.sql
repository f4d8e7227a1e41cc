-- What webhooks bring, and the answer to it, each stored in one round trip: a function sets for its own transaction whose
-- rows it may see, and the statements are those that the program sent one by one before.

-- migrate:up

-- Messages with what is known of who wrote them; what was stored before changes nothing.
CREATE FUNCTION edge.take(
    p_tenants text, p_tenant text[], p_channel text[], p_peer bytea[], p_key bytea[], p_message bytea[],
    p_address text[], p_attachments jsonb[], p_unreadable text[],
    p_of_tenant text[], p_of_channel text[], p_of_peer bytea[], p_wrote_at timestamptz[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.owners', p_tenants, true);
    INSERT INTO edge.inbox (tenant, channel, peer, message_key, message, address, attachments, unreadable)
    SELECT * FROM unnest(p_tenant, p_channel, p_peer, p_key, p_message, p_address, p_attachments, p_unreadable)
    ON CONFLICT DO NOTHING;
    -- A window begins when the person wrote, not when a late or replayed webhook came.
    INSERT INTO edge.peers AS known (tenant, channel, peer, wrote_at)
    SELECT * FROM unnest(p_of_tenant, p_of_channel, p_of_peer, p_wrote_at)
    ON CONFLICT (tenant, channel, peer)
    DO UPDATE SET wrote_at = greatest(known.wrote_at, excluded.wrote_at);
END $$;

-- A message is done, and its answer waits to be sent. Who is at which door stays as it was where p_handle is null.
CREATE FUNCTION edge.done(
    p_id bigint, p_tenant text, p_channel text, p_peer bytea, p_handle text, p_choices text[],
    p_tenants text[], p_channels text[], p_peers bytea[], p_sources text[], p_parts int[], p_addresses text[],
    p_payloads jsonb[], p_templates jsonb[], p_expire timestamptz[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('indai.owners', p_tenant, true);
    INSERT INTO edge.outbox (tenant, channel, peer, source, part, address, payload, template, expires_at)
    SELECT * FROM unnest(p_tenants, p_channels, p_peers, p_sources, p_parts, p_addresses, p_payloads,
                         p_templates, p_expire)
    ON CONFLICT DO NOTHING;
    IF p_handle IS NOT NULL THEN
        UPDATE edge.peers SET handle = p_handle, handle_at = now(), choices = p_choices
        WHERE tenant = p_tenant AND channel = p_channel AND peer = p_peer;
    END IF;
    UPDATE edge.inbox SET done_at = now(), message = NULL, address = NULL, attachments = NULL
    WHERE id = p_id AND done_at IS NULL;
END $$;

-- migrate:down

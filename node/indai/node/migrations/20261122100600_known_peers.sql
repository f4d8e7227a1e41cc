-- Since when a peer is known, for the owner's inbox, without reading all that was ever said with them.

-- migrate:up
CREATE INDEX threads_of_peer_by_age ON node.threads (owner, peer, created_ms);

-- migrate:down

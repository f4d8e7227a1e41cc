-- What is known about an owner or a person can be forgotten as a whole.

-- migrate:up
GRANT DELETE ON consents, uses, payment_links, splits TO indai_app;

-- migrate:down

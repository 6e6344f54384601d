-- Whether the keyword index of memories still has words of deleted messages. Whoever deletes many
-- conversations sweeps once, at the end; a call that is interrupted leaves that to the service.
ALTER TABLE users ADD COLUMN words_to_sweep boolean NOT NULL DEFAULT false;
CREATE INDEX users_with_words_to_sweep ON users (tenant_id, user_id) WHERE words_to_sweep;

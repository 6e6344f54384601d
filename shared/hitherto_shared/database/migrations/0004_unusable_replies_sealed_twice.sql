-- The answers of a model that nothing could be made of are sealed with the installation's secret.
-- Those of a user with encryption on are then sealed once more, as every other row is, and not
-- with the user's key alone. What was sealed with that key alone would be dropped within a week.
-- The column of_user_key goes with a later release.
DELETE FROM unusable_replies WHERE of_user_key;
ALTER TABLE unusable_replies
    ADD COLUMN sealed bytea,
    ADD CONSTRAINT unusable_replies_sealed CHECK (sealed IS NULL OR sealed_reply = '');

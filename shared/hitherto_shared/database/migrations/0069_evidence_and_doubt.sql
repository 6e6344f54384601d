-- `quote`: the words of the message that state the memory, or changed it, as a model copied them.
-- None where the user's messages are sealed.
ALTER TABLE memory_sources ADD COLUMN quote text;
GRANT UPDATE (quote) ON memory_sources TO hitherto_write;

-- `may_replace`: older memories that this one probably replaces, until somebody settles the pair.
-- `last_confirmed_at`: when its statement was last said again.
-- `doubt`: {"because": memory id, "reason": text, "since": time} if something else has changed since
-- which it may no longer hold. The reason of a sealed memory is empty.
ALTER TABLE memories
    ADD COLUMN may_replace uuid[] NOT NULL DEFAULT '{}',
    ADD COLUMN last_confirmed_at timestamptz,
    ADD COLUMN doubt jsonb CHECK (jsonb_typeof(doubt) = 'object');

-- `answered`: digests of the groups of the tag that a model has looked at.
ALTER TABLE consolidation_groups ADD COLUMN answered bytea[] NOT NULL DEFAULT '{}';

-- Where each value of a profile comes from, by its path: conversation, message, time, memories, quote.
ALTER TABLE profiles
    ADD COLUMN sources jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(sources) = 'object');

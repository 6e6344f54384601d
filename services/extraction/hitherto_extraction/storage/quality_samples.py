"""The number of conversations whose memories were checked, by extractor and prompt version."""

from __future__ import annotations

from hitherto_shared.database.user_rows import UserRows

# Counts a conversation, unless the sample is full or a job has read the conversation before. Then
# whether the sample was full.
_TAKE = """
WITH taken AS (
    INSERT INTO quality_samples AS s (extractor, prompt_version, conversations)
    SELECT %(extractor)s, %(prompt_version)s, 1
    WHERE NOT EXISTS (
        SELECT FROM jobs AS j
        WHERE j.tenant_id = %(tenant_id)s AND j.user_id = %(user_id)s
          AND j.conversation_id = %(conversation_id)s
          AND j.result ->> 'extractor' = %(extractor)s
          AND j.result ->> 'prompt_version' = %(prompt_version)s)
    ON CONFLICT (extractor, prompt_version) DO UPDATE SET conversations = s.conversations + 1
    WHERE s.conversations < %(size)s
    RETURNING s.conversations
)
SELECT EXISTS (SELECT FROM taken),
       EXISTS (SELECT FROM quality_samples AS s
               WHERE s.extractor = %(extractor)s AND s.prompt_version = %(prompt_version)s
                 AND s.conversations >= %(size)s)
"""


async def take(
    user: UserRows, conversation_id: str, *, extractor: str, prompt_version: str, size: int
) -> tuple[bool, bool]:
    """Whether a conversation joins the sample of `size`, and whether that was full before."""
    [(taken, full)] = await user.fetch_rows(
        _TAKE,
        conversation_id=conversation_id,
        extractor=extractor,
        prompt_version=prompt_version,
        size=size,
    )
    return taken, full

"""Rebuilds the summary of a conversation when one of the jobs that read it is rolled back."""

from __future__ import annotations

from dataclasses import asdict, replace

from hitherto_extraction.pipeline import conversation_summary
from hitherto_extraction.pipeline.passages import PassageVectors
from hitherto_extraction.pipeline.summarise import SummaryPatch, merge_summary
from hitherto_extraction.storage import statements, summaries
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope, Summary


async def rebuild_summary(
    connection: Connection,
    scope: Scope,
    conversation_id: str,
    *,
    encrypts: bool,
) -> str | None:
    """Write the summary from the remaining jobs; without any, it is deleted.

    Returns:
        "restored" or "removed"; None if there is no summary.
    """
    held = await summaries.read(connection, scope, conversation_id)
    if held.summary is None:
        return None
    said = await statements.of_summary(connection, scope, conversation_id)
    left = [each for each in said if not each.taken]
    await conversation_summary.drop_summary(connection, scope, conversation_id)
    if not left:
        return "removed"
    summary: Summary | None = None
    covers_to = 0
    for each in left:
        fields = merge_summary(
            summary,
            SummaryPatch(**each.said),
            first_user_words=held.first_user_words,
            late=each.version <= covers_to,
        )
        summary = replace(held.summary, **asdict(fields))
        covers_to = max(covers_to, each.version)
    await conversation_summary.write(
        connection,
        scope,
        conversation_id,
        fields,
        held=replace(held, summary=None, lexical_no=None, lexical_length=0, covers_to=0),
        done_to=covers_to,
        # Its words are indexed now; its vector is back-filled.
        vectors=PassageVectors(),
        sealed=held.sealed or encrypts,
    )
    return "restored"

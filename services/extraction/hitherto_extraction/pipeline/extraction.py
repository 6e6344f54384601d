"""One extraction job from its claim to its end: read, ask, embed, commit, batch by batch.

The model and the embedder are called outside any transaction. `commit` then writes what a call
yielded together with the job's progress, so that a crash repeats one call at most.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline import conversation_summary, quality_sample
from hitherto_extraction.pipeline.answer import Answer
from hitherto_extraction.pipeline.commit import BatchOutcome, Commit
from hitherto_extraction.pipeline.embedding_loop import embed_or_leave
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.extraction_prompt import (
    ExtractionPrompt,
    ExtractionRules,
    PromptBackground,
    read_background,
    read_prompt,
)
from hitherto_extraction.pipeline.failed_attempts import FailedAttempts
from hitherto_extraction.pipeline.job_commit import may_continue
from hitherto_extraction.pipeline.model_call import TooMuch, ask, halves, split
from hitherto_extraction.pipeline.prompt import VERSION
from hitherto_extraction.pipeline.quality_sample import QualitySample
from hitherto_extraction.pipeline.reply_vectors import VectorKey, Vectors, is_passage
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Charge, Prices
from hitherto_extraction.provider.protocol import ChatModel
from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.storage import conversations, users
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.sealed_rows import sealing_key
from hitherto_extraction.transcripts import has_vector
from hitherto_extraction.user_key import key_of, standing_key
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.together import kept, together
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.encryption.at_hand import KeyNeeded, keys_at_hand
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.text.passages import MAX_EMBEDDED

logger = logging.getLogger("hitherto.extraction")

_READ_SECONDS = 30.0


@dataclass(slots=True)
class ExtractionAttempt:
    """An attempt of a job: what is left of it to read, and what came of it so far.

    `_read` takes the `background` of the first prompt out, as it holds opened sealed memories.
    `charges` are what was spent since the last commit.
    """

    held: Claim
    result: Result
    messages: Sequence[StoredMessage] = ()
    background: PromptBackground | None = None
    charges: list[Charge] = field(default_factory=list)
    calls: int = 0


@dataclass(eq=False)
class Extraction:
    """Runs `memory-extraction` jobs. The database role is hitherto_write."""

    database: Database
    chat: ChatModel
    embedder: Embedder
    commit: Commit
    prices: Prices
    rules: ExtractionRules
    account: FailedAttempts
    budget: Budget = field(default_factory=Budget)
    keys: UserKeys | None = None
    sample: QualitySample = field(default_factory=lambda: QualitySample("", 0))

    async def run(self, held: Claim) -> None:
        """Extract the job's messages, from where an earlier attempt stopped.

        Raises:
            ClaimLost: The claim was lost; nothing was written after that.
            ModelError: The model gave no usable answer.
            BudgetSpent: The tenant's budget does not allow for the next call.
            KeyUnavailable: Something is or must be sealed, and the user's key is unavailable.
            KeyServiceUnavailable: The same, temporarily.
        """
        with keys_at_hand(await standing_key(self.keys, held.scope)):
            await self._run(held)

    async def _run(self, held: Claim) -> None:
        try:
            run = await self.database.run(
                lambda connection: self._open(connection, held), timeout=_READ_SECONDS
            )
        except KeyNeeded:
            # Raises why there is no key; one that was made since is at hand in the next attempt.
            await key_of(self.database, self.keys, held.scope)
            raise
        try:
            await self._read(run)
        except Exception as error:
            await self.account.settle(run.held, run.result, run.charges, error)
            raise

    async def _read(self, run: ExtractionAttempt) -> None:
        """Extract batch by batch; a batch that is too large for one call is cut in two."""
        pending = self.batches(run.messages)
        while pending:
            batch = pending.popleft()
            if run.calls:
                await self.budget.check(self.database, run.held.tenant_id, run.held.kind)
            # Only for the first call, which may change it.
            background, run.background = run.background, None
            run.calls += 1
            try:
                await self._extract(run, batch, background, last=not pending)
            except TooMuch as error:
                logger.info("%s; splitting the batch in two", error)
                run.charges += self.prices.wasted("extraction", error.spent)
                pending.extendleft(reversed(halves(batch)))

    async def _open(self, connection: Connection, held: Claim) -> ExtractionAttempt:
        """Fix the range of a job for appended messages, and read what is left of it.

        Raises:
            ClaimLost: The conversation is gone.
            KeyNeeded: Something is or must be sealed, and the key is not at hand.
        """
        if held.range_to is None:
            async with connection.transaction():
                held = await self._take_appended(connection, held)
        if held.range_from is None or held.range_to is None:
            raise ClaimLost
        done_to = max(held.done_to or 0, held.range_from - 1)
        user = connection.of(held.scope)
        state, left, around = await together(
            connection,
            users.read_user(user),
            kept(conversations.read_messages(user, held.conversation, done_to + 1, held.range_to)),
            kept(read_background(user, held.conversation)),
        )
        run = ExtractionAttempt(held, Result.of(held.result))
        # Without a lock: `commit` discards what a model replies in the meantime.
        async with connection.transaction():
            if not await may_continue(user, held, state, self.commit.memory_enabled):
                return run
        # A key that is missing is missed before a model is paid.
        await sealing_key(user)
        run.messages = left()
        if not run.messages:
            async with connection.transaction():
                await claims.finish(connection, held, held.result, done_to=held.range_to)
            return run
        run.background = around()
        return run

    async def _take_appended(self, connection: Connection, held: Claim) -> Claim:
        """Give the job all unowned messages of its conversation, and move the watermark."""
        user = connection.of(held.scope)
        counters = await conversations.lock_conversation(user, held.conversation)
        if counters is None:
            raise ClaimLost
        range_from, range_to = counters.watermark + 1, counters.last_message_no
        await claims.fix_range(connection, held, range_from=range_from, range_to=range_to)
        await conversations.move_watermark(user, held.conversation, watermark=range_to)
        return replace(held, range_from=range_from, range_to=range_to, done_to=range_from - 1)

    async def _extract(
        self,
        run: ExtractionAttempt,
        batch: Sequence[StoredMessage],
        background: PromptBackground | None,
        *,
        last: bool,
    ) -> None:
        """One model call and the transaction of its effects, which also charges the attempt."""
        held = run.held
        asked, sampled = await self.database.run(
            lambda connection: together(
                connection,
                read_prompt(
                    connection.of(held.scope),
                    held.conversation,
                    batch,
                    self.rules,
                    background=background,
                ),
                self.sample.includes(connection, held, run.result),
            ),
            timeout=_READ_SECONDS,
        )
        outcome = await self.answer(
            asked, held.conversation, run.result, run.charges, findable=True
        )
        run.charges = list(outcome.charges)
        before, outcome = run.result, replace(outcome, last=last, sampled=sampled)
        run.result = await self.commit.run(held, outcome)
        run.charges = []
        quality_sample.count(before, run.result)

    async def answer(
        self,
        asked: ExtractionPrompt,
        conversation_id: str,
        result: Result,
        wasted: Sequence[Charge] = (),
        *,
        findable: bool = False,
    ) -> BatchOutcome:
        """Send a prompt to the model and embed its answer; writes nothing.

        `wasted` is the cost of calls that were cut off, charged with this one. If `findable`, the
        messages and the summary are embedded too, in the same call.

        Raises:
            TooMuch: The reply was cut off.
            ModelError: The model gave no usable answer.
        """
        reply = await ask(self.chat, asked.prompt)
        witnesses = Witnesses(conversation_id, asked.messages, asked.prompt.batch.time_zone)
        done_to = max(message.message_no for message in asked.messages.values())
        # Its present name: the active model may change during the call.
        vectors, concluded = Vectors(self.embedder.name), None
        texts = _texts(reply.answer, witnesses)
        if findable:
            messages = self._embeddable(asked)
            texts |= {("message", number): text for number, text in messages.items()}
            fields = await conversation_summary.conclude(
                asked.summary, reply.answer.summary, done_to=done_to
            )
            concluded, words = (asked.summary, fields), None
            if not asked.encrypts:
                # Unless the summary changes meanwhile; then its vector is not used.
                words = conversation_summary.new_words(asked.summary, fields)
            if words is not None:
                texts["summary", 0] = words[:MAX_EMBEDDED]
            vectors = replace(vectors, wanted=list(messages), summary=words)
        made = await embed_or_leave(self.embedder, texts.values())
        # A text that is refused has none; the others do not wait for it.
        found = {
            key: each for key, text in texts.items() if (each := made.vector_of(text)) is not None
        }
        charges = [*wasted, self.prices.charge("extraction", reply)]
        if made.calls:
            charges.append(self.prices.embedding_charge(vectors.model, made.calls, made.tokens))
        return BatchOutcome(
            answer=reply.answer,
            witnesses=witnesses,
            local_memories=asked.local_memories,
            vectors=replace(vectors, found=found),
            time_zone=asked.prompt.batch.time_zone,
            charges=charges,
            result=replace(
                result.with_charges(charges),
                extractor=self.chat.extractor,
                model=reply.model,
                prompt_version=VERSION,
            ),
            done_to=done_to,
            last=False,
            concluded=concluded,
        )

    def _embeddable(self, asked: ExtractionPrompt) -> dict[int, str]:
        """The texts of messages that have to be embedded, by number."""
        if asked.encrypts or not self.rules.message_vectors:
            return {}
        return {
            message.message_no: MESSAGES.contents(message.name, message.content)[0]
            for message in asked.messages.values()
            if is_passage(message) and has_vector(message.content)
        }

    def batches(self, messages: Sequence[StoredMessage]) -> deque[list[StoredMessage]]:
        """The messages as they go to the model, call by call."""
        return deque(split(messages, self.rules.batch_tokens))


def _texts(answer: Answer, witnesses: Witnesses) -> dict[VectorKey, str]:
    """The texts of a reply that have to be embedded, and the words that new items came from."""
    texts: dict[VectorKey, str] = {("new", item.index): item.content for item in answer.new}
    for update in answer.updated:
        if update.content is not None:
            texts["updated", update.index] = update.content
    for item in answer.new:
        if text := witnesses.for_new(item.source_ids, item.origin).text:
            texts["source", item.index] = text
    return texts

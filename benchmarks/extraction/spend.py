"""Tokens and money of a row: as the job reports them, or as they would be with a paid model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.extraction.rows import ConversationCase, TokenSpending
from hitherto_client.results import JobResult
from hitherto_extraction.pipeline.prompt import build_prompt
from hitherto_extraction.prices import load_prices
from hitherto_extraction.provider.protocol import Batch, PromptMemory, PromptMessage
from hitherto_shared.model_api import estimate_tokens

REFERENCE_MODEL = "gpt-4o-mini"


def spent_on(
    row: ConversationCase,
    result: JobResult,
    learnt: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any],
) -> TokenSpending:
    """What a row's job cost.

    Without calls of a language model the tokens are estimated: of the prompt that a model would
    have been sent, and of an answer with the same memories and summary, at a third of their bytes
    in UTF-8, which is cautious for English.

    Args:
        row: The row.
        result: The result of its job.
        learnt: The new memories, with the fields of the model's answer.
        summary: The summary of the conversation, likewise.
    """
    usage = result.usage
    if usage.llm_calls:
        return TokenSpending(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            usd=usage.cost_usd,
            usd_reference=_reference(usage.input_tokens, usage.output_tokens),
        )
    prompt = build_prompt(_batch(row), temperature=0.0, max_tokens=1)
    read = sum(
        estimate_tokens(text) for text in (prompt.system, prompt.user, json.dumps(prompt.schema))
    )
    answer = {"new_memories": list(learnt), "conversation_summary": dict(summary)}
    written = estimate_tokens(json.dumps(answer, ensure_ascii=False))
    return TokenSpending(
        input_tokens=read,
        output_tokens=written,
        usd_reference=_reference(read, written),
        estimated=True,
    )


def _reference(input_tokens: int, output_tokens: int) -> float:
    prices = load_prices(None)
    return float(
        prices.cost(REFERENCE_MODEL, input_tokens=input_tokens, output_tokens=output_tokens)
    )


def _batch(row: ConversationCase) -> Batch:
    return Batch(
        profile={},
        summary=None,
        memories=[
            PromptMemory(f"e{number}", known.type, known.content, known.said_at)
            for number, known in enumerate(row.existing_memories, 1)
        ],
        messages=[
            PromptMessage(
                f"m{number}", message.role, message.name, message.content, message.created_at
            )
            for number, message in enumerate(row.transcript, 1)
        ],
        time_zone=row.time_zone,
    )

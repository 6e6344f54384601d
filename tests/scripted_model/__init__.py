"""A scripted server in place of a paid model: OpenAI's wire format, answers and faults on order.

In a test:

    async with ScriptedModel(canary_script) as model:
        model.queue(StatusFault(429, retry_after="2"), endpoint="chat")
        ...                                    # point OPENAI_BASE_URL at model.base_url
        assert model.calls["chat"] == 2
"""

from tests.scripted_model.answers import ChatAnswer
from tests.scripted_model.faults import (
    CONTENT_FAULTS,
    EmbeddingFault,
    Fault,
    Hang,
    RawReply,
    RefuseFormat,
    Reset,
    SlowDrip,
    StatusFault,
)
from tests.scripted_model.hostile import HOSTILE_ANSWERS, texts_everywhere
from tests.scripted_model.prompts import ChatRequest, ExistingMemory, PromptLine
from tests.scripted_model.scripts import Script, canary_script, empty_script, facts_script
from tests.scripted_model.server import EmbeddingRequest, ScriptedModel
from tests.scripted_model.vectors import text_vector

__all__ = [
    "CONTENT_FAULTS", "HOSTILE_ANSWERS", "ChatAnswer", "ChatRequest", "EmbeddingFault",
    "EmbeddingRequest", "ExistingMemory", "Fault", "Hang", "PromptLine", "RawReply", "RefuseFormat",
    "Reset", "Script", "ScriptedModel", "SlowDrip", "StatusFault", "canary_script", "empty_script",
    "facts_script", "text_vector", "texts_everywhere",
]  # fmt: skip

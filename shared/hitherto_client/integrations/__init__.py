"""Memory in existing assistants: each module extends one package, and its extra has that name.

`openai` and `anthropic` wrap the clients of the official packages and `litellm` the functions of
its package. `agents` is a session of the OpenAI Agents SDK, `langgraph` a store and `langchain` a
chat history, `pydantic_ai` a capability, a toolset and a history, `agent_framework` a context
provider and a history provider of Microsoft's framework, `strands` a memory store, `google_adk` a
memory service, `llama_index` a memory block, and `crewai` a storage. A module is imported by name,
so that nothing but the package it extends is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def package_of(extra: str) -> Iterator[None]:
    """Around imports of a package that only an extra brings.

    Raises:
        ImportError: It is not installed; the message names the extra.
    """
    try:
        yield
    except ImportError as error:
        module = extra.replace("-", "_")
        raise ImportError(
            f"hitherto_client.integrations.{module} needs a package that is not installed"
            f" ({error.name}): pip install 'hitherto[{extra}]'",
            name=error.name,
        ) from error

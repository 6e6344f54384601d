"""What is left behind or shown: no warning, no key, no text of a user."""

from __future__ import annotations

import subprocess
import sys

from tests.integration.embeddings.raw_server import embedding
from tests.scripted_model import ScriptedModel


async def test_an_embedder_that_was_never_asked_closes_quietly(server: ScriptedModel) -> None:
    async with embedding(server.base_url):
        pass

    assert not server.calls


def test_the_openai_client_is_not_loaded_for_embeddings() -> None:
    program = (
        "import sys\n"
        "from hitherto_shared.embeddings.openai_api import OpenAIEmbedder\n"
        "from hitherto_shared.model_server import ModelServer\n"
        "OpenAIEmbedder('m', 8, server=ModelServer('http://127.0.0.1:1/v1'))\n"
        "print('openai' in sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "False", done.stderr

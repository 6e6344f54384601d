"""Which embedders are measured, and the way of texts to an API beside a scripted model."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.locomo.measure import available, model_for
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_api import ModelUnavailable
from hitherto_shared.model_server import ModelServer
from tests.scripted_model import ScriptedModel, StatusFault, text_vector


def test_only_embedders_that_can_be_reached_are_measured() -> None:
    assert available({}) == ["offline"]
    assert available({"OPENAI_API_KEY": "k"}) == ["offline"]
    assert available({"EMBEDDING_MODEL": "m"}) == ["offline"]
    assert available(
        {"HITHERTO_ONNX_MODEL_DIR": "d", "EMBEDDING_MODEL": "m", "OPENAI_BASE_URL": "http://h/v1"}
    ) == ["offline", "onnx", "openai"]


async def test_texts_reach_the_api_and_prompts_the_scripted_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedModel() as api:
        monkeypatch.setenv("OPENAI_BASE_URL", api.base_url)
        monkeypatch.setenv("EMBEDDING_MODEL", "some-model")
        monkeypatch.setenv("EMBEDDING_DIMENSIONS", "64")
        api.dimensions = 64
        async with model_for("openai", []) as chosen:
            assert chosen["openai_base_url"] != api.base_url
            embedder = OpenAIEmbedder(
                "some-model", 64, server=ModelServer(chosen["openai_base_url"]), timeout=10
            )
            try:
                (vector,) = (await embedder.embed(["trà đá"])).vectors
                assert np.allclose(vector, text_vector("trà đá", 64), atol=1e-5)
                assert api.calls["embeddings"] == 1
                assert api.embedding_requests[-1].body["model"] == "some-model"
                api.always(StatusFault(401, message="bad key"), endpoint="embeddings")
                with pytest.raises(ModelUnavailable):
                    await embedder.embed(["cà phê"], timeout=2)
            finally:
                await embedder.close()


async def test_settings_of_another_embedder_are_not_held_against_a_local_one() -> None:
    async with model_for("offline", []) as chosen:
        assert chosen["embedding_dimensions"] is None
        assert chosen["embedder"] == "offline"

"""The embedders that need no server, and the choice between all of them."""

from __future__ import annotations

import os
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hitherto_shared.config import SharedSettings
from hitherto_shared.embeddings.factory import configured_embedder
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.onnx import OnnxEmbedder
from hitherto_shared.embeddings.protocol import Embedder
from tests.refusing import refusing

TEXTS_OF_EVERY_KIND = [
    "", "   \n\t", "...!?", "a", "the of and", "User prefers dark roast coffee.",
    "Người dùng thích cà phê sữa đá", "用户喜欢喝绿茶", "ユーザーは東京に住んでいます",
    "사용자는 서울에 산다",
    "المستخدم يحب القهوة", "उपयोगकर्ता को चाय पसंद है", "🎉🎉 🧑‍💻", "x" * 100_000, "word " * 5_000,
    "\u202eabc\u200b\u0301",
]  # fmt: skip


async def cosine(embedder: Embedder, one: str, other: str) -> float:
    first, second = (await embedder.embed([one, other])).vectors
    return float(first @ second)


async def test_offline_gives_unit_vectors_for_any_text() -> None:
    embedder = OfflineEmbedder()

    batch = await embedder.embed(TEXTS_OF_EVERY_KIND)

    assert len(batch.vectors) == len(TEXTS_OF_EVERY_KIND)
    for vector in batch.vectors:
        assert vector.shape == (embedder.dimensions,)
        assert vector.dtype == np.float32
        assert np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


async def test_offline_vectors_are_the_same_in_every_process() -> None:
    """Of one name, they are compared with those that are stored."""
    embedder = OfflineEmbedder()
    assert (embedder.name, embedder.dimensions, embedder.offline) == ("offline-hash-1", 512, True)
    (vector,) = (await embedder.embed(["tea"])).vectors
    assert np.flatnonzero(vector).tolist() == [38, 166, 222, 257, 286, 423, 506]


async def test_offline_ranks_shared_words_above_others() -> None:
    for text, related, unrelated in [
        ("User prefers dark roast coffee", "What coffee does the user like?", "Rent is due in May"),
        ("Người dùng thích cà phê sữa đá", "cà phê sữa", "Cuộc họp vào thứ Hai"),
        ("Người dùng thích cà phê sữa đá", "thich ca phe", "Cuộc họp vào thứ Hai"),
        ("ユーザーは東京に住んでいます", "東京", "コーヒーが好き"),
        ("Party on Saturday 🎉", "🎉", "quarterly revenue"),
    ]:
        embedder = OfflineEmbedder()

        near = await cosine(embedder, text, related)
        far = await cosine(embedder, text, unrelated)

        assert near > far + 0.1, text


async def test_offline_threshold_parts_rewordings_from_other_statements() -> None:
    embedder = OfflineEmbedder()
    threshold = embedder.dedupe_threshold
    same = [
        ("User prefers dark roast coffee", "The user prefers dark-roast coffees."),
        ("用户喜欢喝绿茶", "用户喜欢喝绿茶。"),
        ("Người dùng sống ở Hà Nội", "người dùng sống tại Hà Nội"),
    ]
    different = [
        ("Gina lost her job at the bakery", "Jon lost his job at the bakery"),
        ("User is 31 years old", "User is 32 years old"),
        ("User lives in Hanoi", "User moved to Hanoi last year"),
    ]

    for one, other in same:
        assert await cosine(embedder, one, other) > threshold, one
    for one, other in different:
        assert await cosine(embedder, one, other) < threshold, one


async def test_offline_does_not_see_the_unicode_form() -> None:
    for text in ["Người dùng thích cà phê", "Zoë's café", "がんばって", "한국어"]:
        composed = unicodedata.normalize("NFC", text)
        decomposed = unicodedata.normalize("NFD", text)
        assert composed != decomposed, text

        first, second = (await OfflineEmbedder().embed([composed, decomposed])).vectors

        assert np.array_equal(first, second), text


def test_factory_names_the_variable_to_set() -> None:
    cases: list[Any] = [
        ({"embedder": "openai"}, "OPENAI_API_KEY"),
        ({"openai_api_key": "k", "embedding_model": "mine"}, "EMBEDDING_DIMENSIONS"),
        ({"openai_api_key": "k", "openai_base_url": "localhost:1"}, "OPENAI_BASE_URL"),
        ({"openai_api_key": "k\r\nX: y"}, "OPENAI_API_KEY"),
        # The key is not repeated.
        ({"openai_api_key": "sk-\u00e9"}, "^(?!.*sk-).*OPENAI_API_KEY"),
        ({"embedder": "onnx"}, "HITHERTO_ONNX_MODEL_DIR"),
        ({"embedder": "offline", "embedding_dimensions": 1536}, "EMBEDDING_DIMENSIONS"),
    ]
    for settings, variable in cases:
        with pytest.raises(ValueError, match=variable), refusing(settings):
            configured_embedder(SharedSettings(**settings))


@pytest.mark.parametrize("package", ["tokenizers", "onnxruntime"])
def test_onnx_without_its_packages_says_how_to_get_them(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _tiny_export(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ValueError, match=r"hitherto\[onnx\]"):
        OnnxEmbedder(folder)


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "config.json"])
def test_onnx_names_the_missing_file(file: str, tmp_path: Path) -> None:
    folder = _tiny_export(tmp_path)
    (folder / file).unlink()

    with pytest.raises(ValueError, match=file):
        OnnxEmbedder(folder)


def test_onnx_refuses_another_kind_of_pooling(tmp_path: Path) -> None:
    folder = _tiny_export(tmp_path)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": false}')
    with pytest.raises(ValueError, match="mean pooling"):
        OnnxEmbedder(folder)


def _tiny_export(tmp_path: Path) -> Path:
    """A folder that looks like an export up to the point where the model is loaded."""
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"")
    (folder / "config.json").write_text('{"hidden_size": 8}')
    model = tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")
    tokenizers.Tokenizer(model).save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def onnx_folder() -> str:
    """The model that `HITHERTO_ONNX_MODEL_DIR` names: too large to be part of the project."""
    folder = os.environ.get("TEST_ONNX_MODEL_DIR", "")  # see tests/conftest.py
    if not folder:
        pytest.skip("HITHERTO_ONNX_MODEL_DIR is not set: no local model to try")
    return folder


async def test_onnx_vectors_depend_on_the_text_alone(onnx_folder: str) -> None:
    embedder = configured_embedder(SharedSettings(onnx_model_dir=Path(onnx_folder)))
    try:
        alone = (await embedder.embed(["I like tea"])).vectors[0]
        batch = await embedder.embed(["I like tea", *TEXTS_OF_EVERY_KIND])

        assert embedder.name.startswith("onnx:")
        assert embedder.offline
        assert 0.85 < embedder.dedupe_threshold < 1.0
        assert np.array_equal(batch.vectors[0], alone)
        assert batch.tokens > len(batch.vectors)
        for vector in batch.vectors:
            assert vector.shape == (embedder.dimensions,)
            assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
        near = await cosine(embedder, "I like tea", "Tea is my favourite drink")
        far = await cosine(embedder, "I like tea", "The server crashed at noon")
        assert near > far + 0.3
    finally:
        await embedder.close()

"""Examines an installation and says what to set: the work of `hitherto doctor`.

It asks each model one question, and the database a few. It changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.pipeline.model_call import ask_for
from hitherto_extraction.pipeline.prompt import HARMLESS, build_prompt
from hitherto_extraction.provider.guarded import GuardedChatModel
from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_extraction.provider.protocol import Prompt, PromptMessage
from hitherto_extraction.provider.reply_text import read_object
from hitherto_extraction.wiring.base import prices_for
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.database.examination import Configured, Diagnosis, examine_database
from hitherto_shared.embeddings.dialect import WrongSize
from hitherto_shared.embeddings.factory import configured_embedder
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.encryption.examination import try_keys
from hitherto_shared.encryption.failures import KeyServiceUnavailable
from hitherto_shared.encryption.key_store import BrokenRecord, KeyStore
from hitherto_shared.key_files import hash_key_path, load_hash_key, user_keys_dir
from hitherto_shared.model_api import (
    ModelError,
    ModelMisbehaved,
    ModelMisconfigured,
    ModelTooSlow,
    PromptTooLong,
)
from hitherto_shared.rpc.server import expired_certificates
from hitherto_shared.service_command import unknown_variables
from hitherto_shared.startup import refusals
from hitherto_shared.user_hash import hash_key_id, user_hash

Reply = TypeVar("Reply")

_PAGE = "docs/model-servers.md says what to set for your server"
_TOO_SLOW = "raise HITHERTO_MODEL_TIMEOUT_SECONDS, or use a smaller model or a faster machine"
_KEYS_TRIED = 16
_TEXTS = ("The user lives in Porto.", "The user keeps bees.")


def examine() -> list[Diagnosis]:
    """Everything that there is to say about the installation that the environment names."""
    with _quiet_log():
        return _examined()


def _examined() -> list[Diagnosis]:
    try:
        settings = ExtractionSettings()
    except ValidationError as error:
        return [Diagnosis("settings", "fault", describe(error), "docs/configuration.md lists them")]
    found = list(_settings(settings))
    found += _keys(settings)
    embedder, problem = _embedder(settings)
    found += asyncio.run(_models(settings, embedder))
    if embedder is None:
        found.append(Diagnosis("embedding", "fault", problem, _PAGE))
    name = embedder.name if embedder is not None else settings.embedding_model
    size = embedder.dimensions if embedder is not None else settings.embedding_dimensions or 0
    hash_key = _hash_key(settings)
    store = KeyStore(user_keys_dir(settings))

    def key_of(tenant_id: str, user_id: str) -> str | None:
        if hash_key is None:
            return None
        try:
            held = store.read(user_hash(hash_key, tenant_id, user_id))
        except BrokenRecord:
            return None
        return None if held is None else held[1].key_id

    found += examine_database(
        settings,
        Configured(name, size, None if hash_key is None else hash_key_id(hash_key), key_of),
    )
    return found


def _hash_key(settings: SharedSettings) -> bytes | None:
    """The present hash key; None if there is none yet, or none that can be used."""
    if not hash_key_path(settings).exists():
        return None
    try:
        return load_hash_key(settings)
    except ValueError:
        return None  # told as a refusal


@contextmanager
def _quiet_log() -> Iterator[None]:
    """What is found is told once, by the findings."""
    log = logging.getLogger("hitherto")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _settings(settings: ExtractionSettings) -> Iterator[Diagnosis]:
    """Misspelt variables, what a service refuses, and a budget that nothing counts against."""
    misspelt = unknown_variables(ExtractionSettings, os.environ)
    for name, nearest in misspelt.items():
        hint = f"did you mean {nearest}?" if nearest else "docs/configuration.md lists all settings"
        yield Diagnosis("settings", "fault", f"{name} is not a setting and has no effect", hint)
    refused = list(refusals(settings, settings.extraction_listen))
    for told in refused:
        yield Diagnosis("settings", "fault", told, "a service would not start with this")
    with suppress(ValueError):  # told as a refusal
        for told in expired_certificates(settings):
            yield Diagnosis("certificate", "fault", told, "renew it and restart the service")
    try:
        prices_for(settings)
    except (ValueError, OSError) as error:
        yield Diagnosis("settings", "fault", str(error), "see HITHERTO_PRICES_FILE")
        return
    if not misspelt and not refused:
        yield Diagnosis("settings", "ok", "every variable is known")


def _keys(settings: SharedSettings) -> Iterator[Diagnosis]:
    """Whether the key-encryption key opens what is stored; a bad one is told as a refusal."""
    store = KeyStore(user_keys_dir(settings))
    try:
        tried = asyncio.run(try_keys(store, settings.load_key_wrapper(), most=_KEYS_TRIED))
    except KeyServiceUnavailable as error:
        yield Diagnosis("encryption", "fault", error.message, "check HITHERTO_KEY_WRAPPER")
    except OSError as error:
        told = f"the folder of user keys cannot be read: {error}"
        yield Diagnosis("encryption", "fault", told, "check HITHERTO_USER_KEYS_DIR")
    except ValueError:
        return
    else:
        if tried.fault:
            yield Diagnosis("encryption", "fault", tried.fault, tried.remedy)
        elif tried.opened:
            yield Diagnosis("encryption", "ok", f"keys of users tried: {tried.opened}, all open")


def _embedder(settings: SharedSettings) -> tuple[Embedder | None, str]:
    try:
        return configured_embedder(settings), ""
    except (ValueError, OSError, ImportError) as error:
        return None, str(error)


async def _models(settings: ExtractionSettings, embedder: Embedder | None) -> list[Diagnosis]:
    found = [each async for each in _chat(settings)]
    if embedder is not None:
        try:
            found += [each async for each in _embedding(settings, embedder)]
        finally:
            await embedder.close()
    return found


async def _chat(settings: ExtractionSettings) -> AsyncIterator[Diagnosis]:
    if settings.chosen_extractor == "offline":
        yield Diagnosis(
            "chat",
            "note",
            "no language model: the offline rules extract",
            "set OPENAI_API_KEY, or OPENAI_BASE_URL for another server",
        )
        return
    server = settings.chat_server
    try:
        model = OpenAIChatModel(
            model=settings.extraction_model,
            server=server,
            timeout=settings.model_timeout_seconds,
            temperature=settings.extraction_temperature,
            max_tokens=settings.extraction_max_tokens,
        )
    except ValueError as error:
        yield Diagnosis("chat", "fault", str(error), _PAGE)
        return
    asked = _question()
    guarded = GuardedChatModel(
        model, CircuitBreaker("the language model"), asked, url_setting=server.url_setting
    )
    try:
        async for finding in _asked(settings, guarded, asked):
            yield finding
    finally:
        await model.close()


async def _asked(
    settings: ExtractionSettings, chat: GuardedChatModel, asked: Prompt
) -> AsyncIterator[Diagnosis]:
    began = time.monotonic()
    try:
        reply = await _twice(lambda: ask_for(chat, asked, _read, divisible=False))
    except PromptTooLong as error:
        yield Diagnosis("chat", "fault", str(error), "raise the context of the model's server")
        return
    except ModelMisbehaved as error:
        if not error.spent:
            yield Diagnosis("chat", "fault", str(error), _PAGE)
            return
        yield Diagnosis("chat", "ok", f"{settings.extraction_model} answers")
        yield Diagnosis(
            "schema",
            "fault",
            str(error),
            "use a larger model; for one that thinks, raise MEMORY_EXTRACTION_MAX_TOKENS or switch "
            f"thinking off by HITHERTO_MODEL_EXTRA ({_PAGE})",
        )
        return
    except ModelError as error:
        yield Diagnosis("chat", "fault", str(error), _remedy(error, settings.extraction_model))
        return
    seconds = time.monotonic() - began
    yield Diagnosis("chat", "ok", f"{reply.model} answers, in {seconds:.1f} s")
    found, wrapped = reply.answer
    if "new_memories" not in found:
        told = "the answer has none of the required keys"
        yield Diagnosis("schema", "fault", told, "use a larger model")
    else:
        how = " (inside other words, which are left out)" if wrapped else ""
        yield Diagnosis("schema", "ok", f"the answer has the required form{how}")


def _remedy(error: ModelError, model: str) -> str:
    """What to do about a call that failed; the name of the model that a server may not have."""
    if isinstance(error, ModelTooSlow):
        return _TOO_SLOW
    return (
        f"the requested model is {model}; {_PAGE}"
        if isinstance(error, ModelMisconfigured)
        else _PAGE
    )


def _read(text: str) -> tuple[dict[str, Any], bool]:
    return read_object(text, ("new_memories",))


async def _twice(ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """Ask again after a failure: a server that fails on a form of request is met with another."""
    try:
        return await ask()
    except ModelError as error:
        if getattr(error, "status", 0) != 500:
            raise
    return await ask()


def _question() -> Prompt:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    said = PromptMessage("m1", "user", "", "I live in Porto and keep bees.", moment)
    return build_prompt(replace(HARMLESS, messages=(said,)))


async def _embedding(settings: ExtractionSettings, embedder: Embedder) -> AsyncIterator[Diagnosis]:
    began = time.monotonic()
    try:
        batch = await embedder.embed(_TEXTS)
    except WrongSize as error:
        yield Diagnosis("embedding", "ok", f"{embedder.name} answers")
        yield Diagnosis("dimensions", "fault", str(error), f"set EMBEDDING_DIMENSIONS={error.size}")
        return
    except ModelError as error:
        remedy = _remedy(error, settings.embedding_model)
        remedy += "; without an embedder set HITHERTO_EMBEDDER=offline"
        yield Diagnosis("embedding", "fault", str(error), remedy)
        return
    seconds = time.monotonic() - began
    where = "on this machine" if embedder.offline else f"in {seconds:.1f} s"
    yield Diagnosis("embedding", "ok", f"{embedder.name} answers, {where}")
    first, second = batch.vectors
    if float(first @ second) > (settings.dedupe_threshold or embedder.dedupe_threshold):
        yield Diagnosis(
            "dimensions",
            "note",
            "two different statements have nearly the same vector",
            "check that EMBEDDING_MODEL is a model of embeddings; set HITHERTO_DEDUPE_THRESHOLD",
        )
        return
    yield Diagnosis("dimensions", "ok", f"{embedder.dimensions} numbers")

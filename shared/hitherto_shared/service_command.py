"""The command line of a service, and warnings about unknown environment variables."""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from hitherto_shared.command_output import CommandParser
from hitherto_shared.config import PREFIX, SharedSettings
from hitherto_shared.lifeline import is_lifeline
from hitherto_shared.processes.child import is_tie

logger = logging.getLogger("hitherto.startup")

# Services never import each other, and may share an environment with each other and the client.
_OF_ONE_SERVICE = (
    "batch_tokens change_days consolidate_above content_types daily_budget_usd daily_changes "
    "dedupe_threshold embedding_cache_size embedding_deadline_ms extract_debounce_seconds "
    "extraction_listen extractor job_backoff_seconds job_max_retries lease_seconds max_memories "
    "message_retention_days message_vectors planning_seconds prices_file prompt_memories "
    "quality_sample queue_limit read_database_url read_pool_size read_processes recency_words "
    "reconcile redact_secrets retention_days retrieval_listen schedule_audit "
    "schedule_consolidation schedule_decay schedule_idle schedule_retention snapshot_memory_mb "
    "token_encoding ttl_recent ttl_session webhook_disable_after webhook_private "
    "webhook_retry_seconds webhook_timeout_seconds worker_concurrency worker_processes"
).split()
_OF_THE_CLIENT = (
    "api_key extraction_address http_listen http_origins retrieval_address tls_ca_file "
    "tls_client_certificate_file tls_client_key_file token "
).split()
ELSEWHERE = frozenset(f"{PREFIX}{name.upper()}" for name in (*_OF_ONE_SERVICE, *_OF_THE_CLIENT))
"""Variables that the client or only one of the services reads."""


def read_arguments(name: str, purpose: str, given: Sequence[str] | None = None) -> None:
    """Handle `--help` and `--version`, and refuse everything else: settings are variables."""
    parser = CommandParser(
        prog=name,
        description=purpose,
        epilog="Settings are environment variables, listed in docs/configuration.md. SIGTERM ends "
        "the service after its current work.",
    )
    parser.add_argument("--version", action="version", version=f"hitherto {version('hitherto')}")
    words = sys.argv[1:] if given is None else given
    parser.parse_args([word for word in words if not (is_tie(word) or is_lifeline(word))])


def variables(settings: type[SharedSettings]) -> set[str]:
    """The environment variables with the prefix of the product that set something."""
    names = {
        field.validation_alias
        if isinstance(field.validation_alias, str)
        else f"{PREFIX}{name.upper()}"
        for name, field in settings.model_fields.items()
    }
    return {name for name in names if name.startswith(PREFIX)}


def unknown_variables(
    settings: type[SharedSettings], environment: Mapping[str, str]
) -> dict[str, str | None]:
    """Environment variables that look like settings but are none, each with the nearest setting."""
    known = variables(settings) | ELSEWHERE
    unknown = [
        name for name in sorted(environment) if name.startswith(PREFIX) and name not in known
    ]
    by_rest = {name.removeprefix(PREFIX): name for name in known}
    return {
        name: by_rest[near[0]] if near else None
        for name in unknown
        for near in [difflib.get_close_matches(name.removeprefix(PREFIX), by_rest, n=1, cutoff=0.7)]
    }


def warn_of_unknown_variables(settings: type[SharedSettings]) -> None:
    """Log a warning about probable misspellings, because such a setting silently has no effect."""
    for name, nearest in unknown_variables(settings, os.environ).items():
        hint = f"; did you mean {nearest}?" if nearest else "; docs/configuration.md lists them"
        logger.warning("%s is not a setting and has no effect%s", name, hint)

"""Fixtures for every test that needs a database: one embedded server a run, one database a test."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg
import pytest
from hypothesis import settings
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hitherto_shared.database import pool
from hitherto_shared.database.embedded import EmbeddedPostgres, cluster
from hitherto_shared.database.migrate import migrate
from hitherto_shared.startup import keep_what_stands
from tests.compiled import compile_all
from tests.revisions import fence_revisions
from tests.second_try import (  # noqa: F401, hooks of this run
    pytest_runtest_protocol,
    pytest_sessionstart,
    pytest_terminal_summary,
)
from tests.tenants import YIELDED_TO, admit_test_role
from tests.told_changes import fence_changes

_SETTINGS = ("HITHERTO_", "OPENAI_", "MEMORY_", "EMBEDDING_", "MAX_CONTEXT_", "DATABASE_URL")

# A developer's own settings must not reach the services under test. Only where a local model lies
# is kept, under another name, for the tests that try a real one, and where a Citus cluster is.
os.environ.setdefault("TEST_ONNX_MODEL_DIR", os.environ.get("HITHERTO_ONNX_MODEL_DIR", ""))
os.environ.setdefault("TEST_CITUS", os.environ.get("HITHERTO_TEST_CITUS", ""))
for name in [name for name in os.environ if name.startswith(_SETTINGS)]:
    del os.environ[name]

# Tests start processes from one in which gRPC works, which no service does; its handlers for a fork
# that goes on without exec have broken such a child.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Whatever a shell starts in the background ignores it, and so would every process that a test
    # starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


_SHARED_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 * 1024**3


def _memory() -> Path | None:
    """A folder in memory that a run fits into, if there is one.

    A copy of the template is hundreds of files, and takes four times as long on a disk.
    """
    try:
        flags = os.statvfs(_SHARED_MEMORY).f_flag
        room = min(shutil.disk_usage(_SHARED_MEMORY).free, psutil.virtual_memory().available)
    except OSError:
        return None
    runs_programs = not flags & getattr(os, "ST_NOEXEC", 0)
    usable = runs_programs and os.access(_SHARED_MEMORY, os.W_OK)
    return _SHARED_MEMORY if usable and room >= _ROOM_BYTES else None


if "PYTEST_XDIST_WORKER" not in os.environ and "PYTEST_DEBUG_TEMPROOT" not in os.environ:
    # pytest closes its folder to others at the start of every run. Postgres runs as another account
    # when tests run as root, and would be locked out of the data of a run still going on: each run
    # has a folder of its own. Its name is short because a socket's path must be.
    _root = tempfile.mkdtemp(prefix="rt-", dir=_memory())
    os.chmod(_root, 0o711)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = _root
    atexit.register(shutil.rmtree, _root, ignore_errors=True)


if sys.dont_write_bytecode:
    # Each of the processes that tests start would compile the product and all that it imports anew,
    # which takes longer than most tests.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


# What importing and collecting tests makes stays until the end: a collection of garbage finds none.
gc.disable()


_STARTS_PROCESSES = (
    "tests/faults/",
    "tests/integration/embedded/",
    "tests/integration/replica/",
    "tests/integration/test_killed_runs.py",
    "tests/integration/test_processes.py",
    "tests/e2e/test_client_packages.py",
    "tests/e2e/test_demo.py",
    "tests/e2e/test_locomo_benchmark.py",
    "tests/e2e/test_readme.py",
    "tests/unit/benchmarks_retrieval/test_run.py",
    "tests/unit/throughput/test_run.py",
)
"""What the marker `faults` is on, besides the tests that say so themselves."""


_LONG = (
    "tests/faults/test_release_build.py",
    "tests/faults/test_at_their_limits.py",
    "tests/e2e/test_client_packages.py",
    "tests/e2e/test_first_steps.py",
    "tests/faults/test_canaries.py",
    "tests/faults/test_hostile_texts.py",
    "tests/e2e/test_demo.py",
    "tests/unit/benchmarks_retrieval/test_run.py",
    "tests/faults/test_rolling_restart.py",
    "tests/faults/test_crashes.py",
    "tests/faults/test_read_only_database.py",
    "tests/e2e/test_docs_site.py",
    "tests/e2e/test_frameworks.py",
    "tests/faults/test_pressure.py",
    "tests/faults/test_up.py",
    "tests/e2e/test_garbage.py",
    "tests/faults/test_frozen_streams.py",
    "tests/faults/test_webhook_crash.py",
    "tests/faults/test_backup.py",
    "tests/faults/test_full_disk.py",
    "tests/e2e/test_erase_races.py",
    "tests/unit/linear/",
    "tests/unit/client/test_export_file.py",
    "tests/e2e/test_importers.py",
    "tests/integration/test_a_few_faults.py",
    "tests/unit/throughput/test_run.py",
    "tests/faults/test_postgres_dies.py",
    "tests/faults/test_starts_and_ends.py",
    "tests/e2e/test_snapshots.py",
    "tests/e2e/test_stream_memories.py",
    "tests/e2e/test_rights.py",
    "tests/e2e/test_deadlines.py",
    "tests/e2e/test_webhooks.py",
    "tests/integration/test_processes.py",
    "tests/integration/replica/",
    "tests/e2e/test_twins.py",
    "tests/integration/queue/",
    "tests/e2e/test_budget_of_vectors.py",
    "tests/e2e/test_fuzz.py",
    "tests/e2e/test_late_vectors.py",
    "tests/e2e/test_model_faults.py",
    "tests/e2e/test_model_installation_faults.py",
    "tests/e2e/test_sealed_meanwhile.py",
    "tests/e2e/test_selection.py",
    "tests/e2e/test_trust.py",
)
"""What would keep one worker busy at the end, when the others have nothing left to take over: the
modules with the longest tests first."""


_MOST_WORKERS = 6


@pytest.hookimpl(optionalhook=True)
def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run have the reads of end-to-end tests answered by snapshots (`e2e/coming_back.py`)."""
    parser.addoption(
        "--reads",
        choices=["read", "held"],
        default="read",
        help="held: a read is repeated until a snapshot answers it",
    )


def pytest_xdist_auto_num_workers() -> int | None:
    """Two for each core: tests wait for a service, a model or a moment most of their time.

    The services of each hold a dozen connections and more, and the server has a hundred.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return min(2 * (os.cpu_count() or 1), _MOST_WORKERS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes of its own; have modules that take long begin first."""
    for item in items:
        if item.nodeid.startswith(_STARTS_PROCESSES):
            item.add_marker(pytest.mark.faults)
    items.sort(key=lambda item: _place(item.nodeid.partition("::")[0]))


@cache
def _place(module: str) -> int:
    """Where in `_LONG` a module stands; behind it for all others."""
    places = (place for place, start in enumerate(_LONG) if module.startswith(start))
    return next(places, len(_LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile what all workers are about to import."""
    here = config.invocation_params.dir
    compile_all([here / asked.partition("::")[0] for asked in config.args])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Have no garbage collection look at thousands of tests, nor collect what they were made of."""
    gc.freeze()
    keep_what_stands()
    gc.enable()


def pytest_unconfigure() -> None:
    """Collect garbage once; pytest then looks for unraisable errors five times over."""
    gc.collect()
    gc.freeze()


# A busy machine takes longer for an example than Hypothesis allows.
settings.register_profile("usual", settings(), deadline=None)
settings.load_profile("usual")
# `make faults` asks for more examples than there is time for in every run.
settings.register_profile("thorough", max_examples=400, deadline=None)


@pytest.fixture(scope="session", autouse=True)
def patient_pools() -> Iterator[None]:
    """Have none of fifty calls at once refused by a pool because the machine is busy."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(pool, "WAIT_SECONDS", 15.0)
        yield


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A data folder of this run, the same for all of its worker processes."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "hitherto"


@pytest.fixture(scope="session")
def worker_id() -> str:
    """The name of this pytest-xdist worker, or `master` without it."""
    return os.environ.get("PYTEST_XDIST_WORKER", "master")


@pytest.fixture(scope="session")
def postgres(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    """The embedded server, shared by all workers of this run; its database `hitherto` is migrated
    and serves as the template of every test's own."""
    # Postgres runs as another account when tests run as root, and must be able to enter.
    for folder in (data_dir.parent, *data_dir.parent.parents):
        if folder.name.startswith("pytest-"):
            folder.chmod(0o711)
    # Each worker runs several services at a time, and keeps some of them.
    with pytest.MonkeyPatch.context() as changed:
        changed.setitem(cluster.CHANGEABLE, "max_connections", "500")
        acquired = EmbeddedPostgres.acquire(data_dir)
    with acquired as server, _guarded(data_dir):
        with psycopg.connect(server.superuser_conninfo(), autocommit=True) as connection:
            # All workers prepare the same server, and Postgres refuses to replace a function or a
            # right that another session is replacing.
            connection.execute("SELECT pg_advisory_lock(hashtext('the tests prepare'))")
            migrate(server.conninfo())
            admit_test_role(server.superuser_conninfo("hitherto"))
            fence_revisions(server.superuser_conninfo("hitherto"))
            fence_changes(server.superuser_conninfo("hitherto"))
            _hurry(server)
        yield server


_GUARD = """
import pathlib, shutil, sys
if sys.stdin.read() != "done":
    from hitherto_shared.database.embedded import EmbeddedPostgres
    folder = pathlib.Path(sys.argv[1])
    running = folder / "postgres" / "postmaster.pid"
    if running.exists():
        EmbeddedPostgres.acquire(folder).release()
        if not running.exists():
            shutil.rmtree(folder, ignore_errors=True)
"""
"""Waits for the end of whoever started it. Where that was killed, the server is adopted and left
again, which stops it unless others use it; its data may lie in memory, and are removed."""


@contextmanager
def _guarded(data_dir: Path) -> Iterator[None]:
    """Leave no Postgres behind, also if this process is killed within the block."""
    with subprocess.Popen(
        [sys.executable, "-c", _GUARD, str(data_dir)],
        stdin=subprocess.PIPE,
        text=True,
        # An interrupt from the terminal is for pytest alone.
        start_new_session=True,
    ) as guard:
        yield
        guard.communicate("done")


def _hurry(server: EmbeddedPostgres) -> None:
    """Wait for no disk: these databases end with the run, and a machine's crash ends it too.

    A connection that a test has left half made holds up whoever makes or drops a database, in other
    workers too, for as long as it may take to authenticate.
    """
    with psycopg.connect(server.superuser_conninfo(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET authentication_timeout = '5s'")
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET full_page_writes = off")
        connection.execute("ALTER SYSTEM SET max_wal_size = '256MB'")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture
def conninfo(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A migrated database of this test's own, as the services' login sees it."""
    with new_database(postgres) as made:
        yield made


@contextmanager
def new_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A migrated database for as long as the block lasts, as the services' login sees it."""
    name = f"test_{uuid4().hex}"
    admin = postgres.superuser_conninfo()
    with psycopg.connect(admin, autocommit=True) as connection:
        # The migrating of another worker may still hold the template for a moment.
        for attempt in range(100):
            try:
                connection.execute(
                    # By files it takes a quarter of the time that it takes by blocks.
                    sql.SQL(
                        "CREATE DATABASE {} TEMPLATE hitherto OWNER hitherto_owner"
                        " STRATEGY file_copy"
                    ).format(sql.Identifier(name))
                )
                break
            except psycopg.errors.ObjectInUse:
                if attempt == 99:
                    raise
    yield postgres.conninfo(name)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for data folders. Not tmp_path: pytest closes it to the user Postgres runs as."""
    folder = Path(tempfile.mkdtemp(prefix="hitherto-test-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def superuser_conninfo(postgres: EmbeddedPostgres, conninfo: str) -> str:
    """The same database as its administrator sees it, to look behind the services' backs."""
    return as_superuser(postgres, conninfo)


def as_superuser(postgres: EmbeddedPostgres, conninfo: str) -> str:
    """The database of `conninfo` as its administrator sees it."""
    name = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    return make_conninfo(
        postgres.superuser_conninfo(str(name)),
        options=f"-c search_path=hitherto,public {YIELDED_TO}",
    )


def limit_transactions(superuser_conninfo: str, *, milliseconds: int) -> None:
    """Let transactions of sessions that begin from now on last no longer, by default."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET transaction_timeout = {}").format(
                sql.Identifier(connection.info.dbname), sql.Literal(milliseconds)
            )
        )

"""Both services over real ports, in the loop of the tests: shared by modules, or of a test's own.

`services` and `modelled` are started once for all modules with the same settings (`LASTING`), else
once for a module, on one database; every test calls them for a tenant of its own (`tenant`), so
that it finds nothing of the others, and looks behind them by their `conninfo`. A test that asks
for `conninfo`, `superuser_conninfo` or `start_services` has a database of its own, and `services`
and `modelled` are then started on it for this test alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import grpc
import psycopg
import pytest
from psycopg import sql

from hitherto.v1 import (
    extraction_service_pb2_grpc,
    maintenance_service_pb2_grpc,
    memory_service_pb2_grpc,
    privacy_service_pb2_grpc,
    retrieval_service_pb2_grpc,
)
from hitherto_client import AsyncHitherto, Hitherto
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.wiring.service import running as extraction_running
from hitherto_retrieval import __main__ as retrieval
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.rpc import call
from tests.conftest import as_superuser, new_database
from tests.e2e.coming_back import HELD, READ, READ_TWICE, coming_back
from tests.e2e.lasting import Lasting
from tests.scripted_model import ScriptedModel, canary_script
from tests.tenants import Admitted, Tenant, credential, token_settings

if TYPE_CHECKING:
    from tests.e2e.consoles import Visitor


@dataclass(frozen=True)
class Services:
    """Where the two services are and stubs to call them with.

    Attributes:
        token: The credential that the stubs send; empty where nobody authenticates.
        conninfo: The administrator's way to the rows that the stubs reach, and to no others.
        folder: Where their data folder lies, which is called `data`.
        scripted: The model behind them, if it is a scripted one.
    """

    retrieval_address: str
    extraction_address: str
    retrieval: retrieval_service_pb2_grpc.RetrievalServiceAsyncStub
    extraction: extraction_service_pb2_grpc.ExtractionServiceAsyncStub
    memory: memory_service_pb2_grpc.MemoryServiceAsyncStub
    maintenance: maintenance_service_pb2_grpc.MaintenanceServiceAsyncStub
    privacy: privacy_service_pb2_grpc.PrivacyServiceAsyncStub
    retrieval_channel: grpc.aio.Channel
    extraction_channel: grpc.aio.Channel
    token: str = ""
    conninfo: str = ""
    folder: Path = Path()
    scripted: ScriptedModel | None = None

    @property
    def model(self) -> ScriptedModel:
        """The scripted model behind them."""
        assert self.scripted is not None
        return self.scripted

    @classmethod
    def over(
        cls, reading: tuple[str, grpc.aio.Channel], writing: tuple[str, grpc.aio.Channel]
    ) -> Services:
        """The services behind two addresses and the channels to them."""
        return cls(
            reading[0],
            writing[0],
            retrieval_service_pb2_grpc.RetrievalServiceStub(reading[1]),
            extraction_service_pb2_grpc.ExtractionServiceStub(writing[1]),
            memory_service_pb2_grpc.MemoryServiceStub(writing[1]),
            maintenance_service_pb2_grpc.MaintenanceServiceStub(writing[1]),
            privacy_service_pb2_grpc.PrivacyServiceStub(writing[1]),
            *(reading[1], writing[1]),
        )

    def as_tenant(self, tenant: Tenant) -> Services:
        """The same services, with stubs and channels whose calls are the tenant's."""
        reading, writing = (
            cast(grpc.aio.Channel, Admitted(channel, tenant))
            for channel in (self.retrieval_channel, self.extraction_channel)
        )
        admitted = Services.over(
            (self.retrieval_address, reading), (self.extraction_address, writing)
        )
        return replace(admitted, token=tenant.token)


StartServices = Callable[..., AbstractAsyncContextManager[Services]]

SCHEDULES = ("schedule_idle", "schedule_decay", "schedule_consolidation", "schedule_retention")
"""Settings of what services begin by themselves; a test that waits for one sets its line."""


@asynccontextmanager
async def both_services(conninfo: str, data_dir: Path, **given: Any) -> AsyncIterator[Services]:
    """Both services on a migrated database; `given` are fields of either settings class."""
    common: dict[str, Any] = {
        "database_url": conninfo,
        "data_dir": data_dir,
        "auth": "off",
        "extract_debounce_seconds": 0.0,
        "job_backoff_seconds": 0.05,
        "drain_seconds": 5.0,
        # The model answers in the loop that asks it, and a busy machine holds that for a second.
        "embedding_deadline_ms": 4_000,
        # Scripts answer about conversations; tests of the reconciliation turn it on.
        "reconcile": False,
        # A run at three in the morning has the same jobs as any other, and so has one of an hour:
        # what an ended test left in a conversation falls silent, and would ask the model of others.
        **dict.fromkeys(SCHEDULES, "off"),
        **given,
    }
    async with AsyncExitStack() as stack:
        extraction_server = await stack.enter_async_context(
            extraction_running(
                ExtractionSettings(extraction_listen="127.0.0.1:0", **common), conninfo
            )
        )
        retrieval_server = await stack.enter_async_context(
            retrieval.running(RetrievalSettings(retrieval_listen="127.0.0.1:0", **common), conninfo)
        )
        reader, writer = (
            f"127.0.0.1:{server.port}" for server in (retrieval_server, extraction_server)
        )
        reading = await stack.enter_async_context(grpc.aio.insecure_channel(reader))
        writing = await stack.enter_async_context(grpc.aio.insecure_channel(writer))
        yield Services.over((reader, reading), (writer, writing))


# --- shared by the tests of modules --------------------------------------------------------------

LASTING = frozenset({"encryption_key", "reconcile"})
"""Modules whose settings are among these share services with others of the same settings."""


_LEFT_ALONE = "; ".join(
    [
        "UPDATE jobs SET state = 'cancelled', finished_at = now(), lease_until = NULL"
        " WHERE finished_at IS NULL",
        *(
            f"UPDATE {table} SET embedding_state = 'refused' WHERE embedding_state = 'pending'"
            for table in ("memories", "messages", "conversation_summaries", "document_chunks")
        ),
        "UPDATE users SET to_seal = 0 WHERE to_seal > 0",
    ]
)
"""Nothing of a tenant waits any more. A sweep would ask the model of a later test for vectors, and
take the answers that are queued there."""


@dataclass(frozen=True)
class Leftovers:
    """Ends what tests leave waiting, in one session: a new one costs more than what it does."""

    session: psycopg.AsyncConnection[Any]

    async def end(self, tenant: Tenant) -> None:
        """Cancel and settle what waits of a tenant."""
        await self.session.execute(
            sql.SQL("; ").join([tenant.alone_in_transaction, sql.SQL(_LEFT_ALONE)])
        )


@dataclass(frozen=True)
class Shared:
    """Services that tests share, with the administrator's way into their database.

    Attributes:
        folder: Where their data folder lies, which is called `data`.
        leftovers: What tests leave waiting.
        model: The model behind them, if it is a scripted one.
    """

    services: Services
    superuser_conninfo: str
    folder: Path
    leftovers: Leftovers
    model: ScriptedModel | None = None


@pytest.fixture(scope="module")
def service_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of `services` and `modelled`: the `SERVICE_SETTINGS` of a module.

    A module whose settings are known only once it runs overrides this.
    """
    settings: dict[str, Any] = getattr(request.module, "SERVICE_SETTINGS", {})
    return settings


@pytest.fixture(scope="module")
def frequent_sweeps() -> Iterator[None]:
    """Services of this module make up for missing vectors, seal and analyse every second.

    For modules that wait for it, with `usefixtures`.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in ("sweeps", "wiring.work"):
            patch.setattr(f"hitherto_extraction.{module}.SOON_SECONDS", 1.0)
        yield


@pytest.fixture(scope="module")
def apart() -> None:
    """Services of this module are its own, for it acts for the operator; with `usefixtures`."""


@pytest.fixture(scope="package", autouse=True)
def patient_services() -> Iterator[None]:
    """As `patient_pools`, for the readers' own pool and for the time of a call."""
    with pytest.MonkeyPatch.context() as changed:
        # A database that is away is told before the time of the call is up.
        changed.setattr(retrieval, "_POOL_WAIT_SECONDS", 15.0)
        changed.setattr(call, "CALL_SECONDS", 20.0)
        yield


@pytest.fixture(scope="package")
async def lasting() -> AsyncIterator[Lasting[Shared]]:
    """Services that outlast a module: two pairs, as one that waits costs more than a new start."""
    services = Lasting[Shared](most=2)
    yield services
    await services.leave()


@pytest.fixture(scope="module")
async def started(
    request: pytest.FixtureRequest,
    postgres: EmbeddedPostgres,
    tmp_path_factory: pytest.TempPathFactory,
    lasting: Lasting[Shared],
    service_settings: dict[str, Any],
) -> AsyncIterator[Callable[[bool], Awaitable[Shared]]]:
    """Starts what the module shares, with or without a scripted model, unless it is there."""
    asked = {name for mark in request.node.iter_markers("usefixtures") for name in mark.args}
    own = Lasting[Shared](most=2)
    shelf = own if "apart" in asked or service_settings.keys() - LASTING else lasting

    async def start(modelled: bool) -> Shared:
        return await shelf.get(
            (modelled, "frequent_sweeps" in asked, *sorted(service_settings.items())),
            lambda: _sharing(postgres, tmp_path_factory.mktemp("s"), service_settings, modelled),
        )

    yield start
    await own.leave()


@asynccontextmanager
async def _sharing(
    postgres: EmbeddedPostgres, folder: Path, settings: dict[str, Any], modelled: bool
) -> AsyncIterator[Shared]:
    """Both services, with the offline extractor and embedder or a scripted model behind them."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ScriptedModel()) if modelled else None
        given = {**token_settings(folder), **(model_settings(model) if model else {}), **settings}
        conninfo = stack.enter_context(new_database(postgres))
        running = await stack.enter_async_context(both_services(conninfo, folder / "data", **given))
        administrator = as_superuser(postgres, conninfo)
        session = await stack.enter_async_context(
            await psycopg.AsyncConnection.connect(administrator, autocommit=True)
        )
        yield Shared(running, administrator, folder, Leftovers(session), model)


@pytest.fixture(scope="module")
async def shared_services(started: Callable[[bool], Awaitable[Shared]]) -> Shared:
    """Both services with the offline extractor and embedder."""
    return await started(False)


@pytest.fixture(scope="module")
async def shared_modelled(started: Callable[[bool], Awaitable[Shared]]) -> Shared:
    """Both services with a scripted model behind them."""
    return await started(True)


@pytest.fixture(scope="module")
def shared_model(shared_modelled: Shared) -> ScriptedModel:
    """The model behind `shared_modelled`."""
    return cast(ScriptedModel, shared_modelled.model)


@pytest.fixture(scope="module")
async def by_key(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Services, str]]:
    """Both services of the module, which admit API keys only, and their database.

    Tenant `a` operates the installation. A test that leaves something has a tenant of its own.
    """
    given = {"auth": "api-key", "operator_tenant": "a"}
    with new_database(postgres) as conninfo:
        async with both_services(conninfo, tmp_path_factory.mktemp("s") / "data", **given) as both:
            yield both, conninfo


@pytest.fixture
def tenant() -> Tenant:
    """Whom this test calls the shared services for."""
    return Tenant()


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> Shared | None:
    """The services that this test shares; None where it asks for a database of its own."""
    used = set(request.fixturenames)
    if used & {"conninfo", "start_services"}:
        return None
    name = "shared_modelled" if used & {"modelled", "model"} else "shared_services"
    return cast(Shared, request.getfixturevalue(name))


@pytest.fixture
async def admitted(shared: Shared | None, tenant: Tenant) -> AsyncIterator[Services | None]:
    """Shared services for a tenant of this test's own, whose work ends with the test."""
    if shared is None:
        yield None
        return
    yield shared.services.as_tenant(tenant)
    await shared.leftovers.end(tenant)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run some modules twice, with the reads of the second time answered from snapshots."""
    module = metafunc.module.__name__.rpartition(".")[2]
    once = metafunc.config.getoption("--reads") == HELD
    if module in READ_TWICE and "reads" in metafunc.fixturenames and not once:
        metafunc.parametrize("reads", [READ, HELD], indirect=True)


@pytest.fixture
def reads(request: pytest.FixtureRequest) -> str:
    """How the reads of this test are answered: `READ` or `HELD`."""
    how: str = getattr(request, "param", request.config.getoption("--reads"))
    return how


@pytest.fixture
def services(
    request: pytest.FixtureRequest,
    admitted: Services | None,
    tenant_conninfo: str,
    services_folder: Path,
    reads: str,
) -> Services:
    """Both services with the offline extractor and embedder.

    They are shared, for a tenant of this test's own, unless the test has a database of its own
    (`conninfo`): then they are its own too, and nobody authenticates.
    """
    found = admitted or cast(Services, request.getfixturevalue("own_services"))
    found = replace(found, conninfo=tenant_conninfo, folder=services_folder)
    return coming_back(found, reads)


@pytest.fixture
def modelled(
    request: pytest.FixtureRequest,
    admitted: Services | None,
    model: ScriptedModel,
    tenant_conninfo: str,
    services_folder: Path,
    reads: str,
) -> Services:
    """Both services with the scripted model behind them; whose they are is as with `services`."""
    found = admitted or cast(Services, request.getfixturevalue("own_modelled"))
    found = replace(found, conninfo=tenant_conninfo, folder=services_folder, scripted=model)
    return coming_back(found, reads)


@pytest.fixture
def blocking(services: Services) -> Iterator[Hitherto]:
    """A synchronous client of `services`, for threads: their loop is ours."""
    addresses = (services.retrieval_address, services.extraction_address)
    with Hitherto(*addresses, token=services.token, timeout=120) as client:
        yield client


@pytest.fixture
async def memory(services: Services) -> AsyncIterator[AsyncHitherto]:
    """A client of `services`."""
    addresses = (services.retrieval_address, services.extraction_address)
    async with AsyncHitherto(*addresses, token=services.token, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
async def console(shared_services: Shared) -> AsyncIterator[str]:
    """One console for the module; everybody signs in with a credential of their own."""
    from tests.e2e.consoles import console_over

    async with console_over(shared_services.services) as url:
        yield url


@pytest.fixture
async def ana(console: str, tenant: Tenant, services: Services) -> AsyncIterator[Visitor]:
    """Ana, who has signed in at the console with a token of her own."""
    from tests.e2e.consoles import signed_in

    async with signed_in(console, credential(tenant, "ana")) as person:
        yield person


@pytest.fixture
async def operator(console: str, tenant: Tenant, services: Services) -> AsyncIterator[Visitor]:
    """Somebody at the console who may do everything within the tenant."""
    from tests.e2e.consoles import signed_in

    async with signed_in(console, tenant.token) as person:
        yield person


@pytest.fixture
def tenant_conninfo(request: pytest.FixtureRequest, shared: Shared | None, tenant: Tenant) -> str:
    """The shared database as its administrator would see it without any other tenant.

    A test that has a database of its own sees the whole of that.
    """
    if shared is None:
        return cast(str, request.getfixturevalue("superuser_conninfo"))
    return tenant.rows_of(shared.superuser_conninfo)


@pytest.fixture
def services_folder(shared: Shared | None, tmp_path: Path) -> Path:
    """Where the data folder of the services lies that this test uses."""
    return tmp_path if shared is None else shared.folder


# --- a test's own --------------------------------------------------------------------------------


@pytest.fixture
def start_services(conninfo: str, superuser_conninfo: str, tmp_path: Path) -> StartServices:
    """Starts both services with settings of one's own: `async with start_services(**settings)`.

    Keyword arguments are fields of the settings classes and reach whichever service has them. A
    scripted model before them is what both ask.
    """

    @asynccontextmanager
    async def start(model: ScriptedModel | None = None, **given: Any) -> AsyncIterator[Services]:
        asked = model_settings(model) if model else {}
        settings = {"data_dir": tmp_path / "data", **asked, **given}
        async with both_services(conninfo, **settings) as running:
            yield replace(running, conninfo=superuser_conninfo, folder=tmp_path, scripted=model)

    return start


@pytest.fixture
async def own_services(
    start_services: StartServices, service_settings: dict[str, Any]
) -> AsyncIterator[Services]:
    """Both services with the offline extractor and embedder, of the test's own."""
    async with start_services(**service_settings) as running:
        yield running


@pytest.fixture
async def own_modelled(
    start_services: StartServices, model: ScriptedModel, service_settings: dict[str, Any]
) -> AsyncIterator[Services]:
    """Both services with the scripted model behind them, of the test's own."""
    async with start_services(model, **service_settings) as running:
        yield running


@pytest.fixture
async def own_model() -> AsyncIterator[ScriptedModel]:
    """A model of the test's own."""
    async with ScriptedModel(canary_script) as server:
        yield server


@pytest.fixture
def model(request: pytest.FixtureRequest) -> ScriptedModel:
    """A scripted OpenAI-compatible server that finds one memory per `canary:<word>`.

    It is that of the shared services, as new, where the test uses these.
    """
    used = set(request.fixturenames)
    if "shared" not in used or used & {"conninfo", "start_services"}:
        return cast(ScriptedModel, request.getfixturevalue("own_model"))
    server: ScriptedModel = request.getfixturevalue("shared_model")
    server.start_over(canary_script)
    return server


def model_settings(model: ScriptedModel) -> dict[str, Any]:
    """Settings that send chat and embeddings to `model`."""
    return {
        "openai_base_url": model.base_url,
        "openai_api_key": "test",
        "embedding_dimensions": 64,
    }

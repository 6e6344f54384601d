"""Departments and capabilities through real ports: who reads and changes whose profile (E4).

Row 61 of the fault catalogue: a credential asks for another user or department, or lacks
`profiles.manage`. The cast: ana and bo sell, cleo does research, dan has a profile and no
department, and nobody knows eve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import maintenance_service_pb2 as maintenance
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import profile_pb2
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_shared.auth.access import rules_of
from hitherto_shared.database.embedded import EmbeddedPostgres
from tests.conftest import as_superuser
from tests.e2e.conftest import Services, StartServices
from tests.e2e.credentials import bearer, key
from tests.e2e.learning import rows
from tests.e2e.masks import masked
from tests.e2e.methods import METHODS, OFFERED, SERVICES, Method, Refusal, call, refused
from tests.e2e.requests import NOBODY, message, places, submit, transcript, valid
from tests.tenants import Tenant

RULES = rules_of(SERVICES)
GET_PROFILE = METHODS["RetrievalService/GetProfile"]
GET_PROFILE_HISTORY = METHODS["RetrievalService/GetProfileHistory"]
LIST_PROFILES = METHODS["RetrievalService/ListProfiles"]
UPDATE_PROFILE = METHODS["MemoryService/UpdateProfile"]
SUBMIT = METHODS["ExtractionService/SubmitTranscripts"]
CANCEL = METHODS["ExtractionService/CancelJob"]
RETRY = METHODS["ExtractionService/RetryJob"]
WATCH = METHODS["ExtractionService/WatchJob"]
BY_JOB = [method for method in OFFERED if method.name.endswith("Job")]

INSIDE = ("ana", "bo")
"""Of sales."""
EVERYBODY = ("ana", "bo", "cleo", "dan")
ERASERS = {"PrivacyService/EraseUser", "PrivacyService/ReinstateUser"}
"""Calls that would take the cast away."""


@dataclass(frozen=True)
class Office:
    """Both services, the cast, and keys."""

    services: Services
    conninfo: str
    tenant: str
    hr: str
    """Of a service that may act for everybody."""

    async def key(self, **given: Any) -> str:
        return await key(self.conninfo, self.tenant, **given)

    async def ask(self, text: str, method: Method, request: Message) -> Any:
        return (await call(self.services, method, request, metadata=bearer(text)))[-1]

    async def refuse(self, text: str, method: Method, request: Message) -> Refusal:
        return await refused(self.services, method, request, metadata=bearer(text))

    async def code(self, text: str, method: Method, request: Message) -> grpc.StatusCode:
        try:
            await call(self.services, method, request, metadata=bearer(text))
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    async def listed(self, text: str, department: str = "") -> list[str]:
        reply = await self.ask(
            text, LIST_PROFILES, retrieval.ListProfilesRequest(department=department)
        )
        assert reply.total_size == len(reply.profiles)
        return [profile.user_id for profile in reply.profiles]


def changing(user: str, mask: list[str] | None = None, **values: Any) -> Message:
    request = memory.UpdateProfileRequest(user_id=user, profile=profile_pb2.Profile(**values))
    if mask is not None:
        request.update_mask.paths.extend(mask)
    return masked(request)


async def peopled(services: Services, conninfo: str, tenant: str) -> Office:
    """An office with its cast in a tenant; the same names in another one open nothing there."""
    office = Office(services, conninfo, tenant, await key(conninfo, tenant, name="hr"))
    for user, department in (("ana", "sales"), ("bo", "sales"), ("cleo", "research"), ("dan", "")):
        given = changing(user, summary=f"This is {user}.", department=department)
        await office.ask(office.hr, UPDATE_PROFILE, given)
    elsewhere = await key(conninfo, f"{tenant}-b")
    await office.ask(elsewhere, UPDATE_PROFILE, changing("eve", department="sales"))
    return office


@pytest.fixture
async def office(by_key: tuple[Services, str], tenant: Tenant) -> Office:
    return await peopled(*by_key, tenant.tenant_id)


@pytest.fixture
async def operating(by_key: tuple[Services, str]) -> Office:
    """The office of whoever operates the installation."""
    return await peopled(*by_key, "a")


def naming(method: Method, user: str) -> Message:
    """A valid request about `user`, wherever the rule says that the user stands."""
    request = valid(method)
    dotted = ".".join(RULES[method.path].user_path)
    (put,) = [
        put
        for path, put in places(method, lambda field: field.name == "user_id")
        if path.replace("[0]", "") == dotted
    ]
    put(request, user)
    return request


ABOUT_USERS = [
    method for method in OFFERED if RULES[method.path].user_path and method.name not in ERASERS
]
UNKNOWN = ("eve", "\x00", "x" * 300)
"""What cannot be a user's id is answered as somebody who is not there."""
REACH: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
    # Of whom: the credential, whom it reaches, and whose profiles it reads and changes besides.
    "a department": ({"departments": ["sales"]}, {"ana", "bo"}, set()),
    "a list": ({"user_ids": ["ana", "cleo"]}, {"ana", "cleo"}, set()),
    "both": ({"user_ids": ["cleo"], "departments": ["sales"]}, {"ana", "bo", "cleo"}, set()),
    "a person": ({"user_id": "ana", "departments": ["sales"]}, {"ana"}, {"bo"}),
    "a loner": ({"user_id": "dan"}, {"dan"}, set()),
}


async def test_every_call_reaches_whom_its_credential_may_reach(office: Office) -> None:
    """Row 61, by who calls and about whom: reads and writes; the unknown are as the others."""
    members = {method.name for method in ABOUT_USERS if RULES[method.path].department_members}
    assert members == {GET_PROFILE.name, GET_PROFILE_HISTORY.name, UPDATE_PROFILE.name}
    for place, (name, (given, inside, profiles)) in enumerate(REACH.items()):
        text = await office.key(**given)
        answers = set()
        unknown = UNKNOWN[place % len(UNKNOWN)]
        for method in [*ABOUT_USERS, *(METHODS[each] for each in ERASERS)]:
            reached = inside | profiles if method.name in members else inside
            # One of each kind is enough where the rule is everybody's.
            some = {min(inside), min({*EVERYBODY} - inside), unknown}
            for user in {*EVERYBODY, *UNKNOWN} if method.name in members else some:
                request = naming(method, user)
                if user in reached:
                    if method.name not in ERASERS:
                        code = await office.code(text, method, request)
                        assert code is not grpc.StatusCode.PERMISSION_DENIED, (name, method, user)
                    continue
                refusal = await office.refuse(text, method, request)
                assert refusal.reason == "USER_NOT_ALLOWED", (name, method.name, user)
                answers.add(refusal.message)
        # A person is told what keeps them from another user.
        assert len(answers) == 1 or "user_id" in given, name
        for user in {"ana", "bo", "cleo", "dan"} - inside:
            batch = submit(*(transcript(user=each) for each in (*sorted(inside), user)))
            assert (await office.refuse(text, SUBMIT, batch)).reason == "USER_NOT_ALLOWED"
        await office.ask(text, SUBMIT, submit(*(transcript(user=each) for each in inside)))
        for user in profiles:
            shown = await office.ask(text, GET_PROFILE, naming(GET_PROFILE, user))
            assert shown.profile.user_id == user


async def test_a_bound_service_cannot_mean_everybody(operating: Office) -> None:
    """Calls about the tenant, and those that may leave the user out."""
    tried = set()
    for method in OFFERED:
        rule = RULES[method.path]
        request = valid(method)
        if rule.user_optional:
            request.ClearField("user_id")
        elif rule.user_path or rule.scope not in ("maintenance", "admin"):
            continue
        tried.add(method.name)
        for bound in (
            await operating.key(departments=["sales"]),
            await operating.key(departments=[]),
            await operating.key(user_ids=["ana"]),
            await operating.key(user_ids=["ana"], departments=["sales"]),
        ):
            refusal = await operating.refuse(bound, method, request)
            assert refusal.reason == "USER_NOT_ALLOWED", method.name
        if not rule.user_path:
            person = await operating.key(user_id="ana")
            refusal = await operating.refuse(person, method, request)
            assert refusal.reason == "USER_NOT_ALLOWED", method.name
        code = await operating.code(operating.hr, method, request)
        assert code is not grpc.StatusCode.PERMISSION_DENIED, method.name
    assert tried >= {
        "MaintenanceService/Reembed",
        "MaintenanceService/ListSchedules",
        "MaintenanceService/RunDecay",
        "ExtractionService/ListJobs",
    }


async def test_jobs_of_others_are_not_there(office: Office) -> None:
    """Jobs are named by id alone: of another department, of nobody, of the tenant."""
    bound = [
        await office.key(departments=["sales"]),
        await office.key(user_ids=["ana", "bo"]),
        await office.key(user_id="ana"),
    ]
    jobs = {}
    for user in ("ana", "cleo", "eve"):
        reply = await office.ask(office.hr, SUBMIT, submit(transcript(message("Hi."), user=user)))
        jobs[user] = reply.jobs[0].id
    decay = METHODS["MaintenanceService/RunDecay"]
    jobs[""] = (await office.ask(office.hr, decay, valid(decay))).job.id
    assert len(BY_JOB) == 4
    for method in BY_JOB:
        for text in bound:
            nobodys = await office.refuse(text, method, method.request(job_id=NOBODY))
            for user in ("cleo", "eve", ""):
                theirs = await office.refuse(text, method, method.request(job_id=jobs[user]))
                assert (theirs.reason, theirs.message) == ("JOB_NOT_FOUND", nobodys.message)
            assert await office.code(text, method, method.request(job_id=jobs["ana"])) not in (
                grpc.StatusCode.NOT_FOUND,
                grpc.StatusCode.PERMISSION_DENIED,
            )


async def test_an_answer_under_a_key_is_for_those_who_may_see_the_job(
    start_services: StartServices, conninfo: str
) -> None:
    """The first answer to a call that names a job only is replayed to nobody else."""
    cancel = METHODS["ExtractionService/CancelJob"]
    callers: list[tuple[dict[str, Any], bool]] = [
        ({"departments": ["sales"]}, True),
        ({"departments": ["research"]}, False),
        ({"user_ids": ["ana", "dan"]}, True),
        ({"user_ids": ["bo", "dan"]}, False),
        ({"user_id": "bo"}, False),
    ]
    async with start_services(auth="api-key", memory_enabled=False) as services:
        office = Office(services, conninfo, "a", await key(conninfo))
        await office.ask(office.hr, UPDATE_PROFILE, changing("ana", department="sales"))
        accepted = await office.ask(office.hr, SUBMIT, submit(transcript()))
        request = extraction.CancelJobRequest(job_id=accepted.jobs[0].id, idempotency_key="guess")
        first = await office.ask(office.hr, cancel, request)
        for given, found in callers:
            bound = await office.key(**given)
            if found:
                assert (await office.ask(bound, cancel, request)).job.id == first.job.id
            else:
                assert (await office.refuse(bound, cancel, request)).reason == "JOB_NOT_FOUND"


async def test_what_needs_a_further_scope_is_refused_without_it(
    office: Office, postgres: EmbeddedPostgres
) -> None:
    """A webhook with contents reads them, and jobs of upkeep are of those who may start it."""
    conninfo = as_superuser(postgres, office.conninfo)
    admin = await office.key(scopes=["admin"])
    create = METHODS["MaintenanceService/CreateWebhook"]
    webhook = maintenance.CreateWebhookRequest(
        url="https://[64:ff9b::808:808]/", include_content=True
    )
    refusal = await office.refuse(admin, create, webhook)
    assert (refusal.reason, refusal.metadata["scope"]) == ("SCOPE_MISSING", "READ")
    assert await office.code(office.hr, create, webhook) == grpc.StatusCode.OK
    webhook.include_content = False
    assert await office.code(admin, create, webhook) == grpc.StatusCode.OK

    writer = await office.key(scopes=["read", "write"])
    ana = await office.key(scopes=["read", "write"], user_id="ana")
    decay = METHODS["MaintenanceService/RunDecay"]
    job_id = (await office.ask(office.hr, decay, decay.request(user_id="ana"))).job.id
    await office.ask(office.hr, WATCH, extraction.WatchJobRequest(job_id=job_id))
    dead = f"UPDATE jobs SET state = 'dead' WHERE job_id = '{job_id}' RETURNING 1"
    every = extraction.RetryJobRequest(filter=extraction.RetryFilter())
    decays = extraction.RetryJobRequest(filter=extraction.RetryFilter(kinds=["decay"]))
    named = extraction.RetryJobRequest(job_id=job_id)
    cancelling = extraction.CancelJobRequest(job_id=job_id)
    assert rows(conninfo, dead) == [(1,)]
    for method, request in ((RETRY, named), (RETRY, decays), (CANCEL, cancelling)):
        refusal = await office.refuse(writer, method, request)
        assert (refusal.reason, refusal.metadata["scope"]) == ("SCOPE_MISSING", "MAINTENANCE")
    assert (await office.ask(writer, RETRY, every)).retried == 0
    assert (await office.ask(office.hr, RETRY, every)).retried == 1
    await office.ask(office.hr, WATCH, extraction.WatchJobRequest(job_id=job_id))
    assert rows(conninfo, dead) == [(1,)]
    # A person's own credential is for the jobs about that person.
    assert (await office.ask(ana, RETRY, named)).retried == 1


async def test_a_list_shows_what_the_caller_may_see(office: Office) -> None:
    """Unfiltered: everything of the caller's; a filter names one of the caller's departments."""
    sales: dict[str, tuple[str, ...]] = {"sales": INSIDE}
    research: dict[str, tuple[str, ...]] = {"research": ("cleo",)}
    moon: dict[str, tuple[str, ...]] = {"moon": ()}
    cases: list[tuple[dict[str, Any], tuple[str, ...], dict[str, tuple[str, ...]]]] = [
        ({}, EVERYBODY, sales | research | moon),
        ({"departments": ["sales"]}, INSIDE, sales),
        (
            {"departments": ["sales", "research", "moon"]},
            ("ana", "bo", "cleo"),
            sales | research | moon,
        ),
        ({"departments": []}, (), {}),
        ({"user_id": "ana"}, ("ana",), {}),
        ({"user_id": "eve"}, (), {}),
        ({"user_id": "dan", "departments": ["research"]}, ("cleo", "dan"), research),
        ({"user_ids": ["ana", "dan", "eve"]}, ("ana", "dan"), {}),
        (
            {"user_ids": ["bo", "dan"], "departments": ["research", "sales"]},
            EVERYBODY,
            sales | research,
        ),
    ]
    first = await office.ask(office.hr, LIST_PROFILES, retrieval.ListProfilesRequest(page_size=1))
    for given, unfiltered, filtered in cases:
        text = await office.key(scopes=["read"], **given)
        assert await office.listed(text) == [*unfiltered], given
        for department in ("sales", "research", "moon"):
            if department in filtered:
                assert await office.listed(text, department) == [*filtered[department]], given
                continue
            request = retrieval.ListProfilesRequest(department=department)
            refusal = await office.refuse(text, LIST_PROFILES, request)
            assert refusal.reason == "DEPARTMENT_NOT_ALLOWED", (given, department)
            assert refusal.metadata == {"field": "department"}
        # A page token of somebody who sees more shows nothing more.
        request = retrieval.ListProfilesRequest(page_size=10, page_token=first.next_page_token)
        page = await office.ask(text, LIST_PROFILES, request)
        assert {profile.user_id for profile in page.profiles} <= {*unfiltered}, given
        seen: list[str] = []
        request = retrieval.ListProfilesRequest(page_size=1)
        while not seen or request.page_token:
            page = await office.ask(text, LIST_PROFILES, request)
            assert page.total_size == len(unfiltered)
            seen += [profile.user_id for profile in page.profiles]
            request.page_token = page.next_page_token
            if not unfiltered:
                break
        assert seen == [*unfiltered], given


async def test_who_changes_whose_profile(office: Office) -> None:
    """By credential, person and field, with and without `profiles.manage`."""
    persons: dict[str, dict[str, Any]] = {
        "service": {},
        "sales": {"departments": ["sales"]},
        "ana": {"user_id": "ana", "departments": ["sales"]},
        "dan": {"user_id": "dan"},
        "duo": {"user_ids": ["ana", "dan"]},
    }
    keys = {
        (name, able): await office.key(
            scopes=["write"], capabilities=["profiles.manage"] if able else [], **given
        )
        for name, given in persons.items()
        for able in (True, False)
    }
    reach = {
        "service": {"ana", "bo", "cleo", "dan", "eve"},
        "sales": {"ana", "bo"},
        "ana": {"ana", "bo"},
        "dan": {"dan"},
        "duo": {"ana", "dan"},
    }
    for (name, able), text in keys.items():
        for user in ("ana", "bo", "cleo", "dan", "eve"):
            for field, value in (("summary", f"{name} {able}"), ("access_level", f"{name}{able}")):
                request = changing(user, None, **{field: value})
                needed = user != name or field == "access_level"
                if needed and not able:
                    refusal = await office.refuse(text, UPDATE_PROFILE, request)
                    assert refusal.reason == "CAPABILITY_MISSING", (name, user, field)
                    assert refusal.metadata == {"capability": "profiles.manage"}
                elif user not in reach[name]:
                    refusal = await office.refuse(text, UPDATE_PROFILE, request)
                    assert refusal.reason == "USER_NOT_ALLOWED", (name, user, field)
                else:
                    changed = await office.ask(text, UPDATE_PROFILE, request)
                    assert getattr(changed.profile, field) == value


async def test_nobody_is_moved_out_of_sight_or_into_another_department(office: Office) -> None:
    """A caller bound to departments moves people between these and nowhere else."""
    both = await office.key(departments=["sales", "moon"])
    ana = await office.key(user_id="ana", departments=["sales"])
    duo = await office.key(user_ids=["ana", "bo"])
    for text in (both, ana, duo):
        for target, mask in (
            ("research", None),
            ("", ["department"]),
            ("", ["summary", "department"]),
        ):
            for user in INSIDE:
                request = changing(user, mask, department=target, summary="Moved.")
                refusal = await office.refuse(text, UPDATE_PROFILE, request)
                assert refusal.reason == "DEPARTMENT_NOT_ALLOWED", (target, mask)
                assert refusal.metadata == {"field": "profile.department"}
    assert await office.listed(office.hr, "sales") == ["ana", "bo"]
    moved = await office.ask(both, UPDATE_PROFILE, changing("bo", department="moon"))
    assert moved.profile.department == "moon"
    # With the next call bo is out of reach for sales alone; nothing remembers.
    sales = await office.key(departments=["sales"])
    request = retrieval.GetProfileRequest(user_id="bo")
    assert (await office.refuse(sales, GET_PROFILE, request)).reason == "USER_NOT_ALLOWED"
    assert (await office.refuse(ana, GET_PROFILE, request)).reason == "USER_NOT_ALLOWED"
    back = await office.ask(both, UPDATE_PROFILE, changing("bo", department="sales"))
    assert back.profile.department == "sales"
    assert (await office.ask(sales, GET_PROFILE, request)).profile.user_id == "bo"
    # Whoever may act for everybody also takes people out of a department.
    out = await office.ask(office.hr, UPDATE_PROFILE, changing("bo", ["department"]))
    assert out.profile.department == ""


async def test_a_department_is_decided_under_the_lock_of_the_change(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moved between the look and the change, a profile is out of reach for the change."""

    sales = await office.key(departments=["sales"])

    async def move(*given: object, **named: object) -> None:
        await office.ask(office.hr, UPDATE_PROFILE, changing("bo", department="research"))

    monkeypatch.setattr("hitherto_shared.auth.departments.Departments.check", move)
    refusal = await office.refuse(sales, UPDATE_PROFILE, changing("bo", summary="Late."))
    assert refusal.reason == "USER_NOT_ALLOWED"
    shown = await office.ask(office.hr, GET_PROFILE, retrieval.GetProfileRequest(user_id="bo"))
    assert (shown.profile.department, shown.profile.summary) == ("research", "This is bo.")


async def test_departments_are_compared_in_one_normal_form(office: Office) -> None:
    for spelt in ("Ke\u0302\u0301 toa\u0301n", "K\u1ebf to\u00e1n"):
        await office.ask(office.hr, UPDATE_PROFILE, changing("bo", department=spelt))
        for bound in ("Ke\u0302\u0301 toa\u0301n", "K\u1ebf to\u00e1n"):
            text = await office.key(departments=[bound])
            assert await office.listed(text) == ["bo"]
            assert await office.listed(text, spelt) == ["bo"]
            await office.ask(text, GET_PROFILE, retrieval.GetProfileRequest(user_id="bo"))

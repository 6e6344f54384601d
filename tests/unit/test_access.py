"""Rules, principals, keys and settings that decide who may do what, without a database."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from pydantic import ValidationError

from hitherto.v1 import access_pb2, conversation_pb2, retrieval_service_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_shared.auth.access import AccessRule, rules_of
from hitherto_shared.auth.api_keys import split_key
from hitherto_shared.auth.principal import (
    ANONYMOUS,
    CAPABILITIES,
    PROFILES_MANAGE,
    SCOPES,
    Principal,
)
from hitherto_shared.config import SharedSettings, describe, is_loopback
from hitherto_shared.errors import NotPermitted
from hitherto_shared.rpc.planned import PLANNED
from tests.e2e.methods import SERVICES

USER = "H\u1ed3ng"
BOUND = Principal("t", "key", frozenset({"read", "write"}), USER)
DECOMPOSED = "Ho\u0302\u0300ng"


def test_a_bound_caller_names_itself_in_any_normal_form() -> None:
    rule = AccessRule("read", ("user_id",))
    for user in (USER, DECOMPOSED):
        rule.check_request(BOUND, retrieval_service_pb2.GetContextRequest(user_id=user), "/m")
    for user in ("", "bo", "hồng", "H\u1ed3ng "):
        with pytest.raises(NotPermitted) as caught:
            rule.check_request(BOUND, retrieval_service_pb2.GetContextRequest(user_id=user), "/m")
        assert caught.value.reason == "USER_NOT_ALLOWED"
    rule.check_request(ANONYMOUS, retrieval_service_pb2.GetContextRequest(user_id="bo"), "/m")


def test_every_element_of_a_list_counts() -> None:
    rule = AccessRule("write", ("transcripts", "user_id"))
    own = conversation_pb2.Transcript(user_id=USER)
    rule.check_request(BOUND, pb.SubmitTranscriptsRequest(transcripts=[own, own]), "/m")
    for other in ("bo", ""):
        theirs = conversation_pb2.Transcript(user_id=other)
        with pytest.raises(NotPermitted):
            rule.check_request(BOUND, pb.SubmitTranscriptsRequest(transcripts=[own, theirs]), "/m")


def test_a_user_left_out_is_the_bound_callers_own() -> None:
    rule = AccessRule("read", ("user_id",), user_optional=True)
    request = pb.ListJobsRequest()
    rule.check_request(BOUND, request, "/m")
    assert request.user_id == USER
    everybody = pb.ListJobsRequest()
    rule.check_request(ANONYMOUS, everybody, "/m")
    assert not everybody.user_id
    with pytest.raises(NotPermitted):
        rule.check_request(BOUND, pb.ListJobsRequest(user_id="bo"), "/m")


# Departments and capabilities (E4).


def caller(**given: Any) -> Principal:
    return Principal(
        **{"tenant_id": "t", "subject": "key", "scopes": frozenset({"read", "write"}), **given}
    )


def refusal(rule: AccessRule, principal: Principal, request: Message) -> str:
    """The reason of a refusal."""
    with pytest.raises(NotPermitted) as caught:
        rule.check_request(principal, request, "/m")
    return caught.value.reason


def test_a_principal_cannot_be_changed() -> None:
    for name, value in (("user_id", None), ("departments", None), ("capabilities", {"x"})):
        with pytest.raises(FrozenInstanceError):
            setattr(BOUND, name, value)


def test_a_person_is_never_unbound() -> None:
    """However the credential was written, a person without departments reaches that person only."""
    assert (BOUND.departments, BOUND.unbound) == (frozenset(), False)
    assert BOUND.reaches(USER, "")
    assert not BOUND.reaches("bo", "")
    assert not BOUND.reaches("bo", "sales")
    assert not BOUND.for_members().unbound
    assert caller().unbound


def test_no_department_is_in_no_department() -> None:
    """Even a credential that names the empty one, which neither keys nor claims can."""
    for departments in (frozenset[str](), frozenset({"sales"}), frozenset({""})):
        assert not caller(departments=departments).reaches("bo", "")
        assert caller(departments=departments).reaches("bo", "sales") is ("sales" in departments)


def test_whom_a_bound_caller_names_is_looked_up() -> None:
    rule = AccessRule("write", ("transcripts", "user_id"))
    sales = caller(departments=frozenset({"sales"}))
    own, other = (conversation_pb2.Transcript(user_id=user) for user in (DECOMPOSED, "bo"))
    request = pb.SubmitTranscriptsRequest(transcripts=[own, other, own])
    assert rule.check_request(sales, request, "/m") == {USER, "bo"}
    assert rule.check_request(caller(), request, "/m") == frozenset()
    assert refusal(rule, caller(user_id=USER, departments=frozenset({"sales"})), request) == (
        "USER_NOT_ALLOWED"
    )


def test_a_person_may_name_members_where_the_rule_says_so() -> None:
    rule = AccessRule("read", ("user_id",), department_members=True)
    person = caller(user_id=USER, departments=frozenset({"sales"}))
    named = retrieval_service_pb2.GetProfileRequest(user_id="bo")
    own = retrieval_service_pb2.GetProfileRequest(user_id=DECOMPOSED)
    assert rule.check_request(person, named, "/m") == {"bo"}
    assert rule.check_request(person, own, "/m") == frozenset()


def test_leaving_the_user_out_is_everybody_and_not_for_departments() -> None:
    rule = AccessRule("read", ("user_id",), user_optional=True)
    sales = caller(departments=frozenset({"sales"}))
    request = pb.ListJobsRequest()
    assert refusal(rule, sales, request) == "USER_NOT_ALLOWED"
    assert not request.user_id
    assert rule.check_request(sales, pb.ListJobsRequest(user_id="bo"), "/m") == {"bo"}


# Lists of users.

LISTED = caller(users=frozenset({USER, "bo"}))


def test_a_list_binds_and_adds_to_departments() -> None:
    """Row 61: it is never unbound, and no person's."""
    assert (LISTED.departments, LISTED.unbound, LISTED.user_id) == (frozenset(), False, None)
    assert not caller(users=frozenset()).unbound
    assert not caller(users=frozenset()).reaches("bo", "")
    wider = replace(LISTED, departments=frozenset({"sales"}))
    for user, department, alone, both in (
        ("bo", "", True, True),
        (USER, "research", True, True),
        ("cleo", "sales", False, True),
        ("cleo", "research", False, False),
        ("", "", False, False),
    ):
        assert LISTED.reaches(user, department) is alone
        assert wider.reaches(user, department) is both
    with pytest.raises(ValueError, match="not both"):
        caller(user_id="ana", users=frozenset({"ana"}))
    # The second wall: what a handler asks for besides the gate.
    assert LISTED.scope("bo").user_id == "bo"
    assert wider.scope("cleo").user_id == "cleo"
    for text in (LISTED, caller(users=frozenset())):
        with pytest.raises(NotPermitted) as caught:
            text.scope("cleo")
        assert caught.value.reason == "USER_NOT_ALLOWED"


def test_users_of_a_list_need_no_look_up() -> None:
    rule = AccessRule("write", ("transcripts", "user_id"))
    listed = [conversation_pb2.Transcript(user_id=user) for user in (DECOMPOSED, "bo", USER)]
    request = pb.SubmitTranscriptsRequest(transcripts=listed)
    assert rule.check_request(LISTED, request, "/m") == frozenset()
    for other in ("cleo", "", "BO", "bo "):
        theirs = conversation_pb2.Transcript(user_id=other)
        mixed = pb.SubmitTranscriptsRequest(transcripts=[*listed, theirs])
        assert refusal(rule, LISTED, mixed) == "USER_NOT_ALLOWED"
        wider = replace(LISTED, departments=frozenset({"sales"}))
        assert rule.check_request(wider, mixed, "/m") == {other}


def test_leaving_the_user_out_is_not_for_a_list() -> None:
    rule = AccessRule("read", ("user_id",), user_optional=True)
    for departments in (frozenset[str](), frozenset({"sales"})):
        listed = replace(LISTED, departments=departments)
        request = pb.ListJobsRequest()
        with pytest.raises(NotPermitted, match="name one of them") as caught:
            rule.check_request(listed, request, "/m")
        assert caught.value.reason == "USER_NOT_ALLOWED"
        assert not request.user_id
    assert rule.check_request(LISTED, pb.ListJobsRequest(user_id="bo"), "/m") == frozenset()
    one = caller(users=frozenset({"bo"}))
    assert refusal(rule, one, pb.ListJobsRequest()) == "USER_NOT_ALLOWED"


def test_a_list_is_not_the_own_person() -> None:
    """No relief for oneself, no own profile; departments and the tenant are not its business."""
    named = retrieval_service_pb2.GetProfileRequest(user_id="bo")
    manage = AccessRule("write", ("user_id",), capability=PROFILES_MANAGE, department_members=True)
    assert refusal(manage, LISTED, named) == "CAPABILITY_MISSING"
    able = replace(LISTED, capabilities=frozenset({PROFILES_MANAGE}))
    assert manage.check_request(able, named, "/m") == frozenset()
    with pytest.raises(NotPermitted) as caught:
        AccessRule("admin", ("user_id",), own_scope="write").check(LISTED, "/m")
    assert caught.value.reason == "SCOPE_MISSING"
    listing = AccessRule("read", (), department_path=("department",))
    sales = retrieval_service_pb2.ListProfilesRequest(department="sales")
    assert refusal(listing, LISTED, sales) == "DEPARTMENT_NOT_ALLOWED"


def test_calls_about_the_tenant_are_for_unbound_callers() -> None:
    for scope in ("maintenance", "admin"):
        rule = AccessRule(scope, ())
        rule.check(caller(scopes=frozenset({scope})), "/m")
        for bound in (
            {"user_id": USER},
            {"departments": frozenset({"sales"})},
            {"users": frozenset({USER})},
        ):
            with pytest.raises(NotPermitted) as caught:
                rule.check(caller(scopes=frozenset({scope}), **bound), "/m")
            assert caught.value.reason == "USER_NOT_ALLOWED"
    # A job is checked when it is found.
    AccessRule("read", ()).check(BOUND, "/m")


def test_a_department_is_named_by_those_who_belong_to_it() -> None:
    rule = AccessRule("read", (), department_path=("department",))
    named = retrieval_service_pb2.ListProfilesRequest(department="Ke\u0302\u0301 toa\u0301n")
    for departments in (frozenset[str](), frozenset({"sales"})):
        assert refusal(rule, caller(departments=departments), named) == "DEPARTMENT_NOT_ALLOWED"
        rule.check_request(
            caller(departments=departments), retrieval_service_pb2.ListProfilesRequest(), "/m"
        )
    rule.check_request(caller(departments=frozenset({"K\u1ebf to\u00e1n"})), named, "/m")
    rule.check_request(caller(), named, "/m")


def test_a_capability_is_needed_for_others_only() -> None:
    rule = AccessRule("write", ("user_id",), capability=PROFILES_MANAGE, department_members=True)
    named = retrieval_service_pb2.GetProfileRequest(user_id="bo")
    own = retrieval_service_pb2.GetProfileRequest(user_id=USER)
    for principal in (BOUND, caller(), caller(departments=frozenset({"sales"}))):
        assert refusal(rule, principal, named) == "CAPABILITY_MISSING"
        able = replace(principal, capabilities=frozenset({PROFILES_MANAGE}))
        found = rule.check_request(able, named, "/m")
        assert found == (frozenset() if able.unbound else {"bo"})
    assert rule.check_request(BOUND, own, "/m") == frozenset()


def test_a_persons_own_scope_is_for_that_person() -> None:
    rule = AccessRule("admin", ("user_id",), own_scope="write")
    own = retrieval_service_pb2.GetProfileRequest(user_id=USER)
    named = retrieval_service_pb2.GetProfileRequest(user_id="bo")
    rule.check(BOUND, "/m")
    assert rule.check_request(BOUND, own, "/m") == frozenset()
    assert refusal(rule, BOUND, named) == "USER_NOT_ALLOWED"
    # Also where a person may name others: the relief is for that person alone.
    wider = replace(rule, department_members=True)
    assert refusal(wider, BOUND, named) == "SCOPE_MISSING"
    for principal in (caller(), caller(user_id=USER, scopes=frozenset({"read"}))):
        with pytest.raises(NotPermitted) as caught:
            rule.check(principal, "/m")
        assert caught.value.reason == "SCOPE_MISSING"


def test_every_declared_need_is_known_and_enforced() -> None:
    """A scope or capability that nobody can hold would close its call for good."""
    rules = rules_of(SERVICES)
    assert {rule.scope for rule in rules.values()} <= SCOPES
    assert {rule.capability for rule in rules.values()} - {""} == CAPABILITIES
    for service in SERVICES:
        for method in service.methods:
            declared = method.GetOptions().Extensions[access_pb2.access]
            rule = rules[f"/{service.full_name}/{method.name}"]
            assert ".".join(rule.user_path) == declared.user_field
            assert ".".join(rule.department_path) == declared.department_field
            assert rule.capability == declared.capability
            assert (rule.own_scope is None) == (declared.own_scope == 0)
            assert rule.department_members == declared.department_members
            assert rule.installation == declared.installation
    assert set(access_pb2.AccessRule.DESCRIPTOR.fields_by_name) == {
        "scope",
        "user_field",
        "user_optional",
        "department_field",
        "capability",
        "own_scope",
        "department_members",
        "installation",
    }


def test_no_rule_optional_about_the_user_is_nested() -> None:
    """Filling in the caller's own user knows fields of the request itself only."""
    services = [
        pb.DESCRIPTOR.services_by_name["ExtractionService"],
        retrieval_service_pb2.DESCRIPTOR.services_by_name["RetrievalService"],
    ]
    rules = rules_of(services)
    optional = {path for path, rule in rules.items() if rule.user_optional}
    assert "/hitherto.v1.ExtractionService/ListJobs" in optional
    assert all(len(rules[path].user_path) == 1 for path in optional)
    assert all(PLANNED.values())


def test_scopes_do_not_include_each_other() -> None:
    for scope in ("read", "write", "maintenance", "admin"):
        principal = Principal("t", "key", frozenset({scope}))
        for needed in ("read", "write", "maintenance", "admin"):
            rule = AccessRule(needed, ())
            if needed == scope:
                rule.check(principal, "/m")
                continue
            with pytest.raises(NotPermitted) as caught:
                rule.check(principal, "/m")
            assert caught.value.metadata == {"scope": needed.upper(), "method": "/m"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mk",
        "mk_",
        "mk__",
        "mk_aaaaaaaaaaaa",
        "mk_aaaaaaaaaaaa_",
        "mk_aaaaaaaaaaa_x",
        "mk_AAAAAAAAAAAA_x",
        "mk_aaaaaaaaaaa\x00_x",
        "mk_ếaaaaaaaaaaa_x",
        "xk_aaaaaaaaaaaa_x",
        " mk_aaaaaaaaaaaa_x",
    ],
)
def test_what_is_no_key_of_ours(text: str) -> None:
    assert split_key(text) is None


def test_a_key_has_an_id_and_a_secret_that_may_hold_underscores() -> None:
    found = split_key("mk_abcdefgh0123_a_b-c")
    assert found is not None
    assert found[0] == "abcdefgh0123"
    assert len(found[1]) == 32
    assert found[1] != (split_key("mk_abcdefgh0123_a_b-d") or ("", b""))[1]


@pytest.mark.parametrize(
    ("listen", "loopback"),
    [
        ("127.0.0.1:50051", True),
        ("127.8.9.10:0", True),
        ("[::1]:50051", True),
        ("localhost:50051", True),
        ("unix:/tmp/socket", True),
        ("0.0.0.0:50051", False),
        ("[::]:50051", False),
        (":50051", False),
        ("50051", False),
        ("127.0.0.1", False),
        ("127.0.0.1:1,0.0.0.0:2", False),
        ("ipv4:127.0.0.1:1,0.0.0.0:2", False),
        ("dns:///0.0.0.0:50051", False),
        ("localhost.example.org:50051", False),
        ("192.168.0.7:50051", False),
    ],
)
def test_what_counts_as_loopback(listen: str, loopback: bool) -> None:
    assert is_loopback(listen) is loopback


def settings(tmp_path: Path, **given: Any) -> SharedSettings:
    return SharedSettings(**{"data_dir": tmp_path, **given})


def test_authentication_is_on_where_others_can_come(tmp_path: Path) -> None:
    database = {"database_url": "postgresql://localhost/x"}
    assert settings(tmp_path).auth_mode("127.0.0.1:1") == "off"
    assert settings(tmp_path).auth_mode("0.0.0.0:1") == "api-key"
    assert settings(tmp_path, **database).auth_mode("127.0.0.1:1") == "api-key"
    assert settings(tmp_path, auth="off", **database).auth_mode("127.0.0.1:1") == "off"
    with pytest.raises(ValueError, match="hitherto keys create"):
        settings(tmp_path, auth="off").auth_mode("0.0.0.0:1")


def test_tls_needs_both_files(tmp_path: Path) -> None:
    for name in ("tls_key_file", "tls_certificate_file"):
        with pytest.raises(ValidationError, match="or neither"):
            settings(tmp_path, **{name: tmp_path / "x.pem"})


def test_listening_for_others_in_clear_is_refused(tmp_path: Path) -> None:
    settings(tmp_path).check_listen("127.0.0.1:1")
    settings(tmp_path, insecure_listen=True).check_listen("0.0.0.0:1")
    pair = {"tls_key_file": tmp_path / "k", "tls_certificate_file": tmp_path / "c"}
    settings(tmp_path, **pair).check_listen("0.0.0.0:1")
    with pytest.raises(ValueError, match="TLS is off"):
        settings(tmp_path).check_listen("0.0.0.0:1")


def test_a_bad_setting_is_told_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HITHERTO_MAX_CONCURRENT_RPCS", "canary-0")
    monkeypatch.setenv("HITHERTO_LOG_LEVEL", "canary-1")
    with pytest.raises(ValidationError) as caught:
        SharedSettings()
    told = describe(caught.value)
    assert "canary" not in told
    assert "max_concurrent_rpcs" in told.lower()
    assert "log_level" in told.lower()


def test_secrets_are_not_in_the_settings_own_text(tmp_path: Path) -> None:
    given = settings(
        tmp_path,
        openai_api_key="canary-key",
        database_url="postgresql://u:canary-password@localhost/x",
    )
    assert "canary" not in repr(given)
    assert "canary" not in str(given)
    assert given.chat_server.key == "canary-key"


@pytest.mark.parametrize(
    ("departments", "told"),
    [(None, "bound to another user"), ({"sales"}, "none of the departments")],
)
def test_a_person_is_told_what_keeps_them_from_another_user(
    departments: set[str] | None, told: str
) -> None:
    held = None if departments is None else frozenset(departments)
    principal = Principal("t", "key", frozenset({"read"}), USER, held)
    with pytest.raises(NotPermitted, match=told):
        principal.check_reaches("somebody else", "support")

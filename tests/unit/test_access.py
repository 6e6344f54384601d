"""Rules, principals, keys and settings that decide who may do what, without a database."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from pydantic import ValidationError

from hitherto.v1 import conversation_pb2, retrieval_service_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.auth.access import AccessRule
from hitherto_shared.auth.api_keys import split_key
from hitherto_shared.auth.principal import ANONYMOUS, PROFILES_MANAGE, Principal
from hitherto_shared.config import SharedSettings, describe, is_loopback
from hitherto_shared.errors import NotPermitted
from hitherto_shared.rpc.server import tls_credentials
from tests.certificates import Authority
from tests.refusing import refusing

USER = "H\u1ed3ng"
BOUND = Principal("t", "key", frozenset({"read", "write"}), USER)
DECOMPOSED = "Ho\u0302\u0300ng"


def caller(**given: Any) -> Principal:
    return Principal(
        **{"tenant_id": "t", "subject": "key", "scopes": frozenset({"read", "write"}), **given}
    )


SALES = frozenset({"sales"})
LISTED = caller(users=frozenset({USER, "bo"}))
CALLERS = {
    "anybody": ANONYMOUS,
    "a person": BOUND,
    "a seller": caller(user_id=USER, departments=SALES),
    "a service": caller(),
    "sales": caller(departments=SALES),
    "of no department": caller(departments=frozenset()),
    "a list": LISTED,
    "a list of one": caller(users=frozenset({"bo"})),
    "a list and sales": replace(LISTED, departments=SALES),
}
ABLE = {
    f"{name}, able": replace(principal, capabilities=frozenset({PROFILES_MANAGE}))
    for name, principal in CALLERS.items()
}
OWN, PROFILE = ("user_id",), retrieval_service_pb2.GetProfileRequest
MEMBERS: dict[str, Any] = {"department_members": True}
RULES: dict[str, tuple[type[Any], AccessRule]] = {
    "read": (retrieval_service_pb2.GetContextRequest, AccessRule("read", OWN)),
    "list": (pb.ListJobsRequest, AccessRule("read", OWN, user_optional=True)),
    "batch": (pb.SubmitTranscriptsRequest, AccessRule("write", ("transcripts", "user_id"))),
    "members": (PROFILE, AccessRule("read", OWN, **MEMBERS)),
    "manage": (PROFILE, AccessRule("write", OWN, capability=PROFILES_MANAGE, **MEMBERS)),
    "leave": (PROFILE, AccessRule("admin", OWN, own_scope="write")),
    "leave or members": (PROFILE, AccessRule("admin", OWN, own_scope="write", **MEMBERS)),
}
NO, UNABLE = "USER_NOT_ALLOWED", "CAPABILITY_MISSING"
MATRIX: list[tuple[str, str, tuple[str, ...], set[str] | str]] = [
    # A person names itself, in any normal form; every element of a list counts.
    *(("read", "a person", (user,), set()) for user in (USER, DECOMPOSED)),
    *(("read", "a person", (user,), NO) for user in ("", "bo", "hồng", "H\u1ed3ng ")),
    ("read", "anybody", ("bo",), set()),
    ("batch", "a person", (USER, USER), set()),
    *(("batch", "a person", (USER, other), NO) for other in ("bo", "")),
    # Whom a caller bound to departments names is looked up; a person is bound to itself as well.
    ("batch", "sales", (DECOMPOSED, "bo", DECOMPOSED), {USER, "bo"}),
    ("batch", "a service", (DECOMPOSED, "bo"), set()),
    ("batch", "a seller", (DECOMPOSED, "bo"), NO),
    ("members", "a seller", ("bo",), {"bo"}),
    ("members", "a seller", (DECOMPOSED,), set()),
    # Users of a list need no look-up, others need a department.
    ("batch", "a list", (DECOMPOSED, "bo", USER), set()),
    *(("batch", "a list", (USER, other), NO) for other in ("cleo", "", "BO", "bo ")),
    *(("batch", "a list and sales", (USER, o), {o}) for o in ("cleo", "", "BO", "bo ")),
    # Who leaves the user out means everybody.
    ("list", "anybody", ("",), set()),
    *(("list", name, ("",), NO) for name in ("sales", "a list", "a list of one")),
    ("list", "a list and sales", ("",), NO),
    ("list", "sales", ("bo",), {"bo"}),
    ("list", "a list", ("bo",), set()),
    ("list", "a person", ("bo",), NO),
    # A capability is needed for others only; a list is not the own person.
    *(("manage", name, ("bo",), UNABLE) for name in ("a person", "a service", "sales", "a list")),
    *(("manage", f"{name}, able", ("bo",), {"bo"}) for name in ("a person", "sales")),
    *(("manage", f"{name}, able", ("bo",), set()) for name in ("a service", "a list")),
    ("manage", "a person", (USER,), set()),
    # A person's own scope is for that person alone, also where a person may name others.
    ("leave", "a person", (USER,), set()),
    ("leave", "a person", ("bo",), NO),
    ("leave or members", "a person", ("bo",), "SCOPE_MISSING"),
]


def refusal(rule: AccessRule, principal: Principal, request: Message) -> str:
    """The reason of a refusal."""
    with pytest.raises(NotPermitted) as caught:
        rule.check_request(principal, request, "/m")
    return caught.value.reason


def test_what_is_too_long_for_a_user_is_refused_without_normalising_it() -> None:
    """Megabytes of accents took seconds of processor time before the caller was refused."""
    kind, rule = RULES["read"]
    long = "e\u0301" * 1_000
    assert rule.named_users(kind(user_id=DECOMPOSED)) == {USER}
    assert rule.named_users(kind(user_id=long)) == {long}
    with pytest.raises(NotPermitted):
        rule.check_request(BOUND, kind(user_id=long), "/x")


def test_who_may_name_whom() -> None:
    """The users whose department is to be looked up, or the reason of the refusal."""
    for rule, who, named, outcome in MATRIX:
        kind, checked = RULES[rule]
        request = (
            kind(transcripts=[conversation_pb2.Transcript(user_id=user) for user in named])
            if rule == "batch"
            else kind(user_id=named[0])
        )
        principal = {**CALLERS, **ABLE}[who]
        if isinstance(outcome, str):
            sent = request.SerializeToString()
            assert refusal(checked, principal, request) == outcome
            assert request.SerializeToString() == sent, rule
        else:
            assert checked.check_request(principal, request, "/m") == outcome


def test_a_user_left_out_is_the_bound_callers_own() -> None:
    for who, user in (("a person", USER), ("anybody", "")):
        request = pb.ListJobsRequest()
        RULES["list"][1].check_request(CALLERS[who], request, "/m")
        assert request.user_id == user
    with pytest.raises(NotPermitted, match="name one of them"):
        RULES["list"][1].check_request(LISTED, pb.ListJobsRequest(), "/m")


def test_whom_a_bound_caller_reaches() -> None:
    """Row 61: cleo sells, dan does research, and nobody knows the department of the others."""
    for who, reached in [
        # However the credential was written, a person without departments is that person only.
        ("a person", {USER}),
        # No department is in no department, and a list adds to departments.
        ("of no department", set()),
        ("sales", {"cleo"}),
        ("a list", {USER, "bo"}),
        ("a list and sales", {USER, "bo", "cleo"}),
    ]:
        principal = CALLERS[who]
        assert not principal.unbound, who
        people = {USER: "research", "bo": "", "cleo": "sales", "dan": "research", "": ""}
        found = {user for user, department in people.items() if principal.reaches(user, department)}
        assert found == reached, who


def test_the_edges_of_being_bound() -> None:
    assert (BOUND.departments, LISTED.departments, LISTED.user_id) == (
        frozenset(),
        frozenset(),
        None,
    )
    assert not BOUND.for_members().unbound
    assert caller().unbound
    # A list of nobody, and the empty department, which neither keys nor claims can name.
    nobodys = caller(users=frozenset())
    assert not nobodys.unbound
    for empty in (nobodys, caller(departments=frozenset({""}))):
        assert not empty.reaches("bo", "")
    with pytest.raises(ValueError, match="not both"):
        caller(user_id="ana", users=frozenset({"ana"}))
    # The second wall: what a handler asks for besides the gate.
    assert LISTED.scope("bo").user_id == "bo"
    assert CALLERS["a list and sales"].scope("cleo").user_id == "cleo"
    for bound in (LISTED, nobodys):
        with pytest.raises(NotPermitted) as caught:
            bound.scope("cleo")
        assert caught.value.reason == "USER_NOT_ALLOWED"


def test_calls_about_the_tenant_are_for_unbound_callers() -> None:
    for scope in ("maintenance", "admin"):
        rule = AccessRule(scope, ())
        rule.check(caller(scopes=frozenset({scope})), "/m")
        for bound in (BOUND, CALLERS["sales"], LISTED):
            with pytest.raises(NotPermitted) as caught:
                rule.check(replace(bound, scopes=frozenset({scope})), "/m")
            assert caught.value.reason == "USER_NOT_ALLOWED"
    # A job is checked when it is found.
    AccessRule("read", ()).check(BOUND, "/m")


def test_the_own_scope_is_no_other_callers() -> None:
    rule = RULES["leave"][1]
    rule.check(BOUND, "/m")
    for principal in (caller(), LISTED, replace(BOUND, scopes=frozenset({"read"}))):
        with pytest.raises(NotPermitted) as caught:
            rule.check(principal, "/m")
        assert caught.value.reason == "SCOPE_MISSING"


def test_a_department_is_named_by_those_who_belong_to_it() -> None:
    rule = AccessRule("read", (), department_path=("department",))
    named = retrieval_service_pb2.ListProfilesRequest(department="Ke\u0302\u0301 toa\u0301n")
    for who in ("of no department", "sales", "a list"):
        assert refusal(rule, CALLERS[who], named) == "DEPARTMENT_NOT_ALLOWED"
        rule.check_request(CALLERS[who], retrieval_service_pb2.ListProfilesRequest(), "/m")
    rule.check_request(caller(departments=frozenset({"K\u1ebf to\u00e1n"})), named, "/m")
    rule.check_request(caller(), named, "/m")


def test_what_is_no_key_of_ours() -> None:
    for text in [
        "", "mk", "mk_", "mk__", "mk_aaaaaaaaaaaa", "mk_aaaaaaaaaaaa_", "mk_aaaaaaaaaaa_x",
        "mk_AAAAAAAAAAAA_x", "mk_aaaaaaaaaaa\x00_x", "mk_ếaaaaaaaaaaa_x", "xk_aaaaaaaaaaaa_x",
        " mk_aaaaaaaaaaaa_x",
    ]:  # fmt: skip
        assert split_key(text) is None
    # A secret may hold underscores.
    found, other = split_key("mk_abcdefgh0123_a_b-c"), split_key("mk_abcdefgh0123_a_b-d")
    assert found is not None
    assert other is not None
    assert (found[0], len(found[1]), found[1] == other[1]) == ("abcdefgh0123", 32, False)


def test_what_counts_as_loopback() -> None:
    for listen, loopback in [
        ("127.0.0.1:50051", True), ("[::1]:50051", True), ("localhost:50051", True),
        ("unix:/tmp/socket", True), ("0.0.0.0:50051", False), ("50051", False),
        ("127.0.0.1:1,0.0.0.0:2", False), ("dns:///0.0.0.0:50051", False),
        ("localhost.example.org:50051", False),
    ]:  # fmt: skip
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


def test_listening_for_others_in_clear_is_refused(tmp_path: Path) -> None:
    pair = {"tls_key_file": tmp_path / "k", "tls_certificate_file": tmp_path / "c"}
    settings(tmp_path).check_listen("127.0.0.1:1")
    settings(tmp_path, insecure_listen=True).check_listen("0.0.0.0:1")
    settings(tmp_path, **pair).check_listen("0.0.0.0:1")
    with pytest.raises(ValueError, match="TLS is off"):
        settings(tmp_path).check_listen("0.0.0.0:1")
    for name, file in pair.items():
        with pytest.raises(ValidationError, match="or neither"):
            settings(tmp_path, **{name: file})


def test_no_text_of_the_settings_has_their_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "openai_api_key": "canary-key",
        "database_url": "postgresql://u:canary-password@localhost/x",
    }
    given = settings(tmp_path, **secrets)
    assert "canary" not in f"{given!r} {given}"
    assert given.chat_server.key == "canary-key"
    monkeypatch.setenv("HITHERTO_MAX_CONCURRENT_RPCS", "canary-0")
    monkeypatch.setenv("HITHERTO_LOG_LEVEL", "canary-1")
    with pytest.raises(ValidationError) as caught:
        SharedSettings()
    told = describe(caught.value)
    assert "canary" not in told
    assert {"HITHERTO_MAX_CONCURRENT_RPCS", "HITHERTO_LOG_LEVEL"} <= set(re.findall(r"\w+", told))


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        ("tls_certificate_file", "HITHERTO_TLS_CERTIFICATE_FILE: .*no certificate in PEM"),
        ("tls_key_file", "HITHERTO_TLS_KEY_FILE: .*no private key in PEM"),
        ("tls_client_ca_file", "HITHERTO_TLS_CLIENT_CA_FILE: .*no certificate in PEM"),
        ("another key", "HITHERTO_TLS_KEY_FILE: it is not the key of"),
    ],
)
def test_files_for_tls_that_do_not_serve_are_named(tmp_path: Path, spoilt: str, told: str) -> None:
    authority = Authority(tmp_path, "authority")
    pair, other = authority.pair("server"), authority.pair("other")
    files = {
        "tls_certificate_file": pair.certificate,
        "tls_key_file": pair.key,
        "tls_client_ca_file": authority.file,
    }
    assert tls_credentials(settings(tmp_path, **files)) is not None
    if spoilt == "another key":
        files["tls_key_file"] = other.key
    else:
        files[spoilt].write_text("no PEM")
    with pytest.raises(ValueError, match=told):
        tls_credentials(settings(tmp_path, **files))


def test_a_person_is_told_what_keeps_them_from_another_user() -> None:
    for departments, told in [
        (None, "bound to another user"),
        ({"sales"}, "none of the departments"),
    ]:
        held = None if departments is None else frozenset(departments)
        principal = Principal("t", "key", frozenset({"read"}), USER, held)
        with pytest.raises(NotPermitted, match=told), refusing(departments):
            principal.check_reaches("somebody else", "support")


def test_what_is_no_address_to_listen_on() -> None:
    for text in ["nonsense", "50051", "127.0.0.1:", "a:b", "a b:1", "::1:1", ""]:
        with pytest.raises(ValidationError) as caught, refusing(text):
            RetrievalSettings.model_validate({"retrieval_listen": text})
        told = describe(caught.value)
        assert re.match("HITHERTO_RETRIEVAL_LISTEN: .*HOST:PORT", told), text
        assert "Value error" not in told
    for text in ["[::]:50051", "[fe80::1%eth0]:1", ":50051", "memory.example:1", "unix:/run/it"]:
        assert RetrievalSettings.model_validate({"retrieval_listen": text}).retrieval_listen == text

"""Tokens as credentials, without a server: what is let in, as whom, and everything that is not.

Row 59 of the fault catalogue: one answer for whatever is wrong, and nothing of the token anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from hitherto_shared.auth.claims import Expected
from hitherto_shared.auth.key_ring import KeyRing
from hitherto_shared.auth.key_source import KeyFile
from hitherto_shared.auth.principal import Principal
from hitherto_shared.auth.web_tokens import ALGORITHMS, MAX_TOKEN_CHARS, WebTokenAuthentication
from hitherto_shared.errors import NotAuthenticated
from hitherto_shared.rpc.admission import named as by_name
from tests.refusing import refusing
from tests.token_issuer import AUDIENCE, ISSUER, KeyPair, TokenIssuer, claims, key_set, part

RSA, EC, ED = KeyPair("rsa", "RS256"), KeyPair("ec", "ES256"), KeyPair("ed", "EdDSA")
GOOD = TokenIssuer(EC)
SECRET = b"0123456789abcdef0123456789abcdef"


async def ring(tmp_path: Path, *pairs: KeyPair) -> KeyRing:
    """Keys read once from a file; nothing goes on in the background."""
    place = tmp_path / "keys.json"
    place.write_bytes(key_set(*(pairs or (RSA, EC, ED))))
    found = KeyRing(KeyFile(place))
    assert await found._read_within(30.0) is None
    return found


async def gate(tmp_path: Path, *pairs: KeyPair, **given: Any) -> WebTokenAuthentication:
    algorithms = given.pop("algorithms", ALGORITHMS)
    expected = Expected(ISSUER, AUDIENCE, given.pop("tenant_claim", "tenant"))
    return WebTokenAuthentication(
        expected, algorithms, keys=await ring(tmp_path, *pairs), **{"secret": None, **given}
    )


async def refusal(
    gate: WebTokenAuthentication, authorization: str | None, case: object = None
) -> NotAuthenticated:
    with pytest.raises(NotAuthenticated) as caught, refusing(case or authorization):
        await gate.authenticate(authorization)
    return caught.value


async def why(gate: WebTokenAuthentication, token: str, case: object = None) -> str:
    return (await refusal(gate, f"Bearer {token}", case)).why


async def principal(gate: WebTokenAuthentication, **changed: object) -> Principal:
    return await gate.authenticate(f"Bearer {GOOD.token(**changed)}")


def signed_by_secret(secret: bytes, header: dict[str, Any]) -> str:
    """HS256 by hand: the library refuses to sign with what looks like a public key."""
    text = f"{part(header)}.{part(claims())}"
    return f"{text}.{part(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


# Who is let in, and as whom.


@pytest.mark.parametrize("pair", [RSA, EC, ED], ids=lambda pair: pair.algorithm)
async def test_each_algorithm_verifies(tmp_path: Path, pair: KeyPair) -> None:
    found = await (await gate(tmp_path)).authenticate(f"Bearer {TokenIssuer(pair).token()}")
    assert found == Principal("a", "jwt:ana", frozenset({"read", "write"}), "ana", frozenset())


async def test_other_spellings_of_a_token_are_the_same_caller(tmp_path: Path) -> None:
    """Of its scheme, its audience, and its names in either normal form."""
    door = await gate(tmp_path)
    for scheme in ("bearer ", "BEARER  "):
        assert (await door.authenticate(scheme + GOOD.token())).user_id == "ana"
    assert (await principal(door, aud=["other", AUDIENCE])).user_id == "ana"
    found = await principal(door, sub="Ho\u0302\u0300ng", departments=["Ke\u0302\u0301 toa\u0301n"])
    assert (found.user_id, found.departments) == ("H\u1ed3ng", frozenset({"K\u1ebf to\u00e1n"}))


async def test_a_service_may_act_for_anybody(tmp_path: Path) -> None:
    door = await gate(tmp_path)
    found = await principal(door, sub="backend", hitherto_user_scope="any")
    assert (found.user_id, found.subject, found.departments) == (None, "jwt:backend", None)
    assert (await principal(door, hitherto_user_scope="self")).user_id == "ana"


async def test_a_service_may_act_for_the_users_of_a_list(tmp_path: Path) -> None:
    """Row 61: neither a person nor for everybody; a word of ours in a list is a user's name."""
    door = await gate(tmp_path)
    spelt = ["Ho\u0302\u0300ng", "H\u1ed3ng", "bo"]
    found = await principal(door, sub="backend", hitherto_user_scope=spelt)
    assert (found.user_id, found.users) == (None, frozenset({"H\u1ed3ng", "bo"}))
    assert (found.unbound, found.departments) == (False, frozenset())
    with_sales = await principal(door, hitherto_user_scope=["bo"], departments=["sales"])
    assert (with_sales.users, with_sales.departments) == (frozenset({"bo"}), frozenset({"sales"}))
    # The subject is not on the list unless it is listed.
    assert not with_sales.reaches("ana", "")
    for word in ("any", "self"):
        found = await principal(door, hitherto_user_scope=[word])
        assert (found.user_id, found.users, found.unbound) == (None, frozenset({word}), False)
    most = await principal(door, hitherto_user_scope=[f"u{i}" for i in range(100)])
    assert most.users is not None
    assert len(most.users) == 100


async def test_scopes_and_capabilities_are_carried(tmp_path: Path) -> None:
    """E4: the claim of capabilities alone grants them, no scope does."""
    everything: dict[str, Any] = {"scope": "read write admin"}
    cases: list[tuple[dict[str, Any], set[str], set[str]]] = [
        ({"scope": "read"}, {"read"}, set()),
        (
            {"scope": "write  admin maintenance read"},
            {"read", "write", "admin", "maintenance"},
            set(),
        ),
        ({"scope": None, "scp": "read"}, {"read"}, set()),
        ({"scope": None, "scp": ["read", "write", "email"]}, {"read", "write"}, set()),
        # The standard claim decides alone, so that another system's cannot add to it.
        ({"scope": "read", "scp": "admin"}, {"read"}, set()),
        ({"scope": "READ readwrite read,write"}, set(), set()),
        ({"scope": None}, set(), set()),
        *(
            (everything | {"hitherto_capabilities": claim}, {"read", "write", "admin"}, granted)
            for claim, granted in (
                ("profiles.manage", {"profiles.manage"}),
                (["profiles.manage", "other.right"], {"profiles.manage"}),
                ("profiles profiles.* PROFILES.MANAGE admin", set()),
                (None, set()),
            )
        ),
    ]
    door = await gate(tmp_path)
    for changed, scopes, capabilities in cases:
        found = await principal(door, **changed)
        assert found.scopes == scopes, changed
        assert found.capabilities == capabilities, changed


async def test_the_tenant_claim_can_have_another_name(tmp_path: Path) -> None:
    name = "https://hitherto.example/tenant"
    door = await gate(tmp_path, tenant_claim=name)
    assert (await principal(door, **{name: "b", "tenant": "a"})).tenant_id == "b"
    assert "HITHERTO_JWT_TENANT_CLAIM" in await why(door, GOOD.token())


async def test_clocks_may_differ_by_the_leeway(tmp_path: Path) -> None:
    """Row 41: 30 s to both sides and no more."""
    issued = 1_800_000_000
    whole: dict[str, int | None] = {"iat": issued, "nbf": issued, "exp": issued + 600}
    for after, claimed, told in [
        (-31, whole, "in the future"),
        (-29, whole, None),
        (629, whole, None),
        (630, whole, "expired"),
        # Without `iat`, a lifetime counts from the latest time that the provider's clock may show.
        (0, {"iat": None, "exp": issued + 3_630}, None),
        (0, {"iat": None, "exp": issued + 3_631}, "lives longer"),
    ]:
        door = await gate(tmp_path, now=lambda after=after: issued + after)
        if told is None:
            assert await principal(door, **claimed), (after, claimed)
        else:
            assert told in await why(door, GOOD.token(**claimed), (after, claimed))


# What is refused because of its claims; the key and the signature are right.

NOW = int(time.time())


TIMES: list[tuple[dict[str, object], str]] = [
    ({"exp": None}, "exp is missing"),
    ({"exp": NOW + 600, "iat": NOW - 3 * 3600}, "lives longer"),
    ({"exp": NOW - 3600, "iat": NOW - 7000}, "expired"),
    ({"exp": 10**400}, "exp is not a number"),
    ({"exp": NOW + 3 * 3600}, "lives longer"),
    ({"iat": NOW + 7200, "exp": NOW + 7300}, "iat is in the future"),
    ({"nbf": NOW + 7200}, "nbf is in the future"),
]
NO_VALUES: dict[str, list[object]] = {
    "iss": [None, "https://id.example"],
    "aud": [None, "other", [["hitherto.example"]], AUDIENCE + " "],
    "sub": [None, "  ", "a" * 257, "a\x00b", "\ud800"],
    "tenant": [None, ["a"]],
    "hitherto_user_scope": [
        "canary", [], ["canary", " "], ["a\x00b"], ["\ud800"], ["a" * 257], ["ana"] * 101, "ana bo",
    ],
    "scope": [7, ["read", 7]],
    "hitherto_capabilities": [7, {"profiles.manage": True}],
    "departments": [[7], ["d"] * 101, ""],
}  # fmt: skip
"""What no claim of the name may say."""


async def test_claims_that_are_refused(tmp_path: Path) -> None:
    """Row 59."""
    told_as = {"tenant": "HITHERTO_JWT_TENANT_CLAIM"}
    cases = [*TIMES]
    for name, values in NO_VALUES.items():
        cases += [({name: value}, told_as.get(name, name)) for value in values]
    door = await gate(tmp_path)
    for changed, told in cases:
        found = await why(door, GOOD.token(**changed), changed)
        assert told in found, changed
        assert "canary" not in found, changed


# What is refused before a claim is looked at.


async def test_algorithms_cannot_be_confused(tmp_path: Path) -> None:
    """Row 59: none, an HMAC by the public key in every form it is known, another key's name."""
    door = await gate(tmp_path, secret=None)
    public = RSA.private.public_key()
    forms = [
        public.public_bytes(encoding, form)
        for encoding, form in [
            (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
            (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
            (serialization.Encoding.PEM, serialization.PublicFormat.PKCS1),
        ]
    ] + [json.dumps(RSA.public_jwk()).encode(), b""]
    for kid in ("rsa", "ec", None):
        for secret in forms:
            header = {"alg": "HS256", "kid": kid} if kid else {"alg": "HS256"}
            await refusal(door, f"Bearer {signed_by_secret(secret, header)}")
            with_secret = await gate(tmp_path, secret=SECRET)
            await refusal(with_secret, f"Bearer {signed_by_secret(secret, header)}")
    body = part(claims())
    for name in ("none", "None", "NONE", "nOnE", "", None, 1, ["none"], "HS384", "RS512", "ES384"):
        for kid in ("rsa", "ec"):
            head = part({"alg": name, "kid": kid})
            for signature in ("", "AA", GOOD.token().rpartition(".")[2]):
                await refusal(door, f"Bearer {head}.{body}.{signature}")
    # The key of one kind under the name of another.
    for signer in (RSA, EC, ED):
        for named in (RSA, EC, ED):
            if signer is not named:
                for alg in (signer.algorithm, named.algorithm):
                    token = TokenIssuer(signer).sign(claims(), {"alg": alg, "kid": named.kid})
                    assert await why(door, token) in (
                        "no key is known for its kid and algorithm",
                        "the signature is not by that key",
                    )


async def test_only_configured_algorithms(tmp_path: Path) -> None:
    door = await gate(tmp_path, algorithms=("ES256",), secret=SECRET)
    assert await door.authenticate(f"Bearer {GOOD.token()}")
    for token in (
        TokenIssuer(RSA).token(),
        TokenIssuer(ED).token(),
        signed_by_secret(SECRET, {"alg": "HS256"}),
    ):
        assert "HITHERTO_JWT_ALGORITHMS" in await why(door, token)


async def test_a_secret_signs_where_it_was_given(tmp_path: Path) -> None:
    door = await gate(tmp_path, algorithms=("HS256",), secret=SECRET)
    for header in ({"alg": "HS256"}, {"alg": "HS256", "kid": "whatever"}):
        assert await door.authenticate(f"Bearer {signed_by_secret(SECRET, header)}")
    for other in (SECRET[:-1], SECRET + b"x", b""):
        token = signed_by_secret(other, {"alg": "HS256"})
        assert "signature" in await why(door, token)


async def test_a_token_without_kid_means_the_only_key(tmp_path: Path) -> None:
    nameless = TokenIssuer(KeyPair(None, "ES256"))
    assert await (await gate(tmp_path)).authenticate(f"Bearer {nameless.token()}")
    two = await gate(tmp_path, EC, KeyPair("other", "ES256", 2))
    assert "no key" in await why(two, nameless.token())
    published_without = await gate(tmp_path, KeyPair(None, "ES256"))
    assert await published_without.authenticate(f"Bearer {nameless.token()}")
    assert "no key" in await why(published_without, GOOD.token())


async def test_a_key_in_the_header_is_not_taken(tmp_path: Path) -> None:
    stranger = KeyPair("mine", "ES256", 3)
    header = {"alg": "ES256", "kid": "mine", "jwk": stranger.public_jwk(), "jku": "https://x/"}
    assert "no key" in await why(await gate(tmp_path), TokenIssuer(stranger).sign(claims(), header))


async def test_headers_and_payloads_that_are_refused(tmp_path: Path) -> None:
    """Row 59, duplicate names among them; the signature is right for every one."""
    headers: list[dict[str, Any] | bytes] = [
        {"alg": "ES256", "kid": "ec", "crit": ["exp"]},
        {"alg": "ES256", "kid": "ec", "b64": False},
        {"alg": "ES256", "kid": ""},
        {"alg": "ES256", "kid": "k" * 257},
        {"alg": "ES256", "kid": "../../etc/passwd"},
        {"kid": "ec"},
        b'{"alg": "ES256", "kid": "ec", "alg": "ES256"}',
        b'{"alg": "none", "alg": "ES256", "kid": "ec"}',
        b"\xff\xfe",
        b"[" * 5000,
        b'{"alg": "ES256", "kid": "ec", "n": ' + b"1" * 5000 + b"}",
    ]
    good = json.dumps(claims()).encode()
    payloads = [
        *(b"", b"{", good.decode().encode("utf-16"), good + b"\xff"),
        *(good[:-1] + end for end in (b', "tenant": "b"}', b', "x": NaN}', b', "nbf": -Infinity}')),
    ]
    door = await gate(tmp_path)
    for header in headers:
        await refusal(door, f"Bearer {GOOD.sign(claims(), header)}", header)
    for payload in payloads:
        await refusal(door, f"Bearer {GOOD.sign(payload)}", payload)


async def test_everything_that_is_wrong_gets_one_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 59: none, garbage, huge, unicode, spaces, parts; nothing of it told or logged."""
    caplog.set_level(logging.DEBUG)
    door = await gate(tmp_path)
    good = GOOD.token()
    head, body, signature = good.split(".")
    values = [
        None, "", "Bearer", good, f"Basic {good}", f"Bearer\t{good}", f"Bearer {good} {good}",
        f"Bearer {good}, Bearer {good}", f"Bearer {good}\n", f"Bearer {good}=", f"Bearer .{good}",
        f"Bearer {head}.{body}", f"Bearer {head}..{signature}",
        f"Bearer {head}.{body}.{signature}.{signature}.x", f"Bearer {head}!.{body}.{signature}",
        f"Bearer {head}.{body}.{signature[:-2]}+/", f"Bearer {'x' * 1_000_000}",
        f"Bearer {GOOD.token(padding='x' * MAX_TOKEN_CHARS)}", "Bearer \u0391.\u0392.\u0393",
        f"Bearer \uff21{good}", "Bearer \U0001f511", "Bearer \ud800.a.b",
        "Bearer mk_aaaaaaaaaaaa_bbbbbbbb", f"Bearer {GOOD.token(exp=NOW - 7200, iat=NOW - 7300)}",
        f"Bearer {GOOD.token(aud='canary-audience')}",
    ]  # fmt: skip
    told = [await refusal(door, value) for value in values]
    assert len({(error.message, error.reason, str(error.metadata)) for error in told}) == 1
    assert told[0].reason == "CREDENTIAL_INVALID"
    everything = caplog.text + "".join(error.message + error.why for error in told)
    for secret in (head, body, signature, "canary", "ana"):
        assert secret not in everything
    assert all(error.why and len(error.why) < 100 for error in told)
    assert all(error.__cause__ is None and error.__suppress_context__ for error in told)


def test_two_credentials_in_one_call_are_none() -> None:
    """Whoever adds a second `authorization` cannot choose which one counts."""
    found = by_name([("authorization", "Bearer a"), ("x", "1"), ("authorization", "Bearer b")])
    assert found == {"authorization": "Bearer a, Bearer b", "x": "1"}


# Keys that are no keys.


def weak_rsa() -> dict[str, Any]:
    public = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    return {**RSAAlgorithm.to_jwk(public, as_dict=True), "kid": "ec", "use": "sig"}


@pytest.mark.parametrize(
    "entry",
    [
        EC.public_jwk(use="enc"),
        EC.public_jwk(alg="RS256"),
        EC.public_jwk(key_ops=["sign"]),
        EC.public_jwk(kid=7),
        EC.public_jwk(crv="P-384"),
        {name: value for name, value in EC.public_jwk().items() if name != "crv"},
        EC.public_jwk(x="AAAA"),
        EC.public_jwk(kty="oct", k="AAAA"),
        EC.public_jwk(d="AAAA"),
        {"kty": "oct", "k": part(SECRET), "kid": "ec", "alg": "HS256"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "ec"},
        RSA.public_jwk(kid="ec", e="AQ"),
        weak_rsa(),
        "ec",
        None,
        {},
    ],
)
async def test_entries_that_are_passed_over(tmp_path: Path, entry: object) -> None:
    """The others stay usable, and what was passed over verifies nothing."""
    place = tmp_path / "keys.json"
    place.write_text(json.dumps({"keys": [entry, ED.public_jwk()]}))
    keys = KeyRing(KeyFile(place))
    assert await keys._read_within(30.0) is None
    assert keys._keys.passed_over == 1
    door = WebTokenAuthentication(Expected(ISSUER, AUDIENCE), ALGORITHMS, keys=keys)
    assert await door.authenticate(f"Bearer {TokenIssuer(ED).token()}")
    for header in ({"alg": "ES256", "kid": "ec"}, {"alg": "RS256", "kid": "ec"}):
        await refusal(door, f"Bearer {GOOD.sign(claims(), header)}")
    await refusal(door, f"Bearer {signed_by_secret(SECRET, {'alg': 'HS256', 'kid': 'ec'})}")

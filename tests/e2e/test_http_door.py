"""Every RPC over HTTP with JSON (G6), through a real door in front of both services.

A caller here knows only HTTP and what the OpenAPI document says.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import threading
import zlib
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlsplit

import grpc
import jsonschema
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2

from hitherto.v1 import retrieval_service_pb2
from hitherto_client import web_server
from hitherto_client.http_door import channels, codecs, incoming
from hitherto_client.http_door.application import OPENAPI
from hitherto_client.http_door.connect_error import ConnectError, ErrorDetail, from_grpc
from hitherto_client.http_door.methods import contract_methods
from hitherto_shared import metrics
from tests.e2e.conftest import Services, Shared
from tests.e2e.consoles import TIMEOUT
from tests.e2e.doors import Caller, detail, door_over, envelope, opened
from tests.e2e.methods import METHODS, OFFERED, ask
from tests.waiting import eventually

HANOI = "Tôi sống ở Hà Nội 👩🏽‍🚀 مرحبا 日本"
DOCUMENT = json.loads(OPENAPI.read_text("utf-8"))
REFUSED = {
    # An import without data; the credential here is not the operator's.
    "PrivacyService/ImportUser": ["invalid_argument"],
    "MaintenanceService/Reembed": ["permission_denied"],
}
"""With what the examples of some RPCs are refused."""
LEFT = ("ExtractionService/PreviewExtraction", "ExtractionService/WatchJob")
WATCH = "RetrievalService/WatchMemories"
SAVE, SEARCH = "MemoryService/SaveMemory", "RetrievalService/SearchMemories"
SUBMIT = "ExtractionService/SubmitTranscripts"


@pytest.fixture(scope="module")
async def door(shared_services: Shared) -> AsyncIterator[str]:
    """One door for the module."""
    async with door_over(shared_services.services, origins=["https://app.example.org"]) as url:
        yield url


@pytest.fixture
async def caller(door: str, services: Services) -> AsyncIterator[Caller]:
    found = Caller(door, services.token)
    async with found.http:
        yield found


# --- every RPC -----------------------------------------------------------------------------------


async def test_every_rpc_answers_the_example_of_the_document(caller: Caller) -> None:
    assert DOCUMENT["paths"].keys() == {method.path for method in METHODS.values()}
    for method in OFFERED:
        post = DOCUMENT["paths"][method.path]["post"]
        [(kind, content)] = post["requestBody"]["content"].items()
        _check(content["schema"], content["example"])
        json_format.ParseDict(content["example"], method.request())
        if kind == "application/json":
            response = await caller.post(method.name, content["example"])
            replies, error = [response.json()], None
            if response.status_code != 200:
                replies, error = [], response.json()
        else:
            # A watch has no end of its own.
            given = {"connect_timeout_ms": "2000"} if method.name == WATCH else {}
            replies, end = await caller.stream(method.name, content["example"], **given)
            error = end.get("error")
            if method.name == WATCH:
                assert (error or {"code": "deadline_exceeded"})["code"] == "deadline_exceeded"
                error = None
        for reply in replies:
            _check(post["responses"]["200"]["content"][kind]["schema"], reply)
        if error is not None:
            _check({"$ref": "#/components/schemas/connect.error"}, error)
            # What some examples name does not exist here.
            expected = {"not_found", "failed_precondition", *REFUSED.get(method.name, ())}
            assert error["code"] in expected, (method.name, error)


def _check(schema: Any, value: Any) -> None:
    """Validate JSON as the document describes it."""
    jsonschema.Draft202012Validator({**DOCUMENT, **schema}).validate(value)


async def test_a_reply_over_http_is_the_reply_over_grpc(caller: Caller, services: Services) -> None:
    rooms = {"floor": 3, "lift": None, "rooms": [{"m²": 12.5}, True]}
    saved = await caller.ask(
        SAVE,
        {
            "user_id": "ana",
            "content": HANOI,
            "type": "MEMORY_TYPE_FACT",
            "importance": 0.75,
            "tags": ["nhà", "家"],
            "metadata": rooms,
            "validFrom": "2026-08-21T18:42:10.5+07:00",
        },
    )
    memory_id = saved["memory"]["id"]
    by_grpc = await ask(
        services, "GetMemory", memory_id=memory_id, consistency_token=saved["consistencyToken"]
    )
    by_http = await caller.ask(
        "RetrievalService/GetMemory", {"userId": "ana", "memoryId": memory_id}
    )
    assert by_http == json_format.MessageToDict(by_grpc)
    assert by_http["memory"]["content"] == HANOI
    assert by_http["memory"]["metadata"] == rooms
    assert by_http["memory"]["validFrom"] == "2026-08-21T11:42:10.500Z"


async def test_get_binary_and_packed_requests_say_the_same(caller: Caller) -> None:
    await caller.ask(SAVE, {"userId": "ana", "content": f"Likes tea. {HANOI * 20}"})
    body = json.dumps({"userId": "ana"})
    plain = await caller.ask("RetrievalService/ListMemories", {"userId": "ana"})
    path = "/hitherto.v1.RetrievalService/ListMemories"
    packed = base64.urlsafe_b64encode(gzip.compress(body.encode())).decode().rstrip("=")
    for query in (
        f"encoding=json&message={quote(body)}",
        f"connect=v1&encoding=json&base64=1&compression=gzip&message={packed}",
    ):
        got = await caller.http.get(f"{path}?{query}")
        assert got.json() == plain, query
    posted = await caller.post(
        "RetrievalService/ListMemories",
        gzip.compress(body.encode()),
        content_encoding="gzip",
        accept_encoding="gzip",
        connect_protocol_version="1",
    )
    assert posted.headers["content-encoding"] == "gzip"
    assert posted.json() == plain
    refusing = {"connect_protocol_version": "1", "accept_encoding": "gzip;q=0"}
    listed = await caller.post("RetrievalService/ListMemories", {"userId": "ana"}, **refusing)
    assert "content-encoding" not in listed.headers
    request = retrieval_service_pb2.ListMemoriesRequest(user_id="ana")
    binary = await caller.post(
        "RetrievalService/ListMemories",
        request.SerializeToString(),
        content_type="application/proto",
    )
    assert binary.headers["content-type"] == "application/proto"
    reply = retrieval_service_pb2.ListMemoriesResponse.FromString(binary.content)
    assert json_format.MessageToDict(reply) == plain


UPDATE, PROFILE = "MemoryService/UpdateMemory", "MemoryService/UpdateProfile"


async def test_a_mask_names_fields_either_way_and_keys_as_they_stand(caller: Caller) -> None:
    saved = (await caller.ask(SAVE, {"userId": "ana", "content": "Masks are read."}))["memory"]

    async def changed(mask: str, **memory: Any) -> Any:
        body = {"userId": "ana", "memoryId": saved["id"], "memory": memory, "updateMask": mask}
        return (await caller.ask(UPDATE, body))["memory"]

    day, later = "2026-08-21T18:42:10Z", "2026-08-22T18:42:10Z"
    assert (await changed("validFrom, importance", validFrom=day, importance=1))["validFrom"] == day
    assert (await changed("valid_from", valid_from=later))["validFrom"] == later

    keys = {"homeTown": "Braga", "home_town": "Porto", "Größe in m": {"dX": 1}}
    mask = ",".join(f"metadata.{key}" for key in keys)
    assert (await changed(mask, metadata=keys))["metadata"] == keys
    assert (await changed("metadata.Größe in m.dX", metadata={"Größe in m": {"dX": 2}}))[
        "metadata"
    ] == {**keys, "Größe in m": {"dX": 2}}
    # As generated clients write it: protobuf makes one name of both.
    written = await changed("metadata.homeTown", metadata={"home_town": "Faro"})
    assert written["metadata"]["home_town"] == "Faro"
    cleared = await changed("metadata.homeTown", metadata={"homeTown": None})
    assert cleared["metadata"].keys() == {"home_town", "Größe in m"}
    assert (await changed("metadata.homeTown"))["metadata"].keys() == {"Größe in m"}

    place = {"facts": {"personal": {"homeTown": "Braga"}}}
    body = {"userId": "ana", "profile": place, "update_mask": "facts.personal.homeTown"}
    assert (await caller.ask(PROFILE, body))["profile"]["facts"] == place["facts"]


async def test_a_path_that_is_none_is_named(caller: Caller) -> None:
    memory = {"userId": "ana", "memoryId": "0198c0de-7a11-7000-8000-000000000001", "memory": {}}
    for mask, said in (("contents", '"contents"'), ("content,memory.tags", '"memory.tags"')):
        error = (await caller.post(UPDATE, {**memory, "updateMask": mask})).json()
        assert error["message"].startswith(f"update_mask.paths[{mask.count(',')}]: must be one of")
        assert error["message"].endswith(f"and is {said}")
    for given, kind in ((["content"], "a list"), ({"paths": ["content"]}, "an object")):
        error = (await caller.post(UPDATE, {**memory, "updateMask": given})).json()
        told = f"updateMask: should be names of fields, separated by commas, and is {kind}"
        assert error["message"] == told
    twice = {**memory, "updateMask": "content", "update_mask": "content"}
    assert "together with" in (await caller.post(UPDATE, twice)).json()["message"]


# --- streams -------------------------------------------------------------------------------------


async def test_streams_both_ways(caller: Caller) -> None:
    items = [{"item": {"userId": "ana", "content": f"Knows {word}."}} for word in ("chess", "Go")]
    [saved], end = await caller.stream("MemoryService/StreamMemories", *items)
    assert (saved["savedCount"], end) == ("2", {})

    reply = await caller.ask(
        SUBMIT,
        DOCUMENT["paths"][METHODS[SUBMIT].path]["post"]["requestBody"]["content"][
            "application/json"
        ]["example"],
    )
    watched, end = await caller.stream(
        "ExtractionService/WatchJob", {"jobId": reply["jobs"][0]["id"]}
    )
    assert watched[-1]["job"]["state"] == "JOB_STATE_SUCCEEDED"
    assert end == {}

    exported, _ = await caller.stream(
        "PrivacyService/ExportUser", {"userId": "ana"}, connect_accept_encoding="br, gzip"
    )
    data = [piece for piece in exported if "data" in piece]
    imported, end = await caller.stream(
        "PrivacyService/ImportUser", *({"userId": "bea", "data": each["data"]} for each in data)
    )
    assert imported[0]["importedCounts"]["memories"] == "3", end


async def test_a_stream_ends_with_its_error(caller: Caller) -> None:
    messages, end = await caller.stream("ExtractionService/WatchJob", {"jobId": "1", "x": 2})
    assert messages == []
    assert detail(end["error"], "BadRequest")["fieldViolations"][0]["field"] == "x"
    _, end = await caller.stream("ExtractionService/WatchJob")
    assert end["error"]["code"] == "unimplemented"
    # A second request is refused before a third one has come.
    url = caller.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        b"POST /hitherto.v1.ExtractionService/WatchJob HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/connect+json\r\ncontent-length: 1000\r\n\r\n"
        + envelope(b'{"jobId":"1"}')
        * 2
    )
    with closing(writer):
        async with asyncio.timeout(60):
            told = await reader.readuntil(b"got more")
    assert b"takes one request in an envelope" in told
    item = b'{"item":{"userId":"ana","content":"x"}}'
    for sent, why in (
        (envelope(item) + b"\0\0\0\1", "should consist of envelopes"),
        (envelope(gzip.compress(item), 1), "Connect-Content-Encoding: gzip"),
    ):
        broken = await caller.post(
            "MemoryService/StreamMemories", sent, content_type="application/connect+json"
        )
        [(flags, told)] = opened(broken.content)
        assert flags & 2
        assert json.loads(told)["error"]["code"] == "invalid_argument"
        assert why in json.loads(told)["error"]["message"]


async def test_a_stream_may_be_longer_than_the_room_of_bodies(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was handed on takes none of it."""
    monkeypatch.setattr(incoming, "MAX_HELD_BYTES", 300_000)
    shrink, given_back = incoming.Share.shrink, list[int]()

    def noting(share: incoming.Share, size: int) -> None:
        given_back.append(size)
        shrink(share, size)

    monkeypatch.setattr(incoming.Share, "shrink", noting)
    item = b'{"item":{"userId":"ana","content":"x"}}' + b" " * 50_000
    sent = await caller.post(
        "MemoryService/StreamMemories",
        envelope(item) * 12,
        content_type="application/connect+json",
    )
    (_, reply), (_, end) = opened(sent.content)
    assert (json.loads(reply)["savedCount"], json.loads(end)) == ("12", {})
    # Nothing is left for the end to give back, not even of the envelopes.
    assert given_back[-1] == 0


async def test_deadlines_are_the_callers(caller: Caller) -> None:
    _, end = await caller.stream(
        "ExtractionService/StreamTranscripts",
        *({"transcript": {"userId": "ana", "conversationId": "c", "messages": []}},) * 50,
        connect_timeout_ms="1",
    )
    assert end["error"]["code"] == "deadline_exceeded"
    late = await caller.post(SEARCH, {"userId": "ana"}, connect_timeout_ms="0")
    assert (late.status_code, late.json()["code"]) == (504, "deadline_exceeded")
    for given in ("-1", "1.5", "12345678901", "soon"):
        wrong = await caller.post(SEARCH, {"userId": "ana"}, connect_timeout_ms=given)
        assert wrong.status_code == 400, given


async def test_a_client_that_leaves_cancels_its_call(modelled: Services) -> None:
    modelled.model.delay = 5.0
    example = DOCUMENT["paths"]["/hitherto.v1.ExtractionService/PreviewExtraction"]["post"]
    body = example["requestBody"]["content"]["application/json"]["example"]
    async with door_over(modelled) as address:
        caller = Caller(address, modelled.token)
        submitted = await caller.ask(
            "ExtractionService/SubmitTranscripts", {"transcripts": [body["transcript"]]}
        )
        other = {"transcript": {**body["transcript"], "conversationId": "tuesday"}}
        job = envelope(json.dumps({"jobId": submitted["jobs"][0]["id"]}).encode())
        before = {rpc: _cancelled(rpc) for rpc in LEFT}
        waiting = [
            asyncio.create_task(caller.post("ExtractionService/PreviewExtraction", other)),
            asyncio.create_task(
                caller.post(
                    "ExtractionService/WatchJob", job, content_type="application/connect+json"
                )
            ),
        ]
        # One call of the model is the job's.
        async with asyncio.timeout(180):
            await modelled.model.called(2)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await caller.http.aclose()
        await eventually(lambda: all(_cancelled(rpc) > before[rpc] for rpc in LEFT))


def _cancelled(rpc: str) -> float:
    """How many calls of an RPC the services have seen end without an answer."""
    labels = {"method": rpc, "code": "CANCELLED", "reason": ""}
    return metrics.REGISTRY.get_sample_value("hitherto_rpcs_total", labels) or 0.0


# --- refusals ------------------------------------------------------------------------------------


CANNOT_BE_READ: list[tuple[str, Any, dict[str, str]]] = [
    (SEARCH, {"userId": "ana", "qery": "x"}, {"qery": "did you mean query?"}),
    (
        SEARCH,
        {"user_id": 5, "limit": "many", "types": ["FACT"], "metadataFilter": [1]},
        {
            "user_id": "should be text of valid Unicode, and is the number 5",
            "limit": "should be a whole number",
            "types[0]": "MEMORY_TYPE_FACT",
            "metadataFilter": "a JSON object",
        },
    ),
    (
        SAVE,
        {"userId": "ana", "content": "a", "type": 1.5, "confidence": True, "importance": True},
        {
            "type": "MEMORY_TYPE_FACT",
            "confidence": "and is the value true",
            "importance": "should be a number, and is the value true",
        },
    ),
    (SAVE, {"type": "1_0", "importance": "0_1"}, {"type": "MEMORY", "importance": "number"}),
    (
        SEARCH,
        {
            "limit": "\u0663",
            "minScore": " 0.1",
            "scopes": [1, False],
            "weights": {"semantic": True},
            "createdAfter": "2026-01-01T10:00:00+99:00",
            "createdBefore": "2026-1-1T1:0:0Z",
            "asOf": "yesterday",
        },
        {
            "limit": "a whole number",
            "minScore": "a number",
            "scopes[1]": "SEARCH_SCOPE_MEMORIES",
            "weights.semantic": "a number",
            "createdAfter": "a time such as",
            "createdBefore": "a time such as",
            "asOf": "a time such as",
        },
    ),
    (
        SUBMIT,
        {"transcripts": [{}, {"messages": [{"content": "x"}, {"contents": "y"}]}, 7]},
        {
            "transcripts[1].messages[1].contents": "did you mean content?",
            "transcripts[2]": "should be an object, and is the number 7",
        },
    ),
    (
        "MemoryService/RecordFeedback",
        {"userId": "ana", "rating": 1, "edit": {}},
        {"edit": "cannot be given together with rating"},
    ),
    (SAVE, '{"userId":"ana","content":"\\ud83d"}', {"content": "valid Unicode"}),
    (SAVE, '{"userId":"ana","content":"a\\u0000b"}', {"content": ""}),
    (SAVE, '{"userId":"a","content":"b","metadata":{"\\udc00":1}}', {"metadata": "Unicode"}),
    (SAVE, '{"userId":"ana","\\ud83d":1}', {"\\ud83d": "has no such field"}),
    (SAVE, '{"userId":"ana","type":"\\ud83d"}', {"type": "should be one of"}),
    (
        SAVE,
        {"content": {}, "k" * 1_000_000: 1},
        {"content": "should be text", f"{'k' * 100}…": "has no such field"},
    ),
    (SAVE, '{"importance":' + "9" * 5000 + "}", {"request": "a number of more than 4,300 digits"}),
    (SAVE, {"userId": "ana"}, {"content": "is required"}),
    (SAVE, "", {"request": "the body is empty; an empty request is {}"}),
    (SAVE, '{"userId":"ana"', {"request": "line 1, column 16"}),
    (SAVE, '{"userId":"a","userId":"b"}', {"request": "'userId' stands in one object twice"}),
    (
        SAVE,
        {"userId": "ana", "content": "a", "user_id": "bea"},
        {"user_id": "cannot be given together with userId"},
    ),
    (
        SUBMIT,
        {"transcripts": [{"messages": [{"createdAt": None, "created_at": None}]}]},
        {"transcripts[0].messages[0].created_at": "cannot be given together with createdAt"},
    ),
    (SAVE, '{"importance":NaN}', {"request": "NaN is no value"}),
    # Beyond every double.
    (SAVE, f'{{"importance":1{"0" * 4000}}}', {"importance": "should be a number"}),
    (SAVE, f'{{"metadata":{{"a":1{"0" * 4000}}}}}', {"metadata": "should be a JSON object"}),
    (SAVE, b'{"userId":"\xff"}', {"request": "the body is not UTF-8, at byte 11"}),
    (SAVE, "[]", {"request": "a request is a JSON object"}),
    (SAVE, '{"metadata":' * 30_000, {"request": "nested too deep"}),
    (SAVE, '{"metadata":{"a":' + "[" * 300 + "]" * 300 + "}}", {"metadata": "nested too deep"}),
    (
        SAVE,
        lambda: "{" + "".join(f'"k{n}":0,' for n in range(200_000)) + '"k199999":0}',
        {"request": "'k199999' stands in one object twice"},
    ),
]


async def test_what_cannot_be_read_is_named(caller: Caller) -> None:
    for rpc, given, fields in CANNOT_BE_READ:
        # What is long to make is made here, not by everybody who collects this module.
        body = given() if callable(given) else given
        response = await caller.post(rpc, body)
        error = response.json()
        case = (rpc, str(body)[:80])
        assert (response.status_code, error["code"]) == (400, "invalid_argument"), case
        told = {
            each["field"]: each["description"]
            for each in detail(error, "BadRequest")["fieldViolations"]
        }
        assert told.keys() == fields.keys(), (case, told)
        for field, words in fields.items():
            assert words in told[field], case
        info = detail(error, "ErrorInfo")
        assert info["domain"] == "hitherto"
        wanted = "UNDECODABLE_REQUEST" if "request" in fields else "INVALID_FIELD"
        assert info["reason"] == wanted, case
        assert len(response.headers["x-request-id"]) > 30


async def test_of_very_many_values_only_the_first_are_probed(caller: Caller) -> None:
    """Anybody may send them, and protobuf reads each by itself to find the one that is wrong."""
    for before, field in ((1_000, "tags[1000]"), (20_000, "request")):
        body = {"userId": "ana", "content": "x", "tags": [*["a"] * before, 5]}
        error = (await caller.post(SAVE, body)).json()
        [told] = detail(error, "BadRequest")["fieldViolations"]
        assert (told["field"], detail(error, "ErrorInfo")["reason"]) == (field, "INVALID_FIELD")


async def test_long_work_is_done_beside_the_loop(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noting(work: Any, on_the_loop: list[bool]) -> Any:
        def noted(*args: Any, **given: Any) -> Any:
            on_the_loop.append(threading.current_thread() is threading.main_thread())
            return work(*args, **given)

        return noted

    read: list[bool] = []
    packed: list[bool] = []
    monkeypatch.setattr(codecs, "read_request", noting(codecs.read_request, read))
    monkeypatch.setattr(zlib, "compressobj", noting(zlib.compressobj, packed))
    monkeypatch.setattr(incoming, "LARGE_BYTES", 1_000, raising=False)
    await caller.ask(SAVE, {"userId": "ana", "content": HANOI * 100})
    await caller.ask("RetrievalService/ListMemories", {"userId": "ana"})
    packed_with = {"connect_accept_encoding": "gzip"}
    await caller.stream("PrivacyService/ExportUser", {"userId": "ana"}, **packed_with)
    # Who asks with few words is read at once; two replies and a stream are packed.
    assert read == [False, True, True]
    assert len(packed) >= 3
    assert not any(packed)


async def test_what_is_not_served_says_what_is(caller: Caller) -> None:
    misspelt = await caller.post("RetrievalService/SearchMemorys", {})
    assert misspelt.status_code == 404
    assert f"did you mean /hitherto.v1.{SEARCH}" in misspelt.json()["message"]
    assert "SaveMemory" in (await caller.post("MemoryService/Nonsense", {})).json()["message"]
    elsewhere = await caller.http.get("/v1/memories/ana")
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (404, "unimplemented")
    assert "/openapi.json" in elsewhere.json()["message"]
    writing = await caller.http.get(f"/hitherto.v1.{SAVE}?encoding=json&message={{}}")
    assert (writing.status_code, writing.headers["allow"]) == (405, "POST")
    watching = await caller.http.get("/hitherto.v1.RetrievalService/WatchMemories")
    assert (watching.status_code, watching.headers["allow"]) == (405, "POST")
    deleting = await caller.http.delete(f"/hitherto.v1.{SEARCH}")
    assert (deleting.status_code, deleting.headers["allow"]) == (405, "GET, POST")
    for method, page in (("POST", "/health"), ("DELETE", "/docs"), ("PUT", "/openapi.json")):
        wrong = await caller.http.request(method, page)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD"), page
        assert wrong.json()["message"] == f"{method} is not for {page}: it has GET and HEAD"
    form = await caller.post(SAVE, "a=b", content_type="application/x-www-form-urlencoded")
    assert form.status_code == 415
    assert form.headers["accept-post"] == "application/json, application/proto"
    latin = await caller.post(SAVE, {}, content_type="application/json; charset=latin-1")
    assert latin.status_code == 415
    stream = await caller.post("ExtractionService/WatchJob", {})
    assert "application/connect+json" in stream.json()["message"]
    brotli = await caller.post(SAVE, {}, content_encoding="br")
    assert (brotli.status_code, brotli.json()["code"]) == (501, "unimplemented")
    assert brotli.headers["accept-encoding"] == "gzip"
    cut_off = gzip.compress(b'{"userId":"ana","content":"x"}')[:-4]
    part = await caller.post(SAVE, cut_off, content_encoding="gzip")
    assert detail(part.json(), "ErrorInfo")["reason"] == "UNDECODABLE_REQUEST"
    version = await caller.post(SAVE, {}, connect_protocol_version="2")
    assert version.json()["code"] == "invalid_argument"


async def test_limits_are_those_of_the_services(caller: Caller) -> None:
    long = {"userId": "ana", "content": "x" * (4 * 1024 * 1024)}
    bomb = gzip.compress(b" " * (5 * 1024 * 1024) + b"{}")
    many = {"userId": "ana", "content": "x", "metadata": {"a": [0] * 300_000}}
    masks = [{"userId": "ana", "updateMask": f"a{between}" * 300_000} for between in ",."]
    for response in (
        *[await caller.post("MemoryService/UpdateMemory", each) for each in masks],
        await caller.post(SAVE, long),
        await caller.post(SAVE, bomb, content_encoding="gzip"),
        await caller.post(SAVE, many),
    ):
        error = response.json()
        assert (response.status_code, error["code"]) == (429, "resource_exhausted")
        assert detail(error, "ErrorInfo")["reason"] == "REQUEST_TOO_LARGE"
    # What is unpacked is held too, until the one before it has been read.
    values = b'{"userId":"ana","metadata":{"a":[0' + b",0" * 40_000 + b"]}"
    packed = gzip.compress(values + b" " * (4_000_000 - len(values)) + b"}")
    sent = [caller.post(SAVE, packed, content_encoding="gzip") for _ in range(20)]
    reasons = [
        detail(response.json(), "ErrorInfo")["reason"] for response in await asyncio.gather(*sent)
    ]
    assert set(reasons) == {"INVALID_FIELD", "OVERLOADED"}
    # Commas in text are no values.
    text = await caller.post(SAVE, {"userId": "ana", "content": "[,{" * 100_000})
    assert detail(text.json(), "BadRequest")["fieldViolations"][0]["field"] == "content"


async def test_credentials_and_ids_are_the_callers(
    caller: Caller, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HITHERTO_API_KEY", services.token)
    async with door_over(services) as address:
        stranger = Caller(address, "")
        async with stranger.http:
            refused = await stranger.post(SEARCH, {"userId": "ana"})
            for authorization in (f"Bearer {services.token}é", f"Bearer {services.token}, Bearer"):
                wrong = await stranger.post(
                    SEARCH,
                    {"userId": "ana"},
                    authorization=authorization.encode(),  # type: ignore[arg-type]
                )
                assert wrong.status_code in {400, 401}
            # Of several credentials none is chosen.
            several = [("authorization", f"Bearer {each}") for each in (services.token, "another")]
            stranger.http.headers = several
            assert (await stranger.post(SEARCH, {"userId": "ana"})).status_code == 401
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    assert detail(refused.json(), "ErrorInfo")["reason"] == "CREDENTIAL_INVALID"
    named = await caller.post(SEARCH, {"userId": "ana"}, x_request_id="row-7")
    assert named.headers["x-request-id"] == "row-7"
    assert named.headers["cache-control"] == "no-store"


async def test_a_service_that_is_down_is_said_to_be(services: Services) -> None:
    class Nowhere:
        retrieval_address = extraction_address = "127.0.0.1:9"

    async with door_over(Nowhere()) as address:  # type: ignore[arg-type]
        caller = Caller(address, "")
        async with caller.http:
            response = await caller.post(SEARCH, {"userId": "ana"})
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert "127.0.0.1" not in response.text
    assert response.headers["retry-after"] == "1"


def test_a_wait_is_told_in_whole_seconds_that_are_enough() -> None:
    for seconds, told in ((0.2, "1"), (1.2, "2"), (3, "3")):
        info = error_details_pb2.RetryInfo()
        info.retry_delay.FromMilliseconds(round(seconds * 1000))
        details = [ErrorDetail("google.rpc.RetryInfo", info.SerializeToString())]
        assert ConnectError("unavailable", "x", details).headers == {"retry-after": told}


def test_a_cancelled_call_has_the_name_of_the_protocol() -> None:
    cancelled = grpc.aio.AioRpcError(
        grpc.StatusCode.CANCELLED, grpc.aio.Metadata(), grpc.aio.Metadata()
    )
    assert from_grpc(cancelled, "retrieval").code == "canceled"


# --- browsers ------------------------------------------------------------------------------------


async def test_only_named_pages_may_call(caller: Caller) -> None:
    asked = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type, connect-protocol-version",
    }
    path = f"/hitherto.v1.{SEARCH}"
    for origin, allowed in (
        ("https://app.example.org", True),
        ("https://evil.example.org", False),
        ("http://localhost:3000", False),
    ):
        before = await caller.http.options(path, headers={"origin": origin, **asked})
        assert (before.status_code == 200) is allowed, origin
        assert ("access-control-allow-origin" in before.headers) is allowed, origin
        then = await caller.post(SEARCH, {"userId": "ana"}, origin=origin)
        assert ("access-control-allow-origin" in then.headers) is allowed, origin
        if allowed:
            assert "x-request-id" in then.headers["access-control-expose-headers"].lower()
            assert "accept-encoding" in then.headers["vary"].lower()
    # Its own page may, such as /docs; one at another port is somebody else's.
    own = str(caller.http.base_url).rstrip("/")
    assert (await caller.post(SEARCH, {"userId": "ana"}, origin=own)).status_code == 200
    for origin in ("https://evil.example.org", "http://127.0.0.1:3000", "http://localhost:3000"):
        evil = await caller.post(SEARCH, {}, origin=origin)
        assert evil.status_code == 403, origin
        assert "HITHERTO_HTTP_ORIGINS" in evil.json()["message"]
    assert (await caller.post(SEARCH, {}, host="evil.example.org")).status_code == 421


async def test_what_a_page_of_another_site_embeds_calls_nothing(caller: Caller) -> None:
    """A browser sends no origin with an image, and a link is followed by whoever is visited."""
    path = f"/hitherto.v1.{SEARCH}?encoding=json&message={quote(json.dumps({'userId': 'ana'}))}"
    for site, status in (
        ("cross-site", 403),
        ("same-site", 403),
        ("same-origin", 200),
        ("none", 200),
    ):
        got = await caller.http.get(path, headers={"sec-fetch-site": site})
        assert got.status_code == status, site
    allowed = {"sec-fetch-site": "cross-site", "origin": "https://app.example.org"}
    assert (await caller.http.get(path, headers=allowed)).status_code == 200
    # Its pages may be linked to.
    assert (await caller.http.get("/docs", headers={"sec-fetch-site": "cross-site"})).is_success
    # An old browser does not say whose page asks: GET calls nothing that costs.
    costly = await caller.http.get(f"/hitherto.v1.{LEFT[0]}?encoding=json&message={{}}")
    assert (costly.status_code, costly.headers["allow"]) == (405, "POST")
    gets = {path for path, verbs in DOCUMENT["paths"].items() if "get" in verbs}
    assert gets == {path for path, method in contract_methods().items() if method.by_get}


async def test_who_sends_half_a_stream_holds_no_place(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has no credential keeps nobody's stream out."""
    monkeypatch.setattr(channels, "MAX_STREAMS", 1)
    monkeypatch.setattr(web_server, "REQUEST_SECONDS", 3_600.0)
    async with door_over(services) as url:
        caller, where = Caller(url, services.token), urlsplit(url)

        async def streams() -> bool:
            _, end = await caller.stream("PrivacyService/ExportUser", {"userId": "ana"})
            return "error" not in end

        for rpc in ("ExtractionService/StreamTranscripts", LEFT[1]):
            _, writer = await asyncio.open_connection(where.hostname, where.port)
            writer.write(
                f"POST /hitherto.v1.{rpc} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: B x\r\n"
                "Content-Type: application/connect+json\r\nContent-Length: 1000\r\n\r\n{".encode()
            )
            await writer.drain()
            # What is asked after it is read after it.
            assert (await caller.http.get("/health")).status_code == 200
            await eventually(streams, f"a stream beside half of {rpc}")
            writer.close()
        await caller.http.aclose()


@pytest.mark.parametrize(
    ("room", "held", "others"),
    [
        pytest.param(165_000, 165_000, 150_000, id="large ones keep only large ones out"),
        pytest.param(50_000, 49_000, 2_000, id="small ones have a bound together"),
    ],
)
async def test_bodies_have_a_room(
    caller: Caller, door: str, monkeypatch: pytest.MonkeyPatch, room: int, held: int, others: int
) -> None:
    """Whoever has no credential can fill it."""
    monkeypatch.setattr(incoming, "MAX_HELD_BYTES", room)
    where = urlsplit(door)
    _, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(
        f"POST /hitherto.v1.{SAVE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {held + 1}\r\n"
        "Content-Type: application/json\r\n\r\n".encode()
        + b" " * held
    )
    await writer.drain()

    async def answers(status: int) -> bool:
        body = '{"userId": "ana"}' + " " * others
        return (await caller.post(SEARCH, body)).status_code == status

    await eventually(lambda: answers(429), "a room that is full")
    if held > 100_000:
        assert (await caller.post(SEARCH, {"userId": "ana"})).status_code == 200
    writer.close()
    await eventually(lambda: answers(200), "room again")


async def test_what_a_proxy_could_take_for_two_requests_is_one_and_the_last(door: str) -> None:
    where = urlsplit(door)
    head = f"POST /hitherto.v1.{SEARCH} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    lengths = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(f"{head}{lengths}GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    async with asyncio.timeout(TIMEOUT):
        answered = await reader.read()
    writer.close()
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert b"\nok\n" not in answered
    assert answered.count(b"HTTP/1.1 ") == 1


async def test_what_the_door_says_about_itself(caller: Caller) -> None:
    assert (await caller.http.get("/health")).text == "ok\n"
    assert (await caller.http.get("/openapi.json")).json() == DOCUMENT
    page = await caller.http.get("/docs")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "http" not in page.text.replace("Hitherto over HTTP", "")
    for name in ("docs.js", "docs.css"):
        assert f"docs/static/{name}" in page.text
        assert (await caller.http.get(f"/docs/static/{name}")).status_code == 200

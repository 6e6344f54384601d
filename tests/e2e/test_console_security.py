"""Who gets into the console, and what other sites and hostile texts cannot do (G5, H4, H5)."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from hitherto_client import AsyncHitherto
from hitherto_client.console.pages import signing_in
from hitherto_client.console.target import ConsoleTarget
from tests.certificates import Authority
from tests.e2e.conftest import Services, StartServices
from tests.e2e.consoles import Visitor, console_over, served, visitor
from tests.e2e.credentials import bearer, key
from tests.e2e.learning import rows
from tests.e2e.methods import METHODS, call
from tests.tenants import ISSUED, Tenant, credential

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>' \" {{7*7}} </textarea>"


async def test_pages_ask_for_a_credential_first(console: str, tenant: Tenant) -> None:
    """Signing in goes on where it was wanted, and leads to no other site."""
    async with visitor(console) as stranger:
        for path in ("/", "/people", "/timeline", "/memories?q=tea"):
            await stranger.open(path)
            assert "/sign-in" in stranger.url, path
        assert "API key or token" in stranger.text
        await stranger.send("/sign-in", credential=credential(tenant, "ana"))
        assert stranger.url.endswith("/memories?q=tea")
    for target in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"):
        async with visitor(console) as person:
            await person.open("/sign-in")
            await person.send("/sign-in", credential=credential(tenant, "ana"), next=target)
            assert person.url.startswith(console), target


async def test_a_wrong_credential_is_refused(console: str) -> None:
    for given in ("forged", "", "two words", "x" * 9_000, "x" * 20_000, "ключ"):
        async with visitor(console) as stranger:
            await stranger.sign_in(given)
            assert stranger.status == 401, given
            if set(given) == {"x"}:
                # Also of what no metadata of a call can hold.
                assert "do not accept this credential" in stranger.text
            assert given not in stranger.text or not given
            assert "hitherto_console" not in stranger.http.cookies
            await stranger.open("/memories?user=ana")
            assert "/sign-in" in stranger.url, given


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8:0:7::{}"])
async def test_tries_of_one_address_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Whoever tries many credentials fills neither the memory nor the time of the console.

    Who has one address of IPv6 has its network.
    """
    monkeypatch.setattr(signing_in, "MOST_OPEN_TRIES", 3)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    services = await asyncio.start_server(silent, "127.0.0.1", 0)
    host, port = services.sockets[0].getsockname()
    async with (
        served(ConsoleTarget(f"{host}:{port}", f"{host}:{port}", timeout=5)) as url,
        visitor(url) as stranger,
    ):
        await stranger.open("/sign-in")
        form = {**stranger.hidden("/sign-in"), "credential": "forged", "person": "ana"}
        tries = [
            asyncio.create_task(
                stranger.http.post(
                    "/sign-in", data=form, headers={"x-forwarded-for": address.format(number)}
                )
            )
            for number in range(signing_in.MOST_OPEN_TRIES + 1)
        ]
        # The services answer nothing: the first answer is that of the try that was too many.
        answered, waiting = await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
        [refused] = [each.result() for each in answered]
        assert refused.status_code == 429
        assert "Too many are signing in" in refused.text
        assert 'value="ana"' in refused.text
        assert {each.status_code for each in await asyncio.gather(*waiting)} == {401}
        last = {"x-forwarded-for": address.format(0)}
        assert (await stranger.http.post("/sign-in", data=form, headers=last)).status_code == 401
    services.close()


async def test_a_form_that_breaks_off_is_no_fault_of_the_console(
    services: Services, capfd: pytest.CaptureFixture[str]
) -> None:
    async with console_over(services) as url:
        where = urlsplit(url)
        _, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(
            b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n\r\nform_token="
        )
        await writer.drain()
        writer.close()
        async with visitor(url) as stranger:
            await stranger.open("/sign-in")
    assert "Exception" not in capfd.readouterr().err


async def test_the_credential_stays_on_the_server(
    console: str, tenant: Tenant, capfd: pytest.CaptureFixture[str]
) -> None:
    token = credential(tenant, "ana")
    async with visitor(console) as person:
        await person.open("/sign-in")
        reply = await person.http.post(
            "/sign-in",
            data={**person.hidden("/sign-in"), "credential": token},
            follow_redirects=False,
        )
        [cookie] = [value for value in reply.headers.get_list("set-cookie") if "form" not in value]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        for path in ("/memories", "/timeline", "/sign-in"):
            page = await person.open(path)
            assert token not in page
            assert token not in person.url
        assert all(token not in str(value) for value in person.http.cookies.values())
    told = capfd.readouterr()
    assert token not in told.out + told.err


async def test_a_person_sees_nobody_else(
    ana: Visitor, memory: AsyncHitherto, console: str, tenant: Tenant
) -> None:
    secret = (await memory.save_memory("bo", "Bo plans a surprise.")).memory
    await memory.add("bo", [{"role": "user", "content": "hush"}], conversation="c1")
    job = await memory.end_conversation("bo", "c1")
    written = await memory.ingest_documents(
        "bo", [{"source_type": "gmail", "source_id": "1", "content": "Bo's letter"}]
    )
    for page in (
        *("memories", f"memories/{secret.id}", "timeline", "profile", "settings", "data"),
        *("told?q=x", "conversations", "documents", "jobs"),
    ):
        await ana.open(f"/{page}{'&' if '?' in page else '?'}user=bo")
        assert ana.status == 403, page
        assert "surprise" not in ana.text
    for page in (
        *(f"memories/{secret.id}", "conversation?id=c1", f"jobs/{job.id}"),
        f"documents/{written.document_ids[0]}",
    ):
        await ana.open(f"/{page}")
        assert ana.status == 404, page
    await ana.open("/memories/new")
    await ana.send("/memories/new", content="Bo is gone.", user="bo")
    assert ana.status == 403
    await ana.open("/data")
    await ana.send("/data/erase", user="bo", confirm="bo")
    assert ana.status == 403
    assert [one.content async for one in memory.memories("bo")] == ["Bo plans a surprise."]
    for hidden in ("/people", "/usage", "/audit", "/schedules"):
        assert f'href="{hidden}' not in await ana.open("/memories")
    async with visitor(console) as pretender:
        await pretender.sign_in(credential(tenant, "ana"), person="bo")
        assert pretender.status == 401
        assert "does not belong to" in pretender.text
    # Another tenant's person of the same name.
    await memory.save_memory("ana", "Ana likes tea.")
    async with visitor(console) as other:
        await other.sign_in(credential(Tenant(), "ana"))
        await other.open("/memories")
        assert "There are no memories here" in other.text
    assert "Ana likes tea." in await ana.open("/memories")


async def test_a_credential_that_only_reads_is_offered_no_changes(
    console: str, tenant: Tenant, memory: AsyncHitherto
) -> None:
    saved = (await memory.save_memory("ana", "Ana likes tea.")).memory
    async with visitor(console) as reader:
        await reader.sign_in(credential(tenant, "ana", scope="read"))
        for path in ("/memories", f"/memories/{saved.id}"):
            await reader.open(path)
            assert reader.forms == ["/sign-out"]
        token = reader.hidden("/sign-out")
        reader._keep(await reader.http.post(f"/memories/{saved.id}/forget", data=token))
        assert reader.status == 403
        assert "lacks the scope" in reader.text
    assert [one.status async for one in memory.memories("ana")] == ["active"]


async def test_a_credential_that_cannot_read_opens_nothing(console: str, tenant: Tenant) -> None:
    for token in (
        credential(tenant, "ana", scope="write"),
        ISSUED.token(sub="x", tenant=tenant.tenant_id, scope="write", hitherto_user_scope="any"),
    ):
        async with visitor(console) as writer:
            await writer.sign_in(token)
            assert writer.status == 401
            assert "scope read" in writer.text


async def test_forms_of_other_sites_change_nothing(
    ana: Visitor, memory: AsyncHitherto, console: str, tenant: Tenant
) -> None:
    saved = (await memory.save_memory("ana", "Ana likes tea.")).memory
    place = f"/memories/{saved.id}/forget"
    await ana.open(f"/memories/{saved.id}")
    genuine = ana.hidden(place)
    async with visitor(console) as mallory:
        await mallory.sign_in(credential(tenant, "mallory"))
        foreign = mallory.hidden("/sign-out")
    attempts: list[tuple[dict[str, str], dict[str, str]]] = [
        ({"reason": "x"}, {}),
        ({"form_token": ""}, {}),
        ({"form_token": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")}, {}),
        (foreign, {}),
        (genuine, {"origin": "https://evil.example"}),
        (genuine, {"origin": "null"}),
        (genuine, {"sec-fetch-site": "cross-site"}),
        (genuine, {"sec-fetch-site": "same-site"}),
    ]
    for data, headers in attempts:
        reply = await ana.http.post(place, data=data, headers=headers)
        assert reply.status_code == 403, (data, headers)
    reply = await ana.http.post(place, json=genuine)
    assert reply.status_code == 400
    assert [one.status async for one in memory.memories("ana")] == ["active"]
    good = await ana.http.post(place, data=genuine, headers={"origin": console})
    assert good.status_code == 200
    assert [one async for one in memory.memories("ana")] == []


async def test_looking_at_an_address_changes_nothing(ana: Visitor, memory: AsyncHitherto) -> None:
    saved = (await memory.save_memory("ana", "Ana likes tea.")).memory
    for change in ("forget", "correct", "restore", "review"):
        reply = await ana.http.get(f"/memories/{saved.id}/{change}")
        assert reply.status_code == 405
        assert reply.headers["allow"] == "POST"
    assert (await ana.http.get("/sign-out")).status_code == 405


async def test_a_sign_in_form_of_another_browser_is_refused(console: str, tenant: Tenant) -> None:
    """Otherwise a site could sign people in as somebody else."""
    async with visitor(console) as one, visitor(console) as other:
        await one.open("/sign-in")
        await other.open("/sign-in")
        fields = {**one.hidden("/sign-in"), "credential": credential(tenant, "mallory")}
        reply = await other.http.post("/sign-in", data=fields)
        assert reply.status_code == 401
        assert "hitherto_console" not in other.http.cookies


async def test_every_reply_is_protected(ana: Visitor) -> None:
    for path in ("/memories", "/sign-in", "/nonsense", "/static/console.css", "/health"):
        reply = await ana.http.get(path)
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "same-origin"
        if not path.startswith("/static"):
            assert reply.headers["cache-control"] == "no-store"


async def test_other_host_names_are_refused(console: str) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        async with visitor(console, host=host) as stranger:
            page = await stranger.open("/sign-in")
        assert stranger.status == 421, host
        assert "form" not in page


async def test_hostile_texts_are_shown_as_text(ana: Visitor, memory: AsyncHitherto) -> None:
    saved = (await memory.save_memory("ana", HOSTILE, tags=["x"], detail=HOSTILE)).memory
    await memory.update_memory("ana", saved.id, metadata={HOSTILE: HOSTILE})
    pages = [
        await ana.open(path)
        for path in (
            "/memories",
            f"/memories/{saved.id}",
            "/timeline",
            f"/memories?q={HOSTILE.replace('#', '')}",
            f"/memories?entity={HOSTILE}",
            f"/memories?type={HOSTILE}",
        )
    ]
    for page in pages:
        tags = Tags()
        tags.feed(page)
        assert HOSTILE in tags.texts or HOSTILE in tags.values
        assert {"img", "style"}.isdisjoint(tags.names)
        assert tags.names["script"] == 2
        assert [name for name in tags.attributes if name.startswith("on") or name == "style"] == []


class Tags(HTMLParser):
    """What a browser makes of a page: its tags, their attributes, its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.names = Counter[str]()
        self.attributes = set[str]()
        self.values = set[str]()
        self.texts = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self.values.update(value or "" for _, value in attrs)

    def handle_data(self, data: str) -> None:
        self.texts += data


async def test_pages_load_nothing_from_elsewhere(ana: Visitor) -> None:
    page = await ana.open("/memories")
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert loaded
    assert [one for one in loaded if not one.startswith(("/", "#"))] == []
    for script in re.findall(r'<script src="([^"]*)"', page):
        reply = await ana.http.get(script)
        assert reply.status_code == 200
        assert "immutable" in reply.headers["cache-control"]


async def test_services_that_are_away_are_named(services: Services) -> None:
    away = replace(services, retrieval_address="127.0.0.1:1", extraction_address="127.0.0.1:1")
    async with console_over(away) as url, visitor(url) as person:
        await person.sign_in("some-key")
    assert person.status == 401
    assert "The retrieval service at 127.0.0.1:1 does not answer" in person.text


async def test_keys_of_people_departments_lists_and_services(
    start_services: StartServices, conninfo: str, superuser_conninfo: str
) -> None:
    """What the pages offer follows the rights of an API key, which names nobody itself."""
    async with start_services(auth="api-key") as services, console_over(services) as url:

        @asynccontextmanager
        async def signed_in(person: str = "", **rights: Any) -> AsyncIterator[Visitor]:
            async with visitor(url) as somebody:
                await somebody.sign_in(await key(conninfo, **rights), person)
                yield somebody

        async with signed_in() as office:
            assert office.url.endswith("/people")
            for link in ("/jobs", "/usage", "/schedules", "/audit"):
                assert f'href="{link}"' in office.page
            fields = {"summary": "Ana sells.", "department": "sales"}
            await office.open("/profile/edit?user=ana")
            await office.send("/profile/edit", **fields)
            assert "Saved." in office.text
        async with signed_in(user_id="ana", capabilities=[]) as ana:
            assert ana.status == 401
            assert "belongs to one person" in ana.text
            await ana.sign_in(await key(conninfo, user_id="ana", capabilities=[]), "bo")
            assert "does not belong to" in ana.text
            await ana.sign_in(await key(conninfo, user_id="ana", capabilities=[]), "ana")
            assert ana.url.endswith("/memories")
            assert 'href="/people"' not in ana.page
            assert "Ana sells." in await ana.open("/profile")
            assert "Department" not in await ana.open("/profile/edit")
        for reach in ("departments", "user_ids"):
            named = {reach: ["ana" if reach == "user_ids" else "sales"]}
            rights: dict[str, Any] = {**named, "scopes": ["read"], "capabilities": []}
            async with signed_in(**rights) as app:
                assert app.url.endswith("/people")
                assert "Ana sells." in app.text
                assert 'href="/jobs"' not in app.page
                assert "Ana sells." in await app.open("/profile?user=ana")
                assert app.forms == ["/sign-out"]
                await app.open("/memories?user=bo")
                assert app.status == 403
                assert "does not reach this person" in app.text
        async with signed_in(scopes=["maintenance"]) as sweeper:
            assert "scope read" in sweeper.text
        run = METHODS["MaintenanceService/RunRetention"]
        office_key = bearer(await key(conninfo))
        (started,) = await call(services, run, run.request(), metadata=office_key)
        watch = METHODS["ExtractionService/WatchJob"]
        await call(services, watch, watch.request(job_id=started.job.id), metadata=office_key)
        died = "UPDATE jobs SET state = 'dead' WHERE kind = 'retention' RETURNING 1"
        assert rows(superuser_conninfo, died) == [(1,)]
        for further, offered in (([], False), (["maintenance"], True)):
            async with signed_in(scopes=["read", "write", *further]) as operator:
                page = f"/jobs/{started.job.id}"
                await operator.open(page)
                assert (f"{page}/retry" in operator.forms) is offered


async def test_over_tls_cookies_never_leave_it(
    services: Services, tenant: Tenant, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "ours")
    trusted = ssl.create_default_context(cafile=authority.file)
    target = ConsoleTarget(services.retrieval_address, services.extraction_address)
    async with (
        served(target, authority.pair("console")) as url,
        visitor(url, trusted=trusted) as person,
    ):
        await person.open("/sign-in")
        reply = await person.http.post(
            "/sign-in",
            data={**person.hidden("/sign-in"), "credential": credential(tenant, "ana")},
            follow_redirects=False,
        )
        [cookie] = [one for one in reply.headers.get_list("set-cookie") if "form" not in one]
        assert cookie.startswith("__Host-hitherto_console=")
        assert "Secure" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie
        await person.open("/memories")
        assert person.status == 200
        assert "There are no memories here" in person.text
        left = await person.http.post(
            "/sign-out", data=person.hidden("/sign-out"), follow_redirects=False
        )
        # Browsers ignore a cookie with this prefix that is not marked so, also one that ends it.
        [ended] = left.headers.get_list("set-cookie")
        assert ended.startswith('__Host-hitherto_console=""')
        assert "Secure" in ended
        assert "Path=/" in ended


async def test_a_renewed_certificate_is_used_without_a_restart(
    services: Services, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The web servers of the console, of HTTP and of MCP are the same."""
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    shown, renewed = ours.pair("console"), theirs.pair("renewed")
    target = ConsoleTarget(services.retrieval_address, services.extraction_address)

    async def trusted(authority: Authority) -> bool:
        trust = ssl.create_default_context(cafile=authority.file)
        async with visitor(url, trusted=trust) as person:
            try:
                await person.open("/health")
            except httpx2.ConnectError:
                return False
            return person.status == 200

    async with served(target, shown) as url:
        assert await trusted(ours)
        # Between the two, the certificate is not that of the key.
        renewed.certificate.replace(shown.certificate)
        assert await trusted(ours)
        assert "what replaced a file for TLS is not used" in capfd.readouterr().err
        shown.key.unlink()
        assert await trusted(ours)
        assert f"{shown.key}: No such file" in capfd.readouterr().err
        renewed.key.replace(shown.key)
        assert await trusted(theirs)
        assert not await trusted(ours)


async def test_large_requests_are_refused(console: str) -> None:
    async with visitor(console) as stranger:
        await stranger.open("/sign-in")
        fields = stranger.hidden("/sign-in")
        reply = await stranger.http.post("/sign-in", data={**fields, "credential": "x" * 2**21})
        assert reply.status_code == 413
        many = {f"field{number}": "x" for number in range(1_000)}
        reply = await stranger.http.post("/sign-in", data={**fields, **many})
        assert reply.status_code == 401
        assert "too many" in reply.text


async def test_signing_in_again_and_signing_out_end_a_session(ana: Visitor, tenant: Tenant) -> None:
    cookies = ana.http.cookies
    before = cookies["hitherto_console"]
    await ana.open("/memories")
    # The form is not shown to those who are signed in; another tab may still show it.
    cookies.delete("hitherto_console")
    await ana.open("/sign-in")
    cookies.set("hitherto_console", before, domain="127.0.0.1")
    await ana.send("/sign-in", credential=credential(tenant, "ana"))
    after = cookies["hitherto_console"]
    assert after != before
    await ana.open("/memories")
    await ana.send("/sign-out")
    for ended in (before, after):
        cookies.clear()
        cookies.set("hitherto_console", ended, domain="127.0.0.1")
        await ana.open("/memories")
        assert "/sign-in" in ana.url


async def test_a_local_console_needs_no_credential_and_no_other_has_one_to_give(
    services: Services, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HITHERTO_TOKEN", tenant.token)
    async with console_over(services, local=True, user="ana") as url, visitor(url) as person:
        await person.open("/")
        await person.send("/sign-in")
        assert person.url.endswith("/memories")
        await person.open("/memories?user=bo")
        assert person.status == 403
    async with console_over(services) as url, visitor(url) as stranger:
        await stranger.sign_in("")
    assert stranger.status == 401

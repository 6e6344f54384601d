"""Keys of users: made once, bound to their user, gone when erased (faults.md section 3)."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import stat
import sys
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from hitherto_shared.encryption import user_keys
from hitherto_shared.encryption.failures import (
    DecryptionFailed,
    EncryptionNotConfigured,
    KeyGone,
    KeyNotErased,
    KeyNotOpened,
    KeyServiceUnavailable,
)
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.rows import PROFILE
from hitherto_shared.encryption.user_keys import FAILURE_SECONDS, UserKeys
from hitherto_shared.encryption.wrapping import KeyWrapper, LocalWrapper, NotUnwrapped
from hitherto_shared.user_hash import user_hash
from tests.refusing import refusing
from tests.unit.encryption.wrappers import CloudWrapper, MisbehavingWrapper

KEK = b"e" * 32
HASH_KEY = b"h" * 32
PLACE = PROFILE.place(1)
USER = ("tenant", "ana@example.com")


def keys(folder: Path, wrapper: KeyWrapper | None = None) -> UserKeys:
    return UserKeys(wrapper or LocalWrapper(KEK), KeyStore(folder), HASH_KEY, wrapper_seconds=60)


def file_of(folder: Path, tenant: str = USER[0], user: str = USER[1]) -> Path:
    hashed = user_hash(HASH_KEY, tenant, user)
    return folder / hashed[:2] / hashed[2:4] / f"{hashed}.json"


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file() and each.name != ".lock"]


class TestMaking:
    async def test_h3_a_made_key_opens_in_another_process(self, tmp_path: Path) -> None:
        made = await keys(tmp_path).make(*USER)
        sealed = made.seal({"a": "b"}, PLACE)
        opened = await keys(tmp_path).open(*USER)
        assert opened.open(sealed, PLACE) == {"a": "b"}
        assert (opened.tenant_id, opened.user_id) == USER
        again = await keys(tmp_path).make(*USER)
        assert (again.key_id, again.open(sealed, PLACE)) == (made.key_id, {"a": "b"})

    async def test_h3_the_file_shows_neither_user_nor_key(self, tmp_path: Path) -> None:
        folder = tmp_path / "not" / "yet"
        await keys(folder).make(*USER)
        (file,) = files(folder)
        assert file == file_of(folder)
        assert USER[1] not in file.read_text() + str(file)
        held = json.loads(file.read_text())
        assert held["wrapper_id"] == LocalWrapper(KEK).id
        if sys.platform != "win32":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    async def test_h3_a_folder_that_cannot_be_used_is_an_outage(self, tmp_path: Path) -> None:
        blocked = tmp_path / "file"
        blocked.write_text("not a folder")
        with pytest.raises(KeyServiceUnavailable, match="folder"):
            await keys(blocked).make(*USER)

    def test_h3_two_processes_at_once_get_one_key(self, tmp_path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        barrier, told = context.Barrier(2), context.Queue()
        twins = [
            context.Process(target=_make_one, args=(tmp_path, barrier, told)) for _ in range(2)
        ]
        for twin in twins:
            twin.start()
        sealed = [told.get(timeout=120) for _ in twins]
        for twin in twins:
            twin.join(120)
            assert twin.exitcode == 0
        opened = asyncio.run(keys(tmp_path).open(*USER))
        assert [opened.open(each, PLACE) for each in sealed] == [{"from": "twin"}] * 2
        assert len(files(tmp_path)) == 1


def _make_one(folder: Path, barrier: Barrier, told: multiprocessing.Queue[bytes]) -> None:
    barrier.wait(120)
    told.put(asyncio.run(keys(folder).make(*USER)).seal({"from": "twin"}, PLACE))


class TestErasing:
    async def test_h3_of_somebody_without_a_key(self, tmp_path: Path) -> None:
        held = keys(tmp_path / "none")
        with pytest.raises(KeyGone):
            await held.open(*USER)
        assert not await held.erase(*USER)
        assert not (tmp_path / "none").exists()

    async def test_h3_an_erased_key_is_gone_everywhere_at_once(self, tmp_path: Path) -> None:
        here, there = keys(tmp_path), keys(tmp_path)
        key = await here.make(*USER)
        await there.open(*USER)
        assert await there.stands(key)
        assert await here.erase(*USER)
        for held in (here, there):
            with pytest.raises(KeyGone):
                await held.open(*USER)
        assert not await there.stands(key)
        assert files(tmp_path) == []
        assert not await here.erase(*USER)

    async def test_h3_the_next_key_is_another(self, tmp_path: Path) -> None:
        here, there = keys(tmp_path), keys(tmp_path)
        old = await here.make(*USER)
        await there.open(*USER)
        sealed = old.seal({"a": 1}, PLACE)
        await here.erase(*USER)
        new = await here.make(*USER)
        assert new.key_id != old.key_id
        for held in (here, there):
            with pytest.raises(DecryptionFailed):
                (await held.open(*USER)).open(sealed, PLACE)
        assert not await there.stands(old)
        assert await there.stands(new)

    async def test_h3_what_a_crash_left_of_the_key_goes_with_it(self, tmp_path: Path) -> None:
        held = keys(tmp_path)
        await held.make(*USER)
        file = file_of(tmp_path)
        # Between the link and the end of the draft, and in the middle of wrapping anew.
        os.link(file, file.with_name(f"{file.stem}.0123456789abcdef.draft"))
        neighbour = file.with_name(f"{'f' * 64}.json")
        neighbour.write_text("{}")
        assert await held.erase(*USER)
        assert files(tmp_path) == [neighbour]

    async def test_h3_erasing_needs_no_key_encryption_key(self, tmp_path: Path) -> None:
        await keys(tmp_path).make(*USER)
        without = UserKeys(None, KeyStore(tmp_path), HASH_KEY)
        assert not without.configured
        for going in (without.open, without.make):
            with pytest.raises(EncryptionNotConfigured, match="HITHERTO_ENCRYPTION_KEY_FILE"):
                await going(*USER)
        assert await without.erase(*USER)
        assert not await without.erase(*USER)


class TestWrongKeys:
    async def test_h3_another_key_encryption_key_is_told_apart(self, tmp_path: Path) -> None:
        await keys(tmp_path).make(*USER)
        other = keys(tmp_path, LocalWrapper(b"o" * 32))
        for going in (other.open, other.make):
            with pytest.raises(KeyNotOpened, match="another key-encryption key"):
                await going(*USER)

    @pytest.mark.parametrize("field", ["tenant_id", "key_id", "wrapped", "version", "wrapper_id"])
    async def test_h3_a_changed_file_never_opens_as_another(
        self, tmp_path: Path, field: str
    ) -> None:
        made = await keys(tmp_path).make(*USER)
        sealed = made.seal({"a": 1}, PLACE)
        file = file_of(tmp_path)
        held = json.loads(file.read_text())
        held[field] = 2 if field == "version" else held[field][::-1]
        file.write_text(json.dumps(held))
        if field == "tenant_id":
            # It is there for whoever wraps anew; what counts is whose key is asked for.
            assert (await keys(tmp_path).open(*USER)).open(sealed, PLACE) == {"a": 1}
            return
        with pytest.raises(KeyNotOpened):
            await keys(tmp_path).open(*USER)

    @pytest.mark.parametrize(
        "put", ["", "{}", "[]", "null", '{"version": 1}', "\udcff", "x" * 9, os.mkfifo, os.mkdir]
    )
    async def test_h3_a_damaged_file_and_what_is_none_are_told(
        self, tmp_path: Path, put: str | Callable[[Path], None]
    ) -> None:
        """Whoever opens a pipe waits for a writer, and the end of the process for them."""
        await keys(tmp_path).make(*USER)
        if isinstance(put, str):
            file_of(tmp_path).write_bytes(put.encode("utf-8", "surrogateescape"))
        else:
            file_of(tmp_path).unlink()
            put(file_of(tmp_path))
        for going in (keys(tmp_path).open, keys(tmp_path).make):
            with pytest.raises(KeyNotOpened, match="damaged"):
                await going(*USER)

    @pytest.mark.parametrize(
        "put",
        [os.mkfifo, os.mkdir, lambda path: path.symlink_to(path)],
        ids=["pipe", "folder", "loop"],
    )
    async def test_h3_what_is_no_file_goes_with_an_erasure(
        self, tmp_path: Path, put: Callable[[Path], None]
    ) -> None:
        await keys(tmp_path).make(*USER)
        file_of(tmp_path).unlink()
        put(file_of(tmp_path))
        assert await keys(tmp_path).erase(*USER)
        assert file_of(tmp_path) not in file_of(tmp_path).parent.iterdir()
        assert not await keys(tmp_path).erase(*USER)

    async def test_h3_a_folder_with_contents_is_named_instead(self, tmp_path: Path) -> None:
        await keys(tmp_path).make(*USER)
        file_of(tmp_path).unlink()
        (file_of(tmp_path) / "other").mkdir(parents=True)
        with pytest.raises(KeyNotErased) as caught:
            await keys(tmp_path).erase(*USER)
        assert str(file_of(tmp_path).relative_to(tmp_path)) in caught.value.message
        assert str(tmp_path) not in caught.value.message
        assert (file_of(tmp_path) / "other").is_dir()

    async def test_h3_the_file_of_another_user_does_not_open(self, tmp_path: Path) -> None:
        held = keys(tmp_path)
        await held.make(*USER)
        await held.make("tenant", "bo")
        file_of(tmp_path, "tenant", "bo").replace(file_of(tmp_path))
        with pytest.raises(KeyNotOpened):
            await held.open(*USER)

    async def test_h3_a_key_of_another_length_does_not_open(self, tmp_path: Path) -> None:
        wrapper = MisbehavingWrapper("unwrap", None)
        await keys(tmp_path, wrapper).make(*USER)
        wrapper.answer = b"short"
        with pytest.raises(KeyNotOpened, match="length"):
            await keys(tmp_path, wrapper).open(*USER)


class Slow(CloudWrapper):
    """Each of its answers takes more than half of the time that there is."""

    async def wrap(self, key: bytes, bound_to: Sequence[str]) -> bytes:
        await asyncio.sleep(0.3)
        return await super().wrap(key, bound_to)

    async def unwrap(self, wrapped: bytes, bound_to: Sequence[str]) -> bytes:
        await asyncio.sleep(0.3)
        return await super().unwrap(wrapped, bound_to)


class TestHook:
    async def test_h3_an_outage_is_one_and_tells_nothing(self, tmp_path: Path) -> None:
        cloud = CloudWrapper()
        cloud.out_of_reach = True
        with pytest.raises(KeyServiceUnavailable) as caught:
            await keys(tmp_path, cloud).make(*USER)
        assert "hunter2" not in caught.value.message
        assert caught.value.retry_after is not None
        assert files(tmp_path) == []
        cloud.out_of_reach = False
        await keys(tmp_path, cloud).make(*USER)
        cloud.out_of_reach = True
        with pytest.raises(KeyServiceUnavailable):
            await keys(tmp_path, cloud).open(*USER)

    @pytest.mark.parametrize(
        "answer", [[], "text", asyncio.CancelledError(), SystemExit(1)], ids=repr
    )
    @pytest.mark.parametrize("method", ["wrap", "unwrap"])
    async def test_h3_an_unusable_answer_is_an_outage(
        self, tmp_path: Path, method: str, answer: object
    ) -> None:
        wrapper = MisbehavingWrapper(method, answer)
        held = keys(tmp_path, wrapper)
        async with asyncio.timeout(60):
            with pytest.raises(KeyServiceUnavailable):
                await held.make(*USER)
        wrapper.answer = None
        made = await held.make(*USER)
        wrapper.method, wrapper.answer = "unwrap", answer
        async with asyncio.timeout(60):
            with pytest.raises(KeyServiceUnavailable):
                await keys(tmp_path, wrapper).open(*USER)
        assert (await held.open(*USER)).key_id == made.key_id

    @pytest.mark.parametrize(
        ("method", "answer"),
        [
            ("wrap", b""),
            ("wrap", b"x" * 100),
            ("unwrap", b""),
            ("unwrap", b"y" * 32),
            ("unwrap", NotUnwrapped()),
        ],
        ids=repr,
    )
    async def test_h3_a_key_that_does_not_open_is_not_stored(
        self, tmp_path: Path, method: str, answer: object
    ) -> None:
        wrapper = MisbehavingWrapper(method, answer)
        held = keys(tmp_path, wrapper)
        with pytest.raises(KeyServiceUnavailable):
            await held.make(*USER)
        assert files(tmp_path) == []
        wrapper.answer = None
        made = await held.make(*USER)
        assert (await keys(tmp_path, wrapper).open(*USER)).key_id == made.key_id

    async def test_h3_a_service_that_many_calls_need_is_asked_once(self, tmp_path: Path) -> None:
        cloud = CloudWrapper()
        made = await keys(tmp_path, cloud).make(*USER)
        held, cloud.asked = keys(tmp_path, cloud), 0
        opened = await asyncio.gather(*(held.open(*USER) for _ in range(20)), held.make(*USER))
        assert {key.key_id for key in opened} == {made.key_id}
        assert cloud.asked == 1

    async def test_h3_a_service_that_hangs_is_given_up(self, tmp_path: Path) -> None:
        """One limit holds for both requests of a new key."""
        hanging = CloudWrapper()
        hanging.hangs = True
        for cloud, seconds in ((hanging, 0.05), (Slow(), 0.5)):
            held = UserKeys(cloud, KeyStore(tmp_path), HASH_KEY, wrapper_seconds=seconds)
            with pytest.raises(KeyServiceUnavailable), refusing(type(cloud)):
                await held.make(*USER)
            assert files(tmp_path) == []

    async def test_h3_who_gives_up_waiting_leaves_the_answer_to_others(
        self, tmp_path: Path
    ) -> None:
        cloud = CloudWrapper()
        made = await keys(tmp_path, cloud).make(*USER)
        held, cloud.asked, cloud.waited_for = keys(tmp_path, cloud), 0, 2
        cloud.reached.clear()
        first = asyncio.create_task(held.open(*USER))
        async with asyncio.timeout(60):
            await cloud.reached.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(held.open(*USER))
        cloud.let_go()
        async with asyncio.timeout(60):
            assert (await second).key_id == made.key_id
        assert cloud.asked == 1

    @pytest.mark.parametrize(
        ("trouble", "failure"), [("out_of_reach", KeyServiceUnavailable), ("refuses", KeyNotOpened)]
    )
    async def test_h3_what_fails_is_not_asked_for_again_at_once(
        self, tmp_path: Path, trouble: str, failure: type[Exception]
    ) -> None:
        cloud, now = CloudWrapper(), [1000.0]
        made = await keys(tmp_path, cloud).make(*USER)
        held = UserKeys(cloud, KeyStore(tmp_path), HASH_KEY, clock=lambda: now[0])
        cloud.asked = 0
        setattr(cloud, trouble, True)
        told = await asyncio.gather(*(held.open(*USER) for _ in range(9)), return_exceptions=True)
        with pytest.raises(failure):
            await held.open(*USER)
        assert {type(each) for each in told} == {failure}
        assert len({id(each) for each in told}) == 9
        assert cloud.asked == 1
        # Another person's key is another question.
        setattr(cloud, trouble, False)
        await held.make("tenant", "bo")
        with pytest.raises(failure):
            await held.open(*USER)
        now[0] += FAILURE_SECONDS
        assert (await held.open(*USER)).key_id == made.key_id

    async def test_h3_the_key_that_was_not_used_for_longest_goes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(user_keys, "CACHED", 2)
        cloud = CloudWrapper()
        held = keys(tmp_path, cloud)
        for user in "ab":
            await held.make("t", user)
        await held.open("t", "a")
        await held.make("t", "c")
        asked = cloud.asked
        await held.open("t", "a")
        await held.open("t", "c")
        assert cloud.asked == asked
        await held.open("t", "b")
        assert cloud.asked == asked + 1


async def test_what_an_earlier_release_wrapped_still_opens() -> None:
    wrapper = LocalWrapper(bytes(range(32)))
    wrapped = bytes.fromhex(
        "00c46cda98ba4504be9653b9e5017b33d320326bfb685c61231bd0be770d385484dfa594"
        "84bdf1893a7311384d25c59c8638c9a78007dd116f519e05"
    )
    assert wrapper.id == "local:d7b2c9117a5a2f05"
    assert await wrapper.unwrap(wrapped, ["acme", "ana", "k1"]) == bytes(32)

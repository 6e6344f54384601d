"""In a container, an embedded database that would vanish with it is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hitherto_shared.config import SharedSettings
from hitherto_shared.database import lasting
from hitherto_shared.database.lasting import mount_of, vanishes
from hitherto_shared.startup import StartupFailed, locate_database

Pretend = Callable[..., None]
LAYER = "22 1 0:41 / / rw,relatime - overlay overlay rw,lowerdir=/a"
DISK = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw"
VOLUME = "30 22 8:1 /vol /data rw,relatime shared:1 - ext4 /dev/sda1 rw"
MEMORY = "32 22 0:50 / /data rw - tmpfs tmpfs rw"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Pretends to be a container or not, with these mounts."""

    def pretend(*mounts: str, container: bool) -> None:
        listed, marker = tmp_path / "mountinfo", tmp_path / "marker"
        listed.write_text("\n".join(mounts) + "\n")
        if container:
            marker.touch()
        for name in ("KUBERNETES_SERVICE_HOST", "container"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(lasting, "_MOUNTS", listed)
        monkeypatch.setattr(lasting, "_MARKERS", (marker,))

    return pretend


@pytest.mark.parametrize(
    ("mounts", "container", "required", "refused"),
    [
        ((LAYER,), True, None, True),
        ((LAYER, VOLUME), True, None, False),
        ((LAYER, MEMORY), True, None, False),
        ((DISK,), True, None, False),
        ((LAYER,), False, None, False),
        ((LAYER,), True, False, False),
        ((LAYER,), True, True, True),
        ((LAYER, VOLUME), True, True, False),
        ((DISK, VOLUME), False, True, False),
        ((DISK,), False, True, True),
        ((DISK, MEMORY), False, True, True),
        # A later mount hides the one before it.
        ((LAYER, VOLUME, MEMORY), False, True, True),
    ],
)
def test_what_is_refused(
    machine: Pretend, mounts: tuple[str, ...], container: bool, required: bool | None, refused: bool
) -> None:
    machine(*mounts, container=container)
    assert vanishes(Path("/data/hitherto/new"), required=required) is refused


@pytest.mark.parametrize("name", ["KUBERNETES_SERVICE_HOST", "container"])
def test_pods_and_other_containers_are_known(
    machine: Pretend, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    machine(LAYER, container=False)
    assert not vanishes(Path("/data"), required=None)
    monkeypatch.setenv(name, "x")
    assert vanishes(Path("/data"), required=None)


def test_a_service_says_what_to_set(machine: Pretend, tmp_path: Path) -> None:
    machine(LAYER, container=True)
    with pytest.raises(StartupFailed) as refused:
        locate_database(SharedSettings(data_dir=tmp_path / "data"))
    for word in ("DATABASE_URL", "HITHERTO_DATA_DIR", "HITHERTO_REQUIRE_DATABASE_URL=false"):
        assert word in str(refused.value)
    assert not (tmp_path / "data").exists()


def test_names_with_blanks_are_read_and_nothing_is_told_without_a_list(
    machine: Pretend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(LAYER, r"31 22 8:2 / /data\040of\040ana rw - xfs /dev/sdb rw", container=True)
    mount = mount_of(Path("/data of ana/x"))
    assert mount is not None
    assert mount.kind == "xfs"
    monkeypatch.setattr(lasting, "_MOUNTS", tmp_path / "missing")
    assert not vanishes(tmp_path, required=None)
    assert vanishes(tmp_path, required=True)

"""The images of the services, for two architectures.

Their packages are resolved for both everywhere; building needs Docker with buildx, and a builder
that knows both (docs/publishing.md).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tools.release.running import ROOT, LeftOut, run

IMAGES = ("retrieval", "extraction", "console", "migrate")
ARCHITECTURES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""As Docker and as Python's packages call them."""
# Of the base image, Debian 12.
_LIBC = "manylinux_2_36"


def check_architectures(work: Path) -> None:
    """Resolve what images install, for each architecture, from wheels alone.

    Raises:
        NotReleasable: A package has no wheel, or another hash than its list says.
    """
    python = re.search(r"^ARG PYTHON_IMAGE=python:([\d.]+)-slim$", dockerfile(), re.MULTILINE)
    assert python is not None
    for architecture in ARCHITECTURES.values():
        for requirements in ("requirements.txt", "requirements-onnx.txt"):
            run(
                "uv", "pip", "install", "--dry-run", "--quiet", "--target", work / "none",
                "--python-platform", f"{architecture}-{_LIBC}", "--python-version", python[1],
                "--only-binary", ":all:", "--require-hashes", "--no-deps",
                "--requirements", f"docker/{requirements}",
            )  # fmt: skip


def build_images(version: str, into: Path, work: Path) -> None:
    """Build each image for all architectures into an OCI archive of its own.

    Raises:
        LeftOut: There is no Docker engine, or no builder for all architectures.
        NotReleasable: An image cannot be built.
    """
    check_architectures(work)
    _check_builder()
    for image in IMAGES:
        archive = into / f"hitherto-{image}-{version}.oci.tar"
        run("docker", *arguments(version, image), "--output", f"type=oci,dest={archive}", ".")


def arguments(version: str, image: str) -> list[str]:
    """What `docker` is told to build one image; where it goes is left to the caller."""
    return [
        "buildx", "build", "--file", "docker/Dockerfile", "--target", image,
        "--platform", ",".join(ARCHITECTURES), "--tag", f"hitherto-{image}:{version}",
        "--label", f"org.opencontainers.image.version={version}",
        "--label", "org.opencontainers.image.licenses=Apache-2.0",
    ]  # fmt: skip


def dockerfile() -> str:
    """The recipe of all images."""
    return (ROOT / "docker/Dockerfile").read_text("utf-8")


def _check_builder() -> None:
    if shutil.which("docker") is None:
        raise LeftOut("there is no docker on the path")
    if not _told("docker", "info"):
        raise LeftOut("no Docker engine answers")
    known = _told("docker", "buildx", "inspect", "--bootstrap")
    if not known:
        raise LeftOut("Docker has no buildx")
    if missing := [name for name in ARCHITECTURES if name not in known]:
        raise LeftOut(f"the builder of Docker does not know {missing[0]}")


def _told(*command: str) -> str:
    """What a command prints; empty if it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""

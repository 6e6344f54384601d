"""A release is refused for an unknown licence or an unwritten changelog."""

import json
from pathlib import Path

import pytest

from tools import release


@pytest.mark.parametrize(
    "expression",
    [
        "MIT",
        "Apache-2.0 AND MIT",
        "GPL-2.0-only OR MIT",
        "Apache-2.0 WITH LLVM-exception",
        "(MIT OR Apache-2.0) AND BSD-3-Clause",
    ],
)
def test_a_licence_that_can_be_satisfied_is_allowed(expression: str) -> None:
    assert release.is_allowed(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "GPL-3.0-only",
        "MIT AND AGPL-3.0-only",
        "(MIT OR Apache-2.0) AND GPL-3.0-only",
        "",
        "Proprietary",
    ],
)
def test_any_other_licence_is_not(expression: str) -> None:
    assert not release.is_allowed(expression)


def test_a_package_without_an_allowed_licence_is_named(tmp_path: Path) -> None:
    sbom = tmp_path / "sbom.json"
    good = {"name": "fine", "version": "1", "licenses": [{"license": {"id": "MIT"}}]}
    classified = {
        "name": "classified",
        "licenses": [{"license": {"name": "License :: OSI Approved :: Apache Software License"}}],
    }
    sbom.write_text(json.dumps({"components": [good, classified]}))
    assert release.check_licences(sbom) == 2

    copyleft = {"name": "strict", "version": "2", "licenses": [{"expression": "AGPL-3.0-only"}]}
    sbom.write_text(
        json.dumps({"components": [good, copyleft, {"name": "silent", "version": "3"}]})
    )
    with pytest.raises(
        release.NotReleasable, match=r"(?s)strict 2: AGPL-3.0-only.*silent 3: none named"
    ):
        release.check_licences(sbom)


def test_the_version_has_its_section_in_the_changelog() -> None:
    release.check_changelog(release.version())


def test_a_version_that_nobody_described_is_refused() -> None:
    with pytest.raises(release.NotReleasable, match=r"'## 99\.0\.0'"):
        release.check_changelog("99.0.0")

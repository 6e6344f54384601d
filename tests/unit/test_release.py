"""A release is refused for an unknown licence, an unwritten changelog, or two versions at once."""

import json
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tools import version as versions
from tools.release import client_packages
from tools.release.__main__ import check_changelog, main
from tools.release.images import ARCHITECTURES, IMAGES, arguments, dockerfile
from tools.release.licences import check_licences, is_allowed
from tools.release.running import NotReleasable

ROOT = Path(__file__).resolve().parents[2]


def test_only_a_licence_that_can_be_satisfied_is_allowed() -> None:
    parts = ["GPL-2.0-only OR MIT", "Apache-2.0 WITH LLVM-exception", "(MIT OR Apache-2.0) AND MIT"]
    for expression in parts:
        assert is_allowed(expression), expression
    for expression in ("", "Proprietary", "GPL-3.0-only", "(MIT OR Apache-2.0) AND GPL-3.0-only"):
        assert not is_allowed(expression), expression


def test_a_package_without_an_allowed_licence_is_named(tmp_path: Path) -> None:
    sbom = tmp_path / "sbom.json"
    good = {"name": "fine", "version": "1", "licenses": [{"license": {"id": "MIT"}}]}
    classified = {
        "name": "classified",
        "licenses": [{"license": {"name": "License :: OSI Approved :: Apache Software License"}}],
    }
    sbom.write_text(json.dumps({"components": [good, classified]}))
    assert check_licences(sbom) == 2

    copyleft = {"name": "strict", "version": "2", "licenses": [{"expression": "AGPL-3.0-only"}]}
    sbom.write_text(
        json.dumps({"components": [good, copyleft, {"name": "silent", "version": "3"}]})
    )
    with pytest.raises(NotReleasable, match=r"(?s)strict 2: AGPL-3.0-only.*silent 3: none named"):
        check_licences(sbom)


def test_the_version_has_its_section_in_the_changelog() -> None:
    check_changelog(versions.version())


def test_a_version_that_nobody_described_is_refused() -> None:
    with pytest.raises(NotReleasable, match=r"'## 99\.0\.0'"):
        check_changelog("99.0.0")


def test_packages_images_and_pages_bear_one_version() -> None:
    number = versions.version()
    # Wherever else an artifact, an image or a module is named with a number.
    named = re.compile(r"hitherto[\w/-]*[:@]v?(\d+\.\d+\.\d+)")
    for folder in ("docs", "clients", "deploy", "docker", "examples"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".md", ".yaml", ".yml", ".xml", ".json", ".env"}:
                found = set(named.findall(path.read_text("utf-8")))
                assert found <= {number}, path


def test_another_version_is_written_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, _ in versions.PLACES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, tmp_path / file)
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    before = versions.version()
    assert (versions.main(["98.7.6"]), versions.version()) == (0, "98.7.6")
    for file in {file for file, _ in versions.PLACES}:
        there, now = ((base / file).read_text("utf-8") for base in (ROOT, tmp_path))
        assert now.count("98.7.6") == len(
            re.findall(rf"(?<![\d.^~]){re.escape(before)}(?![\d.])", there)
        )
    assert versions.main(["98.7"]) == 1
    constant = tmp_path / "clients/go/version.go"
    constant.write_text(constant.read_text("utf-8").replace("98.7.6", "98.7.5"), "utf-8")
    with pytest.raises(ValueError, match=r"98\.7\.6, and clients/go/version\.go 98\.7\.5"):
        versions.version()


def test_every_image_is_built_for_both_architectures_under_the_tag_of_the_manifests() -> None:
    number = versions.version()
    targets = re.findall(r"(?m)^FROM \S+ AS (\w+)$", dockerfile())
    assert {*targets} - {"build", "runtime"} == {*IMAGES}
    built = {image: arguments(number, image) for image in IMAGES}
    manifests = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text("utf-8"))
    for image in manifests["images"]:
        tag = f"{image['name']}:{image['newTag']}"
        assert tag in built[image["name"].removeprefix("hitherto-")]
    assert set(ARCHITECTURES) == {"linux/amd64", "linux/arm64"}
    for given in built.values():
        assert given[given.index("--platform") + 1] == "linux/amd64,linux/arm64"


def test_npm_and_java_are_built_from_copies_before_they_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tools stand in for slow ones, which tests/e2e/test_client_packages.py has pack."""
    client = f"hitherto-client-{versions.version()}"
    steps: list[str] = []

    def tool(*names: str) -> None:
        steps.append(f"needs {' '.join(names)}")

    def run(command: str, *words: object, cwd: Path, **_: str) -> None:
        steps.append(f"{command} {words[0]}")
        assert not cwd.is_relative_to(ROOT)
        match command, *words:
            case "npm", "ci", *_:
                (cwd / "node_modules").mkdir()
            case "npm", "run", "build":
                assert (cwd / "../../protos/hitherto/v1").is_dir()
                (cwd / "dist/src").mkdir(parents=True)
                for name in ("index.js", "index.d.ts"):
                    (cwd / "dist/src" / name).touch()
            case "npm", "pack", *_, Path() as into:
                with tarfile.open(into / f"{client}.tgz", "w:gz") as archive:
                    for name in ("dist", "README.md", "LICENSE"):
                        archive.add(cwd / name, f"package/{name}")
            case "npm", "install", *_, Path() as archive:
                assert archive.is_file()
            case "mvn", *_:
                (cwd / "target").mkdir()
                for kind, name in ("", "class"), ("-sources", "java"), ("-javadoc", "html"):
                    with zipfile.ZipFile(cwd / f"target/{client}{kind}.jar", "w") as packed:
                        packed.writestr(f"com/hitherto/client/Hitherto.{name}", "")
                        packed.write(cwd / "../../LICENSE", "META-INF/LICENSE")

    for name, replacement in {"tool": tool, "run": run, "fetch": run}.items():
        monkeypatch.setattr(client_packages, name, replacement)
    assert main(["--into", str(tmp_path / "dist"), "--only", "npm", "java"]) == 0
    assert steps == [
        "needs node npm", "npm ci", "npm run", "npm pack", "npm install",
        "node --input-type=module",
        "needs javac mvn", "mvn -q",
    ]  # fmt: skip
    sums = (tmp_path / "dist/SHA256SUMS").read_text("utf-8")
    kinds = ("-javadoc.jar", "-sources.jar", ".jar", ".pom", ".tgz")
    assert re.findall(r"  (.*)", sums) == [f"{client}{kind}" for kind in kinds]


def test_parts_without_their_tools_are_left_out_or_refuse_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = ["--into", str(tmp_path / "dist"), "--only", "npm", "java", "go"]
    left_out = ("npm: there is no node", "java: there is no javac", "go: there is no go")
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert all(f"Left out: {part} on the path\n" in told for part in left_out)
    assert main([*asked, "--complete"]) == 1
    assert "; ".join(f"{part} on the path" for part in left_out) in capsys.readouterr().err

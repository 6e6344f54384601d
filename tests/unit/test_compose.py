"""docker-compose.yml and the Dockerfile keep their promises: nothing public, nothing by default."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hitherto_client.command.run import build_parser
from hitherto_client.listen_address import check_openness, listen_address
from hitherto_extraction.config import ExtractionSettings
from hitherto_retrieval.config import RetrievalSettings

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
OURS = {"retrieval": 50051, "extraction": 50052}
CONSOLE = 8090


def stages() -> dict[str, str]:
    """The instructions of every build stage of the Dockerfile by its name."""
    parts = re.split(r"^FROM \S+ AS (\w+)$", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_what_keeps_running_has_a_health_check() -> None:
    for name in sorted(set(SERVICES) - {"migrate"}):
        check = SERVICES[name]["healthcheck"]
        assert check["test"][0] == "CMD", name
        assert SERVICES[name]["restart"] == "unless-stopped"
        assert check["retries"] >= 1, name


def test_image_and_compose_probe_the_port_that_is_served() -> None:
    for name, port in OURS.items():
        probe = ["python", "-m", "hitherto_shared.rpc.probe", f"127.0.0.1:{port}"]
        assert SERVICES[name]["healthcheck"]["test"] == ["CMD", *probe]
        stage = stages()[name]
        assert str(probe).replace("'", '"') in stage, name
        assert f"HITHERTO_{name.upper()}_LISTEN=0.0.0.0:{port}" in stage
        assert f'CMD ["hitherto-{name}"]' in stage


def test_ports_are_published_on_loopback_only() -> None:
    published = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert published == {
        "postgres": [],
        "migrate": [],
        "postgres-replica": [],
        "citus-worker-1": [],
        "citus-worker-2": [],
        "console": [f"127.0.0.1:{CONSOLE}:{CONSOLE}"],
        "prometheus": ["127.0.0.1:9090:9090"],
        "grafana": ["127.0.0.1:3000:3000"],
        **{name: [f"127.0.0.1:{port}:{port}"] for name, port in OURS.items()},
    }


def test_no_password_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    uses = re.findall(r"\$\{(\w*PASSWORD\w*)([^}]*)\}", text)
    assert {name for name, _ in uses} == {
        "POSTGRES_PASSWORD",
        "HITHERTO_RETRIEVAL_PASSWORD",
        "HITHERTO_EXTRACTION_PASSWORD",
        "REPLICATION_PASSWORD",
        "GRAFANA_PASSWORD",
    }
    assert {rest for _, rest in uses} == {":?run make compose-env first"}
    # Every place that takes a password takes it from there.
    assert not re.search(r"PASSWORD: (?!\$\{)", text)
    assert not re.search(r"://\w+:(?!\$\{)", text)


def test_a_service_holds_the_password_of_its_own_logins_alone() -> None:
    for name in OURS:
        held = {key for key in SERVICES[name]["environment"] if "PASSWORD" in key}
        assert held == {f"HITHERTO_{name.upper()}_PASSWORD"}
        assert "@" not in SERVICES[name]["environment"]["DATABASE_URL"]
        assert "hitherto_admin" not in str(SERVICES[name]["environment"])
        # The one that has the administrator's password comes first and ends.
        assert SERVICES[name]["depends_on"] == {
            "migrate": {"condition": "service_completed_successfully"}
        }


def test_both_services_share_one_secret_and_neither_sees_the_api_key() -> None:
    for name in OURS:
        assert SERVICES[name]["volumes"] == [
            "deployment:/var/lib/hitherto",
            "./docker/tls:/etc/hitherto/tls:ro",
        ]
        secret = SERVICES[name]["environment"]["HITHERTO_SECRET_FILE"]
        assert secret == SERVICES["migrate"]["environment"]["HITHERTO_SECRET_FILE"]
    assert "keys:/var/lib/hitherto-keys" in SERVICES["migrate"]["volumes"]


def test_containers_can_do_little() -> None:
    for name in ["migrate", "console", *OURS]:
        assert SERVICES[name]["read_only"] is True
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
        assert SERVICES[name]["build"]["target"] == name
    runtime = stages()["runtime"]
    assert "\nUSER hitherto\n" in runtime
    assert "pip" not in runtime
    last = "".join(stages()[name] for name in ("console", *OURS))
    assert not re.search(r"^USER ", last, flags=re.MULTILINE)


def test_the_console_holds_nothing_and_listens_where_it_is_probed() -> None:
    console = SERVICES["console"]
    assert set(console["environment"]) == {
        "HITHERTO_RETRIEVAL_ADDRESS",
        "HITHERTO_EXTRACTION_ADDRESS",
        "HITHERTO_TLS_CA_FILE",
    }
    assert "env_file" not in console
    # A volume of its own, not the one with the secrets of the deployment.
    assert console["volumes"] == ["console:/var/lib/hitherto", "./docker/tls:/etc/hitherto/tls:ro"]
    stage = stages()["console"].replace("\\\n", " ")
    program, *given = json.loads(re.findall(r"^CMD (\[.*\])$", stage, flags=re.MULTILINE)[-1])
    assert program == "hitherto"
    options = build_parser().parse_args(given)
    address = listen_address(options.listen)
    assert address.port == CONSOLE
    public = tuple(options.public_host)
    check_openness(address, tls=False, allow_http=options.allow_http, local=False, public=public)
    (probed,) = re.findall(r"http://([^:]+):(\d+)/health", str(console["healthcheck"]["test"]))
    assert probed == ("127.0.0.1", str(CONSOLE))
    assert probed[0] in address.hosts(public)
    assert console["healthcheck"]["test"][3] in stage


def test_the_image_is_built_from_hashes() -> None:
    build = stages()["build"]
    assert "PIP_REQUIRE_HASHES=1" in build
    assert "PIP_ONLY_BINARY=:all:" in build
    # Nothing is fetched after the lists are done.
    assert len(re.findall(r"-m pip ", build)) == 4
    assert len(re.findall(r"--no-index --no-deps", build)) == 2
    assert (ROOT / "docker" / re.findall(r"ARG REQUIREMENTS=(\S+)", build)[0]).exists()


def test_every_image_has_a_place_for_its_digest() -> None:
    images = {service["image"] for service in SERVICES.values() if "image" in service}
    places = {re.findall(r"^\$\{(\w+):-[^}@]+\}$", image)[0] for image in images}
    assert (
        re.findall(r"^FROM (\S+) AS (?:build|runtime)$", DOCKERFILE, re.MULTILINE)
        == ["${PYTHON_IMAGE}"] * 2
    )
    make_env = (ROOT / "docker" / "make_env.py").read_text("utf-8")
    offered = re.findall(r"^#(\w+)=\S+@sha256:$", make_env, re.MULTILINE)
    assert set(offered) == places | {"PYTHON_IMAGE", "CITUS_IMAGE"}
    for name in ["migrate", *OURS]:
        assert "PYTHON_IMAGE" in SERVICES[name]["build"]["args"]


def test_the_lines_for_citus_name_what_the_profile_has() -> None:
    make_env = (ROOT / "docker" / "make_env.py").read_text("utf-8")
    lines = dict(
        re.findall(r"^#(COMPOSE_PROFILES|POSTGRES_IMAGE|CITUS_WORKERS)=([^@\n]+)$", make_env, re.M)
    )
    workers = lines["CITUS_WORKERS"].split()
    of_profile = [
        name
        for name, service in SERVICES.items()
        if lines["COMPOSE_PROFILES"] in service.get("profiles", [])
    ]
    assert workers == of_profile
    # Compose names a built image after the project and the service.
    assert lines["POSTGRES_IMAGE"] == f"{COMPOSE['name']}-{workers[0]}"
    for name in workers:
        worker, coordinator = SERVICES[name], SERVICES["postgres"]
        assert worker["command"] == coordinator["command"]
        for variable in ("POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"):
            assert worker["environment"][variable] == coordinator["environment"][variable]
    (image,) = {SERVICES[name]["build"]["args"]["CITUS_IMAGE"] for name in workers}
    (dockerfile,) = {SERVICES[name]["build"]["dockerfile"] for name in workers}
    assert f"ARG CITUS_IMAGE={_interpolated(image)}\n" in (ROOT / dockerfile).read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "settings_class", "field"),
    [
        ("retrieval", RetrievalSettings, "retrieval_listen"),
        ("extraction", ExtractionSettings, "extraction_listen"),
    ],
)
def test_the_environment_is_one_the_service_starts_with(
    name: str,
    settings_class: type[RetrievalSettings] | type[ExtractionSettings],
    field: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for line in (ROOT / "docker" / "defaults.env").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            monkeypatch.setenv(*line.split("=", 1))
    for key, value in SERVICES[name]["environment"].items():
        monkeypatch.setenv(key, _interpolated(value))
    assert SERVICES[name]["env_file"] == ["docker/defaults.env", "hitherto.env"]
    monkeypatch.setenv(f"HITHERTO_{name.upper()}_LISTEN", f"0.0.0.0:{OURS[name]}")
    settings = settings_class()
    listen = getattr(settings, field)
    settings.check_listen(listen)
    assert settings.auth_mode(listen) == "api-key"
    assert not settings.embedded
    assert (settings.openai_api_key, settings.chosen_embedder) == (None, "offline")


def _interpolated(text: str) -> str:
    """`text` as compose passes it on when only the passwords are set."""
    text = re.sub(r"\$\{\w+:\?[^}]*\}", "generated", text)
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)

"""The files in deploy/: their schemas, and that they name what exists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate.utils import validate as validate_manifest
from prometheus_client import Counter, Histogram

from hitherto.v1.error_reason_pb2 import ErrorReason
from hitherto_extraction.config import ExtractionSettings
from hitherto_retrieval.config import RetrievalSettings
from tools.metrics_docs import METRICS

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OLDEST_KUBERNETES, NEWEST_KUBERNETES = "1.29", "1.34"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "hitherto.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
SERVICES = {
    "retrieval": (RetrievalSettings, "retrieval_listen", 50051),
    "extraction": (ExtractionSettings, "extraction_listen", 50052),
}


def series() -> set[str]:
    """The names under which Prometheus stores our metrics."""
    names = set()
    for metric in METRICS:
        (family,) = metric.describe()
        if isinstance(metric, Counter):
            names.add(f"{family.name}_total")
        elif isinstance(metric, Histogram):
            names |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            names.add(family.name)
    return names


def test_queries_name_metrics_that_exist() -> None:
    known = series()
    for query in [*QUERIES, *(rule["expr"] for rule in RULES)]:
        named = set(re.findall(r"\bhitherto_\w+", query))
        assert named or "up{" in query
        assert named <= known


def test_every_alert_says_what_to_do() -> None:
    operations = (DEPLOY.parent / "docs" / "operations.md").read_text("utf-8")
    sections = set(re.findall(r"^### (\w+)$", operations, flags=re.MULTILINE))
    for rule in RULES:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["remedy"] == f"docs/operations.md#{rule['alert'].lower()}"
    assert {rule["alert"] for rule in RULES} == sections


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None and not os.environ.get("CI"):
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")
    assert found, "promtool is needed in CI"
    return found


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_understands_the_rules_and_the_queries(promtool: str, tmp_path: Path) -> None:
    run(promtool, "check", "rules", str(DEPLOY / "prometheus" / "alerts.yml"))
    run(promtool, "check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))
    queries = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": queries}]}))
    run(promtool, "check", "rules", str(file))


def alerting(name: str, labels: dict[str, str], at: str, **series_: str) -> dict[str, Any]:
    """A promtool test: these series raise the alert, once, by this time."""
    (rule,) = [rule for rule in RULES if rule["alert"] == name]
    return {
        "interval": "1m",
        "input_series": [
            {"series": series.replace("'", '"'), "values": values}
            for series, values in series_.items()
        ],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})',
                "eval_time": at,
                "exp_samples": [{"labels": "{}", "value": 1}],
            },
            {
                "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})',
                "eval_time": "0m",
                "exp_samples": [],
            },
        ],
        "name": f"{name} {labels} {rule['for']}",
    }


def test_alerts_fire_for_what_they_promise(promtool: str, tmp_path: Path) -> None:
    steady = "OK", "0+600x60"
    tests = [
        alerting("HithertoJobsWait", {}, "10m", **{
            "hitherto_oldest_job_seconds{kind='memory-extraction',state='queued'}": "100+400x60"}),
        # Jobs that an outage of the model holds back are not QUEUED but FAILED, until they go on.
        alerting("HithertoJobsWait", {"state": "failed"}, "10m", **{
            "hitherto_oldest_job_seconds{kind='memory-extraction',state='failed'}": "100+400x60"}),
        alerting("HithertoJobsDead", {}, "10m", **{
            "hitherto_jobs{kind='memory-extraction',state='dead'}": "0x4 3x60"}),
        alerting("HithertoRepliesDegraded", {}, "20m", **{
            "hitherto_degraded_replies_total": "0x4 0+60x60",
            "hitherto_rpcs_total{method='RetrievalService/GetContext',code='OK'}": steady[1]}),
        alerting("HithertoReplicaBehind", {}, "20m", **{
            "hitherto_replica_lag_seconds{database='replica'}": "0x4 40+60x60"}),
        alerting("HithertoModelFails", {}, "20m", **{
            "hitherto_model_calls_total{kind='chat',outcome='ok'}": "0+6x60",
            "hitherto_model_calls_total{kind='chat',outcome='misconfigured'}": "0x4 0+60x60"}),
        # One service's calls must not hide that the other's fail, for its key alone.
        alerting("HithertoModelFails", {"service": "retrieval"}, "20m", **{
            "hitherto_model_calls_total{service='extraction',kind='embedding',outcome='ok'}":
                "0+600x60",
            "hitherto_model_calls_total{service='retrieval',kind='embedding',outcome='misconfigured'}":
                "0x4 0+60x60"}),
        alerting("HithertoCallsFail", {}, "20m", **{
            "hitherto_rpcs_total{service='retrieval',code='OK'}": steady[1],
            "hitherto_rpcs_total{service='retrieval',code='INTERNAL'}": "0x4 0+60x60"}),
        alerting("HithertoStorageFull", {}, "20m", **{
            "hitherto_rpcs_total{service='extraction',code='OK',reason=''}": steady[1],
            "hitherto_rpcs_total{service='extraction',code='RESOURCE_EXHAUSTED',reason='STORAGE_FULL'}":
                "0x4 0+6x60"}),
        alerting("HithertoStorageFull", {"of": "jobs"}, "20m", **{
            "hitherto_job_attempts_total{service='extraction',outcome='storage_full'}":
                "0x4 0+1x60"}),
        alerting("HithertoCallersLimited", {}, "30m", **{
            "hitherto_rate_limits_total{limit='tenant_reads_per_second',effect='refused',tenant=''}":
                "0x4 0+600x60"}),
        alerting("HithertoDatabaseUnreachable", {}, "10m", **{
            "hitherto_database_reachable{database='replica'}": "1x2 0x60"}),
        alerting("HithertoCertificateExpires", {}, "90m", **{
            "hitherto_tls_certificate_expiry_timestamp_seconds{file='server'}": "864000x120"}),
        alerting("HithertoDown", {}, "10m", **{
            "up{job='hitherto',service='retrieval'}": "1x2 0x60"}),
    ]  # fmt: skip
    file = tmp_path / "tests.yml"
    rules = str(DEPLOY / "prometheus" / "alerts.yml")
    file.write_text(yaml.safe_dump({"rule_files": [rules], "tests": tests}))
    run(promtool, "test", "rules", str(file))


def manifests() -> list[dict[str, Any]]:
    """Every object that the kustomization makes of files."""
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    return [
        manifest
        for name in listed
        for manifest in yaml.safe_load_all((KUBERNETES / name).read_text())
    ]


def test_manifests_follow_the_schemas_of_kubernetes() -> None:
    for version in [OLDEST_KUBERNETES, NEWEST_KUBERNETES]:
        for manifest in manifests():
            validate_manifest(manifest, version, strict=True)


def test_pods_can_do_little_and_drain() -> None:
    pods = [
        manifest["spec"]["template"]["spec"]
        for manifest in manifests()
        if manifest["kind"] in {"Deployment", "Job"}
    ]
    assert len(pods) == 3
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            # libpq's trace of a refused login is a temporary file.
            assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_autoscaling_needs_nothing_but_kubernetes() -> None:
    """With a metric that nobody serves, Kubernetes adds replicas and never takes one away."""
    scalers = [each for each in manifests() if each["kind"] == "HorizontalPodAutoscaler"]
    assert len(scalers) == 2
    for scaler in scalers:
        assert [metric["type"] for metric in scaler["spec"]["metrics"]] == ["Resource"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_pod_starts_with_what_it_is_given(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_class, field, port = SERVICES[name]
    (deployment,) = [
        manifest
        for manifest in manifests()
        if manifest["kind"] == "Deployment" and manifest["metadata"]["name"] == f"hitherto-{name}"
    ]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    for line in (KUBERNETES / "settings.env").read_text().splitlines():
        if line and not line.startswith("#"):
            monkeypatch.setenv(*line.split("=", 1))
    secrets = {
        secret["metadata"]["name"]: secret["stringData"]
        for secret in yaml.safe_load_all((KUBERNETES / "secrets.example.yaml").read_text())
    }
    for key, value in secrets[f"hitherto-{name}"].items():
        monkeypatch.setenv(key, value)
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    settings = settings_class()
    listen = getattr(settings, field)
    settings.check_listen(listen)
    assert listen.endswith(f":{port}")
    assert settings.auth_mode(listen) == "api-key"
    assert pod["terminationGracePeriodSeconds"] > settings.drain_seconds
    # Each service has the password of its own logins alone.
    others = SERVICES.keys() - {name}
    of_others = {
        key for other in others for key in secrets[f"hitherto-{other}"] if "PASSWORD" in key
    }
    assert of_others
    assert of_others.isdisjoint(os.environ)
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(settings.secret_file).rpartition("/")[0] in mounted
    assert container["readinessProbe"]["grpc"] == {"port": port}


def test_every_error_reason_has_a_remedy() -> None:
    operations = (DEPLOY.parent / "docs" / "operations.md").read_text("utf-8")
    explained = set(re.findall(r"^\| `([A-Z_]+)` \|", operations, flags=re.MULTILINE))
    reasons = {name.removeprefix("ERROR_REASON_") for name in ErrorReason.keys()}  # noqa: SIM118 - not a dict
    assert explained == reasons - {"UNSPECIFIED"}


def test_operations_names_settings_that_exist() -> None:
    operations = (DEPLOY.parent / "docs" / "operations.md").read_text("utf-8")
    documented = (DEPLOY.parent / "docs" / "configuration.md").read_text("utf-8")
    named = set(re.findall(r"`(HITHERTO_[A-Z_]+)\b", operations))
    assert len(named) > 8
    assert [
        name for name in named if f"`{name}`" not in documented and not name.endswith("_")
    ] == []

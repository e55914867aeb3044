"""The files below `deploy/` agree with the program and with each other."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from agents.states import ACTIVE
from tests.unit.test_docs import settings_read

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "crush-server"
TEMPLATES = CHART / "templates"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
SETTING = re.compile(r"\b(?:CRUSH_[A-Z_]*[A-Z]|DATABASE_URL|REDIS_URL)\b")
# How each kind of file starts a command: `[web, --host, "tcp://…"]`, or a line of a unit.
LISTED = re.compile(r"(?:command|args|CMD)(?:: | )\[\"?(\w+)\"?((?:, .*?)?)\]$", re.MULTILINE)
EXECUTED = re.compile(r"^ExecStart=/opt/crush-server/bin/crush-server (\S+)(.*)$", re.MULTILINE)
OTHER_PROGRAMS = {"redis", "sleep"}


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


def started() -> Iterator[tuple[Path, str, str]]:
    """Each start of a command: its file, its name, its arguments."""
    for path in FILES:
        content = path.read_text()
        for name, arguments in [*LISTED.findall(content), *EXECUTED.findall(content)]:
            if name not in OTHER_PROGRAMS:
                yield path, name, arguments


def compose() -> Any:
    return yaml.safe_load(text("compose.yaml"))


def values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_setting_exists(path: Path) -> None:
    assert set(SETTING.findall(path.read_text())) - settings_read() == set()


def test_every_command_exists() -> None:
    names = {name for _, name, _ in started()}
    assert names == {"migrate", "root", "web", "runworker"}
    assert names <= get_commands().keys()


def test_a_kind_of_process_has_the_same_port_everywhere() -> None:
    ports = {(name, port) for _, name, line in started() for port in re.findall(r":(\d+)", line)}
    assert ports == {("web", "22787"), ("runworker", "22801")}
    exposed = re.findall(r"^EXPOSE (.*)$", text("Dockerfile"), re.MULTILINE)
    assert exposed == ["22787 22801"]
    for name, port in (("web", "22787"), ("worker", "22801")):
        template = (TEMPLATES / f"{name}.yaml").read_text()
        assert set(re.findall(r"\b22\d{3}\b", template)) == {port}


def test_compose_starts_all_processes_and_checks_each_at_its_port() -> None:
    services = compose()["services"]
    assert set(services) == {
        *("postgres", "redis", "migrate", "root", "nginx"),
        *("web-1", "web-2", "worker"),
    }
    assert services["worker"]["deploy"]["replicas"] == 2
    for name in ("web-1", "web-2", "worker"):
        service = services[name]
        port = service["command"][-1].rpartition(":")[2]
        assert service["healthcheck"]["test"][-1] == f"http://127.0.0.1:{port}/readyz"
        first = "root" if name == "worker" else "migrate"
        assert service["depends_on"][first]["condition"] == "service_completed_successfully"
    assert "migrate" in services["root"]["depends_on"]
    assert services["migrate"]["restart"] == services["root"]["restart"] == "no"
    assert "migrate" not in services["migrate"]["depends_on"]


def test_workers_serve_the_folder_that_was_marked_and_web_processes_have_none() -> None:
    services = compose()["services"]
    for name in ("root", "worker"):
        (volume,) = services[name]["volumes"]
        assert services[name]["environment"]["CRUSH_ROOTS"] == f"work={volume.rpartition(':')[2]}"
    assert "volumes" not in services["web-1"]
    assert "CRUSH_ROOTS" not in services["web-1"]["environment"]
    templates = {name: (TEMPLATES / f"{name}.yaml").read_text() for name in ("web", "worker")}
    assert "crush.work" not in templates["web"]
    assert templates["worker"].count('"crush.workEnv"') == 2  # before it starts, and while it runs
    assert templates["worker"].count('"crush.workMount"') == 2
    # The database must have its tables first.
    assert [name for path, name, _ in started() if path.parent.name == "systemd"][:2] == [
        "migrate",
        "root",
    ]


def test_nginx_of_compose_leads_to_its_web_processes_and_is_trusted() -> None:
    everything, content = compose(), text("proxy/compose.conf")
    nginx, web = everything["services"]["nginx"], everything["services"]["web-1"]
    assert re.findall(r"^    server (\S+);", content, re.MULTILINE) == [
        "web-1:22787",
        "web-2:22787",
    ]
    (port,) = re.findall(r"^    listen (\d+) ssl;", content, re.MULTILINE)
    assert nginx["ports"] == [f"{port}:{port}"]
    address = nginx["networks"]["default"]["ipv4_address"]
    assert web["environment"]["CRUSH_TRUSTED_PROXIES"] == address
    (network,) = everything["networks"]["default"]["ipam"]["config"]
    assert ipaddress.ip_address(address) in ipaddress.ip_network(network["subnet"])


@pytest.mark.parametrize("name", ["proxy/nginx.conf", "proxy/Caddyfile"])
def test_proxies_lead_to_the_instances_of_the_manual(name: str) -> None:
    manual = (ROOT / "docs" / "deploy.md").read_text()
    instances = re.findall(r"crush-server-web@(\d+)", manual)
    assert sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", text(name)))) == instances


def test_everything_waits_longer_than_a_drain() -> None:
    for name in ("crush-server-web@.service", "crush-server-worker@.service"):
        unit = text(f"systemd/{name}")
        (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        (drain,) = re.findall(r"^CRUSH_DRAIN=(\d+)$", text("systemd/environment"), re.MULTILINE)
        assert int(seconds) > int(drain)
        assert "KillMode=process\n" in unit
    service = compose()["services"]["worker"]
    grace = int(service["stop_grace_period"].removesuffix("s"))
    assert grace > int(service["environment"]["CRUSH_DRAIN"])
    assert values()["terminationGracePeriodSeconds"] > int(values()["settings"]["CRUSH_DRAIN"])


def test_the_chart_uses_the_values_that_it_has() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["name"] == CHART.name
    known = values()
    for path in TEMPLATES.iterdir():
        for name in re.findall(r"\.Values\.([\w.]+)", path.read_text()):
            found = known
            for part in name.split("."):
                assert part in found, f"{path.name}: {name}"
                found = found[part]


def test_workers_are_scaled_by_the_runs_that_need_one() -> None:
    template = (TEMPLATES / "autoscaling.yaml").read_text()
    (listed,) = re.findall(r"state IN \((.*)\)", template)
    assert set(re.findall(r"\w+", listed)) == set(ACTIVE)
    (labels,) = re.findall(r'crush_runs\{state=~"(.*)"\}', template)
    assert set(labels.split("|")) == set(ACTIVE)


def test_the_manual_names_files_that_exist() -> None:
    manual = (ROOT / "docs" / "deploy.md").read_text() + text("README.md")
    # The operator makes these.
    made = ("deploy/secrets", "deploy/work")
    for name in re.findall(r"`(deploy/[\w./@-]*)`", manual):
        assert name.startswith(made) or (ROOT / name).exists(), name

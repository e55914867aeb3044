"""What `doctor` finds out about named roots from what workers have registered."""

from typing import Any

from crushsite.monitoring.findings import Level
from crushsite.monitoring.shared_checks import root_findings
from workspaces.log.timestamps import now_ms
from workspaces.models import RegisteredProcess, WorkRoot


def register(name: str, **facts: Any) -> None:
    now = now_ms()
    RegisteredProcess.objects.create(
        id=name,
        kind="worker",
        host=f"host-{name}",
        pid=1,
        version="1",
        started_at=now,
        registered_at=now,
        expires_at=now + 60_000,
        most_runs=5,
        **facts,
    )


def found() -> list[tuple[Level, str, str]]:
    return [(finding.level, finding.what, finding.text) for finding in root_findings()]


def test_each_root_has_a_verdict_and_a_cure(database: str) -> None:
    assert found() == []
    for name in ("both", "gone", "nobody"):
        WorkRoot.objects.create(name=name, path=f"/work/{name}", marker=name)
    register("a", roots=["both"], missing_roots=["gone"])
    register("b", roots=["both"])
    register("lost", roots=["nobody"], is_lost=True)
    both, gone, nobody = found()
    assert both == (Level.OK, "root both", "/work/both, served by 2")
    assert gone[:2] == (Level.WARN, "root gone")
    assert gone[2].endswith("wait; not found on host-a: mount /work/gone there")
    assert nobody[:2] == (Level.WARN, "root nobody")
    assert nobody[2].endswith("start a worker with CRUSH_ROOTS=nobody=/work/nobody")
    register("c", roots=["gone"])
    assert found()[1][2] == "/work/gone, served by 1, not found on host-a: mount /work/gone there"

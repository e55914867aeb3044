"""Reads the registry of processes, and the roots that they serve. Called through ``read``."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from django.db.models import Count, QuerySet

from workspaces.models import RegisteredProcess, WorkRoot, Workspace, WorkspaceHome
from workspaces.placement.roots import Root, WorkerOffer


class LateProcess(NamedTuple):
    id: str
    expires_at: int


def silent_processes(now: int) -> QuerySet[RegisteredProcess]:
    """Returns the processes that are not registered now, or did not renew their registration."""
    return RegisteredProcess.objects.exclude(is_lost=False, expires_at__gte=now)


def lease_of(process: RegisteredProcess) -> int:
    """Returns when what the process holds may be taken over: 0 if it may be now."""
    return 0 if process.is_lost else process.expires_at


def late_processes(due: int, *, apart_from: str) -> list[LateProcess]:
    """Returns the processes that should have renewed their registration by now."""
    late = RegisteredProcess.objects.filter(is_lost=False, expires_at__lt=due)
    rows = late.exclude(pk=apart_from).order_by("pk").values_list("pk", "expires_at")
    return [LateProcess(*row) for row in rows]


def worker_offers(now: int) -> list[WorkerOffer]:
    """Returns what the live processes that accept runs have registered."""
    live = RegisteredProcess.objects.filter(
        is_lost=False, expires_at__gte=now, most_runs__gt=0, is_draining=False
    )
    rows = live.order_by("pk").values_list("host", "roots", "missing_roots", "labels", "pk")
    return [
        WorkerOffer(host, roots, missing or (), own, key) for host, roots, missing, own, key in rows
    ]


def peers_of(worker: str, now: int) -> tuple[str, ...]:
    """Returns the other live workers that serve all that this one serves."""
    offers = {offer.id: offer for offer in worker_offers(now)}
    own = offers.pop(worker, None)
    if own is None:
        return ()
    return tuple(
        key
        for key, offer in offers.items()
        if set(offer.labels) >= set(own.labels)
        and set(offer.roots) >= set(own.roots)
        and _has_roots(offer) == _has_roots(own)
    )


def _has_roots(offer: WorkerOffer) -> bool:
    return bool(offer.roots or offer.missing_roots)


def _binding() -> QuerySet[RegisteredProcess]:
    """Returns the processes whose homes are no other worker's (``BINDS`` in SQL)."""
    return RegisteredProcess.objects.filter(is_lost=False, is_draining=False)


def home_of(workspace_id: str) -> str:
    """Returns the worker in which a workspace lives; empty if the next one may take it."""
    rows = WorkspaceHome.objects.filter(pk=workspace_id, process_id__in=_binding().values("pk"))
    return rows.values_list("process_id", flat=True).first() or ""


def bound_homes() -> dict[str, RegisteredProcess]:
    """Returns the processes in which workspaces live, by the workspaces."""
    processes = {process.pk: process for process in _binding()}
    rows = WorkspaceHome.objects.filter(process_id__in=processes).order_by()
    return {key: processes[home] for key, home in rows.values_list("workspace_id", "process_id")}


def count_homes() -> dict[str, int]:
    """Returns of how many workspaces each process is the home."""
    counted = WorkspaceHome.objects.order_by().values("process_id").annotate(count=Count("pk"))
    return dict(counted.values_list("process_id", "count"))


def homes_elsewhere(worker: str, workspace_ids: Collection[str]) -> list[str]:
    """Returns those of these workspaces that have their home in another worker."""
    rows = WorkspaceHome.objects.filter(pk__in=workspace_ids).exclude(process_id=worker)
    live = rows.filter(process_id__in=_binding().values("pk"))
    return list(live.values_list("workspace_id", flat=True))


def is_registered(process_id: str, now: int) -> bool:
    """Whether the process renews its registration. One that drains does."""
    rows = RegisteredProcess.objects.filter(pk=process_id, is_lost=False, expires_at__gte=now)
    return rows.exists()


def live_hosts(now: int) -> list[tuple[str, str]]:
    """Returns the hosts of the live processes: the name, and where pids are comparable.

    The second is empty for a process of an earlier release.
    """
    live = RegisteredProcess.objects.filter(is_lost=False, expires_at__gte=now).order_by()
    return list(live.values_list("host", "pid_host").distinct())


def stored_roots() -> list[WorkRoot]:
    return list(WorkRoot.objects.order_by("name"))


def known_roots() -> tuple[Root, ...]:
    return tuple(Root(root.name, root.path) for root in stored_roots())


def needed_labels() -> list[str]:
    """Returns the combinations of labels that workspaces need, as they are stored."""
    labelled = Workspace.objects.exclude(labels="").order_by()
    return list(labelled.values_list("labels", flat=True).distinct())

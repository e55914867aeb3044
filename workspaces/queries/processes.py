"""Reads the registry of processes. Called through ``read``."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import QuerySet

from workspaces.models import RegisteredProcess


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

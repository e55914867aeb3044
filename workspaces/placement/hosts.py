"""Hosts that have no process of the server now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

# After a longer pause, for instance an outage of the database, live processes may not have renewed
# their registrations yet.
PAUSE_SECONDS = 20.0


class AbandonedHosts:
    """Which hosts have had no process of the server for so long that their commands are lost."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}
        self._looked_at = float("-inf")

    def find(
        self, hosts: Iterable[str], live: Collection[tuple[str, str]], now: float
    ) -> frozenset[str]:
        """``hosts``: those of commands, as ``this_host`` returns them. ``now``: in seconds."""
        before = self._since if now - self._looked_at <= PAUSE_SECONDS else {}
        there = {pid_host for _, pid_host in live}
        unknown = {name for name, pid_host in live if not pid_host}  # of an earlier release
        self._since = {
            host: before.get(host, now)
            for host in hosts
            if host not in there and host.partition(" ")[0] not in unknown
        }
        self._looked_at = now
        return frozenset(h for h, since in self._since.items() if now - since >= self._seconds)

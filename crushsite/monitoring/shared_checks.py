"""The checks of ``doctor`` about what several processes share: PostgreSQL, Redis, and each other.

No check raises or reveals a secret. They change nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from django.conf import settings
from django.db import Error, connection

from agents.figures import workers
from agents.stuck_runs import stuck_runs
from crushsite.known_key import NAME as KEY_NAME
from crushsite.known_key import key_problem
from crushsite.monitoring.findings import Finding, fail, ok, warn
from crushsite.monitoring.processes import UNSEEN, is_served, processes
from crushsite.program_name import command_line
from workspaces.log.timestamps import now_ms
from workspaces.queries.processes import known_roots, worker_offers
from workspaces.release import VERSION

OLDEST_POSTGRES = 14  # of Django
PROBES = 5
PROBE_SECONDS = 3.0
SLOW_MS = 20.0  # a step of a run waits for several round trips
CLOCK_SECONDS = 2.0
# A process's: one that writes, four that read, four of pages and native resources.
CONNECTIONS_EACH = 9
FULL = 0.8
CERTIFICATE_DAYS = 14
SHOWN = 3
_LIMITS = (
    "SELECT current_setting('max_connections')::int"
    " - current_setting('superuser_reserved_connections')::int,"
    " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
    " (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),"
    " (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)"
)
_HIDDEN = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend' AND application_name IS NULL"
)
# What the program sets for its sessions, and what is lost without it.
_TIMEOUTS = {
    "idle_in_transaction_session_timeout": "a process that freezes keeps its locks",
    "lock_timeout": "a write waits for the lock of another process without a limit",
}


def shared_findings() -> Iterator[Finding]:
    """Yields what concerns all processes on a reachable and migrated PostgreSQL."""
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("PostgreSQL", _postgres),
        ("timeouts", _timeouts),
        ("names", _names),
        ("connections", _connections),
        (KEY_NAME, key_findings),
        ("processes", _processes),
        ("roots", root_findings),
        ("stuck runs", _stuck),
    )
    for what, check in checks:
        try:
            yield from check()
        except Error as error:
            # Only the first line: others may show a statement with its values.
            yield fail(what, f"cannot be checked: {str(error).strip().partition(chr(10))[0]}")


def _row(query: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return tuple(cursor.fetchone())


def _postgres() -> Iterator[Finding]:
    (version,) = _row("SELECT current_setting('server_version_num')::int / 10000")
    if version < OLDEST_POSTGRES:
        yield fail("PostgreSQL", f"{version} is too old; upgrade to {OLDEST_POSTGRES} or later")
    times, offsets = [], []
    for _ in range(PROBES):
        began, sent = time.perf_counter(), time.time()
        (there,) = _row("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float")
        times.append(time.perf_counter() - began)
        offsets.append(float(there) - sent - times[-1] / 2)
    yield _round_trip("PostgreSQL", median(times))
    offset = median(offsets)
    if abs(offset) < CLOCK_SECONDS:
        yield ok("clock", f"{abs(offset) * 1000:.0f} ms from PostgreSQL's")
    else:
        side = "ahead of" if offset < 0 else "behind"
        text = f"{abs(offset):.0f} s {side} PostgreSQL's: times mislead; synchronise it with NTP"
        yield warn("clock", text)


def _round_trip(what: str, seconds: float) -> Finding:
    text = f"a round trip takes {seconds * 1000:.1f} ms"
    if seconds * 1000 < SLOW_MS:
        return ok(what, text)
    return warn(what, f"{text}, and each step of a run needs several: run it nearby")


def _timeouts() -> Iterator[Finding]:
    missing = []
    for name, loss in _TIMEOUTS.items():
        (value,) = _row(f"SELECT current_setting('{name}')")
        if value == "0":
            missing.append(f"{name} is off, so {loss}")
    if missing:
        cure = "leave it out of DATABASE_URL, and use a pooler with session pooling"
        yield warn("timeouts", f"{'; '.join(missing)}: {cure}")
    else:
        yield ok("timeouts", "set for the sessions of this program")


def _names() -> Iterator[Finding]:
    (name,) = _row("SELECT current_setting('application_name')")
    (hidden,) = _row(_HIDDEN)
    late = "a crashed worker is noticed only when its registration expires"
    if not name.startswith("crush-server"):
        text = f"connections are named {name[:60]!r}, so {late}: remove application_name from"
        yield warn("names", f"{text} DATABASE_URL, and use a pooler with session pooling")
    elif hidden:
        text = f"PostgreSQL hides {hidden} connections of other roles, so {late}"
        yield warn("names", f"{text}: use one role for all processes, or grant pg_read_all_stats")
    else:
        yield ok("names", "PostgreSQL shows which process has which connection")


def _connections() -> Iterator[Finding]:
    most, used, *own = _row(_LIMITS)
    most = min([most, *(limit for limit in own if limit is not None and limit >= 0)])
    running = [each for each in _found() if each.database != UNSEEN]
    needed = CONNECTIONS_EACH * len(running)
    text = f"{used} of {most} in use; {len(running)} processes need up to {needed}"
    if max(used, needed) >= most:
        yield fail("connections", f"{text}: raise max_connections, or run fewer processes")
    elif max(used, needed) > FULL * most:
        yield warn("connections", f"{text}: raise max_connections before you add processes")
    else:
        yield ok("connections", text)


def key_findings() -> Iterator[Finding]:
    problem = key_problem()
    yield fail(KEY_NAME, problem) if problem else ok(KEY_NAME, "the one of the database's secrets")


def _found() -> list[Any]:
    return list(processes(workers(), folder=settings.DATA_DIR))


def _processes() -> Iterator[Finding]:
    found = _found()
    alive = [each for each in found if each.database != UNSEEN]
    for kind, loss, command in (
        ("worker", "accepted prompts wait", "runworker"),
        ("web", "clients find no server", "web"),
    ):
        count = sum(each.kind in {kind, "serve"} for each in alive)
        draining = sum(each.kind == kind and each.is_draining for each in alive)
        if count == draining:
            cure = f"start `{command_line(command)}`"
            yield warn(f"{kind} processes", f"none takes work, so {loss}: {cure}")
        else:
            more = f", {draining} of them draining" if draining else ""
            yield ok(f"{kind} processes", f"{count} connected{more}")
    gone = [each for each in found if each.database == UNSEEN]
    if gone:
        names = ", ".join(f"{each.kind} {each.pid or ''} on {each.host}" for each in gone[:SHOWN])
        text = f"{len(gone)} without a connection ({names}): if it has died, a worker takes over"
        yield warn("lost processes", f"{text} its runs and removes it; if not, look at its network")
    versions = sorted({each.version for each in alive if each.version} - {VERSION})
    if versions:
        others = ", ".join(versions)
        yield warn("versions", f"{others} besides {VERSION}: complete the upgrade")


def root_findings() -> Iterator[Finding]:
    """Yields whether live workers serve each named root."""
    offers = worker_offers(now_ms())
    for root in known_roots():
        name = f"root {root.name}"
        serving = sum(root.name in offer.roots for offer in offers)
        hosts = sorted({offer.host for offer in offers if root.name in offer.missing_roots})
        lost = f"not found on {', '.join(hosts[:SHOWN])}: mount {root.path} there" if hosts else ""
        if not serving:
            cure = lost or f"start a worker with CRUSH_ROOTS={root.name}={root.path}"
            yield warn(name, f"no live worker serves it, so the prompts below it wait; {cure}")
        elif hosts:
            yield warn(name, f"{root.path}, served by {serving}, {lost}")
        else:
            yield ok(name, f"{root.path}, served by {serving}")


def _stuck() -> Iterator[Finding]:
    stuck = stuck_runs(now_ms(), is_served=is_served(settings.DATA_DIR))
    if not stuck:
        yield ok("stuck runs", "none")
        return
    reasons = sorted({run.reason for run in stuck})
    text = f"{len(stuck)}: {'; '.join(reasons[:SHOWN])}: `{command_line('ps')}` shows them"
    yield warn("stuck runs", f"{text}, and docs/operations.md the cures")


# -- also without PostgreSQL


def redis_findings(url: str) -> Iterator[Finding]:
    import redis  # noqa: PLC0415  only the scaled shape needs it

    times = []
    try:
        client = redis.Redis.from_url(
            url, socket_timeout=PROBE_SECONDS, socket_connect_timeout=PROBE_SECONDS
        )
        try:
            facts: Any = client.info("server")
            for _ in range(PROBES):
                began = time.perf_counter()
                client.ping()
                times.append(time.perf_counter() - began)
        finally:
            client.close()
    except (redis.RedisError, ValueError) as error:
        # The error's message may contain the address, and with it a password.
        text = f"REDIS_URL cannot be reached ({type(error).__name__}); start Redis, or correct it"
        yield fail("Redis", text)
        return
    yield ok("Redis", str(facts.get("redis_version", "answers")))
    yield _round_trip("Redis", median(times))


def exposure_findings() -> Iterator[Finding]:
    """Yields who can reach the server, as far as the settings show it."""
    public = settings.CRUSH_PUBLIC_URL
    if settings.CRUSH_TLS_CERTIFICATE:
        yield _certificate(Path(settings.CRUSH_TLS_CERTIFICATE))
    if public.startswith("http://"):
        yield warn("public address", "CRUSH_PUBLIC_URL is not encrypted: use https")
    elif public and not settings.CRUSH_TLS_CERTIFICATE and not settings.CRUSH_HAS_PROXY:
        cure = "set CRUSH_TRUSTED_PROXIES to its address, or CRUSH_TLS_CERTIFICATE"
        yield warn("public address", f"CRUSH_PUBLIC_URL needs a proxy that encrypts: {cure}")
    elif public:
        yield ok("public address", "encrypted")
    wide = [str(net) for net in settings.CRUSH_TRUSTED_PROXIES if net.prefixlen == 0]
    if wide:
        yield fail("proxies", f"CRUSH_TRUSTED_PROXIES has {wide[0]}: anyone may claim an address")
    for root in settings.CRUSH_WORK_ROOTS:
        if Path(root).is_dir():
            yield ok("root", root)
        else:
            yield fail("root", f"{root} does not exist here: mount it, or correct CRUSH_WORK_ROOTS")


def _certificate(file: Path) -> Finding:
    from cryptography import x509  # noqa: PLC0415  10 MB

    try:
        ends = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        return fail("certificate", f"{file} cannot be read ({type(error).__name__})")
    days = (ends - datetime.now(UTC)).days
    if days < 0:
        return fail("certificate", f"{file} has expired: renew it, and restart the web processes")
    text = f"{file} is valid for {days} more days"
    if days < CERTIFICATE_DAYS:
        return warn("certificate", f"{text}: renew it, and restart the web processes")
    return ok("certificate", text)

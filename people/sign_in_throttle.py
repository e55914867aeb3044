"""Slows down those who guess passwords, tokens and login links, by account and by address.

The counts are in the memory of the process, and also in Redis where there is one, so that several
web processes count together. Without Redis, or while it is away, each process counts alone.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from django.conf import settings

from workspaces.backoff import pause_after
from workspaces.log.errors import TooManyAttempts
from workspaces.log.log_throttle import LogThrottle

logger = logging.getLogger(__name__)

FREE_FAILURES = 5  # a person mistypes
# A program may repeat a wrong token or link: nobody can guess 256 bits, so this protects the database.
FREE_GUESSES = 20
LONGEST_SECONDS = 300.0
FORGET_SECONDS = 3600.0
KEYS_KEPT = 10_000
NAME_CHARS = 254
REDIS_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Failures:
    count: int
    seconds_ago: float  # the last one


class Counts(Protocol):
    """Failures by key, forgotten an hour after the last one."""

    def of(self, key: str) -> Failures | None: ...

    def add(self, key: str) -> None: ...

    def drop(self, key: str) -> None: ...


class LocalCounts:
    """In memory, at most ``KEYS_KEPT`` of them. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def of(self, key: str) -> Failures | None:
        with self._lock:
            known = self._counts.get(key)
        if known is None:
            return None
        seconds = self._clock() - known[1]
        return None if seconds > FORGET_SECONDS else Failures(known[0], seconds)

    def add(self, key: str) -> None:
        before = self.of(key)
        with self._lock:
            self._counts.pop(key, None)
            self._counts[key] = (1 if before is None else before.count + 1), self._clock()
            while len(self._counts) > KEYS_KEPT:
                self._counts.popitem(last=False)

    def drop(self, key: str) -> None:
        with self._lock:
            self._counts.pop(key, None)


class SharedCounts:
    """In Redis, which removes them by itself; in memory, too, for the time without Redis."""

    def __init__(self, url: str, *, prefix: str, clock: Callable[[], float] = time.time) -> None:
        self._url = url
        self._prefix = prefix
        self._clock = clock
        self._local = LocalCounts()
        self._log = LogThrottle(interval_seconds=60.0)

    @cached_property
    def _redis(self) -> Any:
        import redis  # noqa: PLC0415  only the scaled shape needs it

        return redis.Redis.from_url(
            self._url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS
        )

    def of(self, key: str) -> Failures | None:
        found = self._try(lambda: self._redis.hmget(self._name(key), "count", "at"))
        if found is None:
            return self._local.of(key)
        count, at = found
        if count is None or at is None:
            return None
        return Failures(int(count), max(0.0, self._clock() - float(at)))

    def add(self, key: str) -> None:
        self._local.add(key)
        name = self._name(key)

        def store() -> None:
            with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hincrby(name, "count", 1)
                pipeline.hset(name, "at", repr(self._clock()))
                pipeline.expire(name, int(FORGET_SECONDS))
                pipeline.execute()

        self._try(store)

    def drop(self, key: str) -> None:
        self._local.drop(key)
        self._try(lambda: self._redis.delete(self._name(key)))

    def _name(self, key: str) -> str:
        # A digest: a name may be a mistyped password.
        return f"{self._prefix}.sign-in.{hashlib.sha256(key.encode()).hexdigest()}"

    def _try(self, work: Callable[[], Any]) -> Any:
        from redis.exceptions import RedisError  # noqa: PLC0415  see ``_redis``

        try:
            return work()
        except (RedisError, OSError) as error:
            if self._log.admit("redis") is not None:
                logger.warning("failed sign-ins are counted in each process alone: %s", error)
            return None


class SignInThrottle:
    """After some failures each further attempt waits: 1 s, 2 s, 4 s, at most five minutes."""

    def __init__(self, counts: Counts | None = None, *, free: int = FREE_FAILURES) -> None:
        self._counts = LocalCounts() if counts is None else counts
        self._free = free

    @property
    def is_shared(self) -> bool:
        """Whether the counts are in Redis, so that a call takes time."""
        return isinstance(self._counts, SharedCounts)

    def wait_seconds(self, *keys: str) -> int:
        """How long these keys still have to wait; 0 when an attempt may be made."""
        waits = [0.0]
        for key in keys:
            known = self._counts.of(key)
            if known is not None and known.count >= self._free:
                pause = pause_after(
                    known.count - self._free + 1, first_seconds=1, limit_seconds=LONGEST_SECONDS
                )
                waits.append(pause - known.seconds_ago)
        return math.ceil(max(waits))

    def fail(self, *keys: str) -> None:
        for key in keys:
            self._counts.add(key)

    def succeed(self, *keys: str) -> None:
        for key in keys:
            self._counts.drop(key)

    def count_guess(self, address: str) -> None:
        """Counts a wrong token or link, or raises ``TooManyAttempts``. Right ones never come here."""
        key = f"guesses {network_of(address)}"
        seconds = self.wait_seconds(key)
        if seconds:
            raise TooManyAttempts(seconds=seconds)
        self.fail(key)


def network_of(address: str) -> str:
    """What one sender has: an address, or of IPv6 a whole /64."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


def keys_of(name: str, address: str) -> tuple[str, str]:
    """The keys of a sign-in with a password: its account and its address."""
    return f"account {name.lower()[:NAME_CHARS]}", f"address {network_of(address)}"


def _counts() -> Counts:
    if not settings.REDIS_URL:
        return LocalCounts()
    return SharedCounts(settings.REDIS_URL, prefix=settings.CRUSH_REDIS_PREFIX)


_COUNTS = _counts()
PASSWORDS = SignInThrottle(_COUNTS)
GUESSES = SignInThrottle(_COUNTS, free=FREE_GUESSES)

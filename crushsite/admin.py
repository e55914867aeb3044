"""The admin of this program: its name, its sign-in, its content policy, its clients' streams.

The counts of failed attempts stay in this process's memory: several web processes count apart.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from typing_extensions import override

FREE_FAILURES = 5  # a person mistypes
LONGEST_SECONDS = 300.0
FORGET_SECONDS = 3600.0
KEYS_KEPT = 10_000


@dataclass(slots=True)
class _Failures:
    count: int
    last_at: float

    @property
    def pause(self) -> float:
        if self.count < FREE_FAILURES:
            return 0.0
        return float(min(LONGEST_SECONDS, 2 ** min(self.count - FREE_FAILURES, 30)))


class Throttle:
    """After five failures each further attempt waits: 1 s, 2 s, 4 s, at most five minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def wait_seconds(self, *keys: str) -> int:
        """How long these keys still have to wait; 0 when an attempt may be made."""
        now = self._clock()
        waits = [0.0]
        for key in keys:
            known = self._failures.get(key)
            if known is not None:
                waits.append(known.last_at + known.pause - now)
        return math.ceil(max(waits))

    def fail(self, *keys: str) -> None:
        now = self._clock()
        for key in keys:
            known = self._failures.pop(key, None)
            if known is None or now - known.last_at > FORGET_SECONDS:
                known = _Failures(0, now)
            self._failures[key] = _Failures(known.count + 1, now)
        while len(self._failures) > KEYS_KEPT:
            self._failures.popitem(last=False)

    def succeed(self, *keys: str) -> None:
        for key in keys:
            self._failures.pop(key, None)


THROTTLE = Throttle()


class ThrottledSignIn(AdminAuthenticationForm):
    """Django's form, which refuses to look at a password while its account or address waits."""

    throttle = THROTTLE

    @override
    def clean(self) -> dict[str, Any]:
        account = f"account {str(self.cleaned_data.get('username', '')).lower()[:254]}"
        address = f"address {self.request.META.get('REMOTE_ADDR', '') if self.request else ''}"
        seconds = self.throttle.wait_seconds(account, address)
        if seconds:
            unit = "second" if seconds == 1 else "seconds"
            raise ValidationError(
                f"Too many failed attempts. Try again in {seconds} {unit}.", code="throttled"
            )
        try:
            cleaned = super().clean()
        except ValidationError:
            self.throttle.fail(account, address)
            raise
        # The address keeps its count: it may be guessing at other accounts.
        self.throttle.succeed(account)
        return cleaned


POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


class ContentPolicy(MiddlewareMixin):
    def process_response(
        self, _request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


admin.site.login_form = ThrottledSignIn
admin.site.site_header = admin.site.site_title = "Crush server"

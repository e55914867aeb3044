"""Everything beside the API, by Django's own handler, loaded at the first such request.

The admin and what it needs are a good part of the memory of a server that most
people use without it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope
from django.core.handlers.asgi import ASGIHandler
from django.utils.module_loading import autodiscover_modules


class LazyDjango:
    def __init__(self) -> None:
        self._handler: Any = None
        self._loading = asyncio.Lock()

    async def __call__(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        if self._handler is None:
            async with self._loading:
                if self._handler is None:
                    self._handler = await asyncio.to_thread(_load)
        await self._handler(scope, receive, send)


def _load() -> ASGIHandler:
    # Before any URL is resolved: the admin's addresses are those of what is registered.
    autodiscover_modules("admin")
    return ASGIHandler()

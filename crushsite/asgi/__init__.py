"""The ASGI layer, and ``application`` for stock ASGI servers.

``uvicorn crushsite.asgi:application`` and ``daphne crushsite.asgi:application`` serve everything.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crushsite.asgi.guard import Application

    application: Application


def __getattr__(name: str) -> object:
    """Creates the application on first access.

    Commands with a server of their own also import the modules of this package. There Django is
    already set up, and no second application may exist.
    """
    if name != "application":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import django  # noqa: PLC0415  only for a stock server

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crushsite.settings")
    django.setup()
    from django.conf import settings  # noqa: PLC0415  Django must be set up first

    from crushsite.asgi.guard import Guard  # noqa: PLC0415  the same
    from crushsite.asgi.hosted import HostedServer  # noqa: PLC0415  the same
    from crushsite.exposure import names_of  # noqa: PLC0415  the same

    made = Guard(
        HostedServer(),
        extra_hosts=names_of(""),  # of a proxy in front; the server itself serves this machine
        extra_origins=settings.CSRF_TRUSTED_ORIGINS,
        max_body_bytes=settings.CRUSH_MAX_BODY_BYTES,
    )
    globals()[name] = made
    return made

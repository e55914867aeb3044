"""The guarded application for stock ASGI servers: ``uvicorn crushsite.asgi:application``."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crushsite.settings")
django.setup()

from django.conf import settings  # noqa: E402  Django must be set up first

from crushsite.guard import Guard  # noqa: E402  the same
from crushsite.stock_servers import HostedServer  # noqa: E402  the same

application = Guard(HostedServer(), max_body_bytes=settings.CRUSH_MAX_BODY_BYTES)

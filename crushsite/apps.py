from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import pre_migrate
from typing_extensions import override


class CrushsiteConfig(AppConfig):
    name = "crushsite"
    verbose_name = "Server"

    @override
    def ready(self) -> None:
        from crushsite import checks  # noqa: F401, PLC0415  registers them

        pre_migrate.connect(lift_session_limits, dispatch_uid="lift_session_limits")


def lift_session_limits(*, using: str, **_: Any) -> None:
    """A migration may wait for locks of running servers, and work between two statements."""
    connection = connections[using]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
            cursor.execute("SET idle_in_transaction_session_timeout = 0")

"""Django's entry."""

from django.apps import AppConfig
from django.conf import settings
from typing_extensions import override


class PeopleConfig(AppConfig):
    name = "people"
    verbose_name = "People"

    @override
    def ready(self) -> None:
        from people.pages.sign_in import record_sign_ins  # noqa: PLC0415  models must be loaded first

        record_sign_ins()
        if settings.CRUSH_SSO:
            from people.sso.adapters import connect_signals  # noqa: PLC0415  an extra

            connect_signals()

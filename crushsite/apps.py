from django.apps import AppConfig
from typing_extensions import override


class CrushsiteConfig(AppConfig):
    name = "crushsite"
    verbose_name = "Server"

    @override
    def ready(self) -> None:
        from crushsite import checks  # noqa: F401, PLC0415  registers them

from django.apps import AppConfig
from typing_extensions import override

from workspaces.api.lean_import import import_framework_lean


class WorkspacesConfig(AppConfig):
    name = "workspaces"
    verbose_name = "Workspaces"

    @override
    def ready(self) -> None:
        import_framework_lean()

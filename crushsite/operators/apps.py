"""Django's entry for the admin, with our site instead of its own."""

from __future__ import annotations

from django.contrib.admin.apps import SimpleAdminConfig


class OperatorsConfig(SimpleAdminConfig):
    """Without autodiscovery: the admin's modules load on its first page."""

    default_site = "crushsite.operators.site.OperatorSite"

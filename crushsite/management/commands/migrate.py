"""``manage.py migrate``: Django's, which a scaled server needs once for each release."""

from __future__ import annotations

from django.core.management.commands import migrate


class Command(migrate.Command):
    help = "Brings the database to this version. serve does it by itself; web and runworker do not."

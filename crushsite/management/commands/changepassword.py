"""``manage.py changepassword``: Django's, listed with the project's own commands."""

from __future__ import annotations

from django.contrib.auth.management.commands import changepassword


class Command(changepassword.Command):
    help = "Changes the password of an account for /admin."

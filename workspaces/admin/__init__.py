"""The rows in Django's admin, read-only, with filters and search."""

from workspaces.admin import sessions, workspaces

__all__ = ["sessions", "workspaces"]

"""The settings of a child that works: a server's, on a database of its own and without pages.

Whoever uses them has put the child's folder into the environment before.
"""

from __future__ import annotations

from crushsite.settings import *  # noqa: F403  a server's, but for what follows

# A child has neither accounts nor an admin: loading those would take half its start.
INSTALLED_APPS = ["workspaces", "permissions", "agents"]
MIDDLEWARE = []

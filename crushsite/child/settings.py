"""The settings of a child that works: a server's, with a database of its own and without pages.

The child's folder must be in the environment before they are imported.
"""

from __future__ import annotations

from crushsite.settings import *  # noqa: F403  a server's, but for what follows

# A child has neither accounts nor an admin: loading them would take half of its start time.
INSTALLED_APPS = ["workspaces", "permissions", "agents"]
MIDDLEWARE = []

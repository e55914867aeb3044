"""The project's settings, read in an isolated environment.

pytest-django imports settings before any conftest, so the isolation has to start here.
"""

from tests.isolation import isolate

isolate()

from crushsite.settings import *  # noqa: E402, F403

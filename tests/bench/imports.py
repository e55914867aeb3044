"""`python -m tests.bench.imports`: what is saved by what a start leaves out or puts off.

Each figure is from processes of their own, with and without: processor time and peak memory.
"""

import json
import os
import subprocess
import sys
import tempfile
from statistics import median

SET_UP = """
import os, resource, tempfile, time
os.environ["CRUSH_DATA_DIR"] = tempfile.mkdtemp()
os.environ["DJANGO_SETTINGS_MODULE"] = "crushsite.settings"
"""
REPORT = """
used = resource.getrusage(resource.RUSAGE_SELF)
print([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024])
"""
SERVER = "import django; django.setup()\nimport crushsite.api_urls, crushsite.asgi.routing\n"
WITH_TLS = "import OpenSSL\n"
FULL_FRAMEWORK = """
from workspaces.api import lean_import
import workspaces.apps
workspaces.apps.import_framework_lean = lambda: None
"""
PAGE = """
import asyncio
from crushsite.asgi.routing import LazyDjango
async def page():
    messages = [{"type": "http.request", "body": b"", "more_body": False}]
    async def receive():
        return messages.pop() if messages else await asyncio.Event().wait()
    async def send(message):
        assert message.get("status", 200) == 200
    scope = {"type": "http", "method": "GET", "path": "/admin/login/", "query_string": b""}
    await LazyDjango()(scope | {"headers": [(b"host", b"localhost")]}, receive, send)
asyncio.run(page())
"""
DAPHNE = "import crushsite.server.asgi_server\n"
CASES = {
    "Twisted without OpenSSL (crushsite/server)": (SERVER + DAPHNE, SERVER + WITH_TLS + DAPHNE),
    "REST framework without what it does not need": (SERVER, FULL_FRAMEWORK + SERVER),
    "the admin only with its first page": (SERVER, SERVER + PAGE),
}
RUNS = 5


def main() -> None:
    for name, (without, with_it) in CASES.items():
        lean, full = _measure(without), _measure(with_it)
        print(f"{name:<46} saves {full[0] - lean[0]:5.2f} s and {full[1] - lean[1]:5.1f} MB")


def _measure(code: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home}
        runs = [
            json.loads(
                subprocess.run(
                    [sys.executable, "-c", SET_UP + code + REPORT],
                    env=environment,
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for _ in range(RUNS)
        ]
    return median(run[0] for run in runs), median(run[1] for run in runs)


if __name__ == "__main__":
    main()

"""Commands load what they need, when they need it: drawing and clients take a tenth of a second."""

import json
import os
import subprocess
import sys
import tempfile

LATER = ["rich", "markdown_it", "pygments", "crushclient"]
LOADING = """
import json, sys
import django
django.setup()
from django.core.management import get_commands, load_command_class
from crushsite.cli.program import own_commands
apps = get_commands()
for name in own_commands():
    load_command_class(apps[name], name).create_parser("", name)
import crushsite.asgi.routing
print(json.dumps(sorted(set(sys.modules) & set(sys.argv[1:]))))
"""

# What a prompt to a running server does without: half of a second.
OF_SERVERS = ["agents.runs.accept", "agents.tools.registry", "crushsite.asgi.routing", "daphne"]
LOADING_PROMPT = """
import json, sys
import django
django.setup()
import crushsite.client.management.commands.prompt
import crushclient
print(json.dumps(sorted(set(sys.modules) & set(sys.argv[1:]))))
"""


def test_no_command_and_no_server_loads_what_only_a_terminal_needs() -> None:
    assert loaded(LOADING, LATER) == []


def test_a_prompt_to_a_running_server_loads_no_server() -> None:
    assert loaded(LOADING_PROMPT, OF_SERVERS) == []


def loaded(program: str, modules: list[str]) -> list[str]:
    """Those of the modules that the program has loaded at its end."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            "CRUSH_DATA_DIR": folder,
            "DJANGO_SETTINGS_MODULE": "crushsite.settings",
        }
        done = subprocess.run(
            [sys.executable, "-c", program, *modules],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
    found: list[str] = json.loads(done.stdout)
    return found

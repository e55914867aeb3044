"""Prompts that make the model call `bash`, and the sessions that commands list."""

import json

from tests.acceptance.harness.commands import command

Env = dict[str, str]
TOUCH = '[[tool=bash {"command": "touch made.txt", "description": "Make a file"}]] [[n=3]]'
PRINTING = '[[tool=bash {"command": "seq 3", "description": "Count"}]] [[n=2 id=w]]'


def sessions(env: Env, *arguments: str) -> list[dict]:
    done = command(env, "sessions", "--json", *arguments)
    assert done.code == 0, done.err
    return json.loads(done.out)

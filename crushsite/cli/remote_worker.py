"""``crush-server remote-worker``: performs the prompts of a server on another machine.

It starts without the server's settings: it has a temporary database of its own, like a sub-agent,
and reaches neither the server's database nor its Redis.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from django.core.management.base import CommandError

from agents.fleet.child.executor import ExecutorFailed
from agents.fleet.parent.joined import WorkerHello
from agents.fleet.provisioning.spec import (
    Capabilities,
    ChildIdentity,
    ProvisionSpec,
    SpecExecutor,
)
from crushsite.child.joining import JoinedServer, JoinRefused, WorkerConnections
from crushsite.child.main import OwnTurn
from crushsite.cli.exit_codes import Exit
from crushsite.cli.servers import TOKEN_VARIABLE, add_server_options, chosen_login
from crushsite.runtime import StopRequest, return_large_blocks
from crushsite.runtime import run as run_loop
from crushsite.server_client import UNIX, tls_context
from workspaces.log.ids import new_id
from workspaces.placement.remote_place import NAME

DEFAULT_CAPACITY = 4
MOST_CAPACITY = 64
MOST_ROOTS = 100


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="crush-server remote-worker",
        description="Joins a server as a remote worker: performs the prompts of its workspaces"
        " NAME:ROOT in folders of this machine, with this machine's configuration.",
    )
    add_arguments(parser)
    options = vars(parser.parse_args(arguments))
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    try:
        server, folders = _server(options), _folders(options["root"])
        name = _name(options["name"] or _host_name(), "--name")
        hello = WorkerHello(name, new_id().replace("-", ""), tuple(folders), options["capacity"])
        return_large_blocks()
        run_loop(_work(server, hello, folders))
    except CommandError as error:
        sys.stderr.write(f"{error}\n")
        return error.returncode
    return Exit.DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name",
        default="",
        help="what the server's users call this worker (default: the name of this machine)",
    )
    parser.add_argument(
        "--root",
        action="append",
        required=True,
        metavar="ROOT=FOLDER",
        help="a folder that it serves, and its name; without ROOT= the folder's own name. Repeat it"
        " for more",
    )
    parser.add_argument(
        "--capacity",
        type=_capacity,
        default=DEFAULT_CAPACITY,
        metavar="COUNT",
        help="how many prompts it performs at once in each folder (default: %(default)s)",
    )
    add_server_options(parser)


def _capacity(text: str) -> int:
    count = int(text)
    if not 1 <= count <= MOST_CAPACITY:
        raise argparse.ArgumentTypeError(f"must be from 1 to {MOST_CAPACITY}")
    return count


def _server(options: Mapping[str, object]) -> JoinedServer:
    """Returns the server to join. Raises ``CommandError``."""
    login = chosen_login(options)
    os.environ.pop(TOKEN_VARIABLE, None)  # the commands of models must not find it
    if login is None or login.url.startswith(UNIX):
        raise CommandError("Name the server to join with --server https://HOST.", returncode=2)
    if not login.token:
        raise CommandError(
            "Name a file with the token with --token-file. On the server, `crush-server token"
            " create NAME --scope work` creates one.",
            returncode=Exit.UNAUTHORISED,
        )
    tls = tls_context(login.ca_file) if login.url.startswith("https") else None
    return JoinedServer(login.url, login.token, tls)


def _folders(given: Sequence[str]) -> dict[str, Path]:
    """Returns the folders by name. Raises ``CommandError``."""
    folders: dict[str, Path] = {}
    for text in given:
        root, equals, path = text.partition("=")
        folder = Path(path if equals else text).expanduser().resolve()
        name = _name(root if equals else folder.name.lower(), "--root")
        if not folder.is_dir():
            raise CommandError(f"--root: {folder} is not a folder.", returncode=Exit.USAGE)
        if name in folders:
            raise CommandError(f"--root: two folders have the name {name}.", returncode=Exit.USAGE)
        folders[name] = folder
    if len(folders) > MOST_ROOTS:
        raise CommandError(f"--root: at most {MOST_ROOTS} folders.", returncode=Exit.USAGE)
    return folders


def _name(text: str, option: str) -> str:
    """Raises ``CommandError``."""
    if not NAME.fullmatch(text):
        raise CommandError(
            f"{option}: {text!r} must begin with a lower case letter or a digit, and have only"
            " those, dots, - and _, at most 63.",
            returncode=Exit.USAGE,
        )
    return text


def _host_name() -> str:
    return re.sub(r"[^a-z0-9_-]", "-", socket.gethostname().partition(".")[0].lower())


async def _work(server: JoinedServer, hello: WorkerHello, folders: Mapping[str, Path]) -> None:
    """Serves until a signal. Raises ``CommandError``."""
    stop = StopRequest()
    stop.listen()
    own = OwnTurn(_spec(hello.name, next(iter(folders.values()))))
    try:
        try:
            await own.start()
            executors = {root: await own.turns_in(folder) for root, folder in folders.items()}
        except ExecutorFailed as error:
            raise CommandError(str(error)) from error
        connections = WorkerConnections(server, hello, executors, note=_note)
        serving = asyncio.create_task(connections.serve(), name="serving")
        stopping = asyncio.create_task(stop.requested.wait(), name="stopping")
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stop.begin_end()
        stopping.cancel()
        serving.cancel()
        try:
            await serving
        except asyncio.CancelledError:
            pass
        except JoinRefused as refused:
            code = Exit.UNAUTHORISED if refused.is_unauthorised else Exit.FAILED
            raise CommandError(f"{server.url}: {refused}.", returncode=code) from None
    finally:
        await own.stop()
    _note("Stopped")


def _spec(name: str, folder: Path) -> ProvisionSpec:
    """Returns what a parent would give a sub-agent: without a model, this machine's is used."""
    return ProvisionSpec(
        identity=ChildIdentity(child_id=name),
        executor=SpecExecutor("crush"),
        fabric_dir="",
        workspace=str(folder),
        capabilities=Capabilities(enforce_permissions=True, nested_spawn=True),
    )


def _note(sentence: str) -> None:
    print(sentence, flush=True)  # noqa: T201  for the user

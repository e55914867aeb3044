"""What may follow the words of a command line: commands, options, choices, ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Self

from django.db import Error as DatabaseError
from django.db import connection

from crushsite.cli.program import command_named, own_commands
from crushsite.cli.servers import SERVER_VARIABLE, stored_logins

MOST_IDS = 50
_SERVERS = frozenset({"--server", "url"})
_FLAGS = frozenset({"store_true", "store_false", "store_const", "count", "help", "version"})


@dataclass(frozen=True, slots=True)
class Argument:
    names: tuple[str, ...]
    values: tuple[str, ...]
    is_flag: bool


class ArgumentRecorder:
    """Takes the place of a parser, to see which arguments a command has."""

    def __init__(self) -> None:
        self.arguments: list[Argument] = []
        self.tasks: dict[str, ArgumentRecorder] = {}

    def add_argument(self, *names: str, **options: Any) -> None:
        values = tuple(str(choice) for choice in options.get("choices") or ())
        is_flag = options.get("action") in _FLAGS or options.get("nargs") == 0
        if options.get("help") != "==SUPPRESS==":
            self.arguments.append(Argument(names, values, is_flag))

    def add_argument_group(self, *_: Any, **__: Any) -> Self:
        return self

    def add_mutually_exclusive_group(self, **_: Any) -> Self:
        return self

    def add_subparsers(self, **_: Any) -> Self:
        return self

    def add_parser(self, name: str, **_: Any) -> ArgumentRecorder:
        return self.tasks.setdefault(name, ArgumentRecorder())


def candidates(words: Sequence[str]) -> list[str]:
    """The possible last words, by the beginning that is typed."""
    typed = words[-1] if words else ""
    if len(words) < 2:
        return _beginning(typed, ["help", *(name.replace("_", "-") for name in own_commands())])
    command = command_named(words[0])
    if command is None:
        return []
    known: Any = ArgumentRecorder()
    command.add_arguments(known)
    if known.tasks:
        if len(words) < 3:
            return _beginning(typed, sorted(known.tasks))
        known = known.tasks.get(words[1], known)
    is_here = "--server" not in words and not os.environ.get(SERVER_VARIABLE)
    for argument in known.arguments:
        if words[-2] in argument.names and not argument.is_flag and len(words) > 2:
            return _values_of(argument, typed, is_here=is_here)
    if typed.startswith("-"):
        options = [name for argument in known.arguments for name in argument.names]
        return _beginning(typed, [*sorted(name for name in options if name[0] == "-"), "--help"])
    positional = [argument for argument in known.arguments if argument.names[0][0] != "-"]
    return _values_of(positional[0], typed, is_here=is_here) if positional else []


def _values_of(argument: Argument, typed: str, *, is_here: bool) -> list[str]:
    """``is_here``: the command uses the server of this machine, whose ids are at hand."""
    if argument.values:
        return _beginning(typed, argument.values)
    if _SERVERS.intersection(argument.names):
        return _beginning(typed, [login.url for login in stored_logins()])
    ids = next((_IDS[name] for name in argument.names if name in _IDS), None)
    if ids is None or not is_here:
        return []
    try:
        return list(islice(_each_beginning(typed, ids()), MOST_IDS))
    except DatabaseError:
        return []
    finally:
        connection.close()


# Ids of the local server's database, the newest first: a request takes longer than a person waits.


def _session_ids() -> Iterable[str]:
    from workspaces.models import Session  # noqa: PLC0415  only for ids

    rows = Session.objects.filter(is_deleting=False, parent_session_id="")
    return rows.order_by("-updated_at").values_list("pk", flat=True).iterator()


def _run_keys() -> Iterable[str]:
    from agents.models import Run  # noqa: PLC0415  the same

    return map(str, Run.objects.order_by("-pk").values_list("pk", flat=True).iterator())


def _queued_keys() -> Iterable[str]:
    from agents.models import Run  # noqa: PLC0415  the same
    from agents.states import RunState  # noqa: PLC0415  the same

    rows = Run.objects.filter(state=RunState.ACCEPTED, was_queued=True)
    return map(str, rows.order_by("-pk").values_list("pk", flat=True).iterator())


def _open_request_ids() -> Iterable[str]:
    from permissions.models import (  # noqa: PLC0415  the same
        PermissionRequest,
        QuestionBatch,
        RequestState,
    )

    rows = [
        model.objects.filter(state=RequestState.PENDING).order_by("-asked_at")
        for model in (PermissionRequest, QuestionBatch)
    ]
    return chain.from_iterable(found.values_list("pk", flat=True).iterator() for found in rows)


_IDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "session": _session_ids,
    "--session": _session_ids,
    "run": _run_keys,
    "request": _open_request_ids,
    "--first": _queued_keys,
    "--steer": _queued_keys,
    "--edit": _queued_keys,
    "--remove": _queued_keys,
}


def _each_beginning(typed: str, words: Iterable[str]) -> Iterator[str]:
    return (word for word in words if word.startswith(typed))


def _beginning(typed: str, words: Iterable[str]) -> list[str]:
    return list(_each_beginning(typed, words))

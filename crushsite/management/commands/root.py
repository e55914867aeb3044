"""``manage.py root``: the named folders below which workspaces lie, and their markers.

It works on the database and on this machine's folders.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.cli.stored_people import refuse_tools
from crushsite.cli.terminal import aligned
from crushsite.program_name import command_line
from crushsite.storage import require_database
from workspaces.actions.processes import add_root, forget_root
from workspaces.log.errors import Refusal
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer
from workspaces.models import WorkRoot
from workspaces.placement.markers import (
    MARKER,
    MarkerProblem,
    read_marker,
    verify_root,
    write_marker,
)
from workspaces.placement.roots import BadPlacement, Root, overlapping, parse_root
from workspaces.queries.processes import stored_roots, worker_offers


class Command(BaseCommand):
    help = "Creates, lists and forgets roots: named folders, which workers verify by a marker."
    examples = ("root init main=/srv/code", "root list", "root forget main")
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        tasks = parser.add_subparsers(dest="task", required=True)
        init = tasks.add_parser("init", help=f"store a root and write its {MARKER}")
        init.add_argument(
            "roots", nargs="*", metavar="NAME=/PATH", help="the roots (default: CRUSH_ROOTS)"
        )
        init.add_argument(
            "--again",
            action="store_true",
            help="also mark a folder without a marker as a root that is stored already",
        )
        tasks.add_parser("list", help="every root, and the machines that serve it")
        forget = tasks.add_parser("forget", help="remove a root; its folder stays as it is")
        forget.add_argument("name")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        require_database()
        if options["task"] == "list":
            self._list()
            return
        refuse_tools()
        if options["task"] == "forget":
            self._forget(options["name"])
            return
        try:
            roots = [parse_root(each) for each in options["roots"]] or list(settings.CRUSH_ROOTS)
        except BadPlacement as error:
            raise CommandError(f"{error}.") from error
        if not roots:
            raise CommandError("Name a root as NAME=/path, or set CRUSH_ROOTS.")
        for root in roots:
            try:
                self._init(root, is_again=options["again"])
            except MarkerProblem as problem:
                raise CommandError(f"{root.name}: {problem}.") from problem
            except Refusal as refusal:
                raise CommandError(refusal.sentence) from refusal

    def _init(self, root: Root, *, is_again: bool) -> None:
        path = os.path.realpath(root.path)
        if not Path(path).is_dir():
            raise MarkerProblem(f"{root.path} is not a folder of this machine")
        stored = {each.name: each for each in stored_roots()}
        row = stored.get(root.name)
        found = read_marker(path)
        if row is None:
            others = [Root(each.name, each.path) for each in stored.values()]
            if other := overlapping(Root(root.name, path), others):
                raise MarkerProblem(f"{path} overlaps the root {other.name}, {other.path}")
            if found in {each.marker for each in stored.values()}:
                raise MarkerProblem(f"{path}/{MARKER} is the marker of another root")
            # A marker from before, for example of a database that was restored, stays.
            row = writer.write_and_wait(
                "", partial(add_root, name=root.name, path=path, marker=found)
            )
        if not found and (is_again or root.name not in stored):
            write_marker(path, row.marker)
        try:
            verify_root(root, path=row.path, marker=row.marker)
        except MarkerProblem as problem:
            if found or is_again:
                raise
            raise MarkerProblem(
                f"{problem}. If it is the folder of this root, run"
                f" `{command_line(f'root init {root.name}={root.path} --again')}`"
            ) from problem
        self.stdout.write(f"The root {root.name} is {path}.")

    def _forget(self, name: str) -> None:
        if not writer.write_and_wait("", partial(forget_root, name=name)):
            raise CommandError(f"There is no root {name!r:.100}.")
        self.stdout.write(f"The root {name} is forgotten. Its folder and {MARKER} are as before.")

    def _list(self) -> None:
        roots, workers = stored_roots(), worker_offers(now_ms())
        if not roots:
            self.stdout.write("There are no roots.")
            return
        self.stdout.write(aligned(HEADS, [_row(root, workers) for root in roots]))


HEADS = ["root", "folder", "served by", "not found on"]


def _row(root: WorkRoot, workers: Any) -> list[str]:
    served = sorted({each.host for each in workers if root.name in each.roots})
    missing = sorted({each.host for each in workers if root.name in each.missing_roots})
    return [root.name, root.path, ", ".join(served) or "-", ", ".join(missing) or "-"]

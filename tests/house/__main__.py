"""Prints the layout's figures beside their targets. With ``--list`` also what they count."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.house import measures
from tests.house.measures import Module

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "crushsite", "notifications", "people", "permissions", "workspaces")
# The code around Daphne and Twisted may use their private names.
SERVER_FOLDERS = ("crushsite/server",)


def rows(modules: Sequence[Module]) -> list[tuple[str, str, str]]:
    """Name, figure and target of each measure."""
    alone = measures.single_importers(modules)
    alone_lines = sum(len(module.lines) for module, _ in alone)
    folder, size = measures.largest_folders(modules)[0]
    classes = measures.duplicate_classes(modules)
    private = _private(modules)
    return [
        ("modules", f"{len(modules)}", "about 350"),
        ("lines", f"{sum(len(module.lines) for module in modules):,}", ""),
        (
            "module lines, median / p90 / largest",
            str(measures.module_lines(modules)),
            "125 / 280 / 400",
        ),
        (
            "function lines, median / p90 / largest",
            str(measures.function_lines(modules)),
            "7 / 18 / 69",
        ),
        ("largest folder", f"{size} ({folder})", "20"),
        (
            "modules whose only importer is in their folder",
            f"{len(alone)} ({alone_lines:,} lines)",
            "under 30",
        ),
        (
            "class names used more than once",
            f"{len(classes)} (for {sum(map(len, classes.values()))} classes)",
            "0",
        ),
        ("private names of libraries outside the server", f"{len(private)}", "0"),
        ("lines that are comments", f"{measures.comment_share(modules):.1%}", "3 to 10 %"),
    ]


def table(found: Sequence[tuple[str, str, str]]) -> str:
    lines = ["| | now | target |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {now} | {target} |" for name, now, target in found)])


def details(modules: Sequence[Module]) -> str:
    parts = ["Folders of more than 20 modules:"]
    folders = measures.largest_folders(modules)
    parts += [f"  {folder}: {size}" for folder, size in folders if size > 20]
    parts += ["", "Modules whose only importer is in their folder:"]
    parts += [
        f"  {module.path} ({len(module.lines)} lines), imported by {user.path.name}"
        for module, user in measures.single_importers(modules)
    ]
    parts += ["", "Class names used more than once:"]
    parts += [
        f"  {name}: {', '.join(map(str, paths))}"
        for name, paths in measures.duplicate_classes(modules).items()
    ]
    parts += ["", "Private names of libraries outside the server:"]
    parts += [f"  {found}" for found in _private(modules)]
    return "\n".join(parts)


def _private(modules: Sequence[Module]) -> list[measures.PrivateName]:
    return measures.foreign_private_names(modules, own_packages=PACKAGES, allowed=SERVER_FOLDERS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout to measure")
    parser.add_argument("--list", action="store_true", help="name what is counted")
    chosen = parser.parse_args()
    modules = measures.read_modules(chosen.root, PACKAGES)
    if not modules:
        parser.error(f"{chosen.root} has no modules in {', '.join(PACKAGES)}.")
    print(table(rows(modules)))
    if chosen.list:
        print(f"\n{details(modules)}")


if __name__ == "__main__":
    main()

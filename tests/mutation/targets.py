"""Which files are mutated, and which tests could notice it."""

from __future__ import annotations

from pathlib import Path

_FILE_TOOLS = (
    "approval_snapshot", "changes", "edit", "multiedit", "paths", "replacing", "safe_files", "text_file", "view",
    "write",
)  # fmt: skip
# What writes the rows of runs. What performs them needs a whole server to be seen.
_RUNS = (
    "accept", "answer", "cancel", "finish", "lease", "messages", "queries", "rows", "steps", "teardown",
    "transitions", "calls/permission_check", "children/delegations",
)  # fmt: skip
AREAS: dict[str, tuple[str, ...]] = {
    "turn": ("agents/turn/*.py",),
    "runs": tuple(f"agents/runs/{name}.py" for name in _RUNS),
    "log": ("workspaces/log/*.py",),
    "delivery": ("workspaces/delivery/*.py",),
    "policy": ("permissions/policy/*.py",),
    "file tools": tuple(f"agents/tools/files/{name}.py" for name in _FILE_TOOLS),
}
# In this order: what is quick first. Left out is what searches at random or starts foreign programs
# for seconds. Acceptance tests are not among them: a fault that only a whole server shows counts as
# a survivor.
TESTS = (
    "tests/unit",
    "tests/integration/runs",
    "tests/integration/log",
    "tests/integration/api",
    "tests/integration/delivery",
    "tests/integration/jobs",
    "tests/integration/fleet",
    "tests/integration/prompts",
    "tests/integration/config",
    "tests/integration/admin",
    "tests/integration/permissions/test_read_only_commands_write_nothing.py",
    "tests/integration/tools",
)


def files_of(root: Path) -> dict[str, list[str]]:
    """By area: the files that are mutated."""
    return {
        area: sorted(
            str(path.relative_to(root))
            for pattern in patterns
            for path in root.glob(pattern)
            if path.name != "__init__.py"
        )
        for area, patterns in AREAS.items()
    }


def tests_of(root: Path) -> list[str]:
    return [place for place in TESTS if (root / place).exists()]

"""The interface of a tool: its methods, its context and its result.

A Markdown file next to a tool's module is its description for the model. A tool has no
database and no client: it returns the permission that a call requires, uses files and
processes through its context, and returns a result. A tool must not block the event
loop: slow work belongs in a thread or a process.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from agents.llm.contract import ToolSpec
from agents.skills.skill import Skill
from agents.tools.shell.jobs import Jobs, NoJobs

Args = TypeVar("Args")


class BadArguments(Exception):
    """The model's arguments are invalid. The message names the field and returns to the model."""


class ToolRefusal(Exception):
    """The tool cannot do this (no such path, for example). The model gets the error message."""


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """The permission that a call requires, in the form that clients show."""

    tool_name: str
    action: str
    path: str  # absolute, symlinks followed
    description: str
    params: Mapping[str, Any]
    files: tuple[str, ...] = ()  # what it would write, symlinks followed; a grant covers these
    always_asks: bool = False  # skipped only in a workspace that skips all permission requests


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    content: str
    is_error: bool = False
    metadata: Mapping[str, Any] | None = None
    data: str = ""  # base64, for images
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class FileMark:
    """A file's state when this session read or wrote it."""

    mtime_ns: int
    size: int


class FileTracker(Protocol):
    """The session's record of files: its reads, and each version that it wrote."""

    @property
    def fresh_reads(self) -> Mapping[str, FileMark]:
        """The reads of this call, which are stored with its result."""
        ...

    async def read_mark(self, path: str) -> FileMark | None: ...

    async def record_read(self, path: str, mark: FileMark) -> None: ...

    async def record_change(
        self, path: str, *, before: str | None, after: str, mark: FileMark
    ) -> None:
        """Records a change. ``before`` is ``None`` for a new file."""
        ...


@dataclass(frozen=True, slots=True)
class Todo:
    content: str
    status: str  # pending, in_progress, completed
    active_form: str


class TodoList(Protocol):
    async def read(self) -> tuple[Todo, ...]: ...

    async def replace(self, todos: tuple[Todo, ...]) -> None: ...


class LanguageService(Protocol):
    """The use of language servers by tools that touch files. Never raises, never blocks long."""

    def touch(self, path: str) -> None:
        """Starts the servers of a file that was read, in the background."""
        ...

    async def after_change(self, path: str) -> str:
        """Returns the diagnostics after a change of the file, for the model, or an empty text."""
        ...


class NoLanguages:
    def touch(self, path: str) -> None:
        pass

    async def after_change(self, _path: str) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    working_dir: Path  # the workspace's folder, symlinks followed
    session_id: str
    message_id: str
    call_id: str
    env: Mapping[str, str] = field(repr=False)  # the whole environment for processes
    process_mark: str  # put into the environment of every process, to find and end it
    files: FileTracker
    todos: TodoList
    progress: Callable[[str], None]  # more output, for clients that watch; cheap to call
    workspace_id: str = ""
    sees_images: bool = False  # whether the model that reads the result accepts images
    languages: LanguageService = field(default_factory=NoLanguages)
    web_allowed_hosts: tuple[str, ...] = ()  # private addresses that the web tools may reach
    data_dir: str = ""  # the workspace's own data folder
    agent_role: str = ""  # agents are sub-agents of this role, in processes of their own
    skills: tuple[Skill, ...] = ()  # reading their files needs no permission
    skill_folders: tuple[str, ...] = ()  # absolute, the configured ones
    hook_commands: tuple[str, ...] = ()
    jobs: Jobs = field(default_factory=NoJobs)  # the workspace's commands in the background

    @property
    def call_key(self) -> str:
        """The same for each run of this call, and of no other call."""
        return f"{self.message_id}/{self.call_id}"


class Repetition(enum.Enum):
    """What a second run of a call means, whose first run was cut when its server stopped."""

    PURE = "pure"  # it only reads: it runs again, and in parallel with its neighbours
    IDEMPOTENT = "idempotent"  # it changes nothing more, under the same ``call_key``: it runs again
    EFFECT = "effect"  # it is not repeated: the model gets the output so far, and decides


class Tool(Protocol, Generic[Args]):
    spec: ToolSpec
    repetition: Repetition

    def parse(self, arguments: Mapping[str, Any]) -> Args:
        """Parses the arguments and ignores unknown keys.

        Raises ``BadArguments``, which names a missing or mistyped key.
        """
        ...

    async def required_permission(
        self, args: Args, context: ToolContext
    ) -> RequiredPermission | None:
        """Returns the permission that the call requires; ``None`` for none. Changes nothing.

        May raise ``ToolRefusal``.
        """
        ...

    async def run(self, args: Args, context: ToolContext) -> ToolOutcome:
        """Runs the tool. May raise ``ToolRefusal``.

        A cancel of the task ends everything that the tool started.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChildTask:
    """A run in a child session."""

    kind: str  # "agent", "fetch" or "fleet": determines its tools and prompt
    title: str
    prompt: str
    working_dir: str = ""  # empty: the workspace's
    role: str = ""  # of a sub-agent


@dataclass(frozen=True, slots=True)
class UserQuestions:
    """Questions to the user, in the form that clients show."""

    questions: tuple[Mapping[str, Any], ...]
    confirm_title: str = ""
    confirm_description: str = ""


Delegation: TypeAlias = ChildTask | UserQuestions  # what a tool call can wait for


@dataclass(frozen=True, slots=True)
class ChildResult:
    outcome: str  # of the run: completed, cancelled, failed, interrupted
    text: str  # its final reply
    error: str = ""


@dataclass(frozen=True, slots=True)
class UserAnswers:
    """The answers to questions, in the form that clients send; none if dismissed."""

    questions: tuple[Mapping[str, Any], ...]
    responses: tuple[Mapping[str, Any], ...] = ()
    is_dismissed: bool = False


DelegationResult: TypeAlias = ChildResult | UserAnswers


@runtime_checkable
class DelegatingTool(Tool[Args], Protocol[Args]):
    """A tool whose work is done by a child run or by the user, while its call waits.

    The wait is stored: it survives the process and blocks no worker. A call performs
    ``delegate`` and ``settle`` instead of ``run``, which raises ``AssertionError``.
    """

    async def delegate(self, args: Args, context: ToolContext) -> Delegation:
        """Returns what the call waits for, after permission. May raise ``ToolRefusal``."""
        ...

    def settle(self, args: Args, end: DelegationResult) -> ToolOutcome:
        """Returns the call's result."""
        ...


def load_description(module_file: str, tool: str = "") -> str:
    """Returns the Markdown file next to a tool's module, with the module's name or the tool's."""
    path = Path(module_file)
    return path.with_name(f"{tool or path.stem}.md").read_text(encoding="utf-8").strip()

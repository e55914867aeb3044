"""What a tool is, what it is given, and what it gives back.

One tool a file; its description for the model lies beside it in Markdown. A
tool knows no database and no client: it asks for leave through ``question``,
reaches files and processes through its context, and returns a result. The
runner does the rest, and never runs a tool on the event loop's time: slow work
belongs in a thread or a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from agents.llm.contract import ToolSpec
from agents.skills.skill import Skill
from agents.tools.shell.jobs import Jobs, NoJobs

Args = TypeVar("Args")


class BadArguments(Exception):
    """The model's arguments do not fit; the sentence names the field and goes back to it."""


class ToolRefusal(Exception):
    """The tool cannot do this (a file not read yet, no such path); told to the model as an error."""


@dataclass(frozen=True, slots=True)
class Question:
    """A permission to be asked for, as clients draw it."""

    tool_name: str
    action: str
    path: str  # absolute, symlinks followed
    description: str
    params: Mapping[str, Any]
    files: tuple[str, ...] = ()  # what it would write, symlinks followed; a grant is for these
    always_asks: bool = False  # only a workspace that asks for nothing lets it pass unasked


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    content: str
    is_error: bool = False
    metadata: Mapping[str, Any] | None = None
    data: str = ""  # base64, for images
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class FileMark:
    """A file's state when it was read or written by this session."""

    mtime_ns: int
    size: int


class FileTracker(Protocol):
    """The session's memory of files: what it has read, and each version it made."""

    @property
    def fresh_reads(self) -> Mapping[str, FileMark]:
        """What this call has read: kept when it has its result."""
        ...

    async def read_mark(self, path: str) -> FileMark | None: ...

    async def record_read(self, path: str, mark: FileMark) -> None: ...

    async def record_change(
        self, path: str, *, before: str | None, after: str, mark: FileMark
    ) -> None:
        """``before`` is ``None`` for a file that did not exist."""
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
    """What language servers add to tools that touch files. Never raises, never takes long."""

    def touch(self, path: str) -> None:
        """The file was read: start its servers, in the background."""
        ...

    async def after_change(self, path: str) -> str:
        """What servers say of the file just written, to be told to the model; or nothing."""
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
    sees_images: bool = False  # the model that reads the result does
    languages: LanguageService = field(default_factory=NoLanguages)
    web_allowed_hosts: tuple[str, ...] = ()  # private addresses that the web tools may reach
    data_dir: str = ""  # the workspace's own data folder
    agent_role: str = ""  # agents are sub-agents of this role, in processes of their own
    skills: tuple[Skill, ...] = ()  # their files are read without asking
    skill_folders: tuple[str, ...] = ()  # absolute, the configured ones
    hook_commands: tuple[str, ...] = ()
    jobs: Jobs = field(default_factory=NoJobs)  # the workspace's commands in the background


class Tool(Protocol, Generic[Args]):
    spec: ToolSpec
    parallel: bool  # safe beside others of the same reply, because it only reads

    def parse(self, arguments: Mapping[str, Any]) -> Args:
        """Raises ``BadArguments``. Unknown keys are ignored, a missing or mistyped one is named."""
        ...

    async def question(self, args: Args, context: ToolContext) -> Question | None:
        """What to ask before running, ``None`` if nothing. May raise ``ToolRefusal``."""
        ...

    async def run(self, args: Args, context: ToolContext) -> ToolOutcome:
        """May raise ``ToolRefusal``. Cancelling the task ends everything it started."""
        ...


@dataclass(frozen=True, slots=True)
class ChildTask:
    """A run of its own, in a child session, that the call waits for."""

    kind: str  # "agent", "fetch" or "fleet": which tools and prompt it has
    title: str
    prompt: str
    working_dir: str = ""  # empty: the workspace's
    role: str = ""  # of a sub-agent


@dataclass(frozen=True, slots=True)
class QuestionsAsked:
    """Questions to the user that the call waits for. ``questions`` as clients draw them."""

    questions: tuple[Mapping[str, Any], ...]
    confirm_title: str = ""
    confirm_description: str = ""


Errand: TypeAlias = ChildTask | QuestionsAsked


@dataclass(frozen=True, slots=True)
class ChildEnded:
    outcome: str  # as the run's: completed, cancelled, failed, interrupted
    text: str  # its last words
    error: str = ""


@dataclass(frozen=True, slots=True)
class QuestionsAnswered:
    """``responses`` as clients send them; dismissed ones have none."""

    questions: tuple[Mapping[str, Any], ...]
    responses: tuple[Mapping[str, Any], ...] = ()
    is_dismissed: bool = False


ErrandEnd: TypeAlias = ChildEnded | QuestionsAnswered


@runtime_checkable
class DelegatingTool(Tool[Args], Protocol[Args]):
    """A tool that does nothing by itself: it sends for something and makes a result of it.

    What it waits for is stored, outlives the process, and blocks nobody. ``run`` is
    never called.
    """

    async def errand(self, args: Args, context: ToolContext) -> Errand:
        """After leave was given. May raise ``ToolRefusal``."""
        ...

    def settle(self, args: Args, end: ErrandEnd) -> ToolOutcome: ...

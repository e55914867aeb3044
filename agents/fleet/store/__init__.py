"""Sessions of a project and of their children on disk, with indices that can be rebuilt."""

from agents.fleet.store.entries import ChildEntry, ChildStatus, Index, RootEntry
from agents.fleet.store.project import BadName, ProjectStore

__all__ = ["BadName", "ChildEntry", "ChildStatus", "Index", "ProjectStore", "RootEntry"]

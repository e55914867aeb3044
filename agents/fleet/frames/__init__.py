"""The wire between a parent and its child, sans I/O: frames as values, read and written.

Pure: no clock, no loop, no socket. What the other programs' parsers refuse is
refused here, and what is written is byte for byte what they write.
"""

from agents.fleet.frames.kinds import (
    ApprovalReply,
    ApprovalRequest,
    Cancel,
    ChildFrame,
    Event,
    EventBatch,
    Message,
    Other,
    ParentFrame,
    Run,
    Status,
    Terminal,
)
from agents.fleet.frames.reading import BadFrame, read_child_frame, read_parent_frame
from agents.fleet.frames.writing import write_event, write_frame

__all__ = [
    "ApprovalReply",
    "ApprovalRequest",
    "BadFrame",
    "Cancel",
    "ChildFrame",
    "Event",
    "EventBatch",
    "Message",
    "Other",
    "ParentFrame",
    "Run",
    "Status",
    "Terminal",
    "read_child_frame",
    "read_parent_frame",
    "write_event",
    "write_frame",
]

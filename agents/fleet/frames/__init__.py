"""The wire between a parent and its child, sans I/O: frames as values, read and written.

Pure: no clock, no loop, no socket. What the other programs' parsers refuse is
refused here, and what is written is byte for byte what they write.
"""

from agents.fleet.frames.kinds import ApprovalReply as ApprovalReply
from agents.fleet.frames.kinds import ApprovalRequest as ApprovalRequest
from agents.fleet.frames.kinds import Cancel as Cancel
from agents.fleet.frames.kinds import ChildFrame as ChildFrame
from agents.fleet.frames.kinds import Event as Event
from agents.fleet.frames.kinds import EventBatch as EventBatch
from agents.fleet.frames.kinds import Message as Message
from agents.fleet.frames.kinds import Other as Other
from agents.fleet.frames.kinds import ParentFrame as ParentFrame
from agents.fleet.frames.kinds import Run as Run
from agents.fleet.frames.kinds import Status as Status
from agents.fleet.frames.kinds import Terminal as Terminal
from agents.fleet.frames.reading import BadFrame as BadFrame
from agents.fleet.frames.reading import read_child_frame as read_child_frame
from agents.fleet.frames.reading import read_parent_frame as read_parent_frame
from agents.fleet.frames.writing import write_event as write_event
from agents.fleet.frames.writing import write_frame as write_frame

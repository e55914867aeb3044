"""The wire between a parent and its child, sans I/O: frames as values, read and written.

Pure: no clock, no loop, no socket. What the other programs' parsers refuse is
refused here, and what is written is byte for byte what they write.
"""

from agents.fleet.wire.kinds import ApprovalReply as ApprovalReply
from agents.fleet.wire.kinds import ApprovalRequest as ApprovalRequest
from agents.fleet.wire.kinds import Cancel as Cancel
from agents.fleet.wire.kinds import ChildFrame as ChildFrame
from agents.fleet.wire.kinds import EventBatch as EventBatch
from agents.fleet.wire.kinds import EventFrame as EventFrame
from agents.fleet.wire.kinds import MessageFrame as MessageFrame
from agents.fleet.wire.kinds import Other as Other
from agents.fleet.wire.kinds import ParentFrame as ParentFrame
from agents.fleet.wire.kinds import RunFrame as RunFrame
from agents.fleet.wire.kinds import Status as Status
from agents.fleet.wire.kinds import Terminal as Terminal
from agents.fleet.wire.reading import BadFrame as BadFrame
from agents.fleet.wire.reading import read_child_frame as read_child_frame
from agents.fleet.wire.reading import read_parent_frame as read_parent_frame
from agents.fleet.wire.writing import write_event as write_event
from agents.fleet.wire.writing import write_frame as write_frame

"""Objects as the log holds them and as ``/v1`` clients were recorded to receive them."""

from __future__ import annotations

NO_MESSAGE = {
    "created_at": 0,
    "id": "",
    "model": "",
    "parts": [],
    "provider": "",
    "role": "",
    "session_id": "",
    "updated_at": 0,
}


SESSION = {
    "attached_clients": 0,
    "completion_tokens": 3,
    "cost": 0,
    "created_at": 1794993635,
    "id": "8f201672",
    "is_busy": False,
    "message_count": 2,
    "parent_session_id": "",
    "prompt_tokens": 10,
    "summary_message_id": "",
    "title": "word0 word1 word2",
    "updated_at": 1794993635,
}


RETRY = {"attempt": 2, "attempts": 6, "delay_seconds": 0.5, "reason": "slow down"}


MESSAGE = {
    "created_at": 1794993635,
    "id": "ea050387",
    "model": "fake-large",
    "parts": [
        {"data": {"text": "word0 word1 "}, "type": "text"},
        {"data": {"reason": "end_turn", "time": 1794993635}, "type": "finish"},
    ],
    "provider": "fake",
    "role": "assistant",
    "session_id": "8f201672",
    "updated_at": 1794993635,
}


REQUEST = {
    "action": "execute",
    "description": "Execute command: touch made.txt",
    "id": "1f4fbcc8",
    "params": {"command": "touch made.txt", "description": "make", "working_dir": ""},
    "path": "/home/dev/project",
    "session_id": "2623f7e2",
    "tool_call_id": "call_1395_0",
    "tool_name": "bash",
}


FILE = {
    "content": "alpha\n",
    "created_at": 1794993656,
    "id": "c8699a23",
    "path": "/home/dev/project/a/one.txt",
    "session_id": "471e5128",
    "updated_at": 1794993656,
    "version": 0,
}


BATCH = {
    "id": "ccab5c15",
    "questions": [
        {
            "description": "Shall we",
            "id": "da8ebc3b",
            "label": "Go",
            "question": "Go?",
            "type": "yes_no",
        }
    ],
    "session_id": "a9c0f259",
    "tool_call_id": "call_1555_0",
}


MCP = {"type": "state_changed", "name": "notes", "state": "connected", "tool_count": 3}


LSP = {"type": "diagnostics_changed", "name": "pyright", "state": 2, "diagnostic_count": 4}


SKILLS = {
    "states": [
        {"name": "release", "path": "/home/dev/.skills/release/SKILL.md", "state": 0},
        {"name": "", "path": "/home/dev/.skills/bad/SKILL.md", "state": 1, "error": "no name"},
    ]
}

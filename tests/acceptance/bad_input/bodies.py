"""Every endpoint that reads a body, and a body that it would take."""

from typing import Any

from tests.acceptance.conversation import SHORT

CLIENT = "5a1d4d2e-3d54-4c3b-9a6e-111111111111"
SENT_FILE = {"file_path": "a", "file_name": "a", "mime_type": "text/plain", "content": "aGk="}

# Every endpoint that reads a body: a body that would be taken, and its fields.
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/workspaces"): {
        "path": "/tmp",
        "client_id": CLIENT,
        "yolo": False,
        "debug": False,
        "data_dir": "",
        "env": ["A=B"],
        "channels": ["x"],
    },
    ("POST", "/v1/control"): {"command": "shutdown_if_idle"},
    ("POST", "{ws}/sessions"): {"title": "x"},
    ("PUT", "{ws}/sessions/{sid}"): {"title": "x"},
    ("POST", "{ws}/agent"): {
        "session_id": "{sid}",
        "prompt": SHORT,
        "run_id": "r",
        "attachments": [SENT_FILE],
    },
    ("POST", "{ws}/agent/init"): {"interactive": True},
    ("POST", "{ws}/permissions/skip"): {"skip": True},
    ("POST", "{ws}/permissions/grant"): {"permission": {"id": "x"}, "action": "allow"},
    ("POST", "{ws}/filetracker/read"): {"session_id": "{sid}", "path": "crush.json"},
    ("POST", f"{{ws}}/current-session?client_id={CLIENT}"): {"session_id": "{sid}"},
}

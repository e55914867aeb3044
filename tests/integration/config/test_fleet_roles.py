"""Roles of sub-agents from files: merged, typed, and shown without their secrets."""

import json

SECRET = "zQ9-token-of-a-sub-agent"


def test_a_role_is_merged_from_files_and_its_token_shown_to_nobody(place):
    place.write(
        place.users_own,
        {"fleet": {"far": {"endpoint": "wss://h.example/c?key=abcdefghijkl", "token": "$T"}}},
    )
    place.write(
        place.project,
        {
            "fleet": {"far": {"limits": {"steps": 9}}, "near": {"token": SECRET}},
            "tools": {"agent": {"role": "far"}},
        },
    )
    loaded = place.load({"T": SECRET})

    role = loaded.settings.fleet["far"]
    assert loaded.problems == ()
    assert (role.token, role.most_steps) == (SECRET, 9)
    assert loaded.settings.agent_role == "far"
    shown = json.dumps(loaded.public)
    assert SECRET not in shown + repr(loaded)
    assert "abcdefghijkl" not in shown
    assert loaded.public["fleet"]["far"]["token"] == "$T"
    assert loaded.public["fleet"]["far"]["limits"] == {"steps": 9}

"""Whatever a body holds: a 4xx that names what is wrong, and nothing stored."""

from typing import Any

import pytest

from tests.acceptance.bad_input.attacker import Attacker
from tests.acceptance.bad_input.bodies import BODIES, SENT_FILE
from tests.acceptance.conversation import SHORT

HUGE = 10**40
WRONG: dict[type, list[Any]] = {
    str: [7, 1.5, HUGE, True, [], ["a"], {}, {"a": "b"}, "\0", "a\0b"],
    bool: [0, 1, "true", "", [], {}, HUGE, None],
    list: [7, "a", True, {}, {"0": "a"}, [7], [None], [["a"]]],
    dict: [7, "a", True, [], [{}], None],
}

# null means "not given" where a client may leave the field out.
NULL_IS_NONE = {"run_id", "attachments", "env", "channels", "content"}


def wrong_bodies() -> list[Any]:
    cases = []
    for (method, path), body in BODIES.items():
        for name, value in body.items():
            wrong = list(WRONG[type(value)])
            if isinstance(value, str) and name not in NULL_IS_NONE:
                wrong.append(None)
            cases.append(pytest.param(method, path, name, wrong, id=f"{method} {path} {name}"))
    return cases


@pytest.mark.parametrize(("method", "path", "name", "wrong"), wrong_bodies())
async def test_it_refuses_every_wrong_type_of_every_field(
    attacker: Attacker, method: str, path: str, name: str, wrong: list[Any]
) -> None:
    body = {
        key: attacker.session if value == "{sid}" else value
        for key, value in BODIES[method, path].items()
    }
    for value in wrong:
        await attacker.refused(method, path, body | {name: value}, naming=name, status=400)
    await attacker.nothing_happened()


async def test_it_refuses_every_wrong_type_inside_of_lists_and_objects(attacker: Attacker) -> None:
    prompt = {"session_id": attacker.session, "prompt": SHORT}
    for name in SENT_FILE:
        for value in WRONG[str]:
            sent = [SENT_FILE, SENT_FILE | {name: value}]
            await attacker.refused(
                "POST",
                "{ws}/agent",
                prompt | {"attachments": sent},
                naming=f"attachments[1].{name}",
                status=400,
            )
    for name in ("id", "tool_call_id"):
        for value in WRONG[str]:
            await attacker.refused(
                "POST",
                "{ws}/permissions/grant",
                {"action": "allow", "permission": {"id": "x", name: value}},
                naming=f"permission.{name}",
                status=400,
            )
    await attacker.nothing_happened()


NOT_OBJECTS = [
    b"{nope",
    b"[]",
    b"null",
    b'"text"',
    b"17",
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    b"{} {}",
    b"{'title': 1}",
    b"a=b&c=d",
    b'{"title": NaN, "path": NaN, "skip": NaN}',
    b'{"title": "\\ud800", "path": "\\ud800", "prompt": "\\udfff"}',
    b'{"title": "\xed\xa0\x80"}',  # a lone surrogate, as bytes
    b'{"a":' * 100_000,
    b"[" * 100_000,
    b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    b"1" * 100_000,
    b'{"title": 1e999999}',
]


@pytest.mark.parametrize("raw", NOT_OBJECTS, ids=lambda raw: repr(raw[:20]))
async def test_it_refuses_a_body_that_is_no_json_object(attacker: Attacker, raw: bytes) -> None:
    for method, path in BODIES:
        await attacker.refused(method, path, raw, status=400)
        await attacker.refused(
            method, path, raw, status=400, headers={"Content-Type": "multipart/form-data"}
        )
    await attacker.nothing_happened()


async def test_it_refuses_empty_prompts_and_prompts_of_ten_megabytes(attacker: Attacker) -> None:
    for prompt in ("", "x" * 10_000_000, "\U0001f600" * 2_500_000):
        body = {"session_id": attacker.session, "prompt": prompt, "run_id": "r"}
        await attacker.refused("POST", "{ws}/agent", body, naming="prompt", status=400)
    await attacker.nothing_happened()


async def test_it_refuses_unknown_actions_and_commands(attacker: Attacker) -> None:
    for action in ("", "ALLOW", "allow ", "grant", "x" * 90, "\u202e"):
        body = {"permission": {"id": "x"}, "action": action}
        await attacker.refused("POST", "{ws}/permissions/grant", body, naming="action", status=400)
    for command in ("", "restart", "shutdown ", "SHUTDOWN"):
        await attacker.refused(
            "POST", "/v1/control", {"command": command}, naming="command", status=400
        )
    await attacker.nothing_happened()

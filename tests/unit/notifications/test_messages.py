"""What messages contain, and their signatures."""

import base64
import hashlib
import hmac
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.states import RunOutcome
from notifications.links import link_of
from notifications.messages import NotificationMessage, RunEnd, new_secret, push_body, signed

MESSAGE = NotificationMessage(
    "d-1",
    "permission.overdue",
    workspace_id="w",
    workspace="/srv/project",
    session_id="s",
    session="Fix the build",
    request_id="r",
    summary="bash: execute",
    path="/srv/project/src",
    waiting_seconds=61,
    link="https://crush.example/answer/?key=k",
)


def test_the_text_names_the_request_and_the_link() -> None:
    assert MESSAGE.title == "bash: execute waits for you in Fix the build"
    assert MESSAGE.text.splitlines() == [
        "Session:   Fix the build",
        "Workspace: /srv/project",
        "Request:   bash: execute",
        "Path:      /srv/project/src",
        "Waiting:   61 s",
        "",
        "Look at the request and answer it (once):",
        "https://crush.example/answer/?key=k",
    ]


def test_without_an_address_there_is_no_link() -> None:
    bare = replace(MESSAGE, link="", path="", session="")
    assert bare.text.splitlines()[0] == "Session:   (untitled)"
    assert "answer it" not in bare.text
    assert bare.title == "bash: execute waits for you in /srv/project"
    assert bare.wire["link"] is None


def test_a_test_message() -> None:
    message = NotificationMessage("d", "test")
    assert "test" in message.title
    assert message.text.endswith("will arrive here.")


def test_a_webhook_is_signed_as_the_standard_defines() -> None:
    secret = new_secret()
    body, headers = signed(MESSAGE, secret, at_seconds=1_700_000_000)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    assert len(key) == 32
    expected = hmac.new(key, b"d-1.1700000000." + body, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("d-1", "1700000000")
    assert orjson.loads(body)["request"] == {
        "id": "r",
        "summary": "bash: execute",
        "path": "/srv/project/src",
    }
    assert new_secret() != secret


@given(st.text(max_size=300), st.text(max_size=3000), st.text(max_size=500))
def test_hostile_titles_stay_on_one_short_line(session: str, path: str, summary: str) -> None:
    message = replace(MESSAGE, session=session, path=path, summary=summary)
    assert "\n" not in message.title
    assert "\r" not in message.title
    assert all(len(line) <= 220 for line in message.text.split("\n"))
    assert len(message.text.split("\n")) in {7, 8}
    assert len(push_body(message)) < 3500


def test_a_browser_gets_the_address_of_the_request_in_the_console() -> None:
    message = NotificationMessage(
        "m", "permission.overdue", "w", "/p", "reply$$call/1", "t", "r&x", "bash: execute"
    )
    url = orjson.loads(push_body(message))["url"]
    assert url == "/w/w/s/reply%24%24call%2F1?approval=r%26x"
    asked = replace(message, type="question.overdue", session_id="s", request_id="q")
    assert asked.page == "/w/w/s/s?questions=q"
    assert NotificationMessage("m", "test").page == "/"


END = NotificationMessage(
    "d-2",
    "run.finished",
    workspace_id="w",
    workspace="/srv/project",
    session_id="s/1",
    session="Fix the build",
    link="https://crush.example/w/w/s/s%2F1",
    end=RunEnd(7, "failed", run_id="nightly", seconds=90),
)


def test_the_text_of_an_end_says_what_ended_and_how() -> None:
    assert END.title == "Failed: Fix the build"
    assert END.text.splitlines() == [
        "Session:   Fix the build",
        "Workspace: /srv/project",
        "Result:    The run ended with an error.",
        "Time:      90 s",
        "",
        "Open the session:",
        "https://crush.example/w/w/s/s%2F1",
    ]
    assert "Open" not in replace(END, link="").text


def test_a_webhook_of_an_end_has_the_run_and_no_request() -> None:
    body, _ = signed(END, new_secret(), at_seconds=1)
    wire = orjson.loads(body)
    assert wire["type"] == "run.finished"
    assert wire["run"] == {
        "key": 7,
        "id": "nightly",
        "outcome": "failed",
        "cancelled_by": None,
        "seconds": 90,
    }
    assert "request" not in wire
    assert wire["link"] == END.link


def test_a_browser_gets_the_address_of_the_session_that_ended() -> None:
    content = orjson.loads(push_body(END))
    assert content["url"] == "/w/w/s/s%2F1"
    assert content["body"] == "The run ended with an error. /srv/project"
    assert content["request_id"] == ""


def test_the_link_of_an_end_leads_to_the_session_and_answers_nothing() -> None:
    linked = link_of(replace(END, link=""), "https://crush.example/")
    assert linked.link == "https://crush.example/w/w/s/s%2F1"
    assert link_of(replace(END, link=""), "").link == ""


@pytest.mark.parametrize("outcome", sorted(set(RunOutcome) - {RunOutcome.FOLDED}))
def test_every_outcome_has_a_title_and_a_sentence(outcome: str) -> None:
    message = replace(END, end=RunEnd(1, outcome))
    assert message.title.endswith(": Fix the build")
    assert message.end is not None
    assert message.end.sentence.endswith(".")


@given(st.text(max_size=300), st.text(max_size=150))
def test_hostile_names_stay_behind_what_the_server_says(session: str, name: str) -> None:
    message = replace(END, session=session, end=RunEnd(1, "cancelled", cancelled_by=name))
    assert message.title.startswith("Cancelled: ")
    assert message.title.isprintable()
    assert len(message.text.split("\n")) == 7
    assert len(push_body(message)) < 3500

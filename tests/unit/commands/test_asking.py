"""Who answers where nobody sits at a terminal."""

from agents.actions.answer import Answer
from crushsite.prompting.asking import Everybody, Nobody
from crushsite.prompting.telling import Question

QUESTION = Question("q", "bash", "execute", "/p", "Make a file", "touch x\x1b[2J")


async def test_nobody_denies_and_says_what_to_do() -> None:
    noted: list[str] = []
    asker = Nobody(noted.append)
    assert not asker.has_denied
    assert await asker.ask(QUESTION) is Answer.DENY
    assert asker.has_denied
    assert "denied: bash wants to execute in /p: touch x" in noted[0]
    assert "--yolo" in noted[0]
    assert "\x1b" not in noted[0]


async def test_yolo_allows_and_says_so() -> None:
    noted: list[str] = []
    assert await Everybody(noted.append).ask(QUESTION) is Answer.ALLOW
    assert "allowed: bash" in noted[0]

"""One request, whatever its dialect."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.doubles.scripted_model.script import TITLE, Call, Json, Script, parse_script


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            item["text"] for item in content if isinstance(item, dict) and item.get("text")
        )
    return ""


def results_in(message: Json) -> int:
    if message.get("role") == "tool":
        return 1
    content = message.get("content")
    if not isinstance(content, list):
        return 0
    return sum(1 for item in content if item.get("type") == "tool_result")


@dataclass
class ReceivedRequest:
    """One request, whatever its dialect."""

    number: int
    dialect: str
    body: Json
    last: str = ""
    results: int = 0  # tool results after the last user text

    def __post_init__(self) -> None:
        for message in self.body.get("messages", []):
            text = text_of(message.get("content")) if message.get("role") == "user" else ""
            if text:
                self.last, self.results = text, 0
            else:
                self.results += results_in(message)

    @property
    def title(self) -> bool:
        return not self.body.get("tools")

    def script(self) -> Script:
        if not self.title:
            return parse_script(self.last)
        texts = (text_of(message.get("content")) for message in self.body.get("messages", []))
        return replace(TITLE, gate=parse_script("\n".join(texts)).aside)

    def calls_now(self, script: Script) -> tuple[Call, ...]:
        if script.rounds == -1 or self.results < script.rounds * len(script.calls):
            return script.calls
        return ()


def halves(args: str) -> tuple[str, str]:
    middle = len(args) // 2
    return args[:middle], args[middle:]

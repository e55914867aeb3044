import json

from agents.llm.contract import (
    ModelEvent,
    ModelRequest,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
    ToolSpec,
)
from agents.llm.wires.offline import OfflineModel
from agents.turn.transcript import TurnMessage
from tests.doubles.conversation import assistant, request, tool, user
from workspaces.log.parts import FinishReason, ToolCall, ToolResult

TOOLS = tuple(
    ToolSpec(name, name, {"type": "object"})
    for name in ("bash", "view", "ls", "grep", "glob", "write", "edit")
)


async def say(asked: ModelRequest) -> list[ModelEvent]:
    async def sleep(seconds: float) -> None:
        return None

    return [event async for batch in OfflineModel(sleep=sleep).stream(asked) for event in batch]


def asking(*messages: TurnMessage, working_dir: str = "/w") -> ModelRequest:
    return request(*messages, tools=TOOLS, working_dir=working_dir)


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def reason_of(events: list[ModelEvent]) -> FinishReason:
    assert isinstance(events[-1], Stopped)
    return events[-1].reason


def called(id: str, name: str) -> TurnMessage:
    return assistant(ToolCall(id, name, "{}", True))


async def test_a_plain_request_announces_and_calls_the_tool() -> None:
    events = await say(asking(user("read a.txt", id="u-17")))
    assert text_of(events) == "I read a.txt."
    assert events[-4:-1] == [
        ToolCallStarted("offline_u17_0", "view"),
        ToolInputDelta(
            "offline_u17_0", json.dumps({"file_path": "/w/a.txt"}, separators=(",", ":"))
        ),
        ToolCallFinished("offline_u17_0"),
    ]
    assert reason_of(events) is FinishReason.TOOL_USE


async def test_after_the_result_it_quotes_the_first_lines() -> None:
    content = "\n".join(f"line {number}" for number in range(20))
    events = await say(
        asking(user("read a.txt"), called("c", "view"), tool(ToolResult("c", "view", content)))
    )
    said = text_of(events)
    assert "line 0\n" in said
    assert "line 11\n```" in said
    assert "line 12" not in said
    assert said.endswith("… and 8 more lines.")
    assert reason_of(events) is FinishReason.END_TURN


async def test_an_edit_goes_on_with_its_second_step() -> None:
    events = await say(
        asking(
            user("replace a with b in x.txt", id="u1"),
            called("offline_u1_0", "view"),
            tool(ToolResult("offline_u1_0", "view", "a")),
        )
    )
    assert events[0] == ToolCallStarted("offline_u1_1", "edit")
    assert reason_of(events) is FinishReason.TOOL_USE


async def test_a_failure_is_told_plainly() -> None:
    failed = ToolResult("c", "view", "The user denied it.", is_error=True)
    events = await say(asking(user("replace a with b in x"), called("c", "view"), tool(failed)))
    assert "did not work" in text_of(events)
    assert "The user denied it." in text_of(events)
    assert reason_of(events) is FinishReason.END_TURN


async def test_a_result_of_an_earlier_prompt_is_not_taken_for_this_ones() -> None:
    events = await say(
        asking(
            user("ls", id="u1"),
            called("c", "ls"),
            tool(ToolResult("c", "ls", "a")),
            assistant("It contains"),
            user("ls", id="u2"),
        )
    )
    assert ToolCallStarted("offline_u2_0", "ls") in events


async def test_anything_else_is_answered_with_what_it_is() -> None:
    said = text_of(await say(asking(user("write me a compiler"))))
    for words in ("offline model", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "Ollama", "crush.json"):
        assert words in said


async def test_a_tool_that_is_switched_off_is_not_called() -> None:
    events = await say(request(user("ls"), tools=TOOLS[:1]))
    assert "switched off" in text_of(events)
    assert reason_of(events) is FinishReason.END_TURN


async def test_a_title_is_made_of_the_first_words() -> None:
    asked = "Generate a concise title for the following content:\n\nfix  the bug\nin main"
    assert text_of(await say(request(user(asked), tools=()))) == "fix the bug"
    long = text_of(await say(request(user("word " * 40), tools=())))
    assert len(long) <= 50
    assert long.endswith("word…")
    assert text_of(await say(request(tools=()))) == "New session"


async def test_a_prompt_about_summaries_gets_a_title_as_well() -> None:
    asked = request(user("Summarize this:\nlong text"), tools=(), system="Give a title to this.")
    assert text_of(await say(asked)) == "Summarize this:"


async def test_a_summary_names_the_prompts() -> None:
    asked = request(user("read a.txt"), user("ls"), user("Summarize this session."), tools=())
    assert text_of(await say(asked)) == "The user's prompts in this session:\n- read a.txt\n- ls"


async def test_the_same_request_has_the_same_reply() -> None:
    asked = asking(user("hello"))
    assert await say(asked) == await say(asked)


async def test_it_pauses_before_each_word() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    model = OfflineModel(word_seconds=0.5, sleep=sleep)
    words = [batch async for batch in model.stream(request(user("a b c"), tools=()))]
    assert slept == [0.5] * 3
    assert words[:3] == [[TextDelta("a ")], [TextDelta("b ")], [TextDelta("c")]]

"""How much of a model's window a conversation takes, and how it is made to fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.history import AssistantTurn, UserTurn, repaired
from agents.turn.transcript import TurnMessage
from agents.turn.window import (
    CHARS_A_TOKEN,
    CUT_CHARS,
    CUT_MARK,
    IMAGE_CHARS,
    estimated_tokens,
    fitted,
    is_nearly_full,
)
from tests.doubles.conversation import assistant, tool, user
from workspaces.log.parts import (
    Binary,
    Finish,
    FinishReason,
    ImageUrl,
    Part,
    Reasoning,
    Role,
    ShellCommand,
    Text,
    ToolCall,
    ToolResult,
)

LONG = "x" * 4_000
CUT = LONG[:CUT_CHARS] + CUT_MARK


# -- whether a summary is due


@pytest.mark.parametrize(
    ("tokens", "window", "expected"),
    [
        # a window over 200,000: at most 20,000 tokens are left
        (979_999, 1_000_000, False),
        (980_000, 1_000_000, True),
        (180_000, 200_001, False),
        (180_001, 200_001, True),
        # others: at most a fifth is left
        (159_999, 200_000, False),
        (160_000, 200_000, True),
        (7, 10, False),
        (8, 10, True),
        (0, 1, False),
        (1, 1, True),
        # more than there is room for
        (11, 10, True),
        (2_000_000, 1_000_000, True),
        # nothing said
        (0, 10, False),
        # a window that nobody knows is never full
        (1_000_000, 0, False),
        (1_000_000, -1, False),
    ],
)
def test_a_summary_is_due_where_little_is_left(tokens: int, window: int, *, expected: bool) -> None:
    assert is_nearly_full(tokens, window) is expected


# -- how large it is


@pytest.mark.parametrize(
    ("part", "chars"),
    [
        (Text("a" * 40), 40),
        (Reasoning("a" * 40, signature="s" * 400), 40),
        (ToolCall("id", "bash", "a" * 36), 40),
        (ToolResult("id", "bash", "a" * 40, metadata="m" * 400), 40),
        (ToolResult("id", "view", "a" * 40, data="A" * 100_000, mime_type="image/png"), 4_040),
        (Binary("a.png", "image/png", "A" * 100_000), IMAGE_CHARS),
        (Binary("a.txt", "text/plain", "A" * 40), 40),
        (ImageUrl("https://example.org/" + "a" * 400), IMAGE_CHARS),
        (ShellCommand("a" * 8, "b" * 32, 0), 40),
        (Finish(FinishReason.END_TURN, message="m" * 400), 0),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_every_part_has_its_size(part: Part, chars: int) -> None:
    # So many messages that a single character more or less shows.
    assert estimated_tokens([user(part)] * CHARS_A_TOKEN) == chars


def test_nothing_takes_no_room() -> None:
    assert estimated_tokens([]) == 0
    assert estimated_tokens([user()]) == 0


def test_short_messages_count_together() -> None:
    assert estimated_tokens([user("ab"), user("cd")]) == 1


# -- how it is made to fit


def test_what_fits_is_told_whole() -> None:
    told = (user(LONG), assistant(LONG))

    assert fitted(told, tokens=2_000) == told


def test_an_empty_conversation_fits() -> None:
    assert fitted([], tokens=0) == ()
    assert fitted([], tokens=10) == ()


def test_the_oldest_long_texts_are_cut_first() -> None:
    told = [user(LONG), assistant(LONG), user(LONG)]

    assert fitted(told, tokens=2_200) == (user(CUT), assistant(LONG), user(LONG))


def test_the_oldest_messages_behind_the_first_are_left_out() -> None:
    told = [user(LONG, id=str(number)) for number in range(10)]

    kept = fitted(told, tokens=350)

    assert [message.id for message in kept] == ["0", "8", "9"]
    assert all(message.parts == (Text(CUT),) for message in kept)


@pytest.mark.parametrize(("spare", "kept"), [(0, ["0", "1", "2", "3"]), (-1, ["0", "2", "3"])])
def test_a_message_is_left_out_only_where_the_cut_ones_do_not_fit(
    spare: int, kept: list[str]
) -> None:
    told = [user(LONG, id=str(number)) for number in range(4)]
    tokens = estimated_tokens([user(CUT)] * 4) + spare

    assert [message.id for message in fitted(told, tokens=tokens)] == kept


def test_no_text_is_cut_where_the_cut_ones_before_it_leave_exactly_enough_room() -> None:
    told = [user(LONG), user(LONG), user(LONG)]
    left = (user(CUT), user(LONG), user(LONG))
    tokens = estimated_tokens(left)

    assert fitted(told, tokens=tokens) == left
    assert fitted(told, tokens=tokens - 1) == (user(CUT), user(CUT), user(LONG))


@pytest.mark.parametrize("tokens", [0, 1, -5])
def test_the_first_and_the_last_message_stay_whatever_the_room(tokens: int) -> None:
    told = [user(LONG, id=str(number)) for number in range(5)]

    assert [message.id for message in fitted(told, tokens=tokens)] == ["0", "4"]
    assert [message.id for message in fitted(told[:1], tokens=tokens)] == ["0"]


def test_what_it_is_given_is_left_as_it_is() -> None:
    told = [user(LONG), user(LONG)]

    fitted(told, tokens=1)

    assert told == [user(LONG), user(LONG)]


@pytest.mark.parametrize(
    ("part", "left"),
    [
        (Text(LONG), Text(CUT)),
        (Text("short"), Text("short")),
        (Text("x" * len(CUT)), Text("x" * len(CUT))),  # with the mark it would be no shorter
        (Text("x" * (len(CUT) + 1)), Text(CUT)),
        (Reasoning(LONG, signature="s", started_at=5), Reasoning("", started_at=5)),
        (ToolCall("id", "write", LONG, finished=True), ToolCall("id", "write", "{}", True)),
        (ToolCall("id", "ls", '{"a":1}'), ToolCall("id", "ls", '{"a":1}')),
        (
            ToolResult("id", "view", LONG, "{}", is_error=True, data="AA", mime_type="image/png"),
            ToolResult("id", "view", CUT, "{}", is_error=True),
        ),
        (
            Binary("a.png", "image/png", "AA"),
            Text("[The attached file a.png is left out.]"),
        ),
        (ShellCommand("ls", LONG, 3), ShellCommand("ls", CUT, 3)),
        (ImageUrl("https://example.org/a.png"), ImageUrl("https://example.org/a.png")),
        (Finish(FinishReason.STOP), Finish(FinishReason.STOP)),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_every_part_is_cut_in_its_own_way(part: Part, left: Part) -> None:
    first, _ = fitted([user(part), user(LONG)], tokens=0)

    assert first.parts == (left,)


# -- what always holds

words = st.integers(0, 1_200).map(lambda length: "w" * length)
ids = st.sampled_from(["a", "b", "c"])
parts_said = st.one_of(
    words.map(Text),
    words.map(Reasoning),
    st.builds(lambda i, w: ToolCall(i, "bash", f'{{"w":"{w}"}}', finished=True), ids, words),
)
parts_asked = st.one_of(
    words.map(Text),
    words.map(lambda w: Binary("a.bin", "application/x", w)),
    st.just(Binary("a.png", "image/png", "AA")),
    words.map(lambda w: ShellCommand("ls", w, 0)),
)
results = st.builds(lambda i, w, d: ToolResult(i, "bash", w, data=d), ids, words, st.just(""))
messages = st.one_of(
    st.lists(parts_asked, max_size=3).map(lambda parts: user(*parts)),
    st.lists(parts_said, max_size=4).map(lambda parts: assistant(*parts)),
    st.lists(results, max_size=3).map(lambda parts: tool(*parts)),
)
conversations = st.lists(messages, max_size=12).map(
    lambda told: [
        TurnMessage(str(number), message.role, message.parts) for number, message in enumerate(told)
    ]
)
rooms = st.one_of(st.integers(0, 300), st.integers(0, 4_000))


@given(conversations, rooms)
def test_it_fits_unless_only_the_ends_are_left(told: list[TurnMessage], tokens: int) -> None:
    kept = fitted(told, tokens=tokens)

    assert estimated_tokens(kept) <= tokens or len(kept) <= 2


@given(conversations, rooms)
def test_the_order_and_both_ends_are_kept(told: list[TurnMessage], tokens: int) -> None:
    numbers = [int(message.id) for message in fitted(told, tokens=tokens)]

    # The first, then the newest without a gap.
    assert numbers[:1] == ([0] if told else [])
    assert numbers[1:] == list(range(len(told) - len(numbers) + 1, len(told)))


@given(conversations, rooms)
def test_roles_and_the_calls_of_what_is_kept_stay(told: list[TurnMessage], tokens: int) -> None:
    before = {message.id: message for message in told}
    for message in fitted(told, tokens=tokens):
        assert message.role is before[message.id].role
        assert names(message) == names(before[message.id])


def names(message: TurnMessage) -> list[tuple[str, str]]:
    """What ties a message to others: its calls and results."""
    return [
        (part.kind, part.id if isinstance(part, ToolCall) else part.tool_call_id)
        for part in message.parts
        if isinstance(part, ToolCall | ToolResult)
    ]


@given(conversations, rooms)
def test_what_is_left_can_be_told_to_every_provider(told: list[TurnMessage], tokens: int) -> None:
    turns = repaired(fitted(told, tokens=tokens))

    assert isinstance(turns[0], UserTurn)
    last = turns[-1]
    assert isinstance(last, UserTurn) or last.results
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            assert [call.id for call in turn.calls] == [r.tool_call_id for r in turn.results]


@given(conversations, rooms)
def test_fitting_what_was_fitted_changes_nothing_more(told: list[TurnMessage], tokens: int) -> None:
    once = fitted(told, tokens=tokens)

    if estimated_tokens(once) <= tokens:
        assert fitted(once, tokens=tokens) == once


@given(conversations)
def test_with_room_for_all_nothing_is_changed(told: list[TurnMessage]) -> None:
    assert fitted(told, tokens=estimated_tokens(told) + 1) == tuple(told)


def test_a_system_message_is_left_out_like_any_other() -> None:
    told = [user("first"), TurnMessage("s", Role.SYSTEM, (Text(LONG),)), user("last")]

    assert fitted(told, tokens=5) == (told[0], told[2])

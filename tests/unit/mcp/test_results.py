"""What servers list and return, made ours."""

import base64

import mcp_types as types
import pytest

from agents.tools.mcp import limits
from agents.tools.mcp.contract import McpFailed
from agents.tools.mcp.protocol.results import (
    contents_of,
    outcome_of,
    prompt_text_of,
    prompts_of,
    resources_of,
    tools_of,
)

PNG = base64.b64encode(b"\x89PNG").decode()


def result(*content: types.ContentBlock, **more: object) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), **more)


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def image(data: str = PNG, mime_type: str = "image/png") -> types.ImageContent:
    return types.ImageContent(type="image", data=data, mime_type=mime_type)


def test_one_image_goes_with_the_text_and_others_are_told() -> None:
    outcome = outcome_of(result(text("a"), image(), image(), text("b")), sees_images=True)
    assert (outcome.data, outcome.mime_type) == (PNG, "image/png")
    assert outcome.content == "a\n[image left out: image/png]\nb"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (image(mime_type="image/svg+xml"), "not shown to models"),
        (image(data="no base64!"), "not base64"),
        (image(data=""), "not base64"),
        (image(data="A" * 6_000_000), "more than"),
    ],
)
def test_an_image_that_cannot_be_shown_is_told(given: types.ImageContent, why: str) -> None:
    outcome = outcome_of(result(given), sees_images=True)
    assert outcome.data == ""
    assert why in outcome.content


def test_structured_content_stands_in_for_missing_text() -> None:
    outcome = outcome_of(result(structured_content={"a": [1]}), sees_images=False)
    assert outcome.content == '{"a":[1]}'
    assert outcome_of(result(), sees_images=False).content == "no output"


def test_an_error_of_the_tool_stays_one() -> None:
    assert outcome_of(result(text("no"), is_error=True), sees_images=False).is_error


def test_many_parts_and_odd_characters_are_bounded() -> None:
    outcome = outcome_of(result(*[text("x\0")] * 1_000), sees_images=False)
    assert "\0" not in outcome.content
    assert "800 more parts were left out" in outcome.content


def test_tools_with_impossible_names_are_left_out_and_texts_are_cut() -> None:
    schema = {"type": "object"}
    long = types.Tool(name="long", description="d" * 100_000, input_schema=schema)
    bad = [types.Tool(name=name, input_schema=schema) for name in ("", "a\nb", "x" * 1_000)]
    (tool,) = tools_of([long, *bad])
    assert tool.name == "long"
    assert len(tool.description) == limits.MAX_DESCRIPTION_CHARS


def test_a_prompt_keeps_a_bounded_number_of_arguments() -> None:
    arguments = [types.PromptArgument(name=f"a{n}") for n in range(500)]
    (prompt,) = prompts_of([types.Prompt(name="p", arguments=arguments)])
    assert len(prompt.arguments) == limits.MAX_ARGUMENTS


def test_a_prompts_text_is_what_stands_for_the_user() -> None:
    messages = [
        types.PromptMessage(role="user", content=text("one")),
        types.PromptMessage(role="assistant", content=text("not this")),
        types.PromptMessage(role="user", content=text("two")),
    ]
    assert prompt_text_of(types.GetPromptResult(messages=messages)) == "one\ntwo"


def test_a_resource_too_large_is_refused_and_its_encoding_is_checked() -> None:
    large = types.TextResourceContents(uri="note://x", text="x" * 9_000_000)
    with pytest.raises(McpFailed, match="more than"):
        contents_of(types.ReadResourceResult(contents=[large]))
    broken = types.BlobResourceContents(uri="note://x", blob="no base64!")
    with pytest.raises(McpFailed, match="not valid base64"):
        contents_of(types.ReadResourceResult(contents=[broken]))


def test_resources_with_endless_addresses_are_left_out() -> None:
    listed = [types.Resource(name="n", uri=f"note://{'x' * 5_000}")]
    assert resources_of(listed) == ()

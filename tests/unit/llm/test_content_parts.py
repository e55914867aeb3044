from base64 import b64encode

import pytest

from agents.llm.content_parts import FILE_LIMIT, Image, ModelContent, result_parts, user_parts
from agents.llm.history import UserTurn
from workspaces.log.parts import Binary, ImageUrl, Part, ShellCommand, Text, ToolResult

PNG = b64encode(b"\x89PNG....").decode()


def told(part: Part, *, sees: bool = True) -> ModelContent:
    (only,) = user_parts(UserTurn((part,)), sees=sees)
    return only


def file(text: bytes, mime_type: str = "text/plain", path: str = "a.txt") -> Binary:
    return Binary(path, mime_type, b64encode(text).decode())


def test_a_text_file_is_given_in_full_fenced_and_named() -> None:
    assert told(file("grüß".encode())) == "The user attached the file `a.txt`:\n```\ngrüß\n```"


def test_a_fence_is_longer_than_any_inside() -> None:
    assert "\n````\n```x```\n````" in str(told(file(b"```x```")))


def test_text_that_is_no_utf8_is_given_as_far_as_it_can() -> None:
    assert "a\ufffdb" in str(told(file(b"a\xffb")))


def test_a_very_long_file_is_cut_with_a_note() -> None:
    text = str(told(file(b"x" * (FILE_LIMIT + 1))))
    assert text.endswith("[Cut after 1,000,000 characters.]")


@pytest.mark.parametrize("mime_type", ["application/json", "image/svg+xml; x"])
def test_what_is_text_under_another_name_is_told_too(mime_type: str) -> None:
    assert isinstance(told(file(b"{}", mime_type)), str)


def test_other_files_are_mentioned() -> None:
    assert told(file(b"%PDF", "application/pdf", "a`\nb.pdf")) == (
        "[The user attached the file `a' b.pdf` (application/pdf), which cannot be shown here.]"
    )


@pytest.mark.parametrize("mime_type", ["text/plain", "image/png"])
def test_broken_base64_is_mentioned(mime_type: str) -> None:
    assert "damaged" in str(told(Binary("a", mime_type, "!!!")))


def test_an_image_is_given_to_a_model_that_sees() -> None:
    assert told(Binary("a.png", "image/png", PNG)) == Image("image/png", PNG)
    assert told(Binary("a.jpg", "image/jpg", PNG)) == Image("image/jpeg", PNG)


def test_an_image_is_mentioned_to_a_model_that_does_not() -> None:
    text = told(Binary("a.png", "image/png", PNG), sees=False)
    assert text == "[There is an image, `a.png`, but this model cannot see images.]"
    assert "cannot see" in str(told(ImageUrl("https://x/y.png"), sees=False))


def test_an_image_of_an_odd_kind_is_mentioned() -> None:
    assert "image/tiff" in str(told(Binary("a.tiff", "image/tiff", PNG)))


def test_image_addresses_are_passed_on_or_unpacked() -> None:
    assert told(ImageUrl("https://x/y.png", "low")) == Image(url="https://x/y.png", detail="low")
    assert told(ImageUrl(f"data:image/png;base64,{PNG}")) == Image("image/png", PNG)
    assert "cannot be used" in str(told(ImageUrl("file:///etc/passwd")))


def test_a_shell_command_is_told_with_its_end() -> None:
    assert told(ShellCommand("ls", "a\nb\n", 1)) == (
        "The user ran a shell command:\n```\nls\n```\n"
        "It ended with exit code 1 and printed:\n```\na\nb\n```"
    )
    assert str(told(ShellCommand("true", "", 0))).endswith("(no output)")


def test_a_message_is_never_empty() -> None:
    turn = UserTurn((ToolResult("a", "b", "c"),))
    assert user_parts(turn, sees=True) == ["(an empty message)"]
    assert user_parts(UserTurn((Text("a"), Text("b"))), sees=True) == ["a", "b"]


def test_a_result_has_words_and_perhaps_an_image() -> None:
    assert result_parts(ToolResult("a", "x", "out"), sees=True) == ("out", None)
    assert result_parts(ToolResult("a", "x", " "), sees=True) == ("(no output)", None)
    shown = ToolResult("a", "x", "", data=PNG, mime_type="image/png")
    assert result_parts(shown, sees=True) == ("(an image)", Image("image/png", PNG))
    assert "cannot see" in result_parts(shown, sees=False)[0]

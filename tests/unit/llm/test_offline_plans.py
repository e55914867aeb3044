from time import process_time

import pytest

from agents.llm.wires.offline_plans import plan_for


def steps(prompt: str, cwd: str = "/w") -> list[tuple[str, dict[str, str]]] | None:
    plan = plan_for(prompt, cwd)
    return None if plan is None else [(step.tool, dict(step.arguments)) for step in plan.steps]


@pytest.mark.parametrize(
    ("prompt", "tool", "arguments"),
    [
        ("list files", "ls", {"path": "/w"}),
        ("ls", "ls", {"path": "/w"}),
        ("Please list the files in src.", "ls", {"path": "/w/src"}),
        ("list src", "ls", {"path": "/w/src"}),
        ("What files are here?", "ls", {"path": "/w"}),
        ("list /etc", "ls", {"path": "/etc"}),
        ("read README.md", "view", {"file_path": "/w/README.md"}),
        ("Could you show me the file `a b.txt`?", "view", {"file_path": "/w/a b.txt"}),
        ("cat foo.py", "view", {"file_path": "/w/foo.py"}),
        ("show the contents of a.txt", "view", {"file_path": "/w/a.txt"}),
        ("search for TODO in src", "grep", {"pattern": "TODO", "path": "/w/src"}),
        ("search for f(x) in the folder src", "grep", {"pattern": r"f\(x\)", "path": "/w/src"}),
        ("grep f.x in a.py", "grep", {"pattern": "f.x", "path": "/w/a.py"}),
        ("find TODO", "grep", {"pattern": "TODO", "path": "/w"}),
        ("find *.py", "glob", {"pattern": "*.py"}),
        ("find files named conf in src", "glob", {"pattern": "**/*conf*", "path": "/w/src"}),
        ("write a.txt containing Hello there", "write", {"file_path": "/w/a.txt", "content": "Hello there"}),
        ("create a file named a.txt with the text: hi", "write", {"file_path": "/w/a.txt", "content": "hi"}),
        ('write "hi" to a.txt, please', "write", {"file_path": "/w/a.txt", "content": "hi"}),
        ("create a.py with ```python\nx = 1\n```", "write", {"file_path": "/w/a.py", "content": "x = 1"}),
        ("run ls -la | wc", "bash", {"command": "ls -la | wc", "description": "Run ls -la | wc"}),
        ("execute the command `git status`", "bash", {"command": "git status", "description": "Run git status"}),
        ("append 'it''s' to a b", "", {}),
        ("append it's to a.txt", "bash", {
            "command": "printf '%s\\n' 'it'\"'\"'s' >> /w/a.txt",
            "description": "Append a line to a.txt",
        }),
    ],
)  # fmt: skip
def test_a_plain_request_is_one_call(prompt: str, tool: str, arguments: dict[str, str]) -> None:
    assert steps(prompt) == ([(tool, arguments)] if tool else None)


@pytest.mark.parametrize(
    "prompt",
    ["replace one with two in a.txt", "edit a.txt: replace 'one' with \"two\"",
     "in a.txt, change `one` to two", "please change one to two in the file a.txt."],
)  # fmt: skip
def test_an_edit_reads_first(prompt: str) -> None:
    change = {"file_path": "/w/a.txt", "old_string": "one", "new_string": "two"}
    assert steps(prompt) == [("view", {"file_path": "/w/a.txt"}), ("edit", change)]


@pytest.mark.parametrize(
    "prompt",
    ["", " ", "hello", "write a poem", "run the tests", "show me", "read it", "look at this",
     "find out why it fails in production", "what can you do?", "explain list comprehensions",
     "x" * 30_000],
)  # fmt: skip
def test_what_is_not_plain_is_no_plan(prompt: str) -> None:
    assert steps(prompt) is None


def test_without_a_folder_paths_stay_as_they_are() -> None:
    assert steps("read a.txt", "") == [("view", {"file_path": "a.txt"})]
    assert steps("ls", "") == [("ls", {"path": "."})]


def test_the_announcement_names_what_was_asked() -> None:
    plan = plan_for("read src/a.txt", "/w")
    assert plan is not None
    assert plan.announcement == "I read src/a.txt."


@pytest.mark.parametrize(
    "prompt",
    [piece * (19_000 // len(piece)) + "x" for piece in
     (" ", "to ", "with ", 'in "x ', "please ", "in x ", "files in ", "`", "a ", "thanks ", "\n")],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["write ", "replace a ", "search ", "find ", "list ", "edit ", ""])
def test_no_prompt_takes_long(verb: str, prompt: str) -> None:
    begun = process_time()
    plan_for(verb + prompt, "/w")
    assert process_time() - begun < 2  # a quadratic one takes minutes

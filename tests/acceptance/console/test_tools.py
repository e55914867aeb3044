"""Calls of tools while they run and afterwards, and Markdown while it streams."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.acceptance.calling import agents, bash, call
from tests.acceptance.console.conftest import PHONE, Connect, MakeProject, OpenConsole
from tests.acceptance.console.transcripts import Transcript, load, part
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.browser import overflow
from tests.acceptance.harness.shapes import Server

COMMAND = "printf '\\033[31mred\\033[0m\\n'; until [ -e go ]; do sleep 0.1; done; exit 3"

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

MARKDOWN = [
    "# A\n\ntext *with* `code`\nand more\n\n- one\n- two\n\n  more of two\n\n- three\n\n1. x\n   - y\n",
    "Title\n=====\n\nOther\n---\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\nafter\n",
    "```python\ndef f():\n    return '`'\n\n\n```\n\nafter\n\n~~~\nopen\n\n# no title\n",
    "[a][later] and [b]\n\n> quote\nlazy\n\n> [b]: http://b.invalid\n\n[later]: http://a.invalid 'x'\n",
    "line\r\nother\r\n\r\n- a\r\n- b\r\n\r\n```\r\ncode\r\n```\r\n",
    "<div>\n\n*x*\n\n</div>\n\na<br>b <kbd>c</kbd>\n\n- [ ] todo\n- [x] done\n",
    "    indented\n\n    more\n\n***\n\n\n\n* * *\n",
    "\U0001f600 **bold\n\nnot bold** _x_y_ \\*\n\n&nbsp;&lt;b&gt;",
    "- a\n\n\n  b\n\n\n\nc\n\n```\n" + "x" * 5000,
    "word " * 4000
    + "\n\n"
    + "- item\n" * 2000
    + "\n```js\n"
    + "let a = 1;\n" * 10000
    + "```\n\nend",
]


@pytest.mark.timeout(300)
async def test_calls_show_what_tools_do_and_what_became_of_them(
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
    open_console: OpenConsole,
) -> None:
    folder: Path = project("shown")
    seat = await take_seat(connect(embedded_server), folder, yolo=True)
    session = await seat.workspace.session("tools")
    page = await open_console(embedded_server, f"/w/{seat.workspace.id}/s/{session}")
    await seat.workspace.prompt(session, bash(COMMAND))
    command = page.locator("details.tool").filter(has_text="Command")
    await expect(command.locator("summary")).to_contain_text("Running")
    await command.locator("summary").click()
    if await command.get_attribute("open") is None:  # drawn again at that moment
        await command.locator("summary").click()
    await expect(command.locator(".terminal")).to_have_text("red")
    await expect(command.locator(".terminal .ansi-red-fg")).to_have_text("red")
    await page.reload()
    await command.locator("summary").click()
    await expect(command.locator(".terminal")).to_have_text("red")
    (folder / "go").touch()
    await expect(command.locator("summary")).to_contain_text("Exit code 3")
    await expect(command.locator("summary")).to_contain_text("Failed")
    await seat.stream.run_complete(session)

    (folder / "a.py").write_text("def one():\n    return 1\n")
    change = {"file_path": "a.py", "old_string": "return 1", "new_string": "return 20"}
    for prompt in (
        call("view", file_path="a.py"),
        call("edit", **change),
        call("grep", pattern="return"),
        call("todos", todos=[{"content": "Test it", "status": "pending", "active_form": "x"}]),
        "[[badargs]] [[n=3]]",
        agents("look around [[n=5]]"),
    ):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, prompt)
        await seat.stream.run_complete(session, start=start)
    edit = page.locator("details.tool").filter(has=page.get_by_text("Edit", exact=True))
    await expect(edit.locator("summary")).to_contain_text("+1 −1")
    await edit.locator("summary").click()
    await expect(edit.locator(".diff-line.added mark")).to_have_text("20")
    await page.get_by_role("button", name="Side by side").click()
    await expect(edit.locator(".diff.split")).to_be_visible()
    view = page.locator("details.tool").filter(has=page.get_by_text("View", exact=True))
    await view.locator("summary").click()
    await expect(view.locator(".hljs-keyword").first).to_have_text("def")
    await expect(view.locator(".line-numbers")).to_have_text("1\n2")
    agent = page.locator("details.tool").filter(has=page.get_by_text("Agent", exact=True))
    await agent.locator("summary").first.click()
    await expect(agent.get_by_role("link", name="Open its session")).to_be_visible()
    await agent.get_by_text("Conversation of").click()
    await expect(agent.locator("article.user")).to_contain_text("look around")
    course = page.locator("details.timeline").last
    await course.locator("summary").click()
    await expect(course.get_by_role("row").filter(has_text="Agent").first).to_be_visible()


@pytest.mark.timeout(300)
async def test_markdown_in_pieces_is_the_markdown_at_once(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Callable[[str], str]
) -> None:
    page = await open_console(embedded_server)
    made = Transcript("markdown")
    made.say("x")
    await load(page, seat.workspace.id, made)
    await expect(page.locator("c-markdown")).to_have_text("x")
    for text in MARKDOWN:
        step = 3 if len(text) < 1000 else len(text) // 150
        streamed, whole = await page.evaluate(
            """async ([text, step]) => {
                const grown = document.createElement("c-markdown");
                const whole = document.createElement("c-markdown");
                grown.isOpen = true;
                document.querySelector("main").append(grown, whole);
                for (let at = step; at < text.length; at += step) {
                    grown.text = text.slice(0, at);
                    await grown.updateComplete;
                }
                grown.text = text;
                await grown.updateComplete;
                grown.isOpen = false;
                whole.text = text;
                await Promise.all([grown.updateComplete, whole.updateComplete]);
                await new Promise(requestAnimationFrame);
                const shown = [grown, whole].map(each => each.textContent + each.querySelectorAll("*:not(span)").length
                    + [...each.querySelectorAll("*:not(span)")].map(node => node.localName).join(" "));
                grown.remove();
                whole.remove();
                return shown;
            }""",
            [text, step],
        )
        assert streamed == whole


async def test_markdown_keeps_numbers_tasks_and_columns(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server)
    made = Transcript("markdown")
    made.say(
        "7. seventh\n8. eighth\n\n- [x] bought\n- [ ] built\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"
    )
    await load(page, seat.workspace.id, made)
    reply = page.locator("c-markdown")
    await expect(reply.get_by_role("checkbox", name="Not done")).not_to_be_checked()
    await expect(reply.get_by_role("checkbox", name="Done", exact=True)).to_be_checked()
    await expect(reply.locator("ol")).to_have_attribute("start", "7")
    await expect(reply.get_by_role("cell", name="2")).to_have_css("text-align", "right")


@pytest.mark.timeout(180)
async def test_results_are_lists_pages_pictures_and_the_sessions_of_agents(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    made = Transcript("shown")
    made.add("user", part("text", text="look"))
    todos = [
        {"content": "Read it", "status": "completed", "active_form": "Reading it"},
        {"content": "Change it", "status": "in_progress", "active_form": "Changing it"},
        {"content": "Test it", "status": "pending", "active_form": "Testing it"},
    ]
    figures = {"todos": todos, "completed": 1, "total": 3}
    made.call("todos", {"todos": todos}, "Saved.", metadata=figures)
    picture = {"data": PNG, "mime_type": "image/png"}
    made.call("view", {"file_path": "dot.png"}, "An image.", **picture)
    found = "Found 2 matches\n/srv/a.py:\n  Line 3: import one\n  Line 9: import two"
    made.call("grep", {"pattern": "import"}, found, metadata={"number_of_matches": 2})
    pages = (
        "1. First\n   https://one.example/\n   About one.\n\n2. Bad\n   javascript:alert(1)\n   x"
    )
    made.call("web_search", {"query": "one"}, pages)
    address = {"url": "https://one.example/", "format": "markdown"}
    made.call("fetch", address, "# Heading\n\ntext")
    child = made.agent("look around")
    child.say("I look.")
    grandchild = child.agent("look deeper")
    grandchild.say("It is deep.")
    child.agent("look elsewhere").say("Nothing there.")
    page = await open_console(embedded_server, width=PHONE)
    await load(page, seat.workspace.id, made)

    def tool(name: str) -> Locator:
        return page.locator("details.tool").filter(has=page.get_by_text(name, exact=True))

    for name in ("To-do list", "View", "Search in files", "Search the web", "Read a page", "Agent"):
        await tool(name).locator("summary").first.click()
    await expect(tool("To-do list").locator("summary")).to_contain_text("1 of 3")
    todo = tool("To-do list").locator(".todo")
    await expect(todo).to_have_text(["Read it", "Changing it", "Test it"])
    await expect(todo.nth(1).get_by_role("img", name="In progress")).to_be_visible()
    picture_shown = tool("View").get_by_role("img", name="Image that the tool returned")
    await expect(picture_shown).to_have_js_property("naturalWidth", 1)
    await expect(tool("Search in files").locator(".match-file").last).to_have_text("/srv/a.py:")
    await expect(tool("Search in files").locator(".match .line-number")).to_have_text(["3", "9"])
    search = tool("Search the web")
    await expect(search.get_by_role("link", name="First")).to_have_attribute(
        "href", "https://one.example/"
    )
    await expect(search.get_by_role("link", name="Bad")).to_have_count(0)
    await expect(search.get_by_text("javascript:alert(1)")).to_be_visible()
    await expect(tool("Read a page").get_by_role("heading", name="Heading")).to_be_visible()

    # The sessions below an agent's are a tree, and its conversation is shown inside of the call.
    agent = page.locator("c-child-session").first
    tree = agent.locator("ul.session-tree").first
    await expect(tree.get_by_role("link")).to_have_text(["look deeper", "look elsewhere"])
    await agent.get_by_text("Conversation of look around").click()
    nested = agent.locator(".messages.nested").first
    await expect(nested.get_by_text("I look.")).to_be_visible()
    await nested.locator("details.tool summary").first.click()
    await nested.get_by_text("Conversation of look deeper").click()
    await expect(nested.get_by_text("It is deep.")).to_be_visible()
    assert await overflow(page) == 0
    await tree.get_by_role("link", name="look deeper").click()
    await expect(page.get_by_role("heading", name="look deeper")).to_be_visible()

"""Whatever a model, a tool or a file has written is shown, and never runs or looks like the console."""

import base64
import json
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.acceptance.console.conftest import OpenConsole
from tests.acceptance.console.transcripts import Transcript, load, part
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.shapes import Server

HOSTILE = """<script>window.hacked = 1</script><img src=x onerror="window.hacked=1">
<svg onload="window.hacked=1"><a xlink:href="javascript:window.hacked=1"><text>x</text></a></svg>
"><iframe srcdoc="<script>parent.hacked=1</script>"></iframe><style>*{display:none}</style>
<form action="http://evil.invalid"><button class="button primary">Allow</button><input name=q></form>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.hacked=1&gt;">
[a](javascript:window.hacked=1) ![b](http://evil.invalid/x.png) <javascript:window.hacked=1>
[c]: javascript:window.hacked=1
```html"><script>window.hacked=1</script>
<script>window.hacked=1</script>
```
<details open ontoggle=window.hacked=1><base href=http://evil.invalid><meta http-equiv=refresh content=0>
\x1b]8;;javascript:window.hacked=1\x07link\x1b]8;;\x07 \x1b[31;1m<b onmouseover=window.hacked=1>red\x1b[0m
\x1b[38;2;1;2;3m${window.hacked=1}{{hacked}}\u202etxt.exe\u2066 </pre></textarea></title><!-- --!>
"""
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"><script>hacked=1</script></svg>'

# What the console's own components and the sanitiser make.
ALLOWED = {
    *[
        "a",
        "article",
        "button",
        "br",
        "code",
        "del",
        "details",
        "div",
        "em",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
    ],
    *[
        "hr",
        "i",
        "img",
        "input",
        "kbd",
        "label",
        "li",
        "main",
        "mark",
        "nav",
        "ol",
        "option",
        "p",
        "pre",
        "rect",
        "s",
        "samp",
        "section",
        "select",
        "span",
        "strong",
    ],
    *[
        "sub",
        "summary",
        "sup",
        "svg",
        "table",
        "tbody",
        "td",
        "textarea",
        "th",
        "thead",
        "time",
        "tr",
        "ul",
        "use",
        "blockquote",
        "b",
        "dl",
        "dt",
        "dd",
    ],
}

TOOLS = [
    "bash",
    "job_output",
    "job_kill",
    "edit",
    "multiedit",
    "write",
    "download",
    "view",
    "ls",
    "glob",
    "grep",
    "fetch",
    "web_fetch",
    "web_search",
    "sourcegraph",
    "agent",
    "agentic_fetch",
    "todos",
    "question",
    "lsp_diagnostics",
    "lsp_rename",
    "lsp_replace_symbol",
    "mcp_evil_tool",
    "list_mcp_resources",
    "<img/src=x/onerror=window.hacked=1>",
    "__proto__",
    "constructor",
]


def arguments() -> dict[str, Any]:
    names = [
        "command",
        "description",
        "file_path",
        "path",
        "pattern",
        "url",
        "query",
        "prompt",
        "content",
        "old_string",
        "new_string",
        "shell_id",
        "replacement",
        "symbol",
        "new_name",
        "uri",
        "mcp_name",
        "working_dir",
    ]
    question = {"type": "single_choice", "question": HOSTILE, "description": HOSTILE}
    return {
        **dict.fromkeys(names, HOSTILE),
        HOSTILE: HOSTILE,
        "__proto__": {"hacked": HOSTILE},
        "format": "markdown",
        "edits": [{"old_string": HOSTILE, "new_string": "x"}],
        "todos": [{"content": HOSTILE, "status": HOSTILE, "active_form": HOSTILE}],
        "questions": [{**question, "choices": [{"label": HOSTILE}]}],
    }


def metadata(name: str) -> dict[str, Any]:
    changes = {"additions": 1, "removals": 1, "file_path": HOSTILE}
    diff = (
        f"--- a\n+++ b\n@@ -1,1 +1,1 @@\n-{HOSTILE.splitlines()[0]}\n+<b>{HOSTILE.splitlines()[1]}"
    )
    texts = {"old_content": f"a\n{HOSTILE}", "new_content": f"{HOSTILE}b"}
    return {
        **changes,
        **({"diff": diff} if name == "write" else texts),
        "content": HOSTILE,
        "command": HOSTILE,
        "todos": arguments()["todos"],
        "edits_failed": [{"index": 0, "error": HOSTILE}],
    }


def transcript() -> Transcript:
    made = Transcript(HOSTILE[:200].replace("\n", " "))
    files = [
        part("binary", Path=HOSTILE, MIMEType=kind, Data=base64.b64encode(SVG).decode())
        for kind in ("image/svg+xml", "image/png", "text/html")
    ]
    image = part("image_url", url="javascript:window.hacked=1")
    made.add("user", part("text", text=HOSTILE), *files, image)
    made.add("user", part("shell_command", command=HOSTILE, output=HOSTILE, exit_code=3))
    made.add(
        "assistant", part("reasoning", thinking=HOSTILE, signature=""), part("text", text=HOSTILE)
    )
    for name in TOOLS:
        made.call(name, arguments(), HOSTILE, metadata=metadata(name))
        made.call(name, json.dumps(arguments())[:-900], HOSTILE, is_error=True)
    svg = base64.b64encode(SVG).decode()
    made.call("view", {"file_path": "x.svg"}, "x", data=svg, mime_type="image/svg+xml")
    wrong = part("finish", reason="error", message=HOSTILE, details=HOSTILE, time=1)
    made.add("assistant", wrong, model=HOSTILE[:100])
    made.add("assistant", part("text", text=HOSTILE), is_summary_message=True)
    return made


@pytest.mark.timeout(300)
async def test_no_text_of_a_session_runs_or_makes_elements_of_its_own(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    made = transcript()
    await load(page, seat.workspace.id, made)
    await expect(page.locator("c-tool-call").first).to_be_attached()
    await open_all(page)
    await expect(page.locator("c-child-session").first).to_be_attached()
    await expect(page.locator("c-diff .diff-text").first).to_be_attached()
    await expect(page.locator("details.tool[open] .tool-body")).to_have_count(2 * len(TOOLS) + 1)
    assert await page.evaluate("() => window.hacked") is None
    assert await foreign_elements(page) == []
    assert await page.evaluate("() => ({}).hacked") is None
    own = f"http://localhost:{embedded_server.port}/"
    assert [url for url in requested if not url.startswith((own, f"blob:{own}"))] == []
    # A person sees what a text hides.
    await expect(page.locator(".command").first).to_contain_text("⟨U+202E⟩txt.exe")
    overflow = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    await page.set_viewport_size({"width": 390, "height": 844})
    assert await page.evaluate(overflow) == 0


async def open_all(page: Page) -> None:
    await page.evaluate(
        "() => document.querySelectorAll('main details').forEach(each => each.open = true)"
    )


async def foreign_elements(page: Page) -> list[str]:
    """Elements, attributes and addresses that nothing of the console makes."""
    found: list[str] = await page.evaluate(
        """allowed => [...document.querySelectorAll("main *")].flatMap((element) => {
            const name = element.localName;
            const isOurs = allowed.includes(name) || name.startsWith("c-") || element.matches("c-session-header > dialog");
            const wrong = isOurs ? [] : [`<${name}>`];
            for (const { name: attribute, value } of element.attributes) {
                if (/^on|^style$|^srcdoc$/i.test(attribute)) wrong.push(`${name} ${attribute}`);
                if (/^(?:href|src|xlink:href)$/.test(attribute) && !/^(?:https?:|mailto:|blob:|[/#])/.test(value))
                    wrong.push(`${name} ${attribute}=${value}`);
            }
            if (element.closest(".markdown") && element.matches("button:not(.copy-button), form, img, .button")) wrong.push(`made ${name}`);
            return wrong;
        })""",
        sorted(ALLOWED),
    )
    return sorted(set(found))

"""Converts a page to Markdown, text or a list of search results.

It runs by path with ``python -I``, in a process of its own: a page is not trusted, and
excessive nesting or repetition then costs only this process time and memory. Stdin
holds one line of JSON with the request, then the page. Stdout returns JSON.
"""

import contextlib
import json
import re
import resource
import sys
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urljoin, urlsplit

from bs4 import BeautifulSoup, Comment, Tag
from markdownify import MarkdownConverter

Made: TypeAlias = dict[str, Any]

_MEMORY_BYTES = 1024 * 1024 * 1024
_CPU_SECONDS = 20
_RECURSION = 4_000
_UNSEEN = ["script", "style", "noscript", "template", "iframe", "svg", "canvas", "object", "embed"]
_AROUND = ["nav", "header", "footer", "aside", "form", "button"]
_BLANK_LINES = re.compile(r"\n\s*\n\s*\n+")
_SPACES = re.compile(r"[ \t\xa0]+")


def markdown(soup: BeautifulSoup) -> Made:
    title = _title(soup)
    body = soup.body or soup
    converter = MarkdownConverter(heading_style="ATX", bullets="-", wrap=False)
    try:
        written = converter.convert_soup(body)
    except RecursionError:  # nested too deeply for a tree walker
        written = text(soup)["content"]
    return {"title": title, "content": _tidy(written)}


def text(soup: BeautifulSoup) -> Made:
    """Converts a page to text without recursion, so that deep nesting is harmless."""
    body = soup.body or soup
    lines = [_SPACES.sub(" ", piece) for piece in body.stripped_strings]
    return {"title": _title(soup), "content": _tidy("\n".join(lines))}


def results(soup: BeautifulSoup, url: str, most: int) -> Made:
    """Returns the results of DuckDuckGo's page for browsers without scripts."""
    found = []
    for link in soup.select("a.result__a[href]"):
        frame = link.find_parent(class_="result")
        if frame is not None and "result--ad" in frame.get_attribute_list("class"):
            continue
        target = _redirect_target(urljoin(url, str(link["href"])))
        title = _one_line(link)
        if not target or not title:
            continue
        snippet = frame.select_one(".result__snippet") if frame is not None else None
        found.append({"title": title, "url": target, "snippet": _one_line(snippet)})
    return {
        "results": found[:most],
        "is_empty": soup.select_one(".no-results, .result--no-result") is not None,
        "is_challenge": soup.select_one("[class*=anomaly], form#challenge-form") is not None,
    }


def _redirect_target(url: str) -> str:
    """Returns a result's target URL: the engine links to a redirect page that counts clicks."""
    parts = urlsplit(url)
    if parts.path.rstrip("/") == "/l":
        url = parse_qs(parts.query).get("uddg", [""])[0]
    elif parts.path.endswith("/y.js"):  # an advertisement
        return ""
    return url if url.startswith(("http://", "https://")) else ""


def _one_line(element: Tag | None) -> str:
    return " ".join(element.get_text(" ").split()) if element is not None else ""


def _title(soup: BeautifulSoup) -> str:
    return _one_line(soup.title)[:300]


def _tidy(written: str) -> str:
    lines = "\n".join(line.rstrip() for line in written.splitlines())
    return _BLANK_LINES.sub("\n\n", lines).strip()


def _cleaned(soup: BeautifulSoup, url: str, *, content_only: bool) -> BeautifulSoup:
    unwanted = [*_UNSEEN, *(_AROUND if content_only else ())]
    for element in soup.find_all(unwanted):
        element.decompose()
    for comment in soup.find_all(string=lambda piece: isinstance(piece, Comment)):
        comment.extract()
    for name, attribute in (("a", "href"), ("img", "src")):
        for element in soup.find_all(name):
            _make_absolute(element, attribute, url)
    return soup


def _make_absolute(element: Tag, attribute: str, base: str) -> None:
    target = str(element.get(attribute) or "").strip()
    if target.lower().startswith(("data:", "javascript:", "vbscript:", "blob:")):
        del element[attribute]
        if element.name == "img":
            element.decompose()
    elif target:
        with contextlib.suppress(ValueError):
            element[attribute] = urljoin(base, target)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    with contextlib.suppress(ValueError, OSError):  # not every system supports this limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sys.setrecursionlimit(_RECURSION)
    request = json.loads(sys.stdin.buffer.readline())
    page = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    soup = BeautifulSoup(page, "html.parser")
    url = request["url"]
    if request["want"] == "results":
        made = results(soup, url, request["most"])
    else:
        cleaned = _cleaned(soup, url, content_only=request["content_only"])
        made = markdown(cleaned) if request["want"] == "markdown" else text(cleaned)
    sys.stdout.buffer.write(json.dumps(made, ensure_ascii=True).encode("ascii"))


if __name__ == "__main__":
    main()

"""Masks secrets in what clients are shown. Pure.

A text that only refers to a variable is shown as it is written; every other text where a
secret belongs is shown as eight stars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

MASK = "********"
# Shorter ones would take innocent text with them: a key may be "x" or "none".
_SHORTEST_WHOLE = 4
_SHORTEST_PART = 8
# Every one is looked for in every text. A file with more than this is built to be slow,
# and each is masked in its own place all the same.
_MOST_PARTS = 200

_REFERENCE = re.compile(r"(?:(?:Bearer|Basic|Token) )?\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?::-)?\})")
_SECRET_NAME = re.compile(
    r"key|token|secret|passw|passphrase|pwd|credential|auth|cookie|signature|private|bearer",
    re.IGNORECASE,
)
# Names that hold one of those words and no secret.
_HARMLESS_NAME = re.compile(
    r"tokens$|^max_.*token|token_budget$|^author(s|_name|_email)?$|_budget_tokens$|^cache_key$|^token_type$|^key_?path$",
    re.IGNORECASE,
)
# Both are bounded, so that no text makes them slow.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>]+")
_ASSIGNED = re.compile(
    r"(?<![\w-])(?=[\w-]{0,200}?(?:key|token|secret|passw|pwd|credential|auth))"
    r"(?P<name>[\w-]{1,200})(?P<sign>[=:]\s{0,10})"
    r"(?P<value>(?:(?:bearer|basic|token)\s{1,10})?[^\s\"'&;|]+)",
    re.IGNORECASE,
)


_WORD = re.compile(r"[A-Za-z0-9_+=-]+")
# What a shell acts on is never part of a key: ``TOKEN=$(program)`` must not hide the program.
_ACTIVE = re.compile(r"(\$?\(|[`<>)]+)")
_BEFORE_NO_KEY = frozenset("$./:@{~\\")  # a path, an address, a reference
_AFTER_NO_KEY = frozenset("./:@")
_SHORTEST_KEY, _LONGEST_NAME = 12, 200
_KEY_PREFIX = re.compile(
    r"(?:sk|pk|rk|gh[opsu]|github_pat|glpat|xox[abopsr]|hf|npm|pypi|AKIA|ASIA|AIza|ya29|eyJ)[-_A-Za-z0-9]{8,}"
)
# Names of packages and models: words with a version or a date behind them.
_DATED_NAME = re.compile(r"(?:[a-z]+[-_])+v?\d+(?:[-_]\d+)*(?:[-_][a-z]+)*")
_SHOUTED_START = re.compile(r"[A-Z]{4,}_?[a-z]")
_SECRET_FLAG = re.compile(
    r"(?P<flag>(?<![\w-])--?[\w-]{1,100})(?P<blanks>\s{1,10})(?P<value>[^\s\"'&;|-][^\s\"'&;|]*)"
)


def masked(text: str) -> str:
    """A text in a secret place."""
    return text if not text or _REFERENCE.fullmatch(text) else MASK


def masked_all(value: Any) -> Any:
    """A value whose every text is secret: headers, environments, tokens."""
    match value:
        case str():
            return masked(value)
        case dict():
            return {key: masked_all(item) for key, item in value.items()}
        case list():
            return [masked_all(item) for item in value]
        case _:
            return value


def is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS_NAME.search(name)


def without_secrets(value: Any) -> Any:
    """Free-form values: what stands under a secret-looking name is masked, and what
    is secret within addresses and commands."""
    match value:
        case str():
            return masked_within(value)
        case dict():
            return {
                key: masked_all(item) if is_secret_name(key) else without_secrets(item)
                for key, item in value.items()
            }
        case list():
            return _arguments(value)
        case _:
            return value


def texts_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from texts_in(item)
        case list():
            for item in value:
                yield from texts_in(item)
        case _:
            return


def secrets_in(value: Any) -> Iterator[str]:
    """Every text that ``without_secrets`` would mask for its name."""
    match value:
        case dict():
            for key, item in value.items():
                yield from texts_in(item) if is_secret_name(key) else secrets_in(item)
        case list():
            for item in value:
                yield from secrets_in(item)
        case _:
            return


def secrets_in_arguments(items: Iterable[str]) -> Iterator[str]:
    """Every text that is masked where a command line is shown."""
    written = list(items)
    for item, shown in zip(written, _arguments(written), strict=True):
        if shown == MASK:
            yield item
        elif shown != item:
            yield from _secrets_within(item)


def _secrets_within(text: str) -> Iterator[str]:
    """What ``masked_within`` takes out."""
    for found in _ASSIGNED.finditer(text):
        if is_secret_name(found["name"]):
            yield found["value"]
    for address in _URL.findall(text):
        with suppress(ValueError):
            yield from urlsplit(address).netloc.rpartition("@")[0].split(":", 1)


def _arguments(items: list[Any]) -> list[Any]:
    """A list may be a command line, where ``--api-key`` makes the next item secret."""
    shown: list[Any] = []
    after_secret_flag = False
    for item in items:
        if after_secret_flag and isinstance(item, str) and not item.startswith("-"):
            shown.append(masked(item))
        else:
            shown.append(without_secrets(item))
        after_secret_flag = (
            isinstance(item, str)
            and item.startswith("-")
            and "=" not in item
            and is_secret_name(item)
        )
    return shown


def masked_within(text: str) -> str:
    """Credentials inside an address, and ``NAME_TOKEN=…`` inside a command."""
    if "://" in text:
        text = _URL.sub(lambda match: masked_address(match.group()), text)
    return _ASSIGNED.sub(_masked_assignment, text)


def masked_words(words: Iterable[str]) -> list[str]:
    """The words of a command line: what they start stays readable, keys among them do not."""
    return [masked_command(word) for word in _arguments(list(words))]


def masked_command(command: str) -> str:
    """A command in one text. Any program may take a key anywhere, so what looks like one
    is masked whatever stands before it."""
    if command == MASK:
        return command
    return "".join(_masked_stretch(each) for each in _ACTIVE.split(command))


def _masked_stretch(stretch: str) -> str:
    shown = _SECRET_FLAG.sub(_masked_flag, masked_within(stretch))
    return _WORD.sub(_masked_key, shown)


def _masked_key(match: re.Match[str]) -> str:
    text, word = match.string, match.group()
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if before in _BEFORE_NO_KEY or after in _AFTER_NO_KEY:
        return word
    return MASK if _looks_secret(word) else word


def _masked_flag(match: re.Match[str]) -> str:
    if not is_secret_name(match["flag"]):
        return match.group()
    return match["flag"] + match["blanks"] + masked(match["value"])


def _looks_secret(word: str) -> bool:
    """Keys are long and mix kinds of characters as words of a language do not."""
    if _KEY_PREFIX.match(word):
        return True
    if len(word) < _SHORTEST_KEY or word.startswith("-"):
        return False
    has_digit = any(character.isdigit() for character in word)
    has_letter = any(character.isalpha() for character in word)
    if has_digit and has_letter:
        return len(word) > _LONGEST_NAME or not _DATED_NAME.fullmatch(word)
    return bool(_SHOUTED_START.match(word))


def _masked_assignment(match: re.Match[str]) -> str:
    if not is_secret_name(match["name"]):
        return match.group()
    return match["name"] + match["sign"] + masked(match["value"])


def masked_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        account, at, place = parts.netloc.rpartition("@")
    except ValueError:
        return MASK  # an address that cannot be parsed may hold anything
    if at and account:
        shown = ":".join(masked(part) for part in account.split(":", 1))
        url = url.replace(f"{account}@{place}", f"{shown}@{place}", 1)
    before, mark, query = url.partition("?")
    return before + mark + _ASSIGNED.sub(_masked_assignment, query)


# What clients match against other answers; see ``Scrubber``.
_KEPT = frozenset({"id", "type", "model", "provider", "data_directory"})


@dataclass(frozen=True, slots=True)
class Scrubber:
    """Masks known secrets wherever else they appear.

    A secret that is part of one of ``public`` (ids, types, folders) is not masked: keys
    are often ``"ollama"``, and environments name the home folder.
    """

    whole: frozenset[str] = field(repr=False)  # where it is all of a text
    parts: tuple[str, ...] = field(repr=False)  # where it is anywhere in one

    @classmethod
    def of(cls, secrets: Iterable[str], *, public: Iterable[str]) -> Scrubber:
        texts = frozenset(public)
        together = "\0".join(texts)
        whole = {
            secret
            for secret in secrets
            if len(secret) >= _SHORTEST_WHOLE
            and secret not in texts
            and not _REFERENCE.fullmatch(secret)
        }
        long_enough = sorted(secret for secret in whole if len(secret) >= _SHORTEST_PART)
        parts = [secret for secret in long_enough[:_MOST_PARTS] if secret not in together]
        # The longest first: one may hold another.
        return cls(
            frozenset(whole), tuple(sorted(parts, key=lambda secret: (-len(secret), secret)))
        )

    def scrub(self, value: Any) -> Any:
        match value:
            case str():
                return self._scrub_text(value)
            case dict():
                return {
                    key: item if key in _KEPT and isinstance(item, str) else self.scrub(item)
                    for key, item in value.items()
                }
            case list():
                return [self.scrub(item) for item in value]
            case _:
                return value

    def _scrub_text(self, text: str) -> str:
        if text in self.whole:
            return MASK
        for secret in self.parts:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

"""Masks secrets in answers to clients. Pure.

In the place of a secret, a text that only names a variable is shown as it is written. Every
other text there becomes eight stars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

MASK = "********"
# Masking shorter secrets would also mask harmless text: a key may be "x" or "none".
_SHORTEST_WHOLE = 4
_SHORTEST_PART = 8
# Every secret is searched for in every text, so a file with very many would be slow. Each secret is
# masked in its own place in any case.
_MOST_PARTS = 200

_REFERENCE = re.compile(r"(?:(?:Bearer|Basic|Token) )?\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?::-)?\})")
_SECRET_NAME = re.compile(
    r"key|token|secret|passw|passphrase|pwd|credential|auth|cookie|signature|private|bearer",
    re.IGNORECASE,
)
# Names that contain one of those words although their values are not secret.
_HARMLESS_NAME = re.compile(
    r"tokens$|^max_.*token|token_budget$|^author(s|_name|_email)?$|_budget_tokens$|^cache_key$|^token_type$|^key_?path$",
    re.IGNORECASE,
)
# Both have a maximum length, so that no text makes them slow.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>]+")
_ASSIGNED = re.compile(
    r"(?<![\w-])(?=[\w-]{0,200}?(?:key|token|secret|passw|pwd|credential|auth))"
    r"(?P<name>[\w-]{1,200})(?P<sign>[=:]\s{0,10})"
    r"(?P<value>(?:(?:bearer|basic|token)\s{1,10})?[^\s\"'&;|]+)",
    re.IGNORECASE,
)


_WORD = re.compile(r"[A-Za-z0-9_+=-]+")
# Characters with a meaning for a shell end a key: ``TOKEN=$(program)`` must not mask the program.
_ACTIVE = re.compile(r"(\$?\(|[`<>)]+)")
_BEFORE_NO_KEY = frozenset("$./:@{~\\")  # a path, an address, a reference
_AFTER_NO_KEY = frozenset("./:@")
_SHORTEST_KEY, _LONGEST_NAME = 12, 200
_KEY_PREFIX = re.compile(
    r"(?:sk|pk|rk|gh[opsu]|github_pat|glpat|xox[abopsr]|hf|npm|pypi|AKIA|ASIA|AIza|ya29|eyJ)[-_A-Za-z0-9]{8,}"
)
# Names of packages and models: words followed by a version or a date.
_DATED_NAME = re.compile(r"(?:[a-z]+[-_])+v?\d+(?:[-_]\d+)*(?:[-_][a-z]+)*")
_SHOUTED_START = re.compile(r"[A-Z]{4,}_?[a-z]")
_SECRET_FLAG = re.compile(
    r"(?P<flag>(?<![\w-])--?[\w-]{1,100})(?P<blanks>\s{1,10})(?P<value>[^\s\"'&;|-][^\s\"'&;|]*)"
)


def masked(text: str) -> str:
    """Returns a text from the place of a secret, masked unless it only names a variable."""
    return text if not text or _REFERENCE.fullmatch(text) else MASK


def masked_all(value: Any) -> Any:
    """Masks every text of a value: headers, environments, tokens."""
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
    """Masks the secrets of a free-form value.

    These are values under a secret-looking name, and secrets within addresses and commands.
    """
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
    """Yields every text that ``without_secrets`` would mask because of its name."""
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
    """Yields every text that is masked when this command line is shown."""
    written = list(items)
    for item, shown in zip(written, _arguments(written), strict=True):
        if shown == MASK:
            yield item
        elif shown != item:
            yield from _secrets_within(item)


def _secrets_within(text: str) -> Iterator[str]:
    """Yields the texts that ``masked_within`` masks."""
    for found in _ASSIGNED.finditer(text):
        if is_secret_name(found["name"]):
            yield found["value"]
    for address in _URL.findall(text):
        with suppress(ValueError):
            yield from urlsplit(address).netloc.rpartition("@")[0].split(":", 1)


def _arguments(items: list[Any]) -> list[Any]:
    """Masks a list. It may be a command line, where ``--api-key`` makes the next item secret."""
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
    """Masks credentials inside addresses, and ``NAME_TOKEN=…`` inside commands."""
    if "://" in text:
        text = _URL.sub(lambda match: masked_address(match.group()), text)
    return _ASSIGNED.sub(_masked_assignment, text)


def masked_words(words: Iterable[str]) -> list[str]:
    """Masks keys among the words of a command line; the program's name stays readable."""
    return [masked_command(word) for word in _arguments(list(words))]


def masked_command(command: str) -> str:
    """Masks keys in a command.

    Any program may take a key anywhere, so every word that looks like one is masked.
    """
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
    """Whether a word looks like a key: long, with a mix of characters unusual for a language."""
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
        return MASK  # an address that cannot be parsed may contain a secret anywhere
    if at and account:
        shown = ":".join(masked(part) for part in account.split(":", 1))
        url = url.replace(f"{account}@{place}", f"{shown}@{place}", 1)
    before, mark, query = url.partition("?")
    return before + mark + _ASSIGNED.sub(_masked_assignment, query)


# Keys whose values clients match against other answers; see ``Scrubber``.
_KEPT = frozenset({"id", "type", "model", "provider", "data_directory"})


@dataclass(frozen=True, slots=True)
class Scrubber:
    """Masks known secrets outside of their own places.

    A secret that is part of one of ``public`` (ids, types, folders) is not masked: keys
    are often ``"ollama"``, and environments name the home folder.
    """

    whole: frozenset[str] = field(repr=False)  # masked if equal to a whole text
    parts: tuple[str, ...] = field(repr=False)  # masked anywhere in a text

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
        # The longest first: one may contain another.
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

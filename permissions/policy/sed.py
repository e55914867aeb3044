"""The scripts of ``sed`` that only print: line ranges, plain searches, substitutions."""

from __future__ import annotations

import re

from permissions.policy.options import Options, names
from permissions.policy.words import Word, WordDoubt

# Neither brackets nor line ends in a search: where such a one stops differs between seds.
_SEARCH = r"/(?:[^/\\\[\n]|\\[^\n])*/I?"
_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|{_SEARCH})"
_RANGE = rf"(?:{_ADDRESS}(?:,(?:[+~][0-9]+|{_ADDRESS}))?[ ]*!?[ ]*)?"
# No ``w`` and no ``e``, neither as a command nor as a flag: they write and they run.
_BODY = r"(?:[^{0}\\\[\n]|\\[^\n]|\[[^{0}\\\[\]\n]+\])*"
_REPLACE = "|".join(
    rf"s{mark}{body}{mark}{body}{mark}[gpIi0-9]*"
    for mark, body in ((re.escape(mark), _BODY.format(re.escape(mark))) for mark in "/|#,@")
)
_COMMAND = rf"{_RANGE}(?:[pdq=]|{_REPLACE})"
_SCRIPT = re.compile(rf"[ ]*{_COMMAND}(?:[ ]*;[ ]*{_COMMAND})*[ ]*;?[ ]*")
_MAX_SCRIPT = 300

_OPTIONS = Options(
    flags="nErsuz",
    long=names("quiet silent regexp-extended null-data separate unbuffered posix sandbox debug"),
)


def only_prints(args: tuple[Word, ...]) -> None:
    scripts: list[Word] = []
    rest = list(args)
    # Only in front: seds differ in what an ``-e`` or ``--`` behind an operand means.
    while rest and rest[0].is_operand is False and rest[0].exact:
        if rest[0].text == "-e":
            scripts.extend(rest[1:2])
            del rest[:2]
        else:
            _OPTIONS.parse(rest[:1])
            del rest[0]
    operands = _OPTIONS.parse(rest).operands
    if len(operands) != len(rest):
        raise WordDoubt("It is given options behind its script.")
    if not scripts:
        scripts = list(operands[:1])
    for script in scripts:
        text = script.exact
        if (
            text is None
            or len(text) > _MAX_SCRIPT
            or not text.isascii()  # where a character ends depends on the locale
            or not _SCRIPT.fullmatch(text)
        ):
            raise WordDoubt("Its script is not known to only print.")

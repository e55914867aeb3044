"""The expressions of ``find`` that only look."""

from __future__ import annotations

import re

from permissions.policy.options import names
from permissions.policy.words import Shape, Word, WordDoubt

_ALONE = names(
    "-H -L -P -O1 -O2 -O3 ( ) ! , -a -o -and -or -not -print -print0 -ls -prune -quit -depth -empty",
    "-true -false -mount -xdev -noleaf -nouser -nogroup -readable -writable -executable",
    "-daystart -follow -warn -nowarn -ignore_readdir_race -noignore_readdir_race",
)
_VALUED = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname",
    "-type -xtype -size -maxdepth -mindepth -newer -anewer -cnewer -mtime -atime -ctime -mmin",
    "-amin -cmin -used -user -group -uid -gid -perm -links -inum -samefile -fstype -printf",
    "-newermt -newerat -newerct -newermm",
)
_LESS_THAN = re.compile(r"-[0-9]+[a-zA-Z]*")  # ``-mtime -7``


def only_looks(args: tuple[Word, ...]) -> None:
    pending = False
    for word in args:
        text = word.exact
        if pending:
            pending = False
            # One word, whatever it holds, is the value; several might hold a second expression.
            if (word.shape is Shape.EACH and not word.is_operand) or word.shape is Shape.LOOSE:
                raise WordDoubt("It is given a pattern that is not quoted.")
            if text is None or not text.startswith("-") or _LESS_THAN.fullmatch(text):
                continue
            raise WordDoubt("It is given a value that looks like an option.")
        if text in _VALUED:
            pending = True
        elif text in _ALONE:
            continue
        elif not word.is_operand:
            raise WordDoubt(f"It is given {word.text}, which is not known to only look."[:200])

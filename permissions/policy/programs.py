"""Which programs only read, and with which arguments.

A program that is not here may do anything. One with ``anything`` has no option
that writes, runs or connects in any of its well-known versions (GNU, BSD,
busybox); every other one names the options that it may be given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from permissions.policy import prefixes
from permissions.policy.conditions import compares, compares_in_brackets
from permissions.policy.find import only_looks
from permissions.policy.git import looks
from permissions.policy.options import Options, Rule, anything, names, only
from permissions.policy.sed import only_prints
from permissions.policy.words import Word, WordDoubt

_STORES = re.compile(r"%[^A-Za-z%]*[hjlLtqz]*n")


def _prints(args: tuple[Word, ...]) -> None:
    """``printf``: ``-v`` and ``%n`` store into a variable, and run what its subscript holds."""
    if not args or args[0].exact is None or args[0].text.startswith("-"):
        raise WordDoubt("Its format is not known.")
    if _STORES.search(args[0].text.replace("%%", "")):
        raise WordDoubt("Its format stores into a variable.")


def _dumps(args: tuple[Word, ...]) -> None:
    """``xxd``, which spells its options in its own way and writes to its second operand."""
    operands, pending = 0, False
    for word in args:
        text = word.exact
        if text is None and not (word.is_operand and word.shape == 1):
            raise WordDoubt("It is given names that are not known.")
        if pending:
            pending = False
            if not re.fullmatch(r"-?(0x)?[0-9a-fA-F]+", text or ""):
                raise WordDoubt("It is given an option that is not understood.")
        elif operands or text is None or not text.startswith("-"):
            operands += 1  # behind the first, options are names of files, too
        elif text in {"-c", "-g", "-l", "-s"}:
            pending = True
        elif text not in {"-p", "-ps", "-plain", "-u", "-b", "-e", "-E", "-i"}:
            raise WordDoubt("It is given an option that is not known to be harmless.")
    if operands > 1:
        raise WordDoubt("It is given a name that it writes to.")


_sorts = Options(
    flags="bcCdfghiMmnRrsuVz",
    valued="kt",
    long=names(
        "reverse numeric-sort general-numeric-sort human-numeric-sort version-sort month-sort",
        "unique stable check ignore-case ignore-leading-blanks dictionary-order zero-terminated",
        "random-sort key field-separator debug",
    ),
    long_valued=names("key field-separator"),
)
_searches = Options(  # no --pre, --hostname-bin or --search-zip: they run programs
    flags="0123456789abcFHhiILlNnopPqSsUuvVwx.",
    valued="ABCefgjmMrtTdE",
    long=names(
        "files files-with-matches files-without-match line-number no-line-number no-heading heading",
        "color ignore-case smart-case case-sensitive fixed-strings word-regexp line-regexp count",
        "count-matches invert-match only-matching hidden no-hidden no-ignore no-ignore-vcs glob",
        "iglob type type-not type-list max-count max-depth max-columns max-filesize context null",
        "after-context before-context multiline multiline-dotall pcre2 regexp replace sort sortr",
        "stats trim unrestricted version vimgrep with-filename no-filename column json passthru",
        "quiet text follow no-messages one-file-system path-separator no-config threads crlf",
        "max-columns-preview byte-offset no-ignore-global no-ignore-parent no-ignore-dot encoding",
    ),
    long_valued=names(
        "glob iglob type type-not max-count max-depth max-columns max-filesize context color",
        "after-context before-context regexp replace sort sortr threads encoding",
    ),
)
_finds = Options(  # fd: no --exec, --exec-batch or --list-details: they run programs
    flags="0123456789HIsiFaLpgu",
    valued="dEteSc",
    long=names(
        "hidden no-ignore case-sensitive ignore-case glob regex fixed-strings absolute-path follow",
        "full-path print0 max-depth min-depth exact-depth exclude type extension size color",
        "changed-within changed-before max-results no-ignore-vcs unrestricted version",
    ),
    long_valued=names("max-depth min-depth exact-depth exclude type extension size color"),
)
_compares_files = Options(  # diff: no --paginate: it runs a program
    flags="0123456789abBdEeHinNpPqrsTtuwyc",
    valued="UCxXWIFL",
    long=names(
        "unified context brief recursive new-file text ignore-all-space ignore-space-change",
        "ignore-blank-lines ignore-case side-by-side width color exclude label minimal",
        "strip-trailing-cr suppress-common-lines report-identical-files show-c-function speed-large-files",
        "ignore-matching-lines no-dereference ignore-trailing-space ignore-tab-expansion version",
    ),
    long_valued=names("width exclude label ignore-matching-lines"),
)
_draws_a_tree = Options(  # no -o and no -R: they write
    flags="adfilpsugDFqNQrtUvxCAnShcJX",
    valued="LPI",
    long=names(
        "dirsfirst filesfirst noreport gitignore prune du si filelimit charset metafirst",
        "matchdirs ignore-case timefmt sort inodes device version",
    ),
    long_valued=names("filelimit charset timefmt"),
)
_tells_the_time = Options(
    flags="uR",
    valued="dr",
    long=names("utc universal rfc-email iso-8601 rfc-3339 date reference"),
    long_valued=names("date reference"),
    operand=re.compile(r"\+.*", re.DOTALL),  # any other operand sets the clock
)

_ANYTHING = names(
    "cat head tail wc ls grep egrep fgrep echo pwd cd true false : sleep seq printenv which type",
    "whereis stat du df ps id whoami groups uname nproc tty uptime free locale getconf",
    "logname basename dirname realpath readlink cut tr nl od fold paste join comm tac rev expand",
    "unexpand cmp column hexdump numfmt factor expr jq cksum sum md5sum sha1sum sha224sum",
    "sha256sum sha384sum sha512sum b2sum shasum md5 lscpu lsblk pgrep",
)
# ``go``, ``cargo`` and ``rustc`` are not here: told by a file in the folder, they fetch another version.
_VERSIONED = names(
    "python python2 python3 node ruby perl php gcc g++ cc clang make cmake bash zsh pip pip3 docker",
    "ninja sqlite3 psql",
)

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ANYTHING, anything),
    **dict.fromkeys(_VERSIONED, only("--version")),
    "node": only("--version", "-v"),
    "java": only("-version", "--version"),
    "javac": only("-version", "--version"),
    "git": looks,
    "find": only_looks,
    "sed": only_prints,
    "test": compares,
    "[": compares_in_brackets,
    "printf": _prints,
    "xxd": _dumps,
    "sort": _sorts,
    "rg": _searches,
    "fd": _finds,
    "fdfind": _finds,
    "diff": _compares_files,
    "tree": _draws_a_tree,
    "date": _tells_the_time,
    "uniq": Options(
        flags="cdDuiz0123456789",
        valued="fsw",
        long=names(
            "count repeated unique ignore-case zero-terminated skip-fields skip-chars check-chars"
        ),
        operands=1,  # a second one is written to
    ),
    "hostname": Options(flags="sI", operands=0),
    "file": Options(  # no -C: it compiles; no -p: it sets times; no -z: it runs programs
        flags="bikLhNnrv0E",
        valued="Fe",
        long=names(
            "brief mime mime-type mime-encoding dereference no-dereference extension version"
        ),
    ),
    "base64": Options(flags="dD", valued="w", long=names("decode wrap"), operands=1),
    "strings": Options(
        flags="afowd0123456789", valued="nte", long=names("all bytes radix encoding")
    ),
    "read": prefixes.READ,
}

PREFIXES: Mapping[str, Callable[[tuple[Word, ...], prefixes.Judge], None]] = {
    "env": prefixes.env,
    "timeout": prefixes.timeout,
    "nice": prefixes.nice,
    "stdbuf": prefixes.stdbuf,
    "time": prefixes.time,
    "command": prefixes.command,
    "xargs": prefixes.xargs,
}

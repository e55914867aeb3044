"""The programs that only read, and with which arguments.

A program that is not listed may do anything. One with ``anything`` has no option that writes, runs
a program or connects, in any of its well-known versions (GNU, BSD, busybox). Every other one lists
its allowed options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from permissions.policy import prefixes
from permissions.policy.conditions import compares, compares_in_brackets
from permissions.policy.git import looks
from permissions.policy.options import Options, Rule, anything, names, only
from permissions.policy.words import Shape, Word, WordDoubt

_STORES = re.compile(r"%[^A-Za-z%]*[hjlLtqz]*n")


def _prints(args: tuple[Word, ...]) -> None:
    """``printf``: ``-v`` and ``%n`` set a variable and run code in its subscript."""
    if not args or args[0].exact is None or args[0].text.startswith("-"):
        raise WordDoubt("Its format is not known.")
    if _STORES.search(args[0].text.replace("%%", "")):
        raise WordDoubt("Its format stores into a variable.")


def _dumps(args: tuple[Word, ...]) -> None:
    """``xxd``, which has its own option syntax and writes to its second operand."""
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
            operands += 1  # after the first operand, options are file names too
        elif text in {"-c", "-g", "-l", "-s"}:
            pending = True
        elif text not in {"-p", "-ps", "-plain", "-u", "-b", "-e", "-E", "-i"}:
            raise WordDoubt("It is given an option that is not known to be harmless.")
    if operands > 1:
        raise WordDoubt("It is given a name that it writes to.")


_FIND_ALONE = names(
    "-H -L -P -O1 -O2 -O3 ( ) ! , -a -o -and -or -not -print -print0 -ls -prune -quit -depth -empty",
    "-true -false -mount -xdev -noleaf -nouser -nogroup -readable -writable -executable",
    "-daystart -follow -warn -nowarn -ignore_readdir_race -noignore_readdir_race",
)
_FIND_VALUED = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname",
    "-type -xtype -size -maxdepth -mindepth -newer -anewer -cnewer -mtime -atime -ctime -mmin",
    "-amin -cmin -used -user -group -uid -gid -perm -links -inum -samefile -fstype -printf",
    "-newermt -newerat -newerct -newermm",
)
_LESS_THAN = re.compile(r"-[0-9]+[a-zA-Z]*")  # ``-mtime -7``


def _only_looks(args: tuple[Word, ...]) -> None:
    """``find``, whose expressions look like options."""
    pending = False
    for word in args:
        text = word.exact
        if pending:
            pending = False
            # A single word is always the value; several words may contain a second expression.
            if (word.shape is Shape.EACH and not word.is_operand) or word.shape is Shape.LOOSE:
                raise WordDoubt("It is given a pattern that is not quoted.")
            if text is None or not text.startswith("-") or _LESS_THAN.fullmatch(text):
                continue
            raise WordDoubt("It is given a value that looks like an option.")
        if text in _FIND_VALUED:
            pending = True
        elif text in _FIND_ALONE:
            continue
        elif not word.is_operand:
            raise WordDoubt(f"It is given {word.text}, which is not known to only look."[:200])


# No brackets and line ends in a search: versions of sed differ in where it ends.
_SED_SEARCH = r"/(?:[^/\\\[\n]|\\[^\n])*/I?"
_SED_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|{_SED_SEARCH})"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:[+~][0-9]+|{_SED_ADDRESS}))?[ ]*!?[ ]*)?"
# No ``w`` and no ``e``, as a command or a flag: they write a file or run a program.
_SED_BODY = r"(?:[^{0}\\\[\n]|\\[^\n]|\[[^{0}\\\[\]\n]+\])*"
_SED_REPLACE = "|".join(
    rf"s{mark}{body}{mark}{body}{mark}[gpIi0-9]*"
    for mark, body in ((re.escape(mark), _SED_BODY.format(re.escape(mark))) for mark in "/|#,@")
)
_SED_COMMAND = rf"{_SED_RANGE}(?:[pdq=]|{_SED_REPLACE})"
_SED_SCRIPT = re.compile(rf"[ ]*{_SED_COMMAND}(?:[ ]*;[ ]*{_SED_COMMAND})*[ ]*;?[ ]*")
_MAX_SED_SCRIPT = 300

_SED_OPTIONS = Options(
    flags="nErsuz",
    long=names("quiet silent regexp-extended null-data separate unbuffered posix sandbox debug"),
)


def _only_prints(args: tuple[Word, ...]) -> None:
    """``sed``, with scripts of line ranges, plain searches and substitutions."""
    scripts: list[Word] = []
    rest = list(args)
    # Only before operands: versions of sed differ in what ``-e`` or ``--`` means after one.
    while rest and rest[0].is_operand is False and rest[0].exact:
        if rest[0].text == "-e":
            scripts.extend(rest[1:2])
            del rest[:2]
        else:
            _SED_OPTIONS.parse(rest[:1])
            del rest[0]
    operands = _SED_OPTIONS.parse(rest).operands
    if len(operands) != len(rest):
        raise WordDoubt("It is given options behind its script.")
    if not scripts:
        scripts = list(operands[:1])
    for script in scripts:
        text = script.exact
        if (
            text is None
            or len(text) > _MAX_SED_SCRIPT
            or not text.isascii()  # where a character ends depends on the locale
            or not _SED_SCRIPT.fullmatch(text)
        ):
            raise WordDoubt("Its script is not known to only print.")


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
_prints_the_time = Options(
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
# Without ``go``, ``cargo`` and ``rustc``: a file in the folder can make them download a version.
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
    "find": _only_looks,
    "sed": _only_prints,
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
    "date": _prints_the_time,
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

PREFIXES: Mapping[str, Callable[[tuple[Word, ...], prefixes.CheckProgram], None]] = {
    "env": prefixes.env,
    "timeout": prefixes.timeout,
    "nice": prefixes.nice,
    "stdbuf": prefixes.stdbuf,
    "time": prefixes.time,
    "command": prefixes.command,
    "xargs": prefixes.xargs,
}

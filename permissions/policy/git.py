"""The subcommands and options of git that only read a repository.

Programs in a repository's own configuration (a diff driver, a file system monitor) are not checked
here: the caller that runs the command disables them. Options that name another repository, another
configuration or a program are rejected. Git accepts unambiguous prefixes of long options, so only
complete, known names are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from permissions.policy.options import Options, Parsed, Rule, names
from permissions.policy.words import Word, WordDoubt

# No ``submodule`` and no ``ignore-submodules``: with them git starts git in submodules.
_DIFF = names(
    "patch no-patch raw patch-with-raw patch-with-stat stat shortstat numstat dirstat summary",
    "compact-summary name-only name-status cached staged unified context minimal patience",
    "histogram diff-algorithm word-diff word-diff-regex color-words color no-color color-moved",
    "no-renames find-renames find-copies find-copies-harder check full-index binary abbrev text",
    "ignore-all-space ignore-space-change ignore-space-at-eol ignore-blank-lines",
    "function-context exit-code quiet no-ext-diff no-textconv no-prefix diff-filter relative",
    "inter-hunk-context merge-base no-index pickaxe-all pickaxe-regex",
    "no-color-moved no-relative cc ours theirs base",
)
_LOG = _DIFF | names(
    "oneline graph all decorate no-decorate follow reverse merges no-merges first-parent",
    "abbrev-commit no-abbrev-commit no-abbrev date-order topo-order author-date-order source tags",
    "branches remotes left-right left-only right-only cherry-pick cherry-mark cherry boundary",
    "full-history simplify-by-decoration simplify-merges ancestry-path pretty format date",
    "relative-date since after until before author committer grep max-count skip invert-grep",
    "all-match regexp-ignore-case extended-regexp fixed-strings perl-regexp glob exclude",
    "no-notes notes clear-decorations decorate-refs log-size full-diff root no-walk walk-reflogs",
    "parents children count objects not stdin min-parents max-parents mailmap no-mailmap",
)
_LOG_VALUED = names("author committer grep since until after before max-count skip date format")
_LISTS = names("list contains no-contains merged no-merged points-at")
_REFS = _LISTS | names("all remotes verbose show-current sort format color no-color column abbrev")
# These make git run gpg, which may be any program and writes a key ring.
_SIGNATURE = re.compile(r"%G|signature", re.IGNORECASE)

_log = Options(
    flags="0123456789puszwbaRWMCDcmriEFPqgt", valued="nUSGLl", long=_LOG, long_valued=_LOG_VALUED
)
_refs = Options(flags="arvil", long=_REFS, long_valued=(_LISTS - {"list"}) | names("format sort"))
_tags = Options(
    flags="lin0123456789", long=_REFS - names("remotes all"), long_valued=names("format sort")
)
_no_operands = Options(flags="v", long=names("verbose"), operands=0)


def _check_formats(args: tuple[Word, ...]) -> None:
    format_follows = False
    for word in args:
        is_format = word.text.startswith(("--pretty", "--format", "--sort")) or format_follows
        if is_format and (word.exact is None or _SIGNATURE.search(word.text)):
            raise WordDoubt("It prints in a format that may run another program.")
        format_follows = word.exact in {"--format", "--pretty", "--sort"}


def _looks_at_history(args: tuple[Word, ...]) -> None:
    _check_formats(args)
    _log.parse(args)


def _lists(parsed: Parsed, *, short: str) -> None:
    if parsed.operands and not parsed.options & (_LISTS | set(short)):
        raise WordDoubt("It makes a branch or a tag.")


def _branch(args: tuple[Word, ...]) -> None:
    _check_formats(args)
    _lists(_refs.parse(args), short="")


def _tag(args: tuple[Word, ...]) -> None:
    _check_formats(args)
    _lists(_tags.parse(args), short="l")


def _stash(args: tuple[Word, ...]) -> None:
    if not args or args[0].exact not in {"list", "show"}:
        raise WordDoubt("It changes the stash.")
    _looks_at_history(args)


def _reflog(args: tuple[Word, ...]) -> None:
    _check_formats(args)
    _log.parse(args)
    for word in args:
        # Git accepts ``expire`` and ``delete`` after options too.
        if not re.match(r"-|show$|HEAD|[0-9]+$", word.text):
            raise WordDoubt("It may change the reflog.")


def _remote(args: tuple[Word, ...]) -> None:
    if args and args[0].exact == "get-url":
        args = args[2:] if len(args) > 1 and args[1].is_operand else args[1:]
    _no_operands(args)


_config_options = Options(
    flags="zl",
    long=names("global local system worktree show-origin show-scope null name-only includes"),
)
_CONFIG_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*(?:\.[^\s.]+)+")
_CONFIG_READS = names("--get --get-all --get-regexp --get-urlmatch --list -l get list")


def _config(args: tuple[Word, ...]) -> None:
    # The first word after the scope options selects the action; a later one could change it.
    rest = list(args)
    while rest and rest[0].exact in {"--global", "--local", "--system", "--show-origin"}:
        del rest[0]
    if len(rest) == 1 and _CONFIG_KEY.fullmatch(rest[0].exact or ""):
        return  # with a second word it would set the key
    if not rest or rest[0].exact not in _CONFIG_READS:
        raise WordDoubt("It may change git's configuration.")
    _config_options.parse(rest[1:])


def _worktree(args: tuple[Word, ...]) -> None:
    if not args or args[0].exact != "list":
        raise WordDoubt("It changes work trees.")
    Options(flags="v", long=names("porcelain verbose"), operands=0)(args[1:])


def _for_each_ref(args: tuple[Word, ...]) -> None:
    _check_formats(args)
    Options(long=_REFS | names("count"), long_valued=names("format sort")).parse(args)


def _anything_but_help(args: tuple[Word, ...]) -> None:
    # ``--help`` opens the manual with a program that the repository's configuration may name.
    for word in args:
        if word.exact == "--help" or (word.exact is None and not word.is_operand):
            raise WordDoubt("It may open the manual with another program.")


_SUBCOMMANDS: Mapping[str, Rule] = {
    "log": _looks_at_history,
    "show": _looks_at_history,
    "diff": _looks_at_history,
    "rev-list": _looks_at_history,
    "diff-tree": _looks_at_history,
    "diff-index": _looks_at_history,
    "diff-files": _looks_at_history,
    "status": Options(
        flags="sbvz",
        valued="u",
        long=names(
            "short branch show-stash porcelain long verbose untracked-files ignored column",
            "no-column ahead-behind no-ahead-behind no-renames find-renames",
        ),
    ),
    "branch": _branch,
    "tag": _tag,
    "stash": _stash,
    "reflog": _reflog,
    "remote": _remote,
    "config": _config,
    "worktree": _worktree,
    "for-each-ref": _for_each_ref,
    "blame": Options(
        flags="wslefnMCtpcb",
        valued="L",
        long=names(
            "porcelain line-porcelain date since show-email show-name show-number root abbrev",
            "color-lines color-by-age incremental reverse first-parent",
        ),
    ),
    "grep": Options(
        flags="0123456789inwlLcHhvEFPoaIrqzWp",
        valued="ABCefm",
        long=names(
            "cached untracked no-index line-number ignore-case word-regexp name-only count and or",
            "files-with-matches files-without-match not all-match heading break color no-color",
            "fixed-strings extended-regexp basic-regexp perl-regexp max-depth max-count context",
            "after-context before-context function-context show-function only-matching quiet text",
            "recurse-submodules exclude-standard no-exclude-standard invert-match column full-name",
        ),
    ),
    "describe": Options(
        long=names(
            "tags always dirty long abbrev all match exact-match contains first-parent exclude",
            "candidates broken",
        ),
    ),
    "shortlog": Options(
        flags="sne",
        long=names("summary numbered email no-merges merges all group since until after before"),
    ),
    "cat-file": Options(flags="tspe"),
    "symbolic-ref": Options(flags="q", long=names("short quiet"), operands=1),
    "count-objects": Options(flags="vH", long=names("verbose human-readable"), operands=0),
    "rev-parse": _anything_but_help,
    "ls-files": _anything_but_help,
    "ls-tree": _anything_but_help,
    "merge-base": _anything_but_help,
    "name-rev": _anything_but_help,
    "show-ref": _anything_but_help,
    "check-ignore": _anything_but_help,
    "check-attr": _anything_but_help,
    "version": _anything_but_help,
}
_GLOBAL = names("--no-pager -P --no-optional-locks --no-replace-objects --literal-pathspecs")
_VERSION_OPTIONS = names("--version -v")


def looks(args: tuple[Word, ...]) -> None:
    """The rule for ``git``."""
    rest = args
    while rest and rest[0].exact in _GLOBAL:
        rest = rest[1:]
    if not rest or rest[0].exact in _VERSION_OPTIONS:
        return
    name = rest[0].exact
    rule = _SUBCOMMANDS.get(name) if name else None
    if rule is None:
        # A user's alias may have any name and run anything.
        raise WordDoubt("It uses a part of git that is not known to only look.")
    rule(rest[1:])

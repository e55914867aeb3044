"""Commands that only read run without a request inside of the workspace, and not elsewhere."""

from pathlib import Path

import pytest

from agents.tools.shell.bash import Bash
from tests.doubles.tool_context import ToolDoubles, make_tool_doubles

SECRETS = {"ANTHROPIC_API_KEY": "sk-1", "GITHUB_TOKEN": "t"}
ADDRESS = {"DATABASE_URL": "postgres://me:word@host/x"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "clean" / "deep").mkdir(parents=True)
    (folder / "clean" / "c.txt").touch()
    (folder / "src" / "one.py").touch()
    for name in ("a.txt", "b.txt", "data.json"):
        (folder / name).write_text("foo\n")
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    (outside / "secret.txt").touch()
    (folder / "src" / "way").symlink_to(outside)
    (folder / "src" / "leaf.txt").symlink_to(outside / "secret.txt")
    (folder / "src" / "home").symlink_to("..")
    (folder / "same").symlink_to("a.txt")
    return folder


async def asks(doubles: ToolDoubles, command: str) -> bool:
    tool = Bash()
    args = tool.parse({"command": command, "description": ""})
    return await tool.required_permission(args, doubles.context) is not None


@pytest.mark.parametrize(
    "command",
    [
        "ls", "ls -la", "ls src", "cat a.txt", "cat ./a.txt", "cat same", "head -n 5 a.txt", "head -20 a.txt b.txt",
        "grep -rn x .", "grep -rn '/usr/bin' .", "grep -n foo *.txt", "rg foo", "rg -n '/x' src/one.py", "rg --files",
        "find .", "find . -name '*.py' -not -path './.git/*'", "find src -type f", "wc -l *.txt", "wc", "echo hello",
        "echo $HOME", "echo \"$HOME/x\"", "echo /etc/passwd", "pwd", "which ls", "uname -a", "cat a.txt | grep foo | sort | uniq -c",
        "ls 2>/dev/null", "cat < a.txt", "cat clean/*.txt", "ls clean/*/", "cat clean/{c,d}.txt", "cd src && ls", "cd clean; cat c.txt",
        "cd src && cat home/a.txt", "sed -n '/foo/,/bar/p' a.txt", "sed -n -e '/x/p' a.txt", "cut -d/ -f1 a.txt", "cut -d / -f 2 a.txt",
        "sort -t/ -k2 a.txt", "tr / x < a.txt", "date +%F", "python3 --version", "git --version", "git status", "git log --oneline -5",
        "git diff HEAD -- a.txt", "git show HEAD:a.txt", "git config --get user.name", "git config user.name", "node -v", "git config --local --list", "jq '.a' data.json",
        "diff a.txt b.txt", "diff <(sort a.txt) <(sort b.txt)", "[ -f a.txt ] && cat a.txt", "[[ -d src ]] && ls src",
        "for f in *.txt; do echo \"$f\"; done", "timeout 5 cat a.txt", "find . -name '*.txt' | xargs -n 1 basename", "echo *.txt",
        "test -d src", "du -sh .", "tree -L 2", "stat a.txt", "md5sum a.txt", "cat -", "printf '%s\\n' a", "ps aux", "df -h /",
        "diff clean clean/deep", "diff --no-dereference src clean", "strings a.txt", "strings -n 8 clean/*", 'echo "${x:-*}"', "echo ${x:-none}",
        "ls .g*", "ls .[!.]*", "ls -d .[^.]*", "cat ./*.txt", "cat clean/*.{txt,py}", "cat {a,b}.txt", "cat clean/../*.txt", "cat {a.txt,b.txt}",
        "env", "printenv HOME", "echo $?", "cat /dev/null", "ls missing", "echo \"$x\"",
    ],
)  # fmt: skip
async def test_inside_it_does_not_ask(command: str, root: Path) -> None:
    assert not await asks(make_tool_doubles(root), command)


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/shadow", "cat ~/.ssh/id_rsa", "cat ~", "cat ~root/x", "cat ../outside/secret.txt", "cat src/../../outside/secret.txt",
        "ls /", "ls ..", "ls ~", "ls /etc/*", "echo /etc/*", "echo ~/*", "for f in /etc/*; do echo $f; done", "echo ../*", "echo */../../*",
        "cat src/leaf.txt", "cat src/way/secret.txt", "ls src/way", "ls src/way/", "cat src/*", "cat src/*.txt", "ls src/*/", "ls s*/w*/b*", "cat */leaf.txt",
        "cat s{rc,}/leaf.txt", "cat {/etc/shadow,a.txt}", "cat a.txt{,/../../x}", "cat src/{one.py,leaf.txt}", "echo {~,a}",
        "cat $HOME/x", 'cat "$HOME/.ssh/id_rsa"', "cat $x", 'cat "$x"', 'cat "$PWD/../x"', "x=/etc/shadow; cat $x", 'x=a; cat "$x"',
        "x='/etc/*'; echo $x", "echo $(echo '/etc/*')", "cat $(echo /etc/shadow)", "cat `ls`", "for f in /etc/shadow; do cat \"$f\"; done",
        "cat < /etc/shadow", "cat < ../outside/secret.txt", "cat < src/leaf.txt", "echo $(< /etc/shadow)", "cat <<< $(cat /etc/shadow)",
        "while read -r l; do echo \"$l\"; done < /etc/passwd", "cd / && ls", "cd .. && cat outside/secret.txt", "cd ..; ls", "cd; ls", "cd -; ls", "cd ~; ls",
        "cd src && cat way/secret.txt", "cd src; cd ..; cd ..; ls", "cd src && cat ../../outside/secret.txt", "cd $x; ls", "cd src/way && ls", "cd src/*; ls",
        "cat /proc/self/environ", "grep -a x /proc/1/environ", "cat /proc/self/cwd/a.txt", "strings /sys/x", "head -c 9 /dev/urandom",
        "grep -f /etc/shadow a.txt", "grep -f/etc/shadow a.txt", "grep -nf/etc/shadow a.txt", "grep --file=/etc/shadow a.txt", "grep -e x /etc/shadow",
        "grep -rex /etc", "grep -A 3 x /etc/shadow", "grep -rn x /etc", "grep -R x .", "grep -nR x .", "grep --dereference-recursive x .",
        "rg x /etc", "rg -L x", "rg --follow x", "rg --files /etc", "rg -f /etc/shadow x", "find / -name x", "find -L .", "find . -follow",
        "find . -newer /etc/shadow", "fd . /etc", "fd -L x", "ls -L src", "ls -laL src", "tree -l", "tree /etc", "du -L .", "du --files0-from=a.txt",
        "wc --files0-from=a.txt", "wc --files0=a.txt", "md5sum -c a.txt", "sha256sum --check a.txt", "diff -r src src", "diff a.txt /etc/shadow",
        "sort /etc/shadow", "sort -t/ /etc/passwd", "cut -d: -f1 /etc/passwd", "paste a.txt /etc/passwd", "base64 /etc/shadow", "xxd /etc/shadow", "jq . /etc/x.json",
        "jq -n env", "jq -n '$ENV.HOME'", "jq -n 'import \"x\" as $d {search: \"/etc\"}; $d'", "jq -f /etc/x a.txt", "jq --rawfile a /etc/shadow . a.txt",
        "jq --slurpfile a /etc/x . a.txt", "find . -name x | xargs cat", "echo /etc/shadow | xargs cat", "ls | xargs -I{} cat {}", "ls | xargs grep x",
        "stat /etc/shadow", "file /etc/shadow", "test -e /etc/shadow", "[ -r /etc/shadow ]", "[[ -f /etc/shadow ]] && echo y", "[ a.txt -nt /etc/shadow ]",
        '[[ -f "$x" ]]', "realpath ~/x", "readlink -f /etc/x", "sed -n 1p /etc/shadow", "sed -n -e 1p /etc/shadow", "timeout 5 cat /etc/shadow",
        "nice cat /etc/shadow", "command cat /etc/shadow", "env LANG=C cat /etc/shadow", "cat a.txt | cat - /etc/shadow", "cat a.txt; cat /etc/shadow",
        "date -r /etc/shadow", "diff <(cat /etc/shadow) a.txt", "x='a /etc/shadow'; cat <(ls)$x", "git diff --no-index a.txt /etc/shadow", "git config http.x.extraheader", "git config user.name evil", "git config user", "git config core.pager evil", "git config $x", "git config --unset user.name", "git config --edit",
        "git config --list", "git config --global --list",
        "git config --get http.https://x.extraheader", "git config --get http.x.extraheader core.y", "git config --get-regexp .", "cat 'src/leaf.txt'", "cat src/lea\\f.txt",
        "echo ${x:-/etc/*}", "printf '%s' ${x:-../*}", "strings @a.txt", "strings *", "strings -- @a.txt", "xargs strings < a.txt",
        "diff src clean", "diff src/ clean", "diff -q clean src", "diff s* clean", "diff src a.txt", "diff -- clean src",
        "cat {..,src}/outside/secret.txt", "cat .{.,x}/outside/secret.txt", "cat {.,a}./outside/secret.txt", "cat .{a,}./outside/secret.txt", "ls {..,src}",
        "cat .*/outside/secret.txt", "ls .*", "ls .?", "ls src/.[.]", "echo .[a-z.]*", "grep --file=.*/outside/secret.txt x a.txt", "cat src/.*/.*/outside/secret.txt",
        "grep -nnnnnnnnnnnnnnf/etc/shadow a.txt", "grep -f.{.,a}/outside/secret.txt x a.txt",
        "grep * /etc/shadow", "grep s* /etc/shadow", "grep -n {a,b} /etc/shadow", "egrep [a]* /etc/shadow", "grep * ../outside/secret.txt",
        "git blame ../x", "comm a.txt /etc/passwd", "cat @/etc/x --a=/etc/y", "tail -n 5 /var/log/syslog", "ls -d /etc", "ps e", "ps axe",
    ],
)  # fmt: skip
async def test_outside_it_asks(command: str, root: Path) -> None:
    assert await asks(make_tool_doubles(root), command)


@pytest.mark.parametrize(
    "command",
    [
        "env", "printenv", "printenv ANTHROPIC_API_KEY", "echo $GITHUB_TOKEN", 'echo "${GITHUB_TOKEN:-x}"', "printenv HOME GITHUB_TOKEN",
        "grep -c $GITHUB_TOKEN a.txt", '[ "$GITHUB_TOKEN" = a ]', "cat <<< $GITHUB_TOKEN", "env | sort", "env LANG=C", "echo ${#GITHUB_TOKEN}",
        "env env", "ps e", 'for f in "$GITHUB_TOKEN"; do echo; done', "timeout 5 env", "x=$GITHUB_TOKEN; echo", "printenv $x", "echo a | xargs printenv",
    ],
)  # fmt: skip
async def test_what_shows_a_secret_asks(command: str, root: Path) -> None:
    assert await asks(make_tool_doubles(root, env=SECRETS), command)


async def test_addresses_with_passwords_are_secrets(root: Path) -> None:
    assert await asks(make_tool_doubles(root, env=ADDRESS), "env")
    assert await asks(make_tool_doubles(root, env=ADDRESS), "echo $DATABASE_URL")
    assert not await asks(make_tool_doubles(root, env={"HOMEPAGE": "https://x/@y"}), "env")


async def test_other_variables_may_be_shown(root: Path) -> None:
    doubles = make_tool_doubles(root, env=SECRETS)
    for command in (
        "echo $HOME",
        "printenv PATH",
        "ls -la $UNSET_FLAGS 2>/dev/null | head -n 1; pwd",
    ):
        assert await asks(doubles, command) == ("UNSET" in command)


async def test_folders_that_cd_looks_through_ask(root: Path) -> None:
    assert await asks(make_tool_doubles(root, env={"CDPATH": "/etc"}), "cd src && ls")


async def test_in_other_encodings_only_ascii_runs_without_a_request(root: Path) -> None:
    doubles = make_tool_doubles(root, env={"LC_ALL": "zh_CN.GBK"})
    assert await asks(doubles, "echo 'é'")
    assert not await asks(doubles, "echo e")
    assert not await asks(make_tool_doubles(root, env={"LC_ALL": "en_US.UTF-8"}), "echo 'é'")


async def test_a_folder_with_too_many_names_asks(root: Path) -> None:
    for number in range(5_100):
        (root / "clean" / f"f{number}").touch()
    assert await asks(make_tool_doubles(root), "cat clean/*")
    assert not await asks(make_tool_doubles(root), "cat clean/c.txt")

"""Which paths and variables a command that only reads may reach, told from its text."""

from __future__ import annotations

import pytest

from permissions.policy.commands import check_command


def reads(command):
    verdict = check_command(command)
    assert verdict.read_only, verdict.reason
    return verdict.reads


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("cat a.txt", "a.txt"), ("cat ./a b", "./a b"), ("timeout 5 cat a", "a"), ("nice -n 5 env LANG=C cat a", "a"), ("cat - /dev/null /dev/stdin", ""),
        ("cat < a", "a"), ("while read -r l; do cat b; done < a", "a b"), ("for f in x; do cat b; done", "b"), ("cat <(ls c) b", "c b"), ("cat < 1", "1"), ("cat <(ls) <(ls b)", "b"), ("cat <<< x", ""),
        ("cat @a", "@a a"), ("[[ -f a && b -nt c ]]", "a b c"), ("test -f a -a x = y", "a"), ("[ a -ef b ]", "a b"), ("[ c -ot d ]", "c d"), ("[[ x == y ]]", ""),
        ("test -e a", "a"), ("test -n a", ""), ("[ -z a ]", ""), ("[ 1 -lt 2 ]", ""), ("[ -L a ]", "a"), ("[ ! -d a ]", "a"),
        ("echo /etc/passwd", ""), ("printf /etc/x", ""), ("basename /etc/x", ""), ("tr / x", ""), ("df /", ""), ("ps aux", ""), ("ps -e", ""), ("which /x", ""),
        ("grep /x a", "a"), ("grep -n /x a", "a"), ("egrep /x a", "a"), ("rg /x src", "src"), ("rg --files src", "src"), ("fd /x src", "src"), ("jq /x a", "a"), ("jq . a b", "a b"),
        ("cut -d/ -f1 a", "1 a"), ("cut -d / a", "a"), ("sort -t / a", "a"), ("sort -t/ a", "a"), ("column -s / a", "a"), ("paste -d/ a b", "a b"), ("paste a /b", "a /b"), ("sort /", "/"),
        ("head -d / a", "/ a"), ("sed -n /x/p a", "a"), ("sed -e /x/p a", "a"), ("sed -e 1p -e /x/p a b", "a b"), ("sed /x/p", ""), ("sed -n 1p a /b", "a /b"),
        ("diff a b", "a b"), ("diff --no-dereference -r a b", "a b"), ("strings a", "a"), ("strings -- ''", ""), ("strings -n 8 a b", "8 a b"), ("git log a", "log a"), ("git -P log -- ../b", "log ../b"), ("git --version", ""), ("git", ""),
        ("git config user.name", ""), ("git config --get user.name", ""), ("git config --get-all remote.origin.url", ""), ("git config get user.name", ""), ("git config --local --list", ""),
        ("git config --local http.x.y", ""), ("ls | xargs echo", ""), ("ls | xargs -n 1 basename", ""), ("sort -k 2 a", "2 a"), ("grep", ""), ("rg -n", ""), ('grep "a$x" b', "b"),
    ],
)  # fmt: skip
def test_it_names_every_file(command, paths):
    found = {path for path in reads(command).paths if not path.startswith("-")}
    assert found == set(paths.split())


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cat --file=/etc/x", "/etc/x"), ("cat --file=a=/etc/x", "/etc/x"), ("grep -f/etc/x a", "/etc/x"), ("grep -nf/etc/x a", "/etc/x"), ("grep -f/ a", "/"),
        ("grep -nnnnnnnnnnnnnnnnnnf../x a", "../x"), ("cat -- a", "--"), ("grep -e /etc/x /a", "/a"), ("grep -e x /etc/x", "/etc/x"), ("grep -ex /etc/x", "/etc/x"), ("grep --regexp=x /etc/x", "/etc/x"),
        ("grep --regexp x /etc/x", "/etc/x"), ("grep --file=x /etc/x", "/etc/x"), ("sed -n 1p -", "-n"), ("rg --files /etc/x a", "/etc/x"), ("rg -e x /etc/x", "/etc/x"), ("grep -A 3 x /etc/x", "/etc/x"),
        ("head -d/ a", "/"), ("cut -c / a", "/"), ("date -r /etc/x", "/etc/x"), ("find . -newer /etc/x", "/etc/x"), ("git diff --no-index a /etc/x", "/etc/x"), ("jq . --arg a /etc/x", "/etc/x"),
        ("git show config /etc/x", "/etc/x"), ("cat =/etc/x", "/etc/x"), ("diff -x/etc/x a b", "/etc/x"), ("cat @@/etc/x", "/etc/x"), ("sort -s /etc/x", "/etc/x"), ("cut / -d", "/"), ("grep * /etc/x", "/etc/x"), ("grep a* /etc/x", "/etc/x"), ("grep {a,b} /etc/x", "/etc/x"),
        ("grep --include=*.py x /etc/x", "/etc/x"), ('grep "a$x" /etc/x', "/etc/x"), ("fgrep -n [a] /etc/x", "/etc/x"),
    ],
)  # fmt: skip
def test_it_finds_a_path_within_an_option(command, path):
    assert path in reads(command).paths


@pytest.mark.parametrize(
    ("command", "patterns"),
    [
        ("cat *.txt", "*.txt"), ("cat a*b", "a*b"), ("echo src/*", "src/*"), ("cat {a,b}/c", "{a,b}/c"), ("for f in *.txt; do ls; done", "*.txt"), ("cat --x=a*", "--x=a* a*"),
        ("cat .[!.]*", ".[!.]*"), ("ls .g?", ".g?"), ("ls ./* ../*", "./* ../*"), ("cat {a.txt,b.py}", "{a.txt,b.py}"), ("ls */../*.{a,b}", "*/../*.{a,b}"), ("printf '%s' [a]", "[a]"),
        ("diff a b", "a/* b/*"), ("diff src/ b", "src/* b/*"), ("diff s* b", "s* s*/* b/*"), ("diff -u a b", "a/* b/*"), ("diff --no-dereference a b", ""), ("cat a", ""), ("[[ $x == a* ]]", ""), ("[[ -f a ]]", ""), ("find ./src/* -name x", "./src/*"),
        ("cat --x=*=y*", "--x=*=y* *=y* y*"), ("strings a/*", "a/*"), ("ls .x{a,b}", ".x{a,b}"), ("ls ?.*", "?.*"), ("ls [.]*", "[.]*"), ("ls a?", "a?"),
    ],
)  # fmt: skip
def test_it_names_every_pattern(command, patterns):
    assert reads(command).patterns == set(patterns.split())


@pytest.mark.parametrize(
    "command",
    [
        "cat ~", "cat ~/x", "cat -f~/x", "cat --x=~/y", "cat --x=y=~", "echo ~", "cat {a,~}", "cat a:~*", "cat {~,a}", "cat ~*", "cat --x=~*", "for f in ~/x; do ls; done",
        "cat {a,/etc}/x", "cat {/etc,a}/x", "cat {a,../x}", "cat {a,./x}", "cat {a/b,c}", "cat a{b,..}", "cat {..,a}/x", "cat .{.,x}/y", "cat {.,a}./y", "cat .{a,}./y", "ls .*", "ls .?",
        "ls a/.*/b", "ls .[.]", "ls .[a-z]*", "ls .**", "ls ..*", "ls {.*,a}", "ls --x=.*/a", "ls .{*,a}", "cat -f.{.,a}/x",
        "x='a /etc/x'; cat <(ls)$x", 'cat <(ls)"$x"', 'cat <(ls)$(echo " /etc/x")', "cat <(ls)/../x", "cat <(ls)*",
        'cat "$x"', "cat $x", "cat $HOME/x", "cat $(ls)", 'cat "$(ls)"', "cat <<< a $x", 'cat "./$x"*', 'echo "./$x"*', 'grep "$x" a', "x=a; echo $x", "for f in a; do echo $f; done", "read l; echo $l", "while read -r l; do echo $l; done < a",
        "echo $(ls)", "echo ${x:-*}", "for f in $(ls); do ls; done", "cd", "cd -", "cd ~", 'cd "$x"', "cd $x", "cd a b", "cd ~/a", "cd src/*", "[[ -f $x ]]", '[ -f "$x" ]', '[ a -nt "$x" ]',
        "ps e", "ps axe", "ps -E", "ps -AE", "ps -o environ", "ps -oenviron", "ps $x", 'ps "$x"', "ps a -E",
        "grep -R x .", "grep -nS x .", "egrep --dereference-recursive x .", "fgrep -R x .", "rg -L x", "rg --follow x", "find -L .", "find -H .", "find . -follow", "fd -L x", "fdfind --follow x", "du -L .",
        "du -D a", "du -H a", "du --dereference a", "du --files0-from=a", "wc --files0-from=a", "ls -L", "ls -lH", "ls --dereference", "tree -l", "tree -al", "md5sum -c a", "sha256sum --check a", "cksum -c a", "b2sum -wc a",
        "diff -r a b", "diff -ur a b", "diff --recursive a b", 'strings "./$x"', "strings @a", "strings -- *", "strings a @b", 'strings ./"$x"',
        "jq env", "jq '.a' \"$x\"", "jq '$ENV.x'", "jq 'import \"x\" as $d; .'", "jq 'include \"x\"; .'", "jq input_filename", "jq -f x a", "jq -L x . a", "jq -nf x", "jq . *.json", 'jq . "./$x"', "jq --from-file x a", "jq --rawfile a b . c",
        "jq --slurpfile a b . c", "jq --argfile a b . c", "jq debug", "jq 'getpath([])'", "jq modulemeta",
        "git config --global user.name", "git config --list", "git config -l", "git config --global --list", "git config --local --global --list", "git config --get-regexp user.x",
        "git config http.x.y", "git config --get http.x.y", "git config --get user.name http.x.y", "git config --get-all", "git -P config --list", "git config list", "git config --system --list",
        "ls | xargs cat", "ls | xargs -I{} cat {}", "ls | xargs grep x", "ls | xargs ls -d",
    ],
)  # fmt: skip
def test_it_says_so_where_the_text_does_not_tell(command):
    assert reads(command) is None


def test_it_follows_the_folders_that_cd_enters():
    assert reads("cd src && cd ../x; command cd y").folders == ["src", "../x", "y"]
    assert reads("ls src").folders == []


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        ("echo $x", "x"), ('echo "$x" ${y:-n} ${#z}', "x y z"), ("printenv HOME PATH", "HOME PATH"), ("env LANG=C printenv HOME", "HOME printenv"), ('x=a; echo "$x" "$y"', "y"),
        ('for f in a; do echo "$f"; done', ""), ('read -r l; echo "$l" "$m"', "m"), ("x=$y; ls", "y"), ("[[ $x == a ]]", "x"), ("ls", ""), ("cat <<< $x", "x"), ("echo a$b", "b"),
        ("printenv A=b HOME", "HOME"), ("echo read $read", "read"),
    ],
)  # fmt: skip
def test_it_names_the_variables_that_are_not_its_own(command, variables):
    assert reads(command).variables == set(variables.split())


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("env", True), ("printenv", True), ("env LANG=C", True), ("printenv A=b", True), ('printenv "$x"', True), ('printenv HOME "$x"', True), ("env env", True), ("timeout 5 env", True),
        ("xargs printenv", True), ("printenv HOME a=$x", True), ("printenv HOME", False), ("env LANG=C ls", False), ("ls", False), ("env ls", False), ("echo env", False),
    ],
)  # fmt: skip
def test_it_knows_what_shows_the_whole_environment(command, shows):
    assert reads(command).shows_environment is shows


def test_a_command_that_may_write_has_no_reads():
    assert check_command("rm x").reads is None

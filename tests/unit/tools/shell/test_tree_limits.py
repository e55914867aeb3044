"""The limits of a command: their texts, what exceeds them, and where control groups are used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.tools.shell import tree_limits
from agents.tools.shell.tree_limits import (
    FILE_SIZE,
    MEMORY,
    MIB,
    NO_LIMITS,
    PROCESSES,
    CommandGroup,
    Sampler,
    TreeLimits,
    TreeUsage,
    delegated_group,
    exceeded_by,
    usage_below,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
GONE = 2**22 + 1  # above the largest process number


def test_limits_survive_their_way_to_the_supervisor() -> None:
    limits = TreeLimits(1, 2, 3)
    assert TreeLimits.decode(limits.encode()) == limits


@pytest.mark.parametrize(
    ("exceeded", "words"),
    [
        (MEMORY, ["4 GiB", "CRUSH_COMMAND_MEMORY_MB"]),
        (PROCESSES, ["4,096", "CRUSH_COMMAND_PROCESSES"]),
        (FILE_SIZE, ["16 GiB", "CRUSH_COMMAND_FILE_MB"]),
    ],
)
def test_a_sentence_names_the_limit_and_its_setting(exceeded: str, words: list[str]) -> None:
    sentence = TreeLimits().sentence(exceeded)
    assert all(word in sentence for word in words)


def test_small_limits_are_shown_in_mebibytes() -> None:
    assert "200 MiB" in TreeLimits(memory_bytes=200 * MIB).sentence(MEMORY)


def test_no_limit_needs_no_sentence() -> None:
    assert TreeLimits().sentence("") == ""


def test_a_tree_is_measured_without_its_root() -> None:
    usage = usage_below({os.getppid()})[os.getppid()]
    assert os.getpid() in usage.resident
    assert os.getppid() not in usage.resident
    assert usage.resident[os.getpid()] > 10 * MIB


@pytest.mark.parametrize(
    ("usage", "limits", "exceeded"),
    [
        (TreeUsage({}, 0), TreeLimits(), ""),
        (TreeUsage({GONE: 100}, 10), TreeLimits(100, 10, 0), ""),
        (TreeUsage({os.getpid(): 101}, 1), TreeLimits(100, 10, 0), MEMORY),
        (TreeUsage({GONE: 1}, 11), TreeLimits(100, 10, 0), PROCESSES),
        (TreeUsage({GONE: 101}, 11), NO_LIMITS, ""),
    ],
)
def test_usage_is_compared_with_the_limits(
    usage: TreeUsage, limits: TreeLimits, exceeded: str
) -> None:
    assert exceeded_by(usage, limits) == exceeded


def test_pages_that_processes_share_count_once() -> None:
    """Its own share is what counts when the plain sum is above the limit."""
    exact, _ = tree_limits._proportional_bytes(os.getpid())
    assert exact > 0
    assert exceeded_by(TreeUsage({os.getpid(): exact * 10}, 1), TreeLimits(exact * 5, 10, 0)) == ""


def test_processes_that_have_ended_since_they_were_counted_hold_nothing() -> None:
    """Several that share their memory may end together, with the command."""
    ended = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # nobody has taken its exit code
        usage = TreeUsage({GONE: 150 * MIB, ended.pid: 150 * MIB}, 2)
        assert exceeded_by(usage, TreeLimits(200 * MIB, 10, 0)) == ""
    finally:
        ended.wait()


def test_the_sampler_sleeps_while_there_is_nothing_to_watch() -> None:
    sampler = Sampler(TreeLimits())
    assert sampler.pause(0.0, is_watching=False) is None
    assert sampler.pause(0.0, is_watching=True) == tree_limits.SLOW_SECONDS
    assert Sampler(NO_LIMITS).pause(0.0, is_watching=True) is None


def test_the_sampler_looks_when_its_time_has_come_and_more_often_at_large_trees() -> None:
    mine = os.getppid()
    small = Sampler(TreeLimits(memory_bytes=10**15))
    large = Sampler(TreeLimits(memory_bytes=1))
    for sampler in (small, large):
        assert sampler.pause(0.0, is_watching=True) == tree_limits.SLOW_SECONDS
        assert sampler.over(0.1, {mine}) == {}
    assert small.over(1.0, {mine}) == {}
    assert small.pause(1.0, is_watching=True) == tree_limits.SLOW_SECONDS
    assert large.over(1.0, {mine}) == {mine: MEMORY}
    assert large.pause(1.0, is_watching=True) == pytest.approx(tree_limits.FAST_SECONDS)


class Tree:
    """Files laid out as cgroup v2 shows them."""

    def __init__(self, root: Path, own: str) -> None:
        self.root = root
        self.own = root / "own"
        self.own.write_text(f"1:memory:/elsewhere\n0::{own}\n")

    def group(self, name: str, *, controllers: str = "cpu memory pids", enabled: str = "") -> Path:
        folder = self.root / name.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text(enabled)
        return folder

    def delegated(self) -> str:
        return delegated_group(str(self.root), str(self.own))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path, "/")


def test_a_container_s_own_root_is_used(tree: Tree) -> None:
    # A folder of plain files lacks the limits' files, which the kernel makes: nothing is written
    # to a group that turns out to have none.
    tree.group("/", enabled="memory pids")
    assert tree.delegated() == str(tree.root)
    assert (tree.root / "cgroup.subtree_control").read_text() == "memory pids"


def test_the_controllers_are_enabled_where_they_are_not(tree: Tree) -> None:
    tree.group("/")
    assert tree.delegated() == str(tree.root)
    assert (tree.root / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_a_group_that_was_not_delegated_is_left_alone(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/system.slice/crush.service")
    tree.group("/", enabled="memory pids")
    service = tree.group("/system.slice/crush.service")
    assert tree.delegated() == ""
    assert (service / "cgroup.subtree_control").read_text() == ""


def test_the_group_above_is_used_when_it_is_marked_as_delegated(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/crush.service/server")
    tree.group("/")
    service = tree.group("/crush.service", enabled="memory pids")
    tree.group("/crush.service/server")
    try:
        os.setxattr(service, "user.delegate", b"1")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    assert tree.delegated() == str(service)


@pytest.mark.parametrize("controllers", ["cpu", "memory", "pids"])
def test_without_both_controllers_nothing_is_used(tree: Tree, controllers: str) -> None:
    tree.group("/", controllers=controllers)
    assert tree.delegated() == ""


def test_without_the_second_version_nothing_is_used(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:memory:/x\n")
    assert delegated_group(str(tmp_path), str(tmp_path / "own")) == ""


@pytest.fixture
def group(tmp_path: Path) -> CommandGroup:
    folder = tmp_path / "command-1"
    folder.mkdir()
    return CommandGroup(str(folder))


def test_a_command_that_the_kernel_ended_for_memory_is_reported(group: CommandGroup) -> None:
    Path(group.folder, "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 3\n")
    assert group.exceeded() == MEMORY


def test_a_command_that_could_not_fork_is_reported(group: CommandGroup) -> None:
    Path(group.folder, "memory.events").write_text("low 0\noom_kill 0\n")
    Path(group.folder, "pids.events").write_text("max 12\n")
    assert group.exceeded() == PROCESSES


def test_a_command_within_its_limits_is_not_reported(group: CommandGroup) -> None:
    Path(group.folder, "memory.events").write_text("low 0\noom_kill 0\n")
    Path(group.folder, "pids.events").write_text("max 0\n")
    assert group.exceeded() == ""


def test_a_group_is_given_the_limits(tmp_path: Path) -> None:
    made = CommandGroup.make(str(tmp_path), TreeLimits(5, 6, 7))
    assert made is not None
    folder = Path(made.folder)
    assert (folder / "memory.max").read_text() == "5"
    assert (folder / "pids.max").read_text() == "6"
    assert (folder / "memory.oom.group").read_text() == "1"


def test_a_group_that_cannot_be_made_is_none(tmp_path: Path) -> None:
    assert CommandGroup.make(str(tmp_path / "not-there"), TreeLimits()) is None

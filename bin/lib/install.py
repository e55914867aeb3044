# ruff: noqa: INP001  a program next to shell code, not a package
"""Creates .venv and installs one requirements file into it, showing progress.

    python3 bin/lib/install.py ROOT REQUIREMENTS STAMP [PIP'S OPTIONS]

Uses only the standard library, because it runs before anything is installed. A lock allows one run
at a time; a run that waited for another has nothing left to do. STAMP is written last, so that an
interrupted run does not count.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

_STEP = re.compile(r"^(Collecting|Requirement already satisfied:)\s+([A-Za-z0-9._-]+)")


def main() -> int:
    root, requirements, stamp = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    folder = root / ".venv"
    folder.mkdir(exist_ok=True)
    # The kernel releases the lock when its last holder ends, pip included: no cleanup after a kill.
    with (folder / ".lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        _wait_for(lock.fileno())
        done = folder / f".installed-{requirements}"
        if _works(folder) and done.exists() and done.read_text().strip() == stamp:
            return 0
        done.unlink(missing_ok=True)
        if not _works(folder):
            _create(folder)
        code = _install(folder, root / requirements, lock.fileno(), sys.argv[4:])
        if code == 0:
            part = done.with_suffix(".part")
            part.write_text(f"{stamp}\n")
            part.replace(done)
        return code


def _wait_for(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("Another start is installing; waiting for it.")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _works(folder: Path) -> bool:
    """Whether the environment has pip and a Python that runs. Its Python may be gone by now."""
    python = folder / "bin" / "python"
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return (
        python.exists()
        and subprocess.run([python, "-c", check], capture_output=True).returncode == 0
    )


def _create(folder: Path) -> None:
    version = ".".join(map(str, sys.version_info[:3]))
    _say(f"Creating .venv with Python {version}.")
    for entry in folder.iterdir():
        if entry.name == ".lock":  # other runs wait for this lock
            continue
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    # The resolved path: `python3` may become another version, which would break the environment.
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    subprocess.run([python, "-m", "venv", folder], check=True)


def _install(folder: Path, requirements: Path, lock: int, more: list[str]) -> int:
    wanted = len(re.findall(r"^[A-Za-z0-9]", requirements.read_text(), re.MULTILINE))
    _say(f"Installing {requirements.name} into .venv (once; a minute or so).")
    pip = subprocess.Popen(
        [
            *(folder / "bin" / "python", "-m", "pip", "install", "--require-hashes"),
            *("--disable-pip-version-check", "--no-input", "--progress-bar", "off"),
            *more,
            *("-r", requirements),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=[lock],
    )
    said = []
    progress = _Progress(wanted)
    for line in pip.stdout or ():
        said.append(line)
        step = _STEP.match(line)
        if step:
            progress.step(step[2])
        elif line.startswith("Installing collected packages"):
            progress.last("unpacking")
    code = pip.wait()
    progress.close()
    if code:
        sys.stderr.write("".join(said[-60:]))
        _say(f"Installing {requirements.name} failed; start again to go on where it stopped.")
    return code


class _Progress:
    """Updates one line on a terminal; elsewhere prints a line every ten packages."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._count = 0
        self._terminal = sys.stderr.isatty()

    def step(self, name: str) -> None:
        self._count = min(self._count + 1, self._wanted)
        if self._terminal:
            self._draw(f"  {self._count} of {self._wanted}  {name}")
        elif self._count % 10 == 0:
            _say(f"  {self._count} of {self._wanted} packages")

    def last(self, what: str) -> None:
        if self._terminal:
            self._draw(f"  {what}")
        else:
            _say(f"  {what}")

    def close(self) -> None:
        if self._terminal:
            self._draw("")

    def _draw(self, text: str) -> None:
        sys.stderr.write(f"\r\033[K{text[:70]}")
        sys.stderr.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.CalledProcessError) as error:
        _say(f"bin/lib/install.py: {error}")
        sys.exit(1)

"""A file system of a few megabytes, for tests that fill it."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_SIZE = "12m"


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Until nothing more fits, not even a page."""
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            for size in (1024 * 1024, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        filler.write(b"x" * size)

    def free(self) -> None:
        (self.folder / "filler").unlink()


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[SmallDisk | None]:
    """`None` where this user may not mount."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=0700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

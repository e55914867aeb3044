"""Clocks of hosts that are wrong, by libfaketime. Only the time of day differs, as on other hosts."""

from pathlib import Path

_OWN_MONOTONIC = {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def fixed(offset: str) -> dict[str, str]:
    """The environment of a process whose host's clock is wrong by so much, as `+20s`."""
    return {**_preload(), "FAKETIME": offset}


class SteppedClock:
    """The clock of a process, which can be set while it runs."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    @property
    def env(self) -> dict[str, str]:
        return {
            **_preload(),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",  # seconds between two readings of the file
        }

    def set(self, offset_seconds: int) -> None:
        replacement = self._file.with_name(f"{self._file.name}.new")
        replacement.write_text(f"{offset_seconds:+d}s\n")
        replacement.replace(self._file)


def _preload() -> dict[str, str]:
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    return {
        "LD_PRELOAD": str(library),
        "PYTHONPATH": str(Path(__file__).with_name("own_sleep")),
        **_OWN_MONOTONIC,
    }

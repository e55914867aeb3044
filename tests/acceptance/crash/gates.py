"""Places at which a server's runs wait, so that it can be killed there."""

import asyncio
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Gates:
    """Named places at which the server's runs wait while a file is there."""

    folder: Path

    def hold(self, name: str) -> None:
        (self.folder / f"{name}.hold").touch()

    def open(self, name: str) -> None:
        (self.folder / f"{name}.hold").unlink()

    async def reached(self, name: str) -> None:
        async with asyncio.timeout(60):
            while not (self.folder / f"{name}.reached").exists():
                await asyncio.sleep(0.005)

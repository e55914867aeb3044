"""A remote worker: a process with a home, a folder and an environment of its own."""

from pathlib import Path

from tests.acceptance.harness.commands import Done, command
from tests.acceptance.harness.environment import manage, server_environment
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.shapes import Server

# What a server's data is reached by: a remote worker has none of it.
OF_SERVERS = ("DATABASE_URL", "REDIS_URL", "CRUSH_DATA_DIR", "CRUSH_SECRET_KEY")


class RemoteMachine:
    """Where remote workers of one name are started. `work` is the folder that they serve."""

    def __init__(self, server: Server, home: Path, work: Path) -> None:
        self.work = work
        self.home = home
        self.env = server_environment(home, home / "unused", {})
        for name in OF_SERVERS:
            self.env.pop(name, None)
        self.token_file = home / "token"
        self._server = server
        self._count = 0
        self.processes: list[Process] = []

    def get_token(self, *scopes: str, name: str = "box") -> str:
        """Creates a token on the server, and stores it here."""
        given = [argument for scope in scopes or ("work",) for argument in ("--scope", scope)]
        done = command(self._server.env, "token", "create", name, *given)
        assert done.code == 0, done.err
        self.token_file.write_text(done.out)
        return done.out.strip()

    @property
    def arguments(self) -> list[str]:
        return [
            "remote-worker",
            *("--server", self._server.url),
            *("--token-file", str(self.token_file)),
            *("--name", "box", "--root", f"src={self.work}", "--capacity", "2"),
        ]

    def start(self) -> Process:
        """Returns a worker that has joined."""
        self._count += 1
        log = self.home / f"remote-{self._count}.log"
        process = manage("remote worker", self.arguments, env=self.env, log=log)
        self.processes.append(process)
        process.start()
        process.wait_for_line("Connected to", 90)
        return process

    def run(self) -> Done:
        """Returns what a worker printed that ended by itself."""
        return command(self.env, *self.arguments)

    def close(self) -> None:
        for process in self.processes:
            if process.alive:
                assert process.stop() == 0

"""PostgreSQL and Redis together, as the scaled shape needs them.

Owns the one migrated database that every scaled server starts from as a copy, because a copy takes
a tenth of the time that migrating takes.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.harness.postgres import Postgres, postgres_binaries
from tests.acceptance.harness.redis import Redis, redis_binary


@dataclass(frozen=True)
class ServiceAddresses:
    """What one scaled server is given."""

    database_name: str
    database_url: str
    redis_url: str
    prefix: str

    @property
    def env(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "CRUSH_REDIS_PREFIX": self.prefix,
        }


def missing_services() -> str | None:
    """Why the scaled shape cannot run here, naming the packages; None when it can."""
    packages = []
    if postgres_binaries() is None:
        packages.append("postgresql")
    if redis_binary() is None:
        packages.append("redis-server")
    return f"the scaled shape needs: install {' and '.join(packages)}" if packages else None


class Services:
    """Both services, started on first use and stopped with the session."""

    def __init__(
        self, log_folder: Path, postgres_settings: Mapping[str, str] | None = None
    ) -> None:
        self.postgres = Postgres(log_folder, postgres_settings)
        self.redis = Redis(log_folder)
        self._template: str | None = None

    def start(self) -> None:
        self.postgres.start()
        self.redis.start()

    def allocate(self, migrate: Callable[[str], None]) -> ServiceAddresses:
        """A migrated database and a Redis of one server's own. `migrate` is called once, with a URL."""
        if self._template is None:
            template = self.postgres.create_database()
            migrate(self.postgres.url(template))
            self._template = template
        name = self.postgres.create_database(self._template)
        return ServiceAddresses(
            database_name=name,
            database_url=self.postgres.url(name),
            redis_url=self.redis.new_url(),
            prefix=f"crush-{uuid.uuid4().hex[:8]}",
        )

    def release(self, addresses: ServiceAddresses) -> None:
        self.postgres.drop_database(addresses.database_name)

    @property
    def pids(self) -> list[int]:
        return [self.postgres.pid, self.redis.pid]

    def stop(self) -> None:
        self.redis.stop()
        self.postgres.stop()

"""What a child is told on its standard input before it serves: one JSON document."""

from agents.fleet.provisioning.reading import read_spec
from agents.fleet.provisioning.spec import (
    MOST_BYTES,
    BadSpec,
    Bus,
    Capabilities,
    Credential,
    Executor,
    Identity,
    Limits,
    McpProxy,
    ModelChoice,
    Placement,
    ProvisionSpec,
    Secrets,
)
from agents.fleet.provisioning.writing import write_spec

__all__ = [
    "MOST_BYTES",
    "BadSpec",
    "Bus",
    "Capabilities",
    "Credential",
    "Executor",
    "Identity",
    "Limits",
    "McpProxy",
    "ModelChoice",
    "Placement",
    "ProvisionSpec",
    "Secrets",
    "read_spec",
    "write_spec",
]

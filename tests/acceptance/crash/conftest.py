"""A server whose runs can be held at chosen points."""

from pathlib import Path

import pytest

from tests.acceptance.crash.gates import Gates
from tests.acceptance.crash.ground import PATIENT, QUICK, MakeServer
from tests.acceptance.harness.shapes import Server, Shape


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    folder = tmp_path / "gates"
    folder.mkdir()
    return Gates(folder)


@pytest.fixture
def gated_server(make_a_server: MakeServer, shape: Shape, gates: Gates) -> Server:
    server = make_a_server(shape, env={**PATIENT, **QUICK, "CRUSH_GATES": str(gates.folder)})
    server.start()
    return server

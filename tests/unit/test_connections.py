"""Which client a kept-alive connection belongs to."""

from workspaces.client_ids import CONNECTION, ClientConnection, connection_of


def test_a_connection_belongs_to_the_client_that_its_requests_name() -> None:
    connection = ClientConnection()
    assert connection.client_id == ""
    connection.note("a")
    connection.note("a")
    assert connection.client_id == "a"


def test_a_connection_that_several_clients_share_belongs_to_none() -> None:
    connection = ClientConnection()
    for client_id in ("a", "b", "a"):
        connection.note(client_id)
    assert connection.client_id == ""


def test_a_server_without_the_extension_knows_no_connection() -> None:
    assert connection_of({}).client_id == ""
    known = ClientConnection()
    known.note("a")
    assert connection_of({"extensions": {CONNECTION: {"connection": known}}}).client_id == "a"

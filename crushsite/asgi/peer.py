"""Which process is at the other end of a connection on this machine: its user and its number.

A socket file has the credentials of the process that connected. For TCP the kernel gives the owner
of the other socket (``NETLINK_SOCK_DIAG``, Linux only) while that socket is open.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NLMSG_ERROR = 2
_TCP = 6
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
# Families, protocol, extensions, padding, states; then ports, addresses, interface, cookie.
_REQUEST = struct.Struct("=BBBBI2s2s16s16sIII")
# Family, state, timer, retransmits; ports, addresses, interface, cookie; then expiry, the
# queues, the user and the socket's inode.
_ANSWER = struct.Struct("=BBBB2s2s16s16sIIIIIIII")
_CREDENTIALS = struct.Struct("3i")
_ANSWER_SECONDS = 1.0
_XUCRED = struct.Struct("=IIh")  # macOS: version, user, number of groups
_LOCAL_PEERCRED, _LOCAL_PEERPID = 1, 2
_SOL_LOCAL = 0

Address = tuple[Any, ...]


@dataclass(slots=True)
class Peer:
    """A process on this machine. Its user is known; on TCP its number is not, but its socket."""

    uid: int
    pid: int | None = None
    inode: int | None = None
    ends: tuple[Address, Address] | None = None  # the TCP addresses, to look again
    is_tool: bool | None = None  # once it has been examined; a connection stays with its process


def peer_of_socket(connection: socket.socket) -> Peer | None:
    """Returns the process at the other end, or ``None`` if it is unknown or on another machine."""
    try:
        if connection.family == socket.AF_UNIX:
            return _peer_of_unix(connection)
        return peer_of_tcp(connection.getpeername(), connection.getsockname())
    except OSError:
        return None


def _peer_of_unix(connection: socket.socket) -> Peer | None:
    if sys.platform == "darwin":
        sent = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        pid = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        return Peer(_XUCRED.unpack_from(sent)[1], pid=pid)
    sent = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(sent)
    return Peer(uid, pid=pid)


def peer_of_tcp(theirs: Address, ours: Address) -> Peer | None:
    """Returns the process with the socket at ``theirs`` that is connected to ``ours``.

    ``None`` for another machine, for a socket that is closed already, and without Linux.
    """
    if not is_loopback(theirs[0]) or not sys.platform.startswith("linux"):
        return None
    try:
        found = _diagnosed(theirs, ours)
    except OSError:
        found = listed(theirs, ours)  # a sandbox without this kind of socket
    if found is None:
        return None
    uid, inode = found
    # Without an inode the socket is closed, and the user is always 0.
    return Peer(uid, inode=inode, ends=(theirs, ours)) if inode else None


def is_loopback(host: object) -> bool:
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _diagnosed(theirs: Address, ours: Address) -> tuple[int, int] | None:
    """Returns the user and the inode of the socket at ``theirs``, or ``None`` if there is none."""
    family, packed = _packed(theirs[0], ours[0])
    request = _REQUEST.pack(
        *(family, _TCP, 0, 0, _ALL_STATES),
        *(theirs[1].to_bytes(2, "big"), ours[1].to_bytes(2, "big")),
        *(packed[0].ljust(16, b"\0"), packed[1].ljust(16, b"\0")),
        *(0, _NO_COOKIE, _NO_COOKIE),
    )
    size = _HEADER.size + len(request)
    head = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    # A socket for each question: an answer that comes late cannot be taken for another's.
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_SECONDS)
        kernel.send(head + request)
        answer = kernel.recv(4096)
    if len(answer) < _HEADER.size + _ANSWER.size:
        return None
    if _HEADER.unpack_from(answer)[1] == _NLMSG_ERROR:
        return None
    *_, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return uid, inode


def listed(theirs: Address, ours: Address) -> tuple[int, int] | None:
    """The same from the kernel's list of all connections, which takes longer."""
    family, packed = _packed(theirs[0], ours[0])
    name = "tcp6" if family == socket.AF_INET6 else "tcp"
    wanted = [_as_listed(host, end[1]) for host, end in zip(packed, (theirs, ours), strict=True)]
    try:
        lines = Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if fields[1:3] == wanted:
            return int(fields[7]), int(fields[9])
    return None


def _as_listed(host: bytes, port: int) -> str:
    """An address as /proc/net/tcp writes it: words in the machine's order of bytes."""
    words = struct.unpack(f"={len(host) // 4}I", host)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _packed(*hosts: str) -> tuple[int, list[bytes]]:
    """The family of the addresses and their bytes; a mapped IPv4 address stays in its IPv6 form."""
    family = socket.AF_INET6 if any(":" in host for host in hosts) else socket.AF_INET
    return family, [socket.inet_pton(family, host.partition("%")[0]) for host in hosts]

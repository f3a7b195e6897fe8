"""A relay between the two ends that keeps every datagram, and reads afterwards what happened.

The matrix rests on what was on the wire, not on what the ends say of themselves. Long headers and Initial packets
can be read by anyone on the path (RFC 9001 §5.2); for the rest there is the key log of our end.
"""

import selectors
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from aioquic.buffer import Buffer
from aioquic.quic.crypto import CryptoContext, CryptoError, CryptoPair
from aioquic.quic.packet import QuicHeader, QuicPacketType, pull_ack_frame, pull_quic_header
from aioquic.tls import CipherSuite, pull_server_hello

SOCKET_BUFFER = 4 << 20


class Datagram(NamedTuple):
    # On the relay's clock, in seconds.
    at: float
    from_client: bool
    # Each address by which the server knows the client, in their order.
    path: int
    data: bytes

    def __str__(self) -> str:
        arrow = "->" if self.from_client else "<-"
        return f"{self.at:10.4f} {arrow} path {self.path} {len(self.data):5} bytes {self.data[:16].hex()}"


class Relay(threading.Thread):
    """Passes datagrams on. With `rebind_after`, it does what a NAT may do at any time: once the server has sent so
    many bytes, the client comes from another port, and what goes to the old one is lost."""

    def __init__(self, server: tuple[str, int], rebind_after: int | None = None):
        super().__init__(daemon=True)
        self.server = server
        self.rebind_after = rebind_after
        self.datagrams: list[Datagram] = []
        self.front = self._socket()
        self.front.bind(("127.0.0.1", 0))
        self.address = self.front.getsockname()
        # By the client's address: the path's number and the socket towards the server.
        self.upstream: dict[tuple[str, int], tuple[int, socket.socket]] = {}
        self.paths = 0
        self.sent_by_server = 0
        self.ready = selectors.DefaultSelector()
        self.ready.register(self.front, selectors.EVENT_READ, self._from_client)
        self.is_over = False
        self.begun = time.monotonic()

    def run(self) -> None:
        while not self.is_over:
            for key, _ in self.ready.select(0.1):
                self._drain(key.fileobj, key.data)
        for _, upstream in self.upstream.values():
            upstream.close()
        self.front.close()
        self.ready.close()

    def stop(self) -> list[Datagram]:
        self.is_over = True
        self.join()
        return self.datagrams

    @staticmethod
    def _socket() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            made.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
        return made

    def _drain(self, readable: socket.socket, passed_on) -> None:
        # Not for ever: the other direction waits.
        for _ in range(64):
            try:
                data, source = readable.recvfrom(65535)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                # One end has gone; the other will notice.
                continue
            except OSError:
                return
            passed_on(data, source)

    def _from_client(self, data: bytes, client: tuple[str, int]) -> None:
        if client not in self.upstream:
            self._open(client)
        path, upstream = self.upstream[client]
        self.datagrams.append(Datagram(time.monotonic() - self.begun, True, path, data))
        self._send(upstream, data, self.server)

    def _open(self, client: tuple[str, int]) -> None:
        upstream = self._socket()
        path = self.paths
        self.paths += 1

        def from_server(data: bytes, _: tuple[str, int]) -> None:
            self.datagrams.append(Datagram(time.monotonic() - self.begun, False, path, data))
            self._send(self.front, data, client)
            self.sent_by_server += len(data)
            if self.rebind_after is not None and self.sent_by_server >= self.rebind_after:
                self.rebind_after = None
                self._rebind(client)

        upstream.bind(("127.0.0.1", 0))
        self.upstream[client] = (path, upstream)
        self.ready.register(upstream, selectors.EVENT_READ, from_server)

    def _rebind(self, client: tuple[str, int]) -> None:
        _, old = self.upstream[client]
        self._open(client)
        self.ready.unregister(old)
        old.close()

    @staticmethod
    def _send(through: socket.socket, data: bytes, to: tuple[str, int]) -> None:
        try:
            through.sendto(data, to)
        except (BlockingIOError, ConnectionRefusedError):
            # A full queue loses what comes, as everywhere.
            pass


@dataclass
class Connection:
    """One handshake, by the connection id that the server chose in it."""

    client_cid: bytes
    version: int
    initial: dict[int, bytes] = field(default_factory=dict)
    handshake: dict[int, bytes] = field(default_factory=dict)

    def cipher(self) -> CipherSuite | None:
        hello = self._server_hello()
        return CipherSuite(hello.cipher_suite) if hello else None

    @property
    def is_resumed(self) -> bool:
        """The ServerHello took up a ticket (RFC 8446 §4.2.11)."""
        hello = self._server_hello()
        return bool(hello) and hello.pre_shared_key is not None

    @property
    def took_early_data(self) -> bool:
        """The EncryptedExtensions say so (RFC 8446 §4.2.10)."""
        message = assembled(self.handshake)
        if message[:1] != b"\x08":
            return False
        extensions = Buffer(data=message[6 : 4 + int.from_bytes(message[1:4], "big")])
        while not extensions.eof():
            kind, length = extensions.pull_uint16(), extensions.pull_uint16()
            extensions.pull_bytes(length)
            if kind == 42:
                return True
        return False

    def _server_hello(self):
        message = assembled(self.initial)
        if len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
            return None
        return pull_server_hello(Buffer(data=message))


def assembled(pieces: dict[int, bytes]) -> bytes:
    """What is there of a CRYPTO stream without a gap."""
    stream = b""
    for offset in sorted(pieces):
        if offset > len(stream):
            break
        stream += pieces[offset][len(stream) - offset :]
    return stream


@dataclass
class Story:
    """What was on the wire."""

    connections: dict[bytes, Connection] = field(default_factory=dict)
    retry_tokens: list[bytes] = field(default_factory=list)
    tokens: list[bytes] = field(default_factory=list)
    early_packets: int = 0
    # Key updates that the other end followed (RFC 9001 §6): whether the client was the first.
    updates: list[bool] = field(default_factory=list)
    # By path: connection ids to which the client sent 1-RTT packets, and bytes of the server.
    client_uses: list[set[bytes]] = field(default_factory=list)
    server_sent: list[int] = field(default_factory=list)

    @property
    def handshakes(self) -> list[Connection]:
        return list(self.connections.values())


def read(datagrams: list[Datagram], key_log: str) -> Story:
    """What the datagrams tell; `key_log` in NSS's format, as SSLKEYLOGFILE gets it."""
    secrets: dict[str, list[bytes]] = {}
    for line in key_log.splitlines():
        label, _, secret = line.split()
        secrets.setdefault(label, []).append(bytes.fromhex(secret))
    return Reader(secrets).read(datagrams)


class Reader:
    def __init__(self, secrets: dict[str, list[bytes]]):
        self.secrets = secrets
        self.story = Story()
        # Initial keys come from the connection ids that clients chose (RFC 9001 §5.2).
        self.first_cids: list[bytes] = []
        self.short: list[Datagram] = []

    def read(self, datagrams: list[Datagram]) -> Story:
        paths = 1 + max((datagram.path for datagram in datagrams), default=-1)
        self.story.client_uses = [set() for _ in range(paths)]
        self.story.server_sent = [0] * paths
        for datagram in datagrams:
            self._read(datagram)
            if not datagram.from_client:
                self.story.server_sent[datagram.path] += len(datagram.data)
        self._read_1rtt()
        return self.story

    def _read(self, datagram: Datagram) -> None:
        rest = datagram.data
        while rest and rest[0] & 0x80:
            # Ends that agree on it leave the fixed bit to chance (RFC 9287); the parser insists on it.
            fixed = bytes([rest[0] | 0x40]) + rest[1:]
            try:
                header = pull_quic_header(Buffer(data=fixed))
            except ValueError:
                return
            self._read_long(datagram.from_client, header, rest[: header.packet_length])
            rest = rest[header.packet_length :]
        # What is all zeros fills the datagram up.
        if any(rest):
            self.short.append(datagram._replace(data=rest))

    def _read_long(self, from_client: bool, header: QuicHeader, packet: bytes) -> None:
        match (header.packet_type, from_client):
            case (QuicPacketType.RETRY, False):
                self.story.retry_tokens.append(header.token)
            case (QuicPacketType.ZERO_RTT, True):
                self.story.early_packets += 1
            case (QuicPacketType.INITIAL, True):
                if header.token:
                    self.story.tokens.append(header.token)
                if header.destination_cid not in self.first_cids:
                    self.first_cids.append(header.destination_cid)
            case (QuicPacketType.INITIAL, False):
                new = Connection(header.destination_cid, header.version)
                connection = self.story.connections.setdefault(header.source_cid, new)
                keys = [self._initial_keys(cid, header.version) for cid in self.first_cids]
                self._read_crypto(header, packet, keys, connection.initial)
            case (QuicPacketType.HANDSHAKE, False):
                connection = self.story.connections.get(header.source_cid)
                if connection and connection.cipher():
                    keys = self._keys("SERVER_HANDSHAKE_TRAFFIC_SECRET", connection)
                    self._read_crypto(header, packet, keys, connection.handshake)

    @staticmethod
    def _initial_keys(cid: bytes, version: int) -> CryptoContext:
        pair = CryptoPair()
        pair.setup_initial(cid=cid, is_client=True, version=version)
        return pair.recv

    def _keys(self, label: str, connection: Connection) -> list[CryptoContext]:
        made = []
        for secret in self.secrets.get(label, []):
            keys = CryptoContext()
            keys.setup(cipher_suite=connection.cipher(), secret=secret, version=connection.version)
            made.append(keys)
        return made

    @staticmethod
    def _read_crypto(header: QuicHeader, packet: bytes, keys: list[CryptoContext], into: dict[int, bytes]) -> None:
        """The CRYPTO frames of a packet that one of the keys opens."""
        offset = payload_offset(header, packet)
        for key in keys:
            try:
                _, payload, _, _ = key.decrypt_packet(packet, offset, 0)
            except CryptoError:
                continue
            frames = Buffer(data=payload)
            while not frames.eof():
                match frames.pull_uint_var():
                    case 0x00 | 0x01:
                        pass
                    case 0x02:
                        pull_ack_frame(frames)
                    case 0x03:
                        pull_ack_frame(frames)
                        for _ in range(3):
                            frames.pull_uint_var()
                    case 0x06:
                        position, length = frames.pull_uint_var(), frames.pull_uint_var()
                        into[position] = frames.pull_bytes(length)
                    case _:
                        return
            return

    def _read_1rtt(self) -> None:
        """The key phase bit is under header protection, whose key an update leaves alone."""
        if len(self.story.connections) != 1:
            return
        [(server_cid, connection)] = self.story.connections.items()
        if connection.cipher() is None:
            return
        protection = {
            True: self._keys("CLIENT_TRAFFIC_SECRET_0", connection),
            False: self._keys("SERVER_TRAFFIC_SECRET_0", connection),
        }
        cid_length = {True: len(server_cid), False: len(connection.client_cid)}
        phases = {True: 0, False: 0}
        first_was_client = False
        for _, from_client, path, packet in self.short:
            length = cid_length[from_client]
            if from_client:
                self.story.client_uses[path].add(packet[1 : 1 + length])
            # Less is no packet, but perhaps a stateless reset (RFC 9000 §10.3).
            if len(packet) < 1 + length + 20 or not protection[from_client]:
                continue
            first = protection[from_client][0].hp.remove(packet, 1 + length)[0][0]
            phase = first >> 2 & 1
            # A sender sets the reserved bits to zero (RFC 9000 §17.3.1).
            if first & 0x18 or phase == phases[from_client]:
                continue
            phases[from_client] = phase
            if phases[not from_client] != phase:
                first_was_client = from_client
            else:
                self.story.updates.append(first_was_client)


def payload_offset(header: QuicHeader, packet: bytes) -> int:
    """Where the packet number is in an Initial or Handshake packet (RFC 9000 §17.2)."""
    buffer = Buffer(data=packet)
    buffer.seek(7 + len(header.destination_cid) + len(header.source_cid))
    if header.packet_type == QuicPacketType.INITIAL:
        buffer.pull_bytes(buffer.pull_uint_var())
    buffer.pull_uint_var()
    return buffer.tell()

"""hq-interop on aioquic, with the command line that all peers have (docs/peers.md)."""

import argparse
import asyncio
import copy
import logging
import sys
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamDataReceived, StreamReset
from aioquic.tls import SessionTicket

ALPN = ["hq-interop"]
MOVES_AFTER = 2_000_000
# Larger than a megabyte each way, so that a transfer is not one long wait for credit.
WINDOW = 16 << 20


class Server(QuicConnectionProtocol):
    def __init__(self, *args, root: Path, **kwargs):
        super().__init__(*args, **kwargs)
        self.root = root
        self.requests: dict[int, bytes] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        if not isinstance(event, StreamDataReceived):
            return
        request = self.requests.pop(event.stream_id, b"") + event.data
        if not event.end_stream:
            self.requests[event.stream_id] = request
            return
        name = unquote(request.decode().removeprefix("GET /").strip())
        self._quic.send_stream_data(event.stream_id, (self.root / name).read_bytes(), end_stream=True)
        self.transmit()


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bodies: dict[int, bytearray] = {}
        self.ends: dict[int, asyncio.Future] = {}
        self.received = 0
        self.has_to_move = False
        self.early_data_accepted = False

    def connection_made(self, transport) -> None:
        if self._transport is not None:
            # With the first datagram on the new path, and with none on the old one (RFC 9000 §9.5).
            self._quic.change_connection_id()
        super().connection_made(transport)

    def ask(self, path: str) -> asyncio.Future:
        stream = self._quic.get_next_available_stream_id()
        self.bodies[stream] = bytearray()
        self.ends[stream] = asyncio.get_running_loop().create_future()
        self._quic.send_stream_data(stream, f"GET {path}\r\n".encode(), end_stream=True)
        self.transmit()
        return self.ends[stream]

    def quic_event_received(self, event: QuicEvent) -> None:
        match event:
            case HandshakeCompleted():
                self.early_data_accepted = event.early_data_accepted
            case StreamDataReceived():
                self.bodies[event.stream_id] += event.data
                self.received += len(event.data)
                if event.end_stream:
                    self._end(event.stream_id, None)
                if self.has_to_move and self.received >= MOVES_AFTER:
                    asyncio.get_running_loop().create_task(migrate(self))
                    self.has_to_move = False
            case StreamReset():
                self._end(event.stream_id, RuntimeError(f"stream reset with code {event.error_code}"))
            case ConnectionTerminated():
                for stream in self.ends:
                    self._end(stream, RuntimeError(f"connection ended: {event.error_code} {event.reason_phrase}"))

    def _end(self, stream: int, error: Exception | None) -> None:
        if self.ends[stream].done():
            return
        if error:
            self.ends[stream].set_exception(error)
        else:
            self.ends[stream].set_result(bytes(self.bodies[stream]))


async def migrate(client: Client) -> None:
    old = client._transport
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: client, local_addr=("::", 0))
    old.close()
    client.transmit()


async def run_server(options) -> None:
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=ALPN, max_data=WINDOW, max_stream_data=WINDOW
    )
    configuration.load_cert_chain(options.cert, options.key)
    tickets: dict[bytes, SessionTicket] = {}
    server = await serve(
        *address(options.listen),
        configuration=configuration,
        create_protocol=partial(Server, root=Path(options.directory)),
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
        retry=options.retry,
    )
    host, port = server._transport.get_extra_info("sockname")[:2]
    print(f"serving on {host}:{port}", flush=True)
    await asyncio.Event().wait()


async def run_client(options) -> None:
    urls = [urlsplit(url) for url in options.urls]
    configuration = QuicConfiguration(alpn_protocols=ALPN, max_data=WINDOW, max_stream_data=WINDOW)
    configuration.load_verify_locations(options.ca)
    tickets: list[SessionTicket] = []
    if options.resume or options.early:
        await fetch(options, configuration, urls[:1], tickets.append)
        if not tickets:
            raise RuntimeError("the server gave no ticket")
        configuration = copy.copy(configuration)
        configuration.session_ticket = tickets[-1]
        urls = urls[1:]
    await fetch(options, configuration, urls, tickets.append, wait_connected=not options.early)


async def fetch(options, configuration: QuicConfiguration, urls, on_ticket, wait_connected: bool = True) -> None:
    host, port = urls[0].hostname, urls[0].port
    async with connect(
        host,
        port,
        configuration=configuration,
        create_protocol=Client,
        session_ticket_handler=on_ticket,
        wait_connected=wait_connected,
    ) as client:
        client.has_to_move = options.migrate
        if options.key_update:
            await save(options, client, urls[:1])
            # Three probe timeouts after another update (RFC 9001 §6.5).
            await asyncio.sleep(1)
            client.request_key_update()
            urls = urls[1:]
        await save(options, client, urls)


async def save(options, client: Client, urls) -> None:
    ends = [client.ask(url.path) for url in urls]
    for url, body in zip(urls, await asyncio.gather(*ends)):
        (Path(options.output) / url.path.rsplit("/", 1)[1]).write_bytes(body)


def address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("serve")
    command.add_argument("directory")
    command.add_argument("--listen", required=True)
    command.add_argument("--cert", required=True)
    command.add_argument("--key", required=True)
    command.add_argument("--retry", action="store_true")
    command.set_defaults(run=run_server)
    command = commands.add_parser("get")
    command.add_argument("urls", nargs="+")
    command.add_argument("--ca", required=True)
    command.add_argument("--output", required=True)
    command.add_argument("--resume", action="store_true")
    command.add_argument("--0rtt", dest="early", action="store_true")
    command.add_argument("--key-update", action="store_true")
    command.add_argument("--migrate", action="store_true")
    command.set_defaults(run=run_client)
    return parser.parse_args()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    options = command_line()
    try:
        asyncio.run(options.run(options))
    except (RuntimeError, ConnectionError, OSError) as error:
        sys.exit(f"error: {error}")

"""The daemon's socket: who gets in, who holds the endpoint, and what a flood may cost."""

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio

from completiond import endpoint as ep
from completiond import keys
from completiond.errors import ConfigError, EndpointInUse, TransportError
from completiond.footprint import anonymous_bytes, return_free_memory
from completiond.protocol import codec
from completiond.protocol import messages as m
from completiond.router import UNREAD_OUT
from completiond.transport import Listener

PATIENCE_S = 10.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "daemon.sock"


@pytest.fixture
def at(path: Path) -> str:
    return f"ipc://{path}"


@asynccontextmanager
async def echo(endpoint: str, **options: Any) -> AsyncIterator[Listener]:
    """A listener whose every message goes back to its sender."""

    async def loop(listener: Listener) -> None:
        while True:
            identity, payload = await listener.receive()
            listener.send(identity, payload)

    async with Listener(endpoint, **options) as listener:
        task = asyncio.create_task(loop(listener))
        try:
            yield listener
        finally:
            task.cancel()
            await asyncio.wait([task])


@contextmanager
def dealer(endpoint: str, pair: keys.ClientKeys | None = None) -> Iterator[zmq.asyncio.Socket]:
    context = zmq.asyncio.Context()
    client = context.socket(zmq.DEALER)
    if pair is not None:
        client.curve_serverkey = pair.server.encode()
        client.curve_publickey = pair.pair.public.encode()
        client.curve_secretkey = pair.pair.secret.encode()
    client.connect(endpoint)
    try:
        yield client
    finally:
        context.destroy(linger=0)


async def ask(client: zmq.asyncio.Socket, payload: bytes) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        await client.send(payload)
        answer: bytes = await client.recv()
        return answer


async def answers_again(endpoint: str, pair: keys.ClientKeys | None = None) -> None:
    """Ask until there is an answer: the rest of a flood may cost our connection, too."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with dealer(endpoint, pair) as client:
                await client.send(b"still there?")
                if await client.poll(200):
                    assert await client.recv() == b"still there?"
                    return


async def nobody_answers(client: zmq.asyncio.Socket) -> None:
    """The handshake fails; its event is the proof, not the absence of an answer."""
    monitor = client.get_monitor_socket(
        zmq.EVENT_HANDSHAKE_FAILED_AUTH
        | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        | zmq.EVENT_DISCONNECTED
        | zmq.EVENT_HANDSHAKE_SUCCEEDED
    )
    await client.send(b"let me in")
    try:
        async with asyncio.timeout(PATIENCE_S):
            event, _ = await monitor.recv_multipart()
    finally:
        client.disable_monitor()
        monitor.close()
    assert struct.unpack("=HI", event)[0] != zmq.EVENT_HANDSHAKE_SUCCEEDED
    assert not await client.poll(0)


def raw_peer(path: Path) -> socket.socket:
    """A peer that speaks ZMTP 3.0 by hand, and so may break its rules."""
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(PATIENCE_S)
    peer.connect(str(path))
    signature = b"\xff" + bytes(8) + b"\x7f"
    peer.sendall(signature + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    peer.sendall(b"\x04" + bytes([len(ready)]) + ready)
    heard = b""
    while b"READY" not in heard[64:]:  # what is sent before it counts as a broken handshake
        heard += (news := peer.recv(4096))
        if not news:
            raise ConnectionResetError("the connection was dropped")
    return peer


# -- messages -----------------------------------------------------------------------------------


async def test_every_client_gets_its_own_answers_in_order(at: str) -> None:
    async def client(name: int) -> None:
        with dealer(at) as one:
            for i in range(200):
                await one.send(b"%d/%d" % (name, i))
            async with asyncio.timeout(PATIENCE_S):
                assert [await one.recv() for _ in range(200)] == [
                    b"%d/%d" % (name, i) for i in range(200)
                ]

    async with echo(at) as listener:
        await asyncio.gather(*(client(name) for name in range(4)))
        assert listener.counts.received == listener.counts.sent == 800
        assert listener.counts.lost == listener.counts.refused == 0


def test_the_listener_works_on_uvloop(at: str) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> bytes:
        async with echo(at):
            answer: list[bytes] = []
            thread = threading.Thread(target=lambda: answer.append(blocking_ask(at, b"hello")))
            thread.start()
            await asyncio.to_thread(thread.join, PATIENCE_S)
            return answer[0]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == b"hello"


def blocking_ask(endpoint: str, payload: bytes) -> bytes:
    with zmq.Context() as context, context.socket(zmq.DEALER) as client:
        client.linger = 0
        client.rcvtimeo = int(PATIENCE_S * 1000)
        client.connect(endpoint)
        client.send(payload)
        answer: bytes = client.recv()
        return answer


async def test_a_busy_receiver_lets_other_tasks_run(at: str) -> None:
    async with Listener(at) as listener:
        with dealer(at) as client:
            for _ in range(500):
                await client.send(b"x")
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            for _ in range(500):
                await listener.receive()
            task.cancel()
            assert turns >= 5


async def test_sending_to_a_client_that_is_gone_is_false(at: str) -> None:
    async with Listener(at) as listener:
        assert not listener.send(b"never seen", b"x")
        with dealer(at) as client:
            await client.send(b"x")
            identity, _ = await listener.receive()
            assert listener.send(identity, b"y")
        async with asyncio.timeout(PATIENCE_S):
            while listener.send(identity, b"y"):
                await asyncio.sleep(0.005)
        assert listener.counts.lost == 2


# -- floods -------------------------------------------------------------------------------------


async def test_a_message_of_100_mb_is_never_read_and_costs_its_sender_the_connection(
    at: str, path: Path
) -> None:
    def flood() -> int:
        with raw_peer(path) as peer:
            peer.sendall(b"\x02" + struct.pack(">Q", 100 << 20))
            sent = 0
            try:
                while sent < 100 << 20:
                    sent += peer.send(bytes(1 << 16))
            except OSError:
                pass
            return sent

    async with echo(at) as listener:
        assert await asyncio.to_thread(flood) < 4 << 20
        with dealer(at) as client:
            assert await ask(client, b"still there?") == b"still there?"
        assert listener.counts.received == 1


async def test_a_message_over_the_limit_is_answered_and_the_connection_stays(at: str) -> None:
    async with echo(at):
        with dealer(at) as client:
            answer = codec.decode_from_daemon(await ask(client, bytes(m.MAX_MESSAGE + 1)))
            assert isinstance(answer, m.Failure) and answer.code == "too_large"
            assert await ask(client, b"hello") == b"hello"


@pytest.mark.parametrize("frames", [2, 3, 50_000])
async def test_many_frames_are_answered_and_the_connection_stays(at: str, frames: int) -> None:
    async with echo(at) as listener:
        with dealer(at) as client:
            await client.send_multipart([b"x"] * frames)
            async with asyncio.timeout(PATIENCE_S):
                answer = codec.decode_from_daemon(await client.recv())
            assert isinstance(answer, m.Failure) and answer.code == "protocol"
            assert await ask(client, b"hello") == b"hello"
            assert listener.counts.refused == 1


@pytest.mark.slow  # it measures this process: not beside others
@pytest.mark.parametrize("size", [20, 60_000])
async def test_frames_without_end_cost_bounded_memory_and_the_connection(
    at: str, path: Path, size: int
) -> None:
    frame = b"\x03" + struct.pack(">Q", size) + bytes(size)
    block = frame * max(1, (1 << 20) // len(frame))

    def flood() -> None:
        with raw_peer(path) as peer:
            try:
                while True:
                    peer.sendall(block)
            except OSError:
                return

    bound = 24 << 20
    before = anonymous_bytes()
    async with echo(at, memory_bound=bound) as listener:
        task = asyncio.create_task(asyncio.to_thread(flood))
        peak = 0
        while not task.done():
            await asyncio.sleep(0.005)
            peak = max(peak, anonymous_bytes() - before)
        assert listener.counts.reopened >= 1
        assert peak < bound + (600 << 20)
        with dealer(at) as client:
            assert await ask(client, b"still there?") == b"still there?"
    async with asyncio.timeout(PATIENCE_S):
        while anonymous_bytes() - before >= bound:  # libzmq frees a closed socket's messages later
            await asyncio.sleep(0.05)
            return_free_memory()


async def test_a_socket_that_cannot_be_opened_again_ends_the_receiver(at: str, path: Path) -> None:
    async with Listener(at, memory_bound=-(1 << 40)) as listener:
        path.unlink()
        path.mkdir()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(TransportError, match="Cannot listen|Another program"):
                await listener.receive()
        assert not listener.send(b"anyone", b"x")
        path.rmdir()


async def test_a_client_that_never_reads_loses_its_own_messages_only(at: str) -> None:
    answer = bytes(4096)
    async with Listener(at) as listener:
        with dealer(at) as deaf, dealer(at) as good:
            deaf.rcvhwm = 1
            await deaf.send(b"deaf")
            identity, _ = await listener.receive()
            before, sent = anonymous_bytes(), 0
            while listener.send(identity, answer):
                sent += 1
                assert sent < 100 * UNREAD_OUT
                await asyncio.sleep(0)
            assert anonymous_bytes() - before < 64 << 20
            await good.send(b"good")
            whom, _ = await listener.receive()
            assert listener.send(whom, b"here")
            async with asyncio.timeout(PATIENCE_S):
                assert await good.recv() == b"here"
            assert listener.counts.lost == 1


async def test_thousands_of_identities_leave_nothing_behind(at: str, path: Path) -> None:
    def flood(times: int) -> None:
        for _ in range(times):
            with raw_peer(path) as peer:
                peer.sendall(b"\x00\x01x")

    async with echo(at) as listener:
        await asyncio.to_thread(flood, 200)
        before = anonymous_bytes()
        await asyncio.to_thread(flood, 2_000)
        with dealer(at) as client:
            assert await ask(client, b"still there?") == b"still there?"
        assert anonymous_bytes() - before < 32 << 20
        assert listener.counts.reopened == 0


async def test_connections_without_end_are_dropped_before_files_run_out(
    at: str, path: Path
) -> None:
    """libzmq aborts the whole process when accept() finds no free descriptor."""

    def flood(idle: ExitStack) -> None:
        for _ in range(300):
            peer = idle.enter_context(socket.socket(socket.AF_UNIX))
            with suppress(OSError):  # while the socket is opened again
                peer.connect(str(path))

    before = len(os.listdir("/proc/self/fd"))
    async with echo(at, max_connections=50) as listener:
        with ExitStack() as idle:
            await asyncio.to_thread(flood, idle)
            async with asyncio.timeout(PATIENCE_S):
                while listener.counts.reopened == 0:
                    await asyncio.sleep(0.005)
        await answers_again(at)
    assert len(os.listdir("/proc/self/fd")) < before + 20


# -- who holds the endpoint ---------------------------------------------------------------------


async def test_a_second_daemon_is_told_who_holds_the_endpoint(at: str) -> None:
    async with echo(at):
        with pytest.raises(EndpointInUse, match=f"process {os.getpid()}, since 20") as caught:
            async with Listener(at):
                pass
        assert at in str(caught.value)
        with dealer(at) as client:
            assert await ask(client, b"not stolen") == b"not stolen"


async def test_an_endpoint_is_free_after_its_daemon(at: str, path: Path) -> None:
    for _ in range(3):
        async with echo(at):
            assert path.stat().st_mode & 0o077 == 0
            with dealer(at) as client:
                assert await ask(client, b"hello") == b"hello"
        assert not path.exists()


async def test_a_stale_socket_is_removed(at: str, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    assert path.exists()
    async with echo(at):
        with dealer(at) as client:
            assert await ask(client, b"hello") == b"hello"


async def test_a_daemon_that_was_killed_is_in_nobodys_way(at: str, path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from completiond.transport import Listener\n"
        "async def main():\n"
        "    async with Listener(sys.argv[1]):\n"
        "        print('up', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, at], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"up\n"
        with pytest.raises(EndpointInUse, match=f"process {other.pid}"):
            async with Listener(at):
                pass
        other.send_signal(signal.SIGKILL)
    assert path.exists()
    async with echo(at):
        with dealer(at) as client:
            assert await ask(client, b"hello") == b"hello"


async def test_a_socket_of_another_program_is_not_stolen(at: str, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(EndpointInUse, match="Another program"):
            async with Listener(at):
                pass
    assert path.exists()


async def test_a_file_in_the_way_is_not_removed(at: str, path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(TransportError, match="not a socket"):
        async with Listener(at):
            pass
    assert path.read_text() == "precious"


# -- the runtime directory ----------------------------------------------------------------------


def test_the_default_endpoint_is_in_a_private_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPLETIOND_RUNTIME_DIR", str(tmp_path / "run" / "completiond"))
    assert ep.default_endpoint() == f"ipc://{tmp_path}/run/completiond/daemon.sock"
    assert (tmp_path / "run" / "completiond").stat().st_mode & 0o777 == 0o700
    (tmp_path / "run" / "completiond").chmod(0o750)
    with pytest.raises(TransportError, match="chmod 700"):
        ep.default_endpoint()
    (tmp_path / "run" / "completiond").chmod(0o700)
    (tmp_path / "run").chmod(0o777)
    with pytest.raises(TransportError, match="replace"):
        ep.default_endpoint()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPLETIOND_RUNTIME_DIR", str(tmp_path / "run"))
    ep.runtime_dir()
    os.chown(tmp_path / "run", 12345, -1)
    with pytest.raises(TransportError, match="another user"):
        ep.default_endpoint()


def test_a_link_is_no_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("COMPLETIOND_RUNTIME_DIR", str(tmp_path / "link"))
    with pytest.raises(TransportError, match="link"):
        ep.default_endpoint()


async def test_a_socket_where_others_can_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(TransportError, match="Others can enter"):
        async with Listener(f"ipc://{tmp_path}/open/s"):
            pass


def test_a_path_that_is_too_long_says_so() -> None:
    assert ep.parse("ipc:///" + "x" * 106).path is not None
    with pytest.raises(ConfigError, match=r"108 bytes.*107"):
        ep.parse("ipc:///" + "x" * 107)


@pytest.mark.parametrize(
    "text",
    ["", "ipc://", "ipc://relative", "ipc://@abstract", "ipc://*", "tcp://", "tcp://host",
     "tcp://:5000", "tcp://host:x", "tcp://host:65536", "tcp://host:-1", "http://host:1",
     "/tmp/s", "ipc:///a\0b"],
)  # fmt: skip
def test_an_endpoint_that_is_not_understood_says_what_is(text: str) -> None:
    with pytest.raises(ConfigError, match="write ipc"):
        ep.parse(text)


# -- tcp and CURVE ------------------------------------------------------------------------------


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COMPLETIOND_RUNTIME_DIR", str(tmp_path / "run"))
    keys.new_keys(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "*", "example.org"])
@pytest.mark.parametrize("insecure", [False, True])
def test_tcp_without_keys_is_refused(host: str, insecure: bool) -> None:
    loopback = host in ("127.0.0.1", "localhost", "[::1]")
    if loopback and insecure:
        Listener(f"tcp://{host}:0", insecure_loopback=True)
        return
    with pytest.raises(ConfigError, match="completiond keys new") as caught:
        Listener(f"tcp://{host}:0", insecure_loopback=insecure)
    assert ("--insecure-loopback" in str(caught.value)) is loopback


async def test_insecure_loopback_answers_and_its_port_is_held(private: Path) -> None:
    async with echo("tcp://127.0.0.1:0", insecure_loopback=True) as listener:
        with dealer(listener.endpoint) as client:
            assert await ask(client, b"hello") == b"hello"
        with pytest.raises(EndpointInUse, match="Another program"):
            async with Listener(listener.endpoint, insecure_loopback=True):
                pass


async def test_a_second_daemon_on_a_tcp_port_is_told_who_holds_it(private: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        at = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    async with echo(at, insecure_loopback=True):
        with pytest.raises(EndpointInUse, match=f"process {os.getpid()}"):
            async with Listener(at, insecure_loopback=True):
                pass


async def test_an_address_that_is_not_ours_is_one_clear_error(private: Path) -> None:
    with pytest.raises(TransportError, match="choose another --endpoint"):
        async with Listener("tcp://192.0.2.1:5000", keys=keys.server_keys(private)):
            pass


async def test_an_authorised_client_gets_in(private: Path) -> None:
    async with echo("tcp://127.0.0.1:0", keys=keys.server_keys(private)) as listener:
        mine = keys.client_keys(listener.endpoint, private)
        with dealer(listener.endpoint, mine) as client:
            assert await ask(client, b"hello") == b"hello"


async def test_clients_without_keys_or_with_strange_ones_stay_out(
    private: Path, tmp_path: Path
) -> None:
    _, stranger = keys.new_keys(tmp_path / "stranger")
    async with echo("tcp://127.0.0.1:0", keys=keys.server_keys(private)) as listener:
        mine = keys.client_keys(listener.endpoint, private)
        unknown = keys.ClientKeys(stranger, mine.server)
        wrong_server = keys.ClientKeys(mine.pair, stranger.public)
        for pair in (None, unknown, wrong_server):
            with dealer(listener.endpoint, pair) as client:
                await nobody_answers(client)
        assert listener.counts.received == 0
        keys.authorise(stranger.public, "guest", private)
        with dealer(listener.endpoint, unknown) as client:
            assert await ask(client, b"now") == b"now"


async def test_keys_still_hold_after_a_flood_reopened_the_socket(private: Path) -> None:
    server = keys.server_keys(private)
    async with echo("tcp://127.0.0.1:0", keys=server, max_connections=8) as listener:
        mine = keys.client_keys(listener.endpoint, private)
        address = ("127.0.0.1", ep.parse(listener.endpoint).port)
        with ExitStack() as crowd:
            for _ in range(9):
                crowd.enter_context(socket.create_connection(address, PATIENCE_S))
            async with asyncio.timeout(PATIENCE_S):
                while listener.counts.reopened == 0:
                    await asyncio.sleep(0.005)
        await answers_again(listener.endpoint, mine)
        with dealer(listener.endpoint) as client:
            await nobody_answers(client)

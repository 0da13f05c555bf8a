"""The harness notices what it promises to notice. Stand-ins play the daemon, so that each fault can be ordered."""

import os
import signal
import socket
import threading

import pytest

import harness
import openrpc
from mcpd_client import Client, Closed, ProtocolBroken, RpcError

STAND_IN = '''#!/usr/bin/python3
import os, signal, socket, subprocess, sys
exec(%r)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(os.environ['NOTIFY_SOCKET'])
signal.signal(signal.SIGTERM, lambda *a: end())
s.send(b'READY=1\\nSTATUS=up')
while True: signal.pause()
'''
GOOD = 'def end(): sys.exit(0)'


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A function that makes a Daemon whose program is a stand-in with the given code."""
    made = []

    def make(code, start=True):
        path = tmp_path / 'mcpd'
        path.write_text(STAND_IN % code)
        path.chmod(0o755)
        monkeypatch.setattr(harness, 'program', lambda name: str(path))
        daemon = harness.Daemon({}, start=False)
        made.append(daemon)
        if start:
            daemon.start()
        return daemon

    yield make
    for daemon in made:
        daemon.finish(failed=True)


def test_a_good_end_passes(stand_in):
    daemon = stand_in(GOOD)
    assert daemon.notify.has('STATUS=up') and daemon.pid in [p.pid for p in daemon.processes()]
    daemon.stop()


def test_a_bad_status_is_noticed(stand_in):
    daemon = stand_in('def end(): sys.exit(3)')
    with pytest.raises(AssertionError, match='status 3'):
        daemon.stop()


def test_a_process_left_behind_is_noticed_and_ended(stand_in, monkeypatch):
    monkeypatch.setattr(harness, 'LEFT_SECONDS', 0.2)
    daemon = stand_in('subprocess.Popen(["sleep", "600"], start_new_session=True)\n' + GOOD)
    left = [p.pid for p in daemon.servers('sleep')]
    assert len(left) == 1
    with pytest.raises(AssertionError, match='left behind.*sleep'):
        daemon.stop()
    harness.wait_gone(left)


def test_a_sanitizer_report_is_noticed(stand_in):
    daemon = stand_in('path = os.environ["ASAN_OPTIONS"].split("log_path=")[1].split(":")[0]\n'
                      'open(path + ".1", "w").write("ERROR: AddressSanitizer: boom")\n' + GOOD)
    with pytest.raises(AssertionError, match='boom'):
        daemon.stop()


def test_a_failing_start_shows_why(stand_in):
    with pytest.raises(AssertionError, match='no such luck'):
        stand_in('sys.exit("no such luck")')


def test_one_that_ignores_sigterm_is_ended(stand_in):
    daemon = stand_in('def end(): pass')
    pid = daemon.pid
    with pytest.raises(AssertionError, match='did not end'):
        daemon.stop(timeout=0.2)
    assert not harness.alive(pid)


def test_death_by_a_signal_is_seen(stand_in):
    daemon = stand_in(GOOD)
    daemon.kill()
    daemon.start()
    daemon.signal(signal.SIGKILL)
    daemon.wait_exit(-signal.SIGKILL)


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """A listening socket, and a client that is connected to it. There is no daemon, so no document."""
    monkeypatch.setattr(Client, 'described', None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / 's'))
    listener.listen()
    client = Client(tmp_path / 's')
    server, _ = listener.accept()
    yield server, client
    client.close()
    server.close()
    listener.close()


def test_client_sorts_answers_events_and_questions(peer):
    server, client = peer
    a, b = client.request('a'), client.request('b', id='x')
    server.sendall(b'{"jsonrpc":"2.0","id":"x","result":1.0}\n{"jsonrpc":"2.0","method":"e","params":{"n":1}}\n'
                   b'{"jsonrpc":"2.0","id":1,"method":"q"}\n'
                   b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"m","data":{}}}\n'
                   b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"p"}}\n')
    assert a.wait().error['code'] == -5 and b.done and b.raw_result() == b'1.0'
    with pytest.raises(RpcError):
        a.result
    assert client.wait_event('e') == {'n': 1} and client.wait_question()['method'] == 'q'
    assert client.wait_orphan()['code'] == -32700


@pytest.mark.parametrize('line', [
    b'rubbish', b'[]', b'{"jsonrpc":"2.0","id":9,"result":{}}', b'{"jsonrpc":"2.0","id":1}', b'{"id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
])
def test_client_raises_at_broken_protocol(peer, line):
    server, client = peer
    pending = client.request('a')
    server.sendall(line + b'\n')
    with pytest.raises(ProtocolBroken):
        pending.wait()


@pytest.mark.parametrize('answer, problem', [
    ('"result":{"n":1,"more":[{"at":"x"}]}', None),
    ('"result":{"n":"1"}', "'1' is not of type 'integer' at n"),
    ('"result":{"n":1,"more":[{"at":"x","surprise":1}]}', "'surprise' was unexpected"),
    ('"error":{"code":-32001,"message":"m"}', None),
    ('"error":{"code":-32601,"message":"m"}', None),
    ('"error":{"code":-32009,"message":"m"}', 'not described as an error of known'),
])
def test_client_holds_answers_against_the_document(peer, monkeypatch, answer, problem):
    schemas = {'Known': {'type': 'object', 'required': ['n'], 'properties': {
        'n': {'type': 'integer'}, 'more': {'type': 'array', 'items': {'$ref': '#/components/schemas/Item'}}}},
        'Item': {'type': 'object', 'properties': {'at': {'type': 'string'}}}}
    monkeypatch.setattr(Client, 'described', openrpc.Described({
        'methods': [{'name': 'known', 'result': {'name': 'Known', 'schema': {'$ref': '#/components/schemas/Known'}},
                     'errors': [{'$ref': '#/components/errors/UNKNOWN'}]}],
        'components': {'schemas': schemas, 'errors': {'UNKNOWN': {'code': -32001, 'message': 'm'}}}}))
    server, client = peer
    pending = client.request('known')
    server.sendall(b'{"jsonrpc":"2.0","id":1,%s}\n' % answer.encode())
    if problem is None:
        pending.wait()
        pending = client.request('unknown')
        server.sendall(b'{"jsonrpc":"2.0","id":2,"result":{}}\n')
        problem = 'does not describe unknown'
    with pytest.raises(ProtocolBroken, match=problem):
        pending.wait()


def test_client_raises_at_a_second_answer(peer):
    server, client = peer
    pending = client.request('a')
    server.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    pending.wait()
    server.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    with pytest.raises(ProtocolBroken):
        client.pump(5)


def test_client_notices_the_end_and_time(peer):
    server, client = peer
    with pytest.raises(TimeoutError):
        client.wait_event('never', timeout=0.05)
    server.close()
    with pytest.raises(Closed):
        client.wait_event('never')


def test_client_reads_long_lines_in_pieces(peer):
    server, client = peer
    pending = client.request('a')
    line = b'{"jsonrpc":"2.0","id":1,"result":"' + b'x' * (8 << 20) + b'"}\n'
    writer = threading.Thread(target=server.sendall, args=(line,))
    writer.start()
    assert len(pending.wait().result) == 8 << 20
    writer.join()


def test_processes_see_zombies_as_what_they_are():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    harness.wait_gone(pid)
    assert harness.Process(pid).zombie and not harness.alive(pid)
    os.waitpid(pid, 0)

"""Real HTTP servers through the daemon: server-everything over Streamable HTTP and over HTTP+SSE, and servers made with
the official SDK 2.x of the 2026-07-28 era alone and of both eras. Faults are in test_http_faults.py."""

import json
import os
import re
import select
import socket
import subprocess
import time

import pytest

import harness
from harness import node, wait_for
from mcpd_client import TIMEOUT

EVERYTHING = harness.NODE_MODULES / '@modelcontextprotocol' / 'server-everything' / 'dist' / 'index.js'
MODERN = harness.HERE.parent / 'npm' / 'modern_server.mjs'


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class HttpServer:
    """A node server on a loopback port, which can be stopped and started again there."""

    def __init__(self, *command, **env):
        self.command, self.env, self.port = [str(c) for c in command], env, free_port()
        self.proc = None
        self.start()

    def start(self):
        self.proc = subprocess.Popen([node(), *self.command], env={**os.environ, 'PORT': str(self.port), **self.env},
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = b''
        deadline = time.monotonic() + TIMEOUT
        while not re.search(rb'on port \d+', said):
            assert select.select([self.proc.stderr], [], [], deadline - time.monotonic())[0], said
            part = os.read(self.proc.stderr.fileno(), 4096)
            assert part, said
            said += part

    def stop(self):
        if self.proc:
            self.proc.kill()
            self.proc.wait()
            self.proc.stderr.close()
            self.proc = None

    def url(self, path='/mcp'):
        return 'http://127.0.0.1:%d%s' % (self.port, path)


@pytest.fixture
def http_server(npm):
    made = []

    def make(*command, **env):
        made.append(HttpServer(*command, **env))
        return made[-1]

    yield make
    for server in made:
        server.stop()


FLAVOURS = {
    'streamable': (('streamableHttp',), {'type': 'http'}, '/mcp'),
    'sse': (('sse',), {'type': 'sse'}, '/sse'),
    'fallback': (('sse',), {'type': 'http'}, '/sse'),       # H14: found out by 400/404/405
}


@pytest.fixture(params=FLAVOURS)
def everything(request, http_server, make_daemon):
    args, members, path = FLAVOURS[request.param]
    server = http_server(EVERYTHING, *args)
    d = make_daemon({'ev': {**members, 'url': server.url(path)}})
    with d.client() as c:
        c.wait_state('ev', 'connected')
    return server, d


def test_list_call_and_progress(everything):
    _, d = everything
    with d.client() as c:
        assert c.server('ev')['era'] == 'legacy'
        assert len(c.call('tools/list')['servers'][0]['tools']) > 10
        assert c.text('ev', 'echo', {'message': '\u2028 ü'}) == 'Echo: \u2028 ü'
        call = c.tool('ev', 'trigger-long-running-operation', {'duration': 0.3, 'steps': 3}, _meta={'progressToken': 'mine'})
        steps = [c.wait_event('notifications/progress') for _ in range(3)]
        assert [s['progressToken'] for s in steps] == ['mine'] * 3
        assert 'completed' in call.wait().result['content'][0]['text']
        assert c.call('mcp/request', {'server': 'ev', 'method': 'resources/list'})['resources']


def test_sixteen_parallel_clients(everything):
    _, d = everything
    clients = [d.client() for _ in range(16)]
    pending = [(i, j, c.tool('ev', 'echo', {'message': '%d-%d' % (i, j)})) for i, c in enumerate(clients)
               for j in range(4)]
    for i, j, p in pending:
        assert p.wait().result['content'][0]['text'] == 'Echo: %d-%d' % (i, j)


def test_cancel_and_timeout_leave_others_alone(everything):
    _, d = everything
    with d.client() as c:
        slow = c.tool('ev', 'trigger-long-running-operation', {'duration': 30, 'steps': 2})
        late = c.tool('ev', 'trigger-long-running-operation', {'duration': 30, 'steps': 2}, timeoutMs=200)
        error = late.wait().error
        assert error['code'] == -32004 and re.match(r'(Request|SSE response) timeout after 200ms', error['message'])
        c.notify('notifications/cancelled', {'requestId': slow.id, 'reason': 'enough'})
        assert slow.wait().error['code'] == -32005
        assert c.text('ev', 'echo', {'message': 'still here'}) == 'Echo: still here'


def test_the_servers_restart_is_survived(everything):
    """R30 and R7: the session, or the stream, is gone with the server; the next call finds the new one."""
    server, d = everything
    with d.client() as c:
        server.stop()
        server.start()
        # While the daemon has not noticed, a call can be lost with the old connection, and says so; it is never run twice.
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer = c.tool('ev', 'echo', {'message': 'again'}).wait()
            if answer.error is None:
                break
            assert answer.error['code'] in (-32002, -32003, -32007), answer.error
            assert time.monotonic() < deadline
        assert answer.result['content'][0]['text'] == 'Echo: again'
        assert c.server('ev')['state'] == 'connected'


def test_a_server_that_is_not_there_yet(http_server, make_daemon):
    """R7: connection refused at first; found in the background once it listens."""
    server = http_server(EVERYTHING, 'streamableHttp')
    server.stop()
    d = make_daemon({'ev': {'type': 'http', 'url': server.url()}})
    with d.client() as c:
        info = c.wait_state('ev', 'reconnecting')
        assert 'refused' in info['lastError']['message'] and str(server.port) in info['lastError']['message']
        server.start()
        c.wait_state('ev', 'connected')


@pytest.mark.parametrize('legacy', ['reject', ''])
def test_the_modern_era(http_server, make_daemon, legacy):
    """2026-07-28 alone, and a server of both eras: the newer one is chosen."""
    server = http_server(MODERN, LEGACY=legacy)
    d = make_daemon({'modern': {'type': 'http', 'url': server.url()}})
    with d.client() as c:
        c.wait_state('modern', 'connected')
        info = c.server('modern')
        assert (info['era'], info['protocolVersion']) == ('modern', '2026-07-28')
        assert c.text('modern', 'echo', {'text': 'hällo'}) == 'hällo'
        call = c.tool('modern', 'progress', {'steps': 3}, _meta={'progressToken': 7})
        assert call.wait().result['content'][0]['text'] == 'done'
        assert [e['progress'] for e in c.take_events('notifications/progress')] == [1, 2, 3]
        assert c.call('mcp/request', {'server': 'modern', 'method': 'resources/read',
                                      'params': {'uri': 'note://one'}})['contents'][0]['text'] == 'a note'


def test_modern_list_changes_come_by_subscription(http_server, make_daemon):
    server = http_server(MODERN, LEGACY='reject')
    d = make_daemon({'modern': {'type': 'http', 'url': server.url()}})
    with d.client() as c:
        c.wait_state('modern', 'connected')
        c.subscribe('tools')
        c.text('modern', 'set-extra', {'name': 'brand-new'})
        c.wait_event('events/tools', lambda p: p['server'] == 'modern')
        names = [t['name'] for t in c.call('tools/list')['servers'][0]['tools']]
        assert 'brand-new' in names
        assert c.text('modern', 'brand-new') == 'extra'


def test_modern_cancellation_closes_the_stream(http_server, make_daemon):
    server = http_server(MODERN, LEGACY='reject')
    d = make_daemon({'modern': {'type': 'http', 'url': server.url()}})
    with d.client() as c:
        c.wait_state('modern', 'connected')
        call = c.tool('modern', 'slow', {'ms': 60000})
        wait_for(lambda: c.text('modern', 'started') == '1')
        c.notify('notifications/cancelled', {'requestId': call.id})
        assert call.wait().error['code'] == -32005
        wait_for(lambda: c.text('modern', 'cancelled') == '1')


def test_a_modern_servers_restart(http_server, make_daemon):
    server = http_server(MODERN, LEGACY='reject')
    d = make_daemon({'modern': {'type': 'http', 'url': server.url()}})
    with d.client() as c:
        c.wait_state('modern', 'connected')
        first = c.text('modern', 'pid')
        server.stop()
        server.start()
        wait_for(lambda: c.tool('modern', 'pid').wait().error is None)
        assert c.text('modern', 'pid') != first


def test_rpc_goes_straight_to_the_server(http_server, make_daemon):
    """H13, `mcpctl rpc URL METHOD [JSON]`: the raw envelope, with no daemon about."""
    server = http_server(MODERN)
    d = make_daemon({}, start=False)
    params = {'protocolVersion': '2025-11-25', 'capabilities': {}, 'clientInfo': {'name': 'x', 'version': '1'}}
    done = d.mcpctl('rpc', server.url(), 'initialize', json.dumps(params))
    assert done.returncode == 0, done.stderr
    envelope = json.loads(done.stdout)
    assert envelope['jsonrpc'] == '2.0' and envelope['result']['serverInfo']['name'] == 'modern'
    server.stop()
    done = d.mcpctl('rpc', server.url(), 'tools/list')
    assert done.returncode != 0 and str(server.port) in done.stderr
    assert not d.processes()

"""HTTP servers that misbehave, behind the whole daemon (contract H1 to H14 and its failure table; reports R6, R7,
R30 to R33)."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / 'servers'))
from fake_http import (FakeHttp, answer_with, close, compressed, dribble, endless, flood, refuse, reset,
                       resumable, stall, stream_of)
from harness import wait_for


@pytest.fixture
def web(make_daemon):
    """web(option=..., server={..}) -> (server, client): a fake server, and a client of a daemon connected to it."""
    servers, clients = [], []

    def make(server=None, mcpd=None, ready=True, **options):
        fake = FakeHttp(**options)
        fake.start()
        servers.append(fake)
        daemon = make_daemon({'web': fake.definition(**(server or {}))}, mcpd=mcpd)
        client = daemon.client()
        clients.append(client)
        if ready:
            client.wait_state('web', 'connected')
        return fake, client

    yield make
    for client in clients:
        client.close()
    for fake in servers:
        fake.stop()


def fails(client, tool='tool0', arguments=None, **more):
    error = client.tool('web', tool, arguments, **more).wait().error
    assert error, 'the call succeeded'
    return error


# -- answers

@pytest.mark.parametrize('options', [
    {}, {'stream': True}, {'stream': True, 'piece': 1}, {'stream': True, 'piece': 1, 'line_end': '\r'},
    {'stream': True, 'piece': 3, 'line_end': '\r\n'}, {'era': 'modern'}, {'era': 'modern', 'stream': True},
    {'old': True},
    {'session': True, 'listener': 405}], ids=str)
def test_H2_H3_answers(web, options):
    server, client = web(tools=1, **options)
    assert client.text('web', 'tool0') == 'tool0 was called'
    nested = {'a': ['\u2028', {'b': None}], 'n': 10 ** 30}
    assert client.tool('web', 'echo', nested).wait().result['structuredContent'] == nested
    posts = [r for r in server.requests if r.verb == 'POST']
    assert all(r.headers['accept'] == 'application/json, text/event-stream' for r in posts)
    assert not any('accept-encoding' in r.headers for r in server.requests)
    ids = [r.id for r in posts if r.id is not None]
    assert all(isinstance(i, str) for i in ids) and len(set(ids)) == len(ids) - options.get('old', False)


def test_H5_session_and_version_on_everything_after_the_handshake(web):
    server, client = web(session=True, tools=1)
    client.text('web', 'tool0')
    wait_for(server.gets, what='the background stream')
    session = next(iter(server.sessions))
    client.call('servers/disconnect', {'server': 'web'})
    after = [r for r in server.requests if r.method not in ('initialize', 'server/discover')]
    assert {r.verb for r in after} == {'GET', 'POST', 'DELETE'}
    assert {r.headers['mcp-session-id'] for r in after} == {session}
    assert {r.headers['mcp-protocol-version'] for r in after} == {'2025-11-25'}
    assert all('mcp-session-id' not in r.headers for r in server.calls('initialize'))


def test_modern_headers_and_cancellation(web):
    server, client = web(era='modern', tools=1)
    call = client.tool('web', 'hang', id='h')
    wait_for(lambda: server.calls('tools/call'))
    seen = server.calls('tools/call')[0]
    assert seen.headers['mcp-protocol-version'] == '2026-07-28'
    assert (seen.headers['mcp-method'], seen.headers['mcp-name']) == ('tools/call', 'hang')
    client.notify('notifications/cancelled', {'requestId': 'h'})
    assert call.wait().error['code'] == -32005
    wait_for(lambda: server.hangups, what='the end of the stream')
    assert not server.calls('notifications/cancelled')


def test_modern_list_changes_come_through_subscriptions_listen(web):
    server, client = web(era='modern', tools=1)
    client.subscribe('tools')
    wait_for(lambda: server.listeners)
    server.tools = 2
    server.push({'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed', 'params': {}})
    client.wait_event('events/tools')
    assert not server.gets()


@pytest.mark.parametrize('kind', ['sse', 'http'])
def test_H14_the_old_transport_by_type_and_by_fallback(web, kind):
    server, client = web(old=True, tools=1, server={'type': kind})
    assert client.text('web', 'tool0') == 'tool0 was called'
    tried = [r.method for r in server.requests if r.verb == 'POST' and r.target == '/mcp']
    assert tried == ([] if kind == 'sse' else ['server/discover', 'initialize'])
    # The stream's end is the connection's end; it comes back.
    server.cut_listeners()
    wait_for(lambda: len(server.calls('initialize')) >= (2 if kind == 'sse' else 4), what='another handshake')
    assert client.text('web', 'tool0') == 'tool0 was called'


# -- failures of one request

@pytest.mark.parametrize('fault, code, message', [
    (refuse(500, 'boom'), -32007, 'HTTP 500: boom'),
    (refuse(403, 'no', [('WWW-Authenticate', 'Bearer x'), ('Mcp-Auth-Server', 'https://as')]), -32007,
     'HTTP 403: no [WWW-Authenticate: Bearer x; Mcp-Auth-Server: https://as]'),
    (answer_with('{oops'), -32008, 'Invalid JSON in the response: '),
    (answer_with(''), -32008, 'Invalid JSON in the response: '),
    (answer_with('{"jsonrpc":"2.0","id":$ID,"error":{"code":-7,"message":"m"}}'), -32006, 'MCP error -7: m'),
    (stream_of(), -32008, 'No response received for request ID '),
    (stream_of(finish=False), -32008, 'No response received for request ID '),
    (stream_of('data: {oops\n\n'), -32008, 'Invalid JSON in the event: '),
    (compressed(1 << 20), -32008, 'The response has Content-Encoding gzip'),
    (close(), -32003, 'http://127.0.0.1:'),
    (reset(), -32003, 'http://127.0.0.1:'),
], ids=range(11))
def test_failure_table_R32(web, fault, code, message):
    server, client = web(tools=1)
    server.once('tools/call', fault)
    error = fails(client)
    assert error['code'] == code and error['message'].startswith(message), error
    assert error['data']['server'] == 'web'
    # R6: not sent again, and the next call is unharmed.
    assert len(server.calls('tools/call')) == 1
    assert client.text('web', 'tool0') == 'tool0 was called'


def test_H9_details_are_in_the_data(web):
    server, client = web(tools=1)
    server.once('tools/call', refuse(403, 'no', [('WWW-Authenticate', 'Bearer x'), ('Mcp-Auth-Server', 'https://as')]))
    data = fails(client)['data']
    assert (data['status'], data['body']) == (403, 'no')
    assert (data['wwwAuthenticate'], data['mcpAuthServer']) == ('Bearer x', 'https://as')


def test_C3_timeouts(web):
    server, client = web(tools=1)
    server.once('tools/call', stall(), lambda x: (x.open_stream(), x.wait_hangup()))
    assert fails(client, timeoutMs=200)['message'] == 'Request timeout after 200ms'
    assert fails(client, timeoutMs=200)['message'] == 'SSE response timeout after 200ms'
    wait_for(lambda: server.hangups == 2)


def test_R31_progress_extends_the_clock(web):
    server, client = web(server={'timeout': 600, 'maxTimeout': 20000})
    call = client.tool('web', 'progress', {'steps': 6, 'ms': 250}, _meta={'progressToken': 1})
    assert call.wait().result
    assert len(client.take_events('notifications/progress')) == 6


def test_H4a_a_cut_stream_is_resumed(web):
    server, client = web(tools=1, session=True)
    server.once('tools/call', resumable(server, retry=150, breaks=2))
    start = time.monotonic()
    assert client.text('web', 'count') == '1'
    assert time.monotonic() - start >= 0.3
    assert [r.headers['last-event-id'][-2:] for r in server.gets() if 'last-event-id' in r.headers] == ['-1', '-1']
    assert len(server.calls('tools/call')) == 1


def test_redirects_carry_no_credentials_elsewhere(web):
    other = FakeHttp()
    with other:
        server, client = web(tools=1, server={'headers': {'Authorization': 'Bearer secret'}})
        server.once('tools/call', refuse(307, '', [('Location', other.url + '?token=secret')]))
        error = fails(client)
        assert error['message'].startswith('HTTP 307: ') and other.url in error['message']
        assert 'secret' not in str(error)
        assert not other.requests


def test_401_needs_auth(make_daemon):
    with FakeHttp() as server:
        challenge = refuse(401, 'who?', [('WWW-Authenticate', 'Bearer resource_metadata="x"')])
        server.faults.update({'server/discover': challenge, 'initialize': challenge})
        with make_daemon({'web': server.definition()}).client() as client:
            state = client.wait_state('web', 'needs-auth')
            assert '401' in state['lastError']['message']
            assert fails(client)['code'] == -32010


# -- sessions

SESSION_ERROR = '{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}'


@pytest.mark.parametrize('fault, repeated', [
    (refuse(404, SESSION_ERROR), True), (refuse(404), True),
    (refuse(400, '{"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}'), True),
    (refuse(401, SESSION_ERROR), True), (refuse(503, 'unknown session'), False)], ids=range(5))
def test_R30_a_lost_session_is_begun_anew(web, fault, repeated):
    server, client = web(session=True)
    assert client.text('web', 'count') == '1'
    server.once('tools/call', fault)
    call = client.tool('web', 'count').wait()
    if repeated:
        assert call.result['content'][0]['text'] == '2'
    else:
        assert call.error['code'] == -32007 and call.error['data']['maybeExecuted'] is True
    wait_for(lambda: len(server.calls('initialize')) == 2, what='another handshake')
    assert client.text('web', 'count') == ('3' if repeated else '2')


def test_R30_the_servers_restart_is_survived(web):
    server, client = web(session=True)
    assert client.text('web', 'count') == '1'
    server.restart()
    assert client.text('web', 'count', timeoutMs=20000) == '2'
    assert len(server.sessions) == 1


def test_R6_a_call_lost_in_the_middle_is_not_sent_again(web):
    server, client = web(session=True)

    def crash(x):
        server.counter += 1
        x.keep = False
    assert client.text('web', 'count') == '1'
    server.once('tools/call', crash)
    error = fails(client, 'count')
    assert error['data']['maybeExecuted'] is True
    assert server.counter == 2


def test_R7_a_server_that_comes_up_late(make_daemon):
    server = FakeHttp(tools=1)
    server.start()
    server.stop()
    with make_daemon({'web': server.definition()}).client() as client:
        client.wait_state('web', 'reconnecting')
        timer = threading.Timer(1.0, server.start)
        timer.start()
        try:
            assert client.text('web', 'tool0', timeoutMs=20000) == 'tool0 was called'
        finally:
            timer.join()
            server.stop()


# -- the background stream

def test_R33_a_cut_background_stream_is_opened_again(web):
    server, client = web(session=True, tools=1)
    client.subscribe('tools')
    wait_for(lambda: server.listeners)
    server.once('GET', refuse(409, 'one is open already'))
    server.cut_listeners()
    assert client.text('web', 'tool0') == 'tool0 was called'
    wait_for(lambda: len(server.gets()) >= 3 and server.listeners, what='the stream')
    assert len(server.calls('initialize')) == 1
    server.tools = 2
    server.push({'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed'})
    client.wait_event('events/tools')


def test_H11_405_is_silent(web):
    server, client = web(listener=405, tools=1)
    wait_for(server.gets)
    assert client.text('web', 'tool0') == 'tool0 was called'
    assert not client.server('web').get('lastError')
    assert len(server.gets()) == 1


def test_questions_on_any_stream_are_answered_by_POST(web):
    server, client = web(session=True)
    answer = client.text('web', 'ask', {'method': 'ping'})
    assert '"result": {}' in answer and '"id": "q1"' in answer
    wait_for(lambda: server.listeners)
    server.push({'jsonrpc': '2.0', 'id': 99, 'method': 'no/such'})
    wait_for(lambda: [r for r in server.requests if r.id == 99 and r.method is None])
    posted = [r for r in server.requests if r.id == 99][0]
    assert posted.message['error']['code'] == -32601 and posted.headers['mcp-session-id'] in server.sessions


# -- limits: only the one that misbehaves is hurt

def test_endless_bodies_and_slow_dribbles_harm_no_other(make_daemon):
    with FakeHttp() as bad, FakeHttp(tools=1) as good:
        with make_daemon({'web': bad.definition(), 'good': good.definition()},
                         mcpd={'limits': {'maxMessageBytes': 1 << 20}}).client() as client:
            client.wait_state('web', 'connected')
            client.wait_state('good', 'connected')
            bad.once('tools/call', endless(), endless(b'data: {"x":"', stream=True), dribble(0.01),
                     dribble(0.01, stream=True))
            calls = [client.tool('web', 'count', timeoutMs=3000) for _ in range(4)]
            for _ in range(20):
                assert client.text('good', 'tool0') == 'tool0 was called'
            errors = [call.wait().error for call in calls]
            assert sorted(e['code'] for e in errors) == [-32008, -32008, -32004, -32004]
            assert all('maxMessageBytes (1048576)' in e['message'] for e in errors if e['code'] == -32008)
            assert client.text('web', 'count') == '1'


def test_a_flood_of_events_is_bounded_in_memory(make_daemon):
    with FakeHttp() as bad, FakeHttp(tools=1) as good:
        daemon = make_daemon({'web': bad.definition(), 'good': good.definition()})
        with daemon.client() as client:
            client.wait_state('web', 'connected')
            client.wait_state('good', 'connected')
            bad.once('tools/call', flood(200000))
            call = client.tool('web', 'count', timeoutMs=0)
            while not call.done:
                assert client.text('good', 'tool0') == 'tool0 was called'
            assert call.wait(timeout=60).result['content'][0]['text'] == 'flooded'


def test_many_calls_at_once(web):
    server, client = web(stream=True)
    calls = [client.tool('web', 'sleep', {'ms': 200}) for _ in range(64)]
    assert all(call.wait().result for call in calls)


def test_sixteen_clients_of_eight_servers(make_daemon):
    servers = [FakeHttp(stream=n % 2 == 0, session=n % 4 == 1, era='modern' if n % 4 == 3 else 'legacy') for n in range(8)]
    for server in servers:
        server.start()
    try:
        d = make_daemon({'web%d' % n: server.definition() for n, server in enumerate(servers)})
        clients = [d.client() for _ in range(16)]
        for n in range(8):
            clients[0].wait_state('web%d' % n, 'connected')
        calls = [(i, n, c.tool('web%d' % n, 'echo', {'text': '%d of %d' % (i, n)}, timeoutMs=60000))
                 for i, c in enumerate(clients) for n in range(8) for _ in range(4)]
        for i, n, call in calls:
            assert call.wait().result['structuredContent'] == {'text': '%d of %d' % (i, n)}
        assert [len(server.calls('tools/call')) for server in servers] == [64] * 8
    finally:
        for server in servers:
            server.stop()


# -- TLS

def openssl(folder, *args):
    subprocess.run(['openssl', *args], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope='module')
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp('tls')
    openssl(folder, 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'key.pem', '-out', 'cert.pem',
            '-days', '2', '-subj', '/CN=fake', '-addext', 'subjectAltName=IP:127.0.0.1')
    return str(folder / 'cert.pem'), str(folder / 'key.pem')


def test_caFile_and_insecure(make_daemon, certificate):
    with FakeHttp(tls=certificate, tools=1) as server:
        daemon = make_daemon({'trusted': server.definition(caFile=certificate[0]), 'not': server.definition(),
                              'insecure': server.definition(insecure=True)})
        with daemon.client() as client:
            client.wait_state('trusted', 'connected')
            client.wait_state('insecure', 'connected')
            assert client.text('trusted', 'tool0') == client.text('insecure', 'tool0') == 'tool0 was called'
            refused = client.wait_state('not', 'reconnecting', 'failed')
            assert 'certificate is not trusted' in refused['lastError']['message']
        daemon.stderr.wait('insecure')


# -- H13

def test_H13_mcpctl_rpc(make_daemon):
    daemon = make_daemon({}, start=False)
    with FakeHttp(tools=1) as server:
        for stream in False, True:
            server.stream = stream
            done = daemon.mcpctl('rpc', server.url, 'tools/call', '{"name":"tool0","x":1.0}')
            assert done.returncode == 0 and done.stdout.startswith('{"jsonrpc": "2.0", "id": 1, "result": '), done
        assert server.requests[0].body == (b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
                                           b'"params":{"name":"tool0","x":1.0}}')
        envelope = '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}'
        server.faults['x'] = answer_with(envelope)
        assert daemon.mcpctl('rpc', server.url, 'x').stdout == envelope + '\n'
        server.faults['x'] = refuse(404, 'nothing')
        done = daemon.mcpctl('rpc', server.url, 'x')
        assert (done.returncode, done.stdout, done.stderr) == (1, '', 'mcpctl: HTTP 404: nothing\n')
        server.faults['x'] = answer_with('<html>')
        assert 'no JSON' in daemon.mcpctl('rpc', server.url, 'x').stderr
        server.era, server.stream = 'modern', True
        meta = '{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"tool0"}'
        assert '"result"' in daemon.mcpctl('rpc', server.url, 'tools/call', meta).stdout
        headers = server.requests[-1].headers
        assert headers['mcp-protocol-version'] == '2026-07-28'
        assert (headers['mcp-method'], headers['mcp-name']) == ('tools/call', 'tool0')
    done = daemon.mcpctl('rpc', server.url, 'x')
    assert done.returncode == 1 and 'connect' in done.stderr

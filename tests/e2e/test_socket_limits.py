"""Limits of the socket, each by its name, and slow or hostile clients that cost only themselves (house rule 5)."""

import json
import os
import signal
import threading
import time

import pytest
from harness import fake, wait_for
from mcpd_client import Client


def limited(make_daemon, servers=None, **limits):
    return make_daemon(servers or {'fake': fake()}, mcpd={'limits': limits})


def test_limits_are_told_by_status(make_daemon):
    daemon = limited(make_daemon, maxClients=7)
    with daemon.client() as c:
        limits = c.call('daemon/status')['limits']
        assert limits['maxClients'] == 7
        assert limits['clientQueueHardBytes'] == 256 << 20


def test_too_many_clients(make_daemon):
    daemon = limited(make_daemon, maxClients=3)
    clients = [daemon.client() for _ in range(3)]
    for c in clients:
        c.call('daemon/status')
    with daemon.client() as c:
        error = c.wait_orphan()
        assert error['code'] == -32009 and error['data'] == {'limit': 'maxClients', 'value': 3}
        c.wait_eof()
    clients[0].close()
    wait_for(lambda: clients[1].call('daemon/status')['clients'] == 2)
    with daemon.client() as c:
        assert c.call('daemon/status')['clients'] == 3


def test_too_many_requests_of_one_client(make_daemon):
    daemon = limited(make_daemon, maxRequestsPerClient=5)
    with daemon.client() as c, daemon.client() as other:
        slow = [c.tool('fake', 'sleep', {'ms': 500}) for _ in range(5)]
        error = c.fails('daemon/status')
        assert error.code == -32009 and error.data == {'limit': 'maxRequestsPerClient', 'value': 5}
        assert other.call('daemon/status')['inFlight'] == 5
        for call in slow:
            call.wait()
        assert c.call('daemon/status')['inFlight'] == 0


def test_too_many_requests_to_one_server(make_daemon):
    daemon = limited(make_daemon, {'fake': fake(), 'other': fake()}, maxRequestsPerServer=3)
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        slow = [c.tool('fake', 'sleep', {'ms': 600}) for _ in range(3)]
        error = c.tool('fake', 'tool0').wait().error
        assert error['code'] == -32009
        assert (error['data']['limit'], error['data']['value']) == ('maxRequestsPerServer', 3)
        assert c.tool('other', 'tool0').wait().result       # a slow server slows only its own askers
        for call in slow:
            assert call.wait().result


def test_too_many_subscriptions(make_daemon):
    daemon = limited(make_daemon, {'fake': fake(resources=3)}, maxSubscriptionsPerClient=2)
    with daemon.client() as c:
        c.subscribe('logs')
        c.subscribe('logs')         # the same again is none more
        c.call('mcp/request', {'server': 'fake', 'method': 'resources/subscribe', 'params': {'uri': 'fake://r0'}})
        for method, params in (('mcp/request', {'server': 'fake', 'method': 'resources/subscribe',
                                                'params': {'uri': 'fake://r1'}}),
                               ('events/subscribe', {'topics': ['tools']})):
            error = c.fails(method, params)
            assert error.code == -32009 and error.data == {'limit': 'maxSubscriptionsPerClient', 'value': 2}
        c.call('events/unsubscribe', {'topics': ['logs']})
        c.subscribe('tools')


def nested(depth):
    """JSON that is this deep."""
    return b'[' * depth + b']' * depth


def test_nesting(make_daemon):
    daemon = limited(make_daemon, maxNesting=20)
    deep = {'limit': 'maxNesting', 'value': 20}
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        # params, arguments, x and the message itself are levels too.
        line = b'{"server":"fake","name":"echo","arguments":{"x":%s}}'
        echoed = c.request_raw('tools/call', line % nested(17)).wait()
        assert echoed.raw_result('structuredContent', 'x') == nested(17)
        error = c.request_raw('tools/call', line % nested(18)).wait().error
        assert error['code'] == -32009 and error['data'] == deep and 'maxNesting' in error['message']
        # Where the id comes behind, or there is none, nobody is named.
        c.send_bytes(b'{"jsonrpc":"2.0","method":"daemon/hello","params":{"x":%s},"id":7}\n' % nested(30))
        assert c.wait_orphan()['data'] == deep
        c.send_bytes(nested(5000) + b'\n')
        assert c.wait_orphan()['data'] == deep
        # A server's answer fails its own call.
        answer = '{"jsonrpc":"2.0","id":$ID,"result":{"x":%s}}'
        fine = c.tool('fake', 'raw', {'lines': [answer % nested(18).decode()]}).wait()
        assert fine.raw_result('x') == nested(18)
        error = c.tool('fake', 'raw', {'lines': [answer % nested(19).decode()]}).wait().error
        assert error['code'] == -32008 and 'maxNesting (20 levels)' in error['message']
        assert c.text('fake', 'text', {'text': 'alive'}) == 'alive'


def test_nesting_of_an_mcp_client(make_daemon):
    daemon = limited(make_daemon, maxNesting=20)
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        c.mcp_attach('fake')
        c.request('initialize', {'protocolVersion': '2025-11-25', 'capabilities': {},
                                 'clientInfo': {'name': 'x', 'version': '1'}}).wait()
        line = b'{"name":"echo","arguments":{"x":%s}}'
        assert c.request_raw('tools/call', line % nested(17)).wait().raw_result('structuredContent', 'x') == nested(17)
        error = c.request_raw('tools/call', line % nested(18)).wait().error
        assert error['code'] == -32603
        assert error['data']['mcpd'] == {'code': -32009, 'limit': 'maxNesting', 'value': 20}


def test_a_slow_clients_events_are_dropped_and_counted(make_daemon):
    daemon = make_daemon({'fake': fake()}, mcpd={'limits': {'clientQueueSoftBytes': 65536}, 'logLevel': 'warning'})
    slow, quick = daemon.client(), daemon.client()
    slow.subscribe('logs')
    quick.subscribe('logs')
    lines, got = 4000, []
    with daemon.client() as c:
        for _ in range(40):
            c.tool('fake', 'stderr', {'bytes': lines // 40 * 100}).wait()
            wait_for(lambda: got.extend(quick.take_events('events/log')) or len(got) % (lines // 40) == 0)
    # The one that reads gets each of them.
    assert [e['text'] for e in got] == ['x' * 99] * lines
    assert slow.call('daemon/status')['clients'] == 2       # its request is read once it has read
    dropped = sum(e['count'] for e in slow.take_events('events/dropped'))
    assert dropped > 0
    assert len(slow.take_events('events/log')) + dropped == lines


def test_a_clients_requests_are_not_read_while_it_does_not_read(make_daemon):
    daemon = limited(make_daemon, clientQueueSoftBytes=65536)
    with daemon.client() as c, daemon.client() as other:
        other.wait_state('fake', 'connected')
        calls = [c.tool('fake', 'bytes', {'size': 1 << 20})]

        def served():
            return other.tool('fake', 'report').wait().result['structuredContent']['methods']['tools/call']
        wait_for(lambda: served() > 1 and other.call('daemon/status')['inFlight'] == 0, what='the first answer')
        before = served()
        # It is far over the soft limit, and more than the socket takes: nothing more is read.
        calls += [c.tool('fake', 'bytes', {'size': 1 << 20}) for _ in range(64)]
        for i in range(20):
            assert other.text('fake', 'text', {'text': 'quick'}) == 'quick'
        assert served() == before + 20 + 1
        for call in calls:
            assert len(call.wait().result['content'][0]['text']) == 1 << 20


def test_past_the_hard_limit_a_client_is_disconnected(make_daemon):
    daemon = limited(make_daemon, clientQueueHardBytes=1 << 20, maxMessageBytes=1 << 20)
    with daemon.client() as c, daemon.client() as other:
        other.wait_state('fake', 'connected')
        for i in range(40):
            c.send_json({'jsonrpc': '2.0', 'id': i, 'method': 'tools/call', 'params': {
                'server': 'fake', 'name': 'bytes', 'arguments': {'size': 400000}}})
        daemon.stderr.wait('clientQueueHardBytes')
        wait_for(lambda: other.call('daemon/status')['clients'] == 1)
        assert other.text('fake', 'text', {'text': 'unharmed'}) == 'unharmed'
        c._line = lambda line: None
        c.wait_eof()


def test_a_client_that_reads_nothing_is_disconnected_after_its_grace_period(make_daemon):
    daemon = limited(make_daemon, clientQueueSoftBytes=65536, clientQueueGraceMs=500)
    with daemon.client() as c, daemon.client() as reading, daemon.client() as other:
        other.wait_state('fake', 'connected')
        pieces, stop = [], threading.Event()

        def read_slowly():
            while not stop.wait(0.05):
                pieces.append(len(reading.sock.recv(4096)))
        for client in (c, reading):
            client.tool('fake', 'bytes', {'size': 2 << 20})
        slow = threading.Thread(target=read_slowly)
        slow.start()
        try:
            line = daemon.stderr.wait(r'client #(\d+): disconnected, it has read nothing for 500 ms '
                                      r'\(clientQueueGraceMs\) and (\d+) bytes are waiting for it')
            assert int(line[2]) > 65536
            wait_for(lambda: other.call('daemon/status')['clients'] == 2)
            before = len(pieces)
            wait_for(lambda: len(pieces) > before + 30)         # three times the grace period
            assert other.call('daemon/status')['clients'] == 2 and pieces[-1] > 0
        finally:
            stop.set()
            slow.join()
        assert other.text('fake', 'text', {'text': 'unharmed'}) == 'unharmed'
        c._line = lambda line: None
        c.wait_eof()


def test_a_server_that_does_not_read_costs_only_its_askers(make_daemon):
    daemon = limited(make_daemon, {'fake': fake(), 'other': fake()}, serverQueueBytes=1 << 20, maxMessageBytes=1 << 20)
    with daemon.client() as c:
        pid = c.wait_state('fake', 'connected')['pid']
        os.kill(pid, signal.SIGSTOP)
        try:
            calls = [c.tool('fake', 'text', {'text': 'x' * 400000}, timeoutMs=0) for _ in range(6)]
            assert c.text('other', 'text', {'text': 'unharmed'}) == 'unharmed'
            c.wait_until(lambda: any(call.message for call in calls), what='a refusal')
        finally:
            os.kill(pid, signal.SIGCONT)
        answers = [call.wait() for call in calls]
        refused = [a.error for a in answers if a.error]
        assert 1 <= len(refused) <= 4
        for error in refused:
            assert error['code'] == -32009
            assert (error['data']['limit'], error['data']['value']) == ('serverQueueBytes', 1 << 20)
            assert 'maybeExecuted' not in error['data']
        assert c.text('fake', 'text', {'text': 'again'}) == 'again'


def test_R2_clients_coming_and_going_never_touch_a_server(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        pid = c.wait_state('fake', 'connected')['pid']
        wait_for(lambda: c.call('daemon/status')['clients'] == 1)
        descriptors = len(daemon.descriptors())
        for i in range(1000):
            client = Client(daemon.socket)
            if i % 3 == 0:
                client.request('servers/list')
            if i % 5 == 0:
                client.tool('fake', 'tool0')
            if i % 7 == 0:
                client.subscribe('servers', 'logs')
            client.close()
        server = c.server('fake')
        assert server['state'] == 'connected' and server['pid'] == pid
        assert [h['state'] for h in server['history']].count('connected') == 1
        wait_for(lambda: c.call('daemon/status')['clients'] == 1)
        wait_for(lambda: len(daemon.descriptors()) == descriptors, what='all descriptors to be closed')


def test_rubbish_costs_only_its_sender(make_daemon):
    daemon = make_daemon({'fake': fake()})
    stop = threading.Event()

    def hostile(data):
        while not stop.is_set():
            try:
                with Client(daemon.socket) as c:
                    c.send_bytes(data)
                    c.sock.settimeout(0.05)
                    while c.sock.recv(1 << 16):
                        pass
            except (OSError, TimeoutError):
                pass

    kinds = [b'\x00' * 5000, b'{' * 100000, b'[' * 500 + b'\n', b'\n' * 20000, os.urandom(100000),
             b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"server":"fake","name":"hang"}}\n' * 50]
    threads = [threading.Thread(target=hostile, args=(k,)) for k in kinds]
    for t in threads:
        t.start()
    try:
        with daemon.client() as c:
            for i in range(200):
                assert c.text('fake', 'text', {'text': str(i)}) == str(i)
    finally:
        stop.set()
        for t in threads:
            t.join()


def test_a_busy_client_does_not_starve_the_others(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as busy, daemon.client() as c:
        c.wait_state('fake', 'connected')
        line = json.dumps({'jsonrpc': '2.0', 'id': 0, 'method': 'no/such'}).encode() + b'\n'
        busy._line = lambda line: None
        sender = threading.Thread(target=lambda: busy.send_bytes(line * 200000), daemon=True)
        sender.start()
        for _ in range(50):
            started = time.monotonic()
            c.call('daemon/status')
            assert time.monotonic() - started < 20
            busy.pump(0)
        while sender.is_alive():
            busy.pump(0.1)


@pytest.mark.parametrize('n', [50])
def test_R20_R21_same_ids_and_tokens_from_many_clients(make_daemon, n):
    """50 clients, the same ids and progress tokens, random delays: every answer and every progress to its own asker."""
    daemon = make_daemon({'fake': fake()})
    clients = [daemon.client() for _ in range(n)]
    pending = []
    for i, c in enumerate(clients):
        pending.append((c, i, c.tool('fake', 'progress', {'steps': 2, 'ms': (i * 7) % 50, 'message': 'c%d' % i}, id=1,
                                     _meta={'progressToken': 1}),
                        c.tool('fake', 'sleep', {'ms': (i * 13) % 60, 'text': 's%d' % i}, id='2')))
    for c, i, progress, sleep in pending:
        assert sleep.wait().result['content'][0]['text'] == 's%d' % i
        progress.wait()
        events = c.take_events('notifications/progress')
        assert [e['progressToken'] for e in events] == [1, 1]
        assert {e['message'] for e in events} == {'c%d' % i}
        assert not c.events

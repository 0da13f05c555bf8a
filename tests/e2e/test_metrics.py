"""daemon/metrics: what was done is what is counted, in both formats."""

import json
import os
import re
import signal
import socket

import prometheus
import pytest
from harness import ROOT, fake, wait_for
from mcp_session import Session, modern, wait_connected
from mcpd_client import Client, RpcError
from servers.fake_http import FakeHttp

SECRET = 'payload-0c5e71'


class Metrics:
    """What one daemon/metrics told, as JSON."""

    def __init__(self, client):
        self.all = client.call('daemon/metrics')['metrics']

    def samples(self, name, **labels):
        return [s for s in self.all[name]['samples'] if labels.items() <= s['labels'].items()]

    def value(self, name, **labels):
        """The sum over the samples with these labels; 0 if there are none."""
        return sum(s['value'] for s in self.samples(name, **labels))

    def histogram(self, name, **labels):
        found = self.samples(name, **labels)
        assert len(found) == 1, found
        return found[0]

    def calls(self, **labels):
        """{(client, outcome): n} of the samples with these labels."""
        return {(s['labels']['client'], s['labels']['outcome']): s['value'] for s in self.samples('mcpd_calls_total', **labels)}


def documented():
    """name -> (type, labels) of the table in PROTOCOL.md."""
    text = (ROOT / 'proto' / 'PROTOCOL.md').read_text()
    return {m[1]: (m[2], re.findall(r'\w+', m[3])) for m in
            re.finditer(r'(?m)^\| `(mcpd_\w+)` \| (\w+) \| ([^|]*)\| ', text)}


def fails(pending, code):
    assert pending.wait().error['code'] == code, pending.raw


# -- formats

def test_both_formats_are_as_documented_and_say_the_same(make_daemon):
    d = make_daemon({'one': fake(), 'odd "name"\\': fake(server={'lazy': True})}, mcpd={'limits': {'maxClientNames': 2}})
    with d.client(name='say "hi"\\\n\t{x="1"} \u00e9\u2028') as c, d.client(name='b') as b, d.client() as e:
        c.text('one', 'text', {'text': SECRET})
        b.text('one', 'text', {'text': 'x'})
        fails(c.tool('one', 'error'), -32006)
        c.text('odd "name"\\', 'text', {'text': 'x'})
        told = e.call('daemon/metrics')['metrics']
        text = e.call('daemon/metrics', {'format': 'prometheus'})
        assert list(text) == ['text']
        families = prometheus.parse(text['text'])
    table = documented()
    assert list(families) == list(told) == list(table) and len(table) > 30
    moving = {'mcpd_uptime_seconds', 'mcpd_cpu_seconds_total', 'mcpd_resident_memory_bytes', 'mcpd_control_requests_total',
              'mcpd_client_received_bytes_total', 'mcpd_client_sent_bytes_total', 'mcpd_client_unsent_bytes'}
    for name, family in families.items():
        kind, labels = table[name]
        assert family.type == told[name]['type'] == kind and family.help == told[name]['help']
        as_json = {}
        for sample in told[name]['samples']:
            assert list(sample['labels']) == labels
            key = frozenset(sample['labels'].items())
            assert key not in as_json
            if kind == 'histogram':
                as_json[key] = prometheus.Histogram()
                as_json[key].buckets = sample['buckets']
                as_json[key].sum, as_json[key].count = sample['sum'], sample['count']
            else:
                as_json[key] = sample['value']
        if name in moving:
            assert list(as_json) == list(family.samples)
            if kind == 'counter' or 'uptime' in name:
                assert all(family.samples[key] >= value for key, value in as_json.items()), name
        else:
            assert as_json == family.samples, name
    client = 'say "hi"\\  {x="1"} \u00e9\u2028'
    assert families['mcpd_calls_total'].samples[frozenset({
        ('server', 'odd "name"\\'), ('client', client), ('outcome', 'ok')})] == 1
    assert SECRET not in text['text'] and SECRET not in json.dumps(told)


def test_a_wrong_format_is_refused(make_daemon):
    with make_daemon().client() as c:
        for wrong in ('xml', '', 5, None, ['json']):
            error = c.fails('daemon/metrics', {'format': wrong})
            assert error.code == -32602 and '`format` must be "json" or "prometheus"' == error.message


def test_nothing_private_is_told(make_daemon):
    d = make_daemon({'fake': fake(server={'env': {'TOKEN': SECRET}, 'description': SECRET})})
    with d.client(name='agent', cwd='/' + SECRET) as c:
        c.tool('fake', 'echo', {'x': SECRET}).wait().result
        c.text('fake', 'stderr', {'text': SECRET + '\n'})
        c.call('mcp/request', {'server': 'fake', 'method': 'ping', 'params': {'x': SECRET}})
        fails(c.request('mcp/request', {'server': 'fake', 'method': SECRET}), -32006)
        fails(c.tool('fake', 'error', {'message': SECRET, 'data': SECRET}), -32006)
        fails(c.request('tools/call', {'server': SECRET, 'name': 'x'}), -32001)
        fails(c.request(SECRET), -32601)
        assert SECRET not in json.dumps(Metrics(c).all)
        assert SECRET not in c.call('daemon/metrics', {'format': 'prometheus'})['text']


# -- calls

def test_every_end_of_a_call_is_counted_once(make_daemon):
    d = make_daemon({'fake': fake(), 'off': fake(server={'enabled': False}), 'gone': {'command': '/no/such/program'}})
    with d.client(name='agent') as c, d.client(name='agent') as twin, d.client(name='other agent') as other, \
            d.client() as unnamed:
        for _ in range(7):
            c.text('fake', 'text', {'text': 'x'})
        twin.text('fake', 'text', {'text': 'x'})
        unnamed.text('fake', 'text', {'text': 'x'})
        c.tool('fake', 'toolError').wait().result           # the tool's own trouble is an answer
        for _ in range(3):
            fails(c.tool('fake', 'error'), -32006)
        fails(other.tool('fake', 'hang', timeoutMs=50), -32004)
        hanging = [other.tool('fake', 'hang') for _ in range(2)]
        for call in hanging:
            other.notify('notifications/cancelled', {'requestId': call.id})
        for call in hanging:
            fails(call, -32005)
        for method in ('ping', 'resources/list', 'made/up'):
            other.request('mcp/request', {'server': 'fake', 'method': method}).wait()
        fails(c.tool('off', 'x'), -32002)
        wait_for(lambda: c.server('gone')['state'] == 'failed')
        fails(c.tool('gone', 'x'), -32002)
        twin.tool('fake', 'hang')
        twin.call('daemon/status')
        twin.close()
        wait_for(lambda: Metrics(c).value('mcpd_calls_total', server='fake', outcome='client-gone') == 1)
        fails(c.tool('fake', 'crash'), -32003)
        m = Metrics(c)
        expected = {
            ('agent', 'ok'): 9, ('agent', 'error'): 3, ('agent', 'closed'): 1, ('agent', 'client-gone'): 1,
            ('unnamed', 'ok'): 1, ('other agent', 'timeout'): 1, ('other agent', 'cancelled'): 2,
            ('other agent', 'ok'): 2, ('other agent', 'error'): 1,
        }
        assert m.calls(server='fake') == expected
        assert m.calls(server='off') == m.calls(server='gone') == {('agent', 'unavailable'): 1}
        methods = {(s['labels']['method'], s['labels']['outcome']): s['value']
                   for s in m.samples('mcpd_method_calls_total', server='fake')}
        assert methods == {('tools/call', 'ok'): 10, ('tools/call', 'error'): 3, ('tools/call', 'timeout'): 1,
                           ('tools/call', 'cancelled'): 2, ('tools/call', 'closed'): 1, ('tools/call', 'client-gone'): 1,
                           ('ping', 'ok'): 1, ('resources/list', 'ok'): 1, ('other', 'error'): 1}
        # Every call has its duration, and those that were sent have waited before.
        for client in ('agent', 'other agent', 'unnamed'):
            assert m.histogram('mcpd_call_duration_seconds', server='fake', client=client)['count'] == \
                sum(n for (name, _), n in expected.items() if name == client)
        assert m.histogram('mcpd_call_wait_seconds', server='fake')['count'] == sum(expected.values())
        assert m.histogram('mcpd_call_wait_seconds', server='off')['count'] == 0
        assert m.value('mcpd_control_requests_total', method='tools/call') == \
            sum(m.value('mcpd_calls_total', server=s, client=name) for s in ('fake', 'off', 'gone')
                for name in ('agent', 'other agent', 'unnamed')) - 3
        assert m.value('mcpd_control_requests_total', method='mcp/request') == 3


def test_how_long_calls_took_and_waited(make_daemon):
    d = make_daemon({'slow': fake(initializeDelayMs=300, server={'lazy': True})})
    with d.client(name='agent') as c:
        c.text('slow', 'text', {'text': 'x'})               # waits for the start
        c.text('slow', 'sleep', {'ms': 600})
        m = Metrics(c)
        took = m.histogram('mcpd_call_duration_seconds', server='slow', client='agent')
        waited = m.histogram('mcpd_call_wait_seconds', server='slow')
        assert took['count'] == waited['count'] == 2
        assert took['buckets']['0.25'] == 0 and took['buckets']['0.5'] <= 1 and took['buckets']['+Inf'] == 2
        assert took['sum'] >= 0.9 and 0.3 <= waited['sum'] <= took['sum'] - 0.6
        assert waited['buckets']['0.25'] == 1               # the second did not wait


def test_what_is_under_way(make_daemon):
    d = make_daemon({'fake': fake(), 'late': fake(initialize='ignore', server={'lazy': True}),
                     'desk': fake(server={'sharing': 'exclusive'})})
    with d.client(name='agent') as c, d.client(name='agent') as second, d.client() as watcher:
        calls = [c.tool('fake', 'hang') for _ in range(3)] + [c.tool('late', 'x') for _ in range(2)]
        c.text('desk', 'text', {'text': 'mine'})
        second.tool('desk', 'text', {'text': 'x'})
        second.tool('desk', 'text', {'text': 'x'})
        second.call('daemon/status')
        c.call('daemon/status')
        m = Metrics(watcher)
        assert m.value('mcpd_calls_in_flight', server='fake') == 3 and m.value('mcpd_calls_waiting', server='fake') == 0
        assert m.value('mcpd_calls_in_flight', server='late') == 0 and m.value('mcpd_calls_waiting', server='late') == 2
        assert m.value('mcpd_server_queue_clients', server='desk') == 1
        assert m.value('mcpd_calls_waiting', server='desk') == 2
        assert m.value('mcpd_server_up', server='fake') == 1 and m.value('mcpd_server_up', server='late') == 0
        assert m.value('mcpd_servers', state='connecting') == 1 and m.value('mcpd_servers', state='connected') == 2
        assert m.value('mcpd_servers') == 3
        assert m.value('mcpd_clients', client='agent') == 2 and m.value('mcpd_clients', client='unnamed') == 1
        assert m.value('mcpd_client_connections_total') == 3
        for call in calls:
            c.notify('notifications/cancelled', {'requestId': call.id})
        for call in calls:
            fails(call, -32005)
        c.call('servers/release', {'server': 'desk'})
        wait_for(lambda: Metrics(watcher).value('mcpd_calls_total', server='desk', outcome='ok') == 3)
        c.close()
        wait_for(lambda: Metrics(watcher).value('mcpd_clients', client='agent') == 1)
        m = Metrics(watcher)
        assert m.value('mcpd_calls_in_flight') == m.value('mcpd_calls_waiting') == m.value('mcpd_server_queue_clients') == 0


def test_clients_that_speak_mcp(make_daemon):
    """They are counted by the name in their clientInfo; what the daemon answers itself is no call."""
    d = make_daemon({'fake': fake(), 'new': fake(era='modern')}, mcpd={'limits': {'maxRequestsPerClient': 2}})
    wait_connected(d, 'fake', 'new')
    with d.client() as c:
        old = Session(d.socket, 'fake', client={'name': 'bridge'})
        wait_for(lambda: Metrics(c).value('mcpd_clients', client='bridge') == 1)
        old.initialize(name='editor')
        young = modern(d, name='agent')
        old.tool_text('text', {'text': SECRET})
        young.tool_text('fake__text', {'text': SECRET})
        young.tool_text('new__text', {'text': SECRET})
        old.call('tools/list')
        old.call('ping')
        fails(old.request('made/up', {}), -32601)
        hanging = [old.call_tool('hang') for _ in range(2)]
        assert old.call_tool('hang').wait().error['data']['mcpd']['limit'] == 'maxRequestsPerClient'
        m = Metrics(c)
        assert m.calls(server='fake') == {('editor', 'ok'): 1, ('editor', 'error'): 1, ('agent', 'ok'): 1}
        assert m.calls(server='new') == {('agent', 'ok'): 1}
        assert m.value('mcpd_calls_in_flight', server='fake') == 2
        assert m.value('mcpd_clients', client='editor') == m.value('mcpd_clients', client='agent') == 1
        assert m.value('mcpd_clients', client='bridge') == 0
        requests = {s['labels']['method']: s['value'] for s in m.samples('mcpd_mcp_requests_total')}
        assert requests == {'initialize': 1, 'server/discover': 1, 'tools/call': 5, 'tools/list': 1, 'ping': 1, 'other': 1}
        assert m.value('mcpd_control_requests_total', method='mcp/attach') == 2
        assert m.value('mcpd_limit_hits_total', limit='maxRequestsPerClient') == 1
        assert SECRET not in json.dumps(m.all)
        del hanging
        old.close()
        wait_for(lambda: Metrics(c).calls(server='fake').get(('editor', 'client-gone')) == 2)
        assert SECRET not in d.stderr.text


def test_M6_a_call_that_was_sent_twice(make_daemon, tmp_path):
    state = str(tmp_path / 'state')
    d = make_daemon({'fake': fake(state=state, exitAt={'when': 'tools/call', 'signal': 9}, exitTimes=1,
                                  server={'retrySafe': ['count']})})
    with d.client() as c:
        c.text('fake', 'count')
        m = Metrics(c)
        assert m.value('mcpd_calls_resent_total', server='fake') == 1
        assert m.calls(server='fake') == {('unnamed', 'ok'): 1}
        assert m.histogram('mcpd_call_wait_seconds', server='fake')['count'] == 1


# -- servers

def server_counts(c, server):
    m = Metrics(c)
    return {name: int(m.value('mcpd_server_%s_total' % name, server=server))
            for name in ('starts', 'connects', 'connect_failures', 'losses', 'restarts', 'breaker_openings')}


def test_starts_losses_and_restarts(make_daemon):
    d = make_daemon({'fake': fake()})
    with d.client() as c:
        c.text('fake', 'text', {'text': 'x'})
        assert server_counts(c, 'fake') == {'starts': 1, 'connects': 1, 'connect_failures': 0, 'losses': 0, 'restarts': 0,
                                            'breaker_openings': 0}
        fails(c.tool('fake', 'crash'), -32003)
        c.text('fake', 'text', {'text': 'x'})               # on the next connection
        os.kill(c.server('fake')['pid'], signal.SIGKILL)
        wait_for(lambda: server_counts(c, 'fake')['restarts'] == 2)
        # By hand is no restart.
        c.call('servers/reconnect', {'server': 'fake'})
        assert server_counts(c, 'fake') == {'starts': 4, 'connects': 4, 'connect_failures': 0, 'losses': 2, 'restarts': 2,
                                            'breaker_openings': 0}
        assert Metrics(c).value('mcpd_server_connections', server='fake') == 1


def test_M5_failures_and_the_breaker(make_daemon):
    d = make_daemon({'bad': fake(exitAt={'when': 'start', 'status': 5}), 'none': {'command': '/no/such/program'}})
    with d.client() as c:
        c.wait_state('bad', 'failed')
        c.wait_state('none', 'failed')
        counts = server_counts(c, 'bad')
        assert counts['connect_failures'] == 6 and counts['breaker_openings'] == 1 and counts['starts'] >= 6
        assert counts['connects'] == counts['losses'] == counts['restarts'] == 0
        # What cannot be started is given up at once.
        assert server_counts(c, 'none') == {'starts': 1, 'connects': 0, 'connect_failures': 1, 'losses': 0, 'restarts': 0,
                                            'breaker_openings': 0}
        assert Metrics(c).value('mcpd_servers', state='failed') == 2


def test_what_servers_say(make_daemon):
    d = make_daemon({'fake': fake(noise=['chatter'], server={'sharing': 'per-client'})})
    with d.client(hello=True, capabilities={'roots': {}}) as c:
        c.on_request = lambda client, question: client.respond(question, {'roots': []})
        c.text('fake', 'stderr', {'text': 'one\ntwo'})
        c.tool('fake', 'notify', {'method': 'notifications/x', 'times': 5}).wait()
        c.tool('fake', 'ask', {'method': 'roots/list'}).wait()
        c.tool('fake', 'progress', {'steps': 3}, _meta={'progressToken': 1}).wait()
        wait_for(lambda: Metrics(c).value('mcpd_server_stderr_lines_total', server='fake') == 2)
        m = Metrics(c)
        assert m.value('mcpd_server_noise_lines_total', server='fake') >= 4
        assert m.value('mcpd_server_notifications_total', server='fake') == 5
        assert m.value('mcpd_server_questions_total', server='fake') == 1
        assert m.value('mcpd_server_tools', server='fake') == 1


def test_a_server_takes_its_numbers_with_it(make_daemon):
    d = make_daemon({'a': fake(), 'b': fake()})
    with d.client() as c:
        c.text('a', 'text', {'text': 'x'})
        c.text('b', 'text', {'text': 'x'})
        d.write_config({'a': fake(tools=2)})                # another definition of a, b is gone
        c.call('daemon/reload')
        c.text('a', 'text', {'text': 'x'})
        m = Metrics(c)
        assert m.calls(server='a') == {('unnamed', 'ok'): 2} and m.value('mcpd_server_starts_total', server='a') == 2
        assert not [name for name in m.all if m.samples(name, server='b')]
        assert m.value('mcpd_reloads_total', result='ok') == 1
        d.write_config({'a': fake(tools=2), 'b': fake()})
        c.call('daemon/reload')
        c.wait_state('b', 'connected')
        m = Metrics(c)
        assert m.calls(server='b') == {} and m.value('mcpd_server_starts_total', server='b') == 1
        d.write_config_text('{ broken')
        c.call('daemon/reload')
        m = Metrics(c)
        assert m.value('mcpd_reloads_total', result='ok') == 2 and m.value('mcpd_reloads_total', result='failed') == 1


# -- bytes

def test_bytes_to_and_from_a_stdio_server(make_daemon, tmp_path):
    """Exactly those that its record has, over two of its lives; what it writes is a little more than what was asked for."""
    record = tmp_path / 'record'
    d = make_daemon({'fake': fake(record=str(record))})
    with d.client() as c:
        c.text('fake', 'bytes', {'size': 1 << 20})
        c.call('servers/reconnect', {'server': 'fake'})
        c.text('fake', 'bytes', {'size': 1 << 20})
        c.text('fake', 'text', {'text': 'x' * 200000})
        sent = wait_for(lambda: record.read_bytes().count(b'\n') >= 9 and record.stat().st_size, what='the record')
        m = Metrics(c)
        assert m.value('mcpd_server_sent_bytes_total', server='fake') == sent
        assert 2 << 20 <= m.value('mcpd_server_received_bytes_total', server='fake') - 200000 < (2 << 20) + 20000
        assert m.value('mcpd_server_unsent_bytes', server='fake') == 0


def test_bytes_that_a_server_does_not_take(make_daemon):
    d = make_daemon({'fake': fake()})
    with d.client() as c:
        pid = c.wait_state('fake', 'connected')['pid']
        before = Metrics(c).value('mcpd_server_sent_bytes_total', server='fake')
        os.kill(pid, signal.SIGSTOP)
        call = c.tool('fake', 'text', {'text': 'x' * 1000000})
        m = Metrics(c)
        unsent = m.value('mcpd_server_unsent_bytes', server='fake')
        sent = m.value('mcpd_server_sent_bytes_total', server='fake') - before
        assert unsent > 500000 and 1000000 < unsent + sent < 1001000
        os.kill(pid, signal.SIGCONT)
        call.wait().result
        assert Metrics(c).value('mcpd_server_unsent_bytes', server='fake') == 0


def test_bytes_to_and_from_an_http_server(make_daemon):
    with FakeHttp(listener=405) as server:
        d = make_daemon({'web': server.definition()})
        with d.client() as c:
            c.tool('web', 'echo', {'x': 'y' * 100000}).wait().result
            m = Metrics(c)
            sent = sum(len(r.body) for r in server.requests)
            assert sent > 100000 and m.value('mcpd_server_sent_bytes_total', server='web') == sent
            assert 100000 < m.value('mcpd_server_received_bytes_total', server='web') < 110000
            assert m.calls(server='web') == {('unnamed', 'ok'): 1}
            assert m.value('mcpd_server_starts_total', server='web') == 1


class Counting(socket.socket):
    """Counts what passes."""
    sent = received = 0

    def sendall(self, data, *more):
        super().sendall(data, *more)
        self.sent += len(data)

    def recv(self, *more):
        data = super().recv(*more)
        self.received += len(data)
        return data


def test_bytes_to_and_from_clients_by_name(make_daemon):
    """Exact, over connections that have ended and those that are there; a name that comes late keeps what was before."""
    d = make_daemon({'fake': fake()})
    sent = received = 0
    with d.client() as watcher:
        for _ in range(3):
            c = Client(d.socket)
            c.sock = Counting(fileno=c.sock.detach())
            c.hello('agent')
            c.text('fake', 'text', {'text': 'x' * 100000})
            c.close()
            sent, received = sent + c.sock.sent, received + c.sock.received
        c = Client(d.socket)
        c.sock = Counting(fileno=c.sock.detach())
        c.hello('agent')
        c.text('fake', 'text', {'text': 'y' * 50000})
        sent, received = sent + c.sock.sent, received + c.sock.received
        wait_for(lambda: Metrics(watcher).value('mcpd_clients', client='agent') == 1)
        m = Metrics(watcher)
        assert m.value('mcpd_client_received_bytes_total', client='agent') == sent
        assert m.value('mcpd_client_sent_bytes_total', client='agent') == received
        # What was counted for a name stays with it.
        c.hello('renamed')
        c.call('daemon/status')
        m = Metrics(watcher)
        assert m.value('mcpd_client_received_bytes_total', client='agent') == sent
        assert 0 < m.value('mcpd_client_received_bytes_total', client='renamed') < 1000
        c.close()


def test_events_that_a_slow_client_loses(make_daemon):
    d = make_daemon({'fake': fake()}, mcpd={'limits': {'clientQueueSoftBytes': 65536}, 'logLevel': 'warning'})
    with d.client(name='slow') as slow, d.client(name='quick') as c:
        slow.subscribe('logs')
        for _ in range(40):
            c.tool('fake', 'stderr', {'bytes': 100 * 100}).wait()
        wait_for(lambda: Metrics(c).value('mcpd_server_stderr_lines_total', server='fake') == 4000)
        m = Metrics(c)
        dropped = m.value('mcpd_client_events_dropped_total', client='slow')
        assert dropped > 0 and m.value('mcpd_client_events_dropped_total') == dropped
        assert m.value('mcpd_client_unsent_bytes', client='slow') > 65536
        assert m.value('mcpd_limit_hits_total', limit='clientQueueSoftBytes') >= 1
        slow.call('daemon/status')
        assert sum(e['count'] for e in slow.take_events('events/dropped')) == dropped
        assert Metrics(c).value('mcpd_client_unsent_bytes', client='slow') == 0


# -- limits

def test_limits_that_were_reached(make_daemon):
    d = make_daemon({'fake': fake()}, mcpd={'limits': {
        'maxRequestsPerClient': 2, 'maxRequestsPerServer': 3, 'maxSubscriptionsPerClient': 1, 'maxClients': 4,
        'maxClientNames': 2, 'maxMessageBytes': 4096}})
    with d.client(name='a') as a, d.client(name='b') as b, d.client(name='c') as c:
        assert a.call('daemon/metrics')['metrics']['mcpd_limit_hits_total']['samples'] == [
            {'labels': {'limit': 'maxClientNames'}, 'value': 1}]
        a.subscribe('logs')
        assert a.fails('events/subscribe', {'topics': ['tools']}).data['limit'] == 'maxSubscriptionsPerClient'
        calls = [a.tool('fake', 'hang'), a.tool('fake', 'hang')]
        fails(a.request('daemon/status'), -32009)
        fails(a.request('daemon/status'), -32009)
        calls.append(b.tool('fake', 'hang'))
        b.call('daemon/status')
        assert c.tool('fake', 'text').wait().error['data']['limit'] == 'maxRequestsPerServer'
        last = Client(d.socket)
        last.send_bytes(b'{"x":"%s"}\n' % (b'x' * 5000))
        assert last.wait_orphan()['code'] == -32600
        last.wait_eof()
        last.close()
        wait_for(lambda: b.call('daemon/status')['clients'] == 3)
        with d.client(name='d'):
            refused = Client(d.socket)
            assert refused.wait_orphan()['data']['limit'] == 'maxClients'
            refused.close()
            m = Metrics(c)
            assert m.value('mcpd_clients', client='other') == 2 and not m.samples('mcpd_clients', client='c')
        hits = {s['labels']['limit']: s['value'] for s in m.samples('mcpd_limit_hits_total')}
        assert hits == {'maxClientNames': 2, 'maxSubscriptionsPerClient': 1, 'maxRequestsPerClient': 2,
                        'maxRequestsPerServer': 1, 'maxMessageBytes': 1, 'maxClients': 1}
        assert m.calls(server='fake', outcome='limit') == {('other', 'limit'): 1}


def test_names_are_bounded_and_keep_their_numbers(make_daemon):
    d = make_daemon({'fake': fake()}, mcpd={'limits': {'maxClientNames': 5}})
    with d.client(name='first') as c:
        for i in range(20):
            with Client(d.socket) as other:
                other.hello('agent-%d' % i)
                other.text('fake', 'text', {'text': 'x'})
        m = Metrics(c)
        expected = {('agent-%d' % i, 'ok'): 1 for i in range(4)}
        assert m.calls(server='fake') == {**expected, ('other', 'ok'): 16}
        assert len(m.samples('mcpd_clients')) == 5 + 2      # and "unnamed" and "other"


# -- the daemon itself, and mcpctl

def test_the_daemon_itself(make_daemon):
    d = make_daemon({'fake': fake()})
    with d.client() as c:
        m = Metrics(c)
        status = c.call('daemon/status')
        assert m.samples('mcpd_info') == [{'labels': {'version': status['version']}, 'value': 1}]
        started, uptime = m.value('mcpd_start_time_seconds'), m.value('mcpd_uptime_seconds')
        assert abs(started - os.stat('/proc/%d' % d.pid).st_ctime) < 60 and 0 < uptime < 600
        assert m.value('mcpd_resident_memory_bytes') > 1 << 20
        assert 0 < m.value('mcpd_cpu_seconds_total') < 60
        wait_for(lambda: Metrics(c).value('mcpd_open_fds') == len(d.descriptors()))
        assert m.value('mcpd_log_entries_dropped_total') == 0


def test_mcpctl_metrics(make_daemon):
    d = make_daemon({'fake': fake(), 'idle': fake(server={'lazy': True})})
    with d.client(name='an agent') as c:
        c.text('fake', 'text', {'text': 'x' * 3000})
        fails(c.tool('fake', 'error'), -32006)
        done = d.mcpctl('metrics')
        assert done.returncode == 0 and done.stderr == ''
        servers, clients = done.stdout.split('\n\n')
        rows = [re.split(r'  +', line) for line in servers.split('\n')]
        assert rows[0] == ['SERVER', 'CALLS', 'FAILED', 'MEAN', 'IN FLIGHT', 'WAITING', 'STARTS', 'LOSSES', 'IN', 'OUT']
        row = dict(zip(rows[0], rows[1]))
        assert row['SERVER'] == 'fake' and row['CALLS'] == '2' and row['FAILED'] == '1' and row['MEAN'].endswith(' ms')
        assert row['STARTS'] == '1' and re.fullmatch(r'[3-9]\.\d KiB', row['IN'])
        assert rows[2][:5] == ['idle', '0', '0', '-', '0']
        rows = {row[0]: row for row in (re.split(r'  +', line) for line in clients.split('\n'))}
        assert rows['an agent'][1:4] == ['1', '2', '1'] and rows['mcpctl'][1:4] == ['1', '0', '0']
        assert 'other' not in rows and 'unnamed' not in rows
        text = d.mcpctl('metrics', '--prometheus').stdout
        assert prometheus.parse(text)['mcpd_calls_total'].samples[frozenset(
            {('server', 'fake'), ('client', 'an agent'), ('outcome', 'ok')})] == 1
        assert json.loads(d.mcpctl('--json', 'metrics').stdout)['metrics']['mcpd_calls_total']['type'] == 'counter'
        assert list(json.loads(d.mcpctl('--json', 'metrics', '--prometheus').stdout)) == ['text']
    assert d.mcpctl('metrics', '--no-start', env={'MCPD_SOCKET': str(d.path('nobody'))}).returncode == 4


@pytest.mark.parametrize('format', ['json', 'prometheus'])
def test_many_servers_and_clients(make_daemon, format):
    """A hundred servers and fifty names are told at once."""
    d = make_daemon({'s%d' % i: {'command': '/no/such/program', 'lazy': True} for i in range(100)})
    with d.client() as c:
        for i in range(50):
            with Client(d.socket) as client:
                client.hello('agent-%d' % i)
                with pytest.raises(RpcError):
                    client.text('s%d' % i, 'x')
        told = c.call('daemon/metrics', {'format': format})
        if format == 'prometheus':
            assert len(prometheus.parse(told['text'])['mcpd_calls_total'].samples) == 50
        else:
            assert len(told['metrics']['mcpd_calls_total']['samples']) == 50

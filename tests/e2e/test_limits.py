"""Every limit of the table, set low and reached: who reaches it is told its name, or what the table says happens (house
rule 5). Those of clients and of the socket are in the files that EVERY_LIMIT names."""

import json
import re
import sys
from pathlib import Path

import pytest
from harness import fake, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent / 'servers'))
from fake_http import FakeHttp, dribble, endless, refuse  # noqa: E402

HERE = Path(__file__).resolve().parent

# The test that reaches it.
EVERY_LIMIT = {
    'maxMessageBytes': 'test_socket_framing.py::test_R16_a_line_over_the_limit_is_told_and_the_connection_closed',
    'maxNesting': 'test_socket_limits.py::test_nesting',
    'maxClients': 'test_socket_limits.py::test_too_many_clients',
    'maxServers': 'test_limits.py::test_maxServers',
    'maxClientNames': 'test_metrics.py',
    'maxRequestsPerClient': 'test_socket_limits.py::test_too_many_requests_of_one_client',
    'maxRequestsPerServer': 'test_socket_limits.py::test_too_many_requests_to_one_server',
    'fairWindow': 'test_limits.py::test_fairWindow',
    'clientQueueSoftBytes': 'test_socket_limits.py::test_a_slow_clients_events_are_dropped_and_counted',
    'clientQueueGraceMs': 'test_socket_limits.py::test_a_client_that_reads_nothing_is_disconnected_after_its_grace_period',
    'clientQueueHardBytes': 'test_socket_limits.py::test_past_the_hard_limit_a_client_is_disconnected',
    'serverQueueBytes': 'test_socket_limits.py::test_a_server_that_does_not_read_costs_only_its_askers',
    'logLines': 'test_limits.py::test_logLines_and_logLineBytes',
    'logLineBytes': 'test_limits.py::test_logLines_and_logLineBytes',
    'historyEntries': 'test_limits.py::test_historyEntries',
    'maxListPages': 'test_limits.py::test_maxListPages_and_maxListBytes',
    'maxListBytes': 'test_limits.py::test_maxListPages_and_maxListBytes',
    'maxListPageItems': 'test_attach.py',
    'maxSubscriptionsPerClient': 'test_socket_limits.py::test_too_many_subscriptions',
    'maxTasksPerClient': 'test_control_tasks.py',
    'maxExclusiveQueue': 'test_control_sharing.py',
    'maxToolName': 'test_limits.py::test_maxToolName',
    'maxHttpStreams': 'test_limits.py::test_maxHttpStreams',
    'maxHttpHeaders': 'test_limits.py::test_http_limits',
    'maxHttpHeaderBytes': 'test_limits.py::test_http_limits',
    'httpErrorBytes': 'test_limits.py::test_httpErrorBytes',
    'httpBufferBytes': 'test_limits.py::test_http_limits',
    'httpIdleMs': 'test_limits.py::test_http_limits',
}


def limited(make_daemon, servers, **limits):
    return make_daemon(servers, mcpd={'limits': limits})


def test_every_limit_of_the_table_is_reached_somewhere(make_daemon):
    with make_daemon().client() as c:
        assert set(c.call('daemon/status')['limits']) == set(EVERY_LIMIT)
    for limit, where in EVERY_LIMIT.items():
        file, _, name = where.partition('::')
        text = (HERE / file).read_text()
        assert "'%s'" % limit in text or limit + '=' in text, limit
        assert not name or 'def %s(' % name in text, where


def test_maxServers(make_daemon):
    daemon = limited(make_daemon, {name: fake(server={'lazy': True}) for name in 'abc'}, maxServers=2)
    with daemon.client() as c:
        assert [s['name'] for s in c.call('servers/list')['servers']] == ['a', 'b']
        [error] = c.call('daemon/status')['config']['errors']
        assert '"maxServers" is 2' in error['message'] and '"c"' in error['message']
        assert c.fails('servers/get', {'server': 'c'}).code == -32001


def test_fairWindow(make_daemon):
    daemon = limited(make_daemon, {'fake': fake(serial=True)}, fairWindow=2)
    with daemon.client() as c, daemon.client() as other:
        c.wait_state('fake', 'connected')
        calls = [c.tool('fake', 'count', {'ms': 100}) for _ in range(8)]
        wait_for(lambda: other.call('daemon/status')['inFlight'] == 8)
        mine = int(other.text('fake', 'count').split()[0])
        # Those that were sent, and those that came to their turn before it was asked.
        done = sum(call.done for call in calls) if c.pump(0) else 0
        assert mine <= 2 + 2 + done
        assert [int(call.wait().result['content'][0]['text'].split()[0]) for call in calls] == \
            [n for n in range(1, 10) if n != mine]


def test_logLines_and_logLineBytes(make_daemon):
    daemon = limited(make_daemon, {'fake': fake()}, logLines=10, logLineBytes=256)
    with daemon.client() as c:
        c.subscribe('logs')
        for i in range(30):
            c.text('fake', 'stderr', {'text': 'line %d' % i})
        c.text('fake', 'stderr', {'text': 'x' * 1000})
        c.wait_event('events/log', lambda e: e['text'].startswith('xxx'))
        texts = [line['text'] for line in c.call('servers/logs', {'server': 'fake', 'lines': 1000})['lines']]
        assert texts[:9] == ['line %d' % i for i in range(21, 30)] and len(texts) == 10
        assert texts[9].startswith('x' * 200) and len(texts[9].encode()) <= 256 + len('…')


def test_historyEntries(make_daemon):
    daemon = limited(make_daemon, {'fake': fake()}, historyEntries=4)
    with daemon.client() as c:
        for _ in range(4):
            c.call('servers/reconnect', {'server': 'fake'})
        history = c.server('fake')['history']
        assert len(history) == 4 and history[-1]['state'] == 'connected'


def test_maxListPages_and_maxListBytes(make_daemon):
    """Pages too many are left out, and a list too long is not taken; the server's log, or its error, says so."""
    tools = [{'name': 't%d' % i, 'description': 'x' * 10000, 'inputSchema': {'type': 'object'}} for i in range(8)]
    daemon = limited(make_daemon, {'pages': fake(tools=5, pageSize=1), 'bytes': fake(tools=tools),
                                   'fine': fake(tools=2, pageSize=1)}, maxListPages=2, maxListBytes=65536)
    with daemon.client() as c:
        for server in ('pages', 'bytes', 'fine'):
            c.wait_state(server, 'connected')
        lists = {s['name']: s for s in c.call('tools/list')['servers']}
        assert len(lists['fine']['tools']) == 2
        assert [t['name'] for t in lists['pages']['tools']] == ['tool0', 'tool1']
        assert any('maxListPages' in line['text'] for line in c.call('servers/logs', {'server': 'pages'})['lines'])
        assert lists['bytes']['tools'] == [] and 'maxListBytes' in lists['bytes']['error']
        assert 'maxListBytes' in c.server('bytes')['lastError']['message']
        # They can be called all the same.
        assert c.text('bytes', 'text', {'text': 'alive'}) == 'alive'
        assert c.tool('pages', 'tool4').wait().result


def test_maxToolName(make_daemon):
    daemon = limited(make_daemon, {'a-server': fake(tools=['a_tool_with_a_long_name', 'short'])}, maxToolName=24)
    with daemon.client() as c:
        c.wait_state('a-server', 'connected')
        c.mcp_attach()
        c.request('initialize', {'protocolVersion': '2025-11-25', 'capabilities': {},
                                 'clientInfo': {'name': 'x', 'version': '1'}}).wait()
        names = [t['name'] for t in c.request('tools/list').wait().result['tools']]
        assert 'a-server__short' in names and len(names) == 2 and max(map(len, names)) <= 24
        [long] = [n for n in names if n != 'a-server__short']
        answer = c.request('tools/call', {'name': long, 'arguments': {}}).wait().result
        assert answer['content'][0]['text'] == 'a_tool_with_a_long_name was called'


# -- HTTP

def test_maxHttpStreams(make_daemon):
    with FakeHttp(listener=405) as web:
        daemon = limited(make_daemon, {'web': web.definition()}, maxHttpStreams=3)
        with daemon.client() as c:
            c.wait_state('web', 'connected')
            hanging = [c.tool('web', 'hang', timeoutMs=0) for _ in range(3)]
            error = c.tool('web', 'count').wait().error
            assert error['code'] == -32009
            assert (error['data']['limit'], error['data']['value']) == ('maxHttpStreams', 3)
            for call in hanging:
                c.notify('notifications/cancelled', {'requestId': call.id})
                assert call.wait().error['code'] == -32005
            wait_for(lambda: c.tool('web', 'count').wait().error is None, what='the end of the cancelled ones')


def many_headers(x):
    x.respond(200, '{}', [('X-Header-%d' % i, 'x') for i in range(50)])


def long_headers(x):
    x.respond(200, '{}', [('X-Header', 'x' * 10000)])


@pytest.mark.parametrize('limits, fault', [
    ({'maxHttpHeaders': 16}, many_headers),
    ({'maxHttpHeaderBytes': 4096}, long_headers),
    ({'httpBufferBytes': 65536}, endless()),
    ({'httpIdleMs': 200}, dribble(30, 1)),
], ids=['maxHttpHeaders', 'maxHttpHeaderBytes', 'httpBufferBytes', 'httpIdleMs'])
def test_http_limits(make_daemon, limits, fault):
    """A response past the limit fails its own call, with the limit's name, and no other."""
    [name] = limits
    with FakeHttp() as web:
        daemon = limited(make_daemon, {'web': web.definition()}, **limits)
        with daemon.client() as c:
            c.wait_state('web', 'connected')
            web.once('tools/call', fault)
            error = c.tool('web', 'count').wait().error
            assert error['code'] == -32008, error
            assert name in error['message'] or (name == 'httpIdleMs' and re.search('nothing came for 200 ?ms', error['message']))
            assert c.text('web', 'count') == '1'


def test_httpErrorBytes(make_daemon):
    with FakeHttp() as web:
        daemon = limited(make_daemon, {'web': web.definition()}, httpErrorBytes=256)
        with daemon.client() as c:
            c.wait_state('web', 'connected')
            web.once('tools/call', refuse(500, 'y' * 5000))
            error = c.tool('web', 'count').wait().error
            assert error['code'] == -32007 and error['data']['body'] == 'y' * 256
            assert len(json.dumps(error)) < 1000

"""events/subscribe, events/unsubscribe and what comes of them (PROTOCOL "Notifications")."""

import re

import pytest
from harness import fake, wait_for

TIME = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z')


@pytest.fixture
def daemon(make_daemon):
    daemon = make_daemon({'a': fake(tools=1, resources=3), 'b': fake(tools=1, resources=3)})
    with daemon.client() as c:
        c.wait_state('a', 'connected')
        c.wait_state('b', 'connected')
    return daemon


def test_servers_shows_first_what_is_there(daemon):
    with daemon.client() as c:
        c.subscribe('servers')
        c.wait_until(lambda: len(c.events) >= 2)
        assert [(e['method'], e['params']['server']['name']) for e in c.events] == [('events/server', 'a'), ('events/server', 'b')]
        assert c.events[0]['params']['server'] == {k: v for k, v in c.server('a').items()
                                                   if k not in ('config', 'history', 'resources')}
        c.take_events()
        c.subscribe('servers')          # repeated: shown again, and no event comes twice
        c.take_events()
        c.call('servers/disconnect', {'server': 'a'})
        states = [e['server']['state'] for e in c.take_events('events/server')]
        assert states[-1] == 'idle'


def test_servers_of_one_server_only(daemon):
    with daemon.client() as c:
        c.subscribe('servers', 'logs', 'calls', server='b')
        assert c.wait_event('events/server')['server']['name'] == 'b'
        c.call('servers/reconnect', {'server': 'a'})
        c.tool('a', 'stderr', {'text': 'not for you'}).wait()
        c.tool('b', 'stderr', {'text': 'for you'}).wait()
        assert c.wait_event('events/log')['text'] == 'for you'
        assert c.wait_event('events/call')['server'] == 'b'
        assert not c.events


def test_a_server_removed_and_added(daemon):
    with daemon.client() as c:
        c.subscribe('servers')
        c.wait_until(lambda: len(c.events) >= 2)
        c.take_events()
        daemon.write_config({'b': fake(tools=1, resources=3), 'new': fake(server={'lazy': True})})
        c.call('daemon/reload')
        assert c.wait_event('events/server', lambda p: p.get('removed')) == {'server': {'name': 'a'}, 'removed': True}
        assert c.wait_event('events/server', lambda p: p['server']['name'] == 'new')['server']['state'] == 'idle'


def test_the_states_of_a_connection_are_told_in_order(daemon):
    with daemon.client() as c:
        c.subscribe('servers', server='a')
        c.wait_event('events/server')
        c.call('servers/disconnect', {'server': 'a'})
        c.call('servers/connect', {'server': 'a'})
        states = [e['server']['state'] for e in c.take_events('events/server')]
        states = [s for i, s in enumerate(states) if i == 0 or states[i - 1] != s]
        assert states[-3:] == ['idle', 'connecting', 'connected']


def test_R28_tools(daemon):
    with daemon.client() as c:
        c.subscribe('tools')
        c.tool('a', 'setTools', {'tools': 4, 'times': 10}).wait()
        event = c.wait_event('events/tools')
        assert event == {'server': 'a', 'revision': c.call('tools/list', {'server': 'a'})['revision']}
        c.tool('a', 'setTools', {'tools': 4, 'times': 3}).wait()          # the same list: nothing to tell
        c.tool('b', 'setTools', {'tools': 2}).wait()
        assert c.wait_event('events/tools')['server'] == 'b'
        assert not c.take_events('events/tools')


def test_logs(daemon):
    with daemon.client() as c:
        c.subscribe('logs')
        c.tool('a', 'stderr', {'text': 'caf\u00e9 \t "x"'}).wait()
        event = c.wait_event('events/log')
        assert event['server'] == 'a' and event['text'] == 'caf\u00e9 \t "x"' and TIME.fullmatch(event['at'])


def test_calls(daemon):
    with daemon.client(name='agent') as c, daemon.client() as watcher:
        watcher.subscribe('calls')
        c.tool('a', 'sleep', {'ms': 50}).wait()
        event = watcher.wait_event('events/call')
        assert event['server'] == 'a' and event['method'] == 'tools/call' and event['name'] == 'sleep'
        assert event['outcome'] == 'ok' and event['durationMs'] >= 50 and event['client'].startswith('agent#')
        outcomes = []
        for call in (lambda: c.tool('a', 'error').wait(), lambda: c.tool('a', 'hang', timeoutMs=50).wait(),
                     lambda: c.call('mcp/request', {'server': 'b', 'method': 'ping'})):
            call()
            event = watcher.wait_event('events/call')
            outcomes.append((event['server'], event['method'], event.get('name'), event['outcome']))
        assert outcomes == [('a', 'tools/call', 'error', 'error'), ('a', 'tools/call', 'hang', 'timeout'),
                            ('b', 'ping', None, 'ok')]
        call = c.tool('b', 'hang')
        c.notify('notifications/cancelled', {'requestId': call.id})
        assert watcher.wait_event('events/call')['outcome'] == 'cancelled'
        c.tool('b', 'hang')
        c.call('daemon/status')
        c.close()
        event = watcher.wait_event('events/call')
        assert event['outcome'] == 'client-gone' and event['client'].startswith('agent#')
        assert not watcher.events


def test_notifications(daemon):
    with daemon.client() as c, daemon.client() as silent:
        c.subscribe('notifications')
        c.tool('a', 'notify', {'method': 'notifications/x', 'params': {'deep': [1, {'y': None}]}}).wait()
        assert c.wait_event('events/notification') == {'server': 'a', 'method': 'notifications/x',
                                                       'params': {'deep': [1, {'y': None}]}}
        c.tool('a', 'notify', {'method': 'notifications/bare'}).wait()
        assert c.wait_event('events/notification') == {'server': 'a', 'method': 'notifications/bare'}
        c.tool('a', 'raw', {'lines': ['{"jsonrpc":"2.0","method":"notifications/raw","params":{"n":1.10,"n":-0, "s":"\\ud800"}}',
                                      '{"jsonrpc":"2.0","id":$ID,"result":{}}']})
        lines = []
        c._line = lines.append
        c.wait_until(lambda: len(lines) >= 2)
        assert any(b'"params":{"n":1.10,"n":-0, "s":"\\ud800"}' in line for line in lines)
        silent.call('daemon/status')
        assert not silent.events


def test_unsubscribe(daemon):
    with daemon.client() as c:
        c.subscribe('logs', 'calls')
        c.subscribe('logs', server='b')
        assert c.call('events/unsubscribe', {'topics': ['logs', 'tools']}) == {}
        c.tool('b', 'stderr', {'text': 'unheard'}).wait()
        c.wait_event('events/call')
        c.call('daemon/status')
        assert not c.events


@pytest.mark.parametrize('params', [{}, {'topics': []}, {'topics': 'logs'}, {'topics': ['logs', 'weather']}, {'topics': [1]}])
def test_wrong_topics(daemon, params):
    with daemon.client() as c:
        for method in ('events/subscribe', 'events/unsubscribe'):
            error = c.fails(method, params)
            assert error.code == -32602 and 'topics' in error.message
        c.tool('a', 'stderr', {'text': 'x'}).wait()
        assert not c.take_events()


# -- resource subscriptions, and the logging level

def resource(c, verb, uri, server='a'):
    return c.call('mcp/request', {'server': server, 'method': 'resources/' + verb, 'params': {'uri': uri}})


def count(c, method, server='a'):
    return c.tool(server, 'report').wait().result['structuredContent']['methods'].get(method, 0)


def update(c, uri, server='a'):
    c.tool(server, 'notify', {'method': 'notifications/resources/updated', 'params': {'uri': uri}}).wait()


def updates(c):
    """What has come by now: a notification that all get marks the end."""
    with_marker = []
    while True:
        event = c.wait_event('events/notification')
        if event['method'] == 'notifications/marker':
            return with_marker
        with_marker.append(event['params']['uri'])


def mark(c, server='a'):
    c.tool(server, 'notify', {'method': 'notifications/marker'}).wait()


def test_resource_subscriptions_are_counted_per_client(daemon):
    with daemon.client() as x, daemon.client() as y, daemon.client() as z:
        for c in (x, y, z):
            c.subscribe('notifications')
        assert resource(x, 'subscribe', 'fake://r0') == {}
        assert resource(y, 'subscribe', 'fake://r0') == {}
        resource(y, 'subscribe', 'fake://r1')
        assert count(z, 'resources/subscribe') == 2
        update(z, 'fake://r0'), update(z, 'fake://r1'), mark(z)
        assert (updates(x), updates(y), updates(z)) == (['fake://r0'], ['fake://r0', 'fake://r1'], [])
        assert resource(x, 'unsubscribe', 'fake://r0') == {}
        assert count(z, 'resources/unsubscribe') == 0
        update(z, 'fake://r0'), mark(z)
        assert (updates(x), updates(y)) == ([], ['fake://r0'])
        resource(y, 'unsubscribe', 'fake://r0')
        assert count(z, 'resources/unsubscribe') == 1
        y.close()                                       # gone with the client
        wait_for(lambda: count(z, 'resources/unsubscribe') == 2)


def test_M4_subscriptions_and_levels_outlive_a_connection(daemon):
    with daemon.client() as c, daemon.client() as other:
        c.subscribe('notifications')
        resource(c, 'subscribe', 'fake://r0')
        c.call('mcp/request', {'server': 'a', 'method': 'logging/setLevel', 'params': {'level': 'warning'}})
        other.tool('a', 'crash').wait()
        other.wait_state('a', 'connected')
        wait_for(lambda: count(other, 'resources/subscribe') == 1 and count(other, 'logging/setLevel') == 1)
        update(other, 'fake://r0'), mark(other)
        assert updates(c) == ['fake://r0']


def test_the_most_verbose_logging_level_wins_upstream(daemon):
    """PITFALLS "Relaying": each client gets what it asked for."""
    def set_level(c, level):
        assert c.call('mcp/request', {'server': 'a', 'method': 'logging/setLevel', 'params': {'level': level}}) == {}

    def levels(c):
        got = []
        while True:
            event = c.wait_event('events/notification')
            if event['method'] == 'notifications/marker':
                return got
            got.append(event['params']['level'])

    with daemon.client() as errors, daemon.client() as everything, daemon.client() as silent:
        for c in (errors, everything, silent):
            c.subscribe('notifications', server='a')
        set_level(errors, 'error')
        set_level(everything, 'debug')
        set_level(errors, 'warning')            # less verbose than what the server has been told
        assert count(silent, 'logging/setLevel') == 2
        for level in ('debug', 'info', 'warning', 'error'):
            silent.tool('a', 'notify', {'params': {'level': level, 'data': 1}}).wait()
        mark(silent)
        assert levels(errors) == ['warning', 'error']
        assert levels(everything) == ['debug', 'info', 'warning', 'error']
        assert levels(silent) == ['info', 'warning', 'error']
        everything.close()
        wait_for(lambda: count(silent, 'logging/setLevel') == 3)        # the server is told what is left

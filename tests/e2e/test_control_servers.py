"""servers/list, get, connect, disconnect, reconnect, logs (PROTOCOL "Control dialect")."""

import re

import pytest
from harness import alive, fake, time_server, wait_for, wait_gone

TIME = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z')


def test_a_connected_server(make_daemon):
    daemon = make_daemon({'fake': fake(tools=3, instructions='Be kind.'), 'time': time_server()})
    with daemon.client() as c:
        c.wait_state('time', 'connected')
        server = c.wait_state('fake', 'connected')
        assert server['transport'] == 'stdio' and server['sharing'] == 'shared'
        assert server['source'] == str(daemon.config_path)
        assert server['era'] == 'legacy' and server['protocolVersion'] == '2025-11-25'
        assert server['serverInfo'] == {'name': 'fake', 'version': '1.0'}
        assert server['capabilities']['tools'] == {'listChanged': True} and server['instructions'] == 'Be kind.'
        assert server['toolCount'] == 3 and server['inFlight'] == 0
        assert alive(server['pid']) and TIME.fullmatch(server['connectedAt'])
        assert 'lastError' not in server and 'reconnect' not in server and 'instances' not in server
        assert server['config']['command'] == '/usr/bin/python3'
        assert [h['state'] for h in server['history']][-2:] == ['connecting', 'connected']
        assert all(TIME.fullmatch(h['at']) for h in server['history'])
        listed = c.call('servers/list')['servers']
        assert [s['name'] for s in listed] == ['fake', 'time']
        assert 'config' not in listed[0] and 'history' not in listed[0]
        assert listed[1]['era'] == 'modern' and listed[1]['protocolVersion'] == '2026-07-28'


def test_in_flight_is_counted(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        calls = [c.tool('fake', 'sleep', {'ms': 300}) for _ in range(3)]
        wait_for(lambda: c.server('fake')['inFlight'] == 3)
        for call in calls:
            call.wait()
        assert c.server('fake')['inFlight'] == 0


def test_an_unknown_server_everywhere(make_daemon):
    daemon = make_daemon({'one': fake(server={'lazy': True}), 'two': fake(server={'enabled': False})})
    with daemon.client() as c:
        for method, more in (('servers/get', {}), ('servers/connect', {}), ('servers/disconnect', {}),
                             ('servers/reconnect', {}), ('servers/release', {}), ('servers/logs', {}), ('tools/list', {}),
                             ('tools/call', {'name': 't'}), ('mcp/request', {'method': 'ping'}),
                             ('mcp/notify', {'method': 'notifications/x'}), ('events/subscribe', {'topics': ['logs']})):
            error = c.fails(method, {'server': 'th\u00e9 third', **more})
            assert error.code == -32001, method
            assert error.data['known'] == ['one', 'two'] and 'th\u00e9 third' in error.message


def test_connect_disconnect_reconnect(make_daemon):
    daemon = make_daemon({'fake': fake(server={'lazy': True})})
    with daemon.client() as c:
        assert c.server('fake')['state'] == 'idle'
        first = c.call('servers/connect', {'server': 'fake'})
        assert first['state'] == 'connected' and first['pid']
        assert c.call('servers/connect', {'server': 'fake'})['pid'] == first['pid']
        again = c.call('servers/reconnect', {'server': 'fake'})
        assert again['state'] == 'connected' and again['pid'] != first['pid']
        wait_gone(first['pid'])
        idle = c.call('servers/disconnect', {'server': 'fake'})
        assert idle['state'] == 'idle' and 'pid' not in idle
        wait_gone(again['pid'])
        assert c.call('servers/disconnect', {'server': 'fake'})['state'] == 'idle'
        assert c.call('servers/reconnect', {'server': 'fake'})['state'] == 'connected'


def test_a_server_disconnected_by_hand_is_started_by_the_next_call(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        c.call('servers/disconnect', {'server': 'fake'})
        assert c.server('fake')['state'] == 'idle'
        assert c.text('fake', 'text', {'text': 'up again'}) == 'up again'
        assert c.server('fake')['state'] == 'connected'


def test_connect_within_its_time_or_not_at_all(make_daemon):
    daemon = make_daemon({'fake': fake(initializeDelayMs=5000, server={'lazy': True})})
    with daemon.client() as c:
        error = c.fails('servers/connect', {'server': 'fake', 'timeoutMs': 300})
        assert error.code == -32004 and error.data['timeoutMs'] == 300 and error.data['state'] == 'connecting'
        assert error.data['server'] == 'fake'


@pytest.mark.parametrize('definition, part', [
    ({'command': 'no-such-program-anywhere'}, 'no-such-program-anywhere'),          # ENOENT: R10
    ({'command': '/etc/passwd'}, '/etc/passwd'),                                    # EACCES
    ({'command': '/tmp'}, '/tmp'),                                                  # a directory
    ({'command': ''}, 'command'),                                                   # an empty string
    ({'command': 'x', 'type': 'carrier-pigeon'}, 'Unknown server type: carrier-pigeon'),
    ({'url': 'http://x'}, 'type'),
])
def test_R10_a_server_that_cannot_be_started_fails_alone(make_daemon, definition, part):
    daemon = make_daemon({'bad': definition, 'good': fake()})
    with daemon.client() as c:
        bad = c.wait_state('bad', 'failed')
        assert part in bad['lastError']['message']
        for method, more in (('servers/connect', {}), ('tools/call', {'name': 't'}), ('mcp/request', {'method': 'ping'})):
            error = c.fails(method, {'server': 'bad', **more})
            assert error.code == -32002, method
            assert error.data['server'] == 'bad' and error.data['state'] == 'failed'
            assert part in error.data['lastError']['message'] and part in error.message
        assert c.text('good', 'text', {'text': 'fine'}) == 'fine'


def test_a_disabled_server(make_daemon):
    daemon = make_daemon({'off': fake(server={'enabled': False})})
    with daemon.client() as c:
        assert c.server('off')['state'] == 'disabled'
        for method, more in (('servers/connect', {}), ('tools/call', {'name': 'tool0'})):
            error = c.fails(method, {'server': 'off', **more})
            assert error.code == -32002 and error.data['state'] == 'disabled'
        assert not daemon.servers('fake.py')


def test_a_server_that_dies_says_why(make_daemon):
    daemon = make_daemon({'fake': fake(exitAt={'when': 'start', 'status': 3, 'stderr': 'no licence found'})})
    with daemon.client() as c:
        server = c.wait_state('fake', 'reconnecting', 'failed')
        assert 'exit status 3' in server['lastError']['message'] and 'no licence found' in server['lastError']['message']
        assert TIME.fullmatch(server['lastError']['at'])
        if server['state'] == 'reconnecting':
            assert server['reconnect']['attempt'] >= 1 and server['reconnect']['nextAttemptMs'] >= 0
        assert 'no licence found' in [l['text'] for l in c.call('servers/logs', {'server': 'fake'})['lines']]


def test_logs(make_daemon):
    daemon = make_daemon({'fake': fake(stderrAtStart='hello\ttab \u00e9 "quoted"', noiseAtStart=['a banner'])})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        for i in range(150):
            c.tool('fake', 'stderr', {'text': 'line %d' % i}).wait()

        def lines(**more):
            return c.call('servers/logs', {'server': 'fake', **more})['lines']
        wait_for(lambda: lines()[-1]['text'] == 'line 149')
        assert [l['text'] for l in lines()] == ['line %d' % i for i in range(50, 150)]        # 100 unless asked otherwise
        assert [l['text'] for l in lines(lines=2)] == ['line 148', 'line 149']
        assert lines(lines=0) == []
        everything = lines(lines=100000)
        assert everything[0]['text'] == 'hello\ttab \u00e9 "quoted"'
        assert any('a banner' in l['text'] for l in everything)
        assert all(TIME.fullmatch(l['at']) for l in everything)


def test_orders_can_be_cancelled(make_daemon):
    daemon = make_daemon({'fake': fake(initializeDelayMs=700, server={'lazy': True})})
    with daemon.client() as c:
        order = c.request('servers/connect', {'server': 'fake'})
        c.notify('notifications/cancelled', {'requestId': order.id, 'reason': 'changed my mind'})
        error = order.wait().error
        assert error['code'] == -32005 and error['data']['reason'] == 'changed my mind'
        assert c.wait_state('fake', 'connected')        # what was set in motion goes on

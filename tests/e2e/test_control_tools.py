"""tools/list (PROTOCOL, contract M2, M3; R1, R7, R8, R27, R28)."""

import json
import time

import pytest
from harness import fake, time_server, wait_for

import rawjson


def by_name(result):
    return {s['name']: s for s in result['servers']}


def tool_names(server):
    return [t['name'] for t in server['tools']]


def test_the_tools_of_all_servers(make_daemon):
    daemon = make_daemon({'a': fake(tools=2), 'b': fake(tools=3), 'off': fake(server={'enabled': False}), 'time': time_server()})
    with daemon.client() as c:
        result = c.call('tools/list', {'waitMs': 60000})
        servers = by_name(result)
        assert list(servers) == ['a', 'b', 'time']      # the configuration's order, disabled ones absent
        assert tool_names(servers['a']) == ['tool0', 'tool1'] and len(servers['b']['tools']) == 3
        assert all(s['state'] == 'connected' and s['deferred'] is False and 'error' not in s for s in servers.values())
        only = c.call('tools/list', {'server': 'b'})
        assert [s['name'] for s in only['servers']] == ['b']
        assert c.call('tools/list', {'server': 'off'})['servers'] == []


def test_tool_objects_are_verbatim(make_daemon):
    raw = b'{"tools":[{"name":"x","z":1.10,"z":-0,"inputSchema":{"type":"object","maximum":123456789012345678901234567890},' \
          b'"s":"\\ud800\\/"} , {"name":"y" }]}'
    daemon = make_daemon({'fake': fake(answers={'tools/list': {'raw': raw.decode()}})})
    with daemon.client() as c:
        answer = c.request('tools/list', {'waitMs': 60000}).wait()
        got = rawjson.elements(answer.raw_result('servers', 0, 'tools'))
        assert got == rawjson.elements(rawjson.raw(raw, 'tools'))


def test_M2_a_slow_server_does_not_hold_up_the_others(make_daemon):
    daemon = make_daemon({'quick': fake(tools=2), 'slow': fake(initializeDelayMs=20000)})
    with daemon.client() as c:
        c.wait_state('quick', 'connected')
        started = time.monotonic()
        servers = by_name(c.call('tools/list'))
        assert 0.2 < time.monotonic() - started < 5        # 250 ms, and what a loaded machine adds
        assert len(servers['quick']['tools']) == 2 and servers['quick']['deferred'] is False
        assert servers['slow'] == {'name': 'slow', 'state': 'connecting', 'deferred': True, 'tools': []}
        started = time.monotonic()
        assert by_name(c.call('tools/list', {'waitMs': 0}))['slow']['tools'] == []
        assert by_name(c.call('tools/list', {'server': 'quick'}))['quick']['tools']
        assert time.monotonic() - started < 2


def test_R8_cached_tools_at_once_after_a_restart(make_daemon):
    daemon = make_daemon({'fake': fake(tools=3)})
    with daemon.client() as c:
        live = c.call('tools/list', {'waitMs': 60000})
    daemon.stop()
    daemon.start()
    with daemon.client() as c:
        started = time.monotonic()
        first = c.call('tools/list')
        assert time.monotonic() - started < 5
        assert first['revision'] == live['revision']       # of contents, not of states; valid across restarts
        assert first['servers'][0]['tools'] == live['servers'][0]['tools']
        c.wait_state('fake', 'connected')
        wait_for(lambda: c.call('tools/list')['servers'][0]['deferred'] is False)
        assert c.call('tools/list', {'ifRevision': live['revision']}) == {'revision': live['revision'], 'notModified': True}


def test_R8_a_slow_start_with_a_cache(make_daemon):
    """The listing answers from the cache, deferred; a call waits and succeeds; the live list then replaces the cached one."""
    daemon = make_daemon(start=False)
    # A start that takes as long as the test likes, without being part of the definition.
    gate = daemon.path('gate')
    definition = {'command': '/bin/sh', 'args': ['-c', 'while [ -e %s ]; do sleep 0.05; done; exec "$0" "$@"' % gate,
                                                 *([fake()['command']] + fake(tools=4)['args'])]}
    daemon.write_config({'fake': definition})
    daemon.start()
    with daemon.client() as c:
        assert len(c.call('tools/list', {'waitMs': 60000})['servers'][0]['tools']) == 4
    daemon.stop()
    gate.write_text('')
    daemon.start()
    with daemon.client() as c:
        c.subscribe('tools')
        started = time.monotonic()
        listed = c.call('tools/list')
        assert time.monotonic() - started < 5
        assert listed['servers'][0]['state'] == 'connecting' and listed['servers'][0]['deferred'] is True
        assert len(listed['servers'][0]['tools']) == 4
        call = c.tool('fake', 'tool3')
        assert c.call('daemon/status')['inFlight'] == 1 and not call.done
        gate.unlink()
        assert call.wait().result['content'][0]['text'] == 'tool3 was called'
        assert wait_for(lambda: c.call('tools/list')['servers'][0]['deferred'] is False)
        assert not c.take_events('events/tools')        # the same list: nobody is told


def test_M3_a_changed_definition_never_serves_stale_tools(make_daemon):
    daemon = make_daemon({'fake': fake(tools=2)})
    with daemon.client() as c:
        c.call('tools/list', {'waitMs': 60000})
    daemon.stop()
    daemon.write_config({'fake': fake(tools=['other'], initializeDelayMs=500)})
    daemon.start()
    with daemon.client() as c:
        assert c.call('tools/list', {'waitMs': 0})['servers'][0]['tools'] == []
        assert tool_names(c.call('tools/list', {'waitMs': 60000})['servers'][0]) == ['other']


def test_R1_lazy_servers_wait_for_the_first_who_asks(make_daemon):
    daemon = make_daemon({'fake': fake(tools=2, server={'lazy': True})})
    with daemon.client() as c:
        c.call('servers/list')
        assert not daemon.servers('fake.py')
        # Without a cache the first listing starts it; with one it does not.
        assert len(c.call('tools/list', {'waitMs': 60000})['servers'][0]['tools']) == 2
    daemon.stop()
    daemon.start()
    with daemon.client() as c:
        listed = c.call('tools/list')['servers'][0]
        assert listed['state'] == 'idle' and listed['deferred'] is True and len(listed['tools']) == 2
        assert not daemon.servers('fake.py')
        assert c.tool('fake', 'tool1').wait().result
        assert len(daemon.servers('fake.py')) == 1


def test_revisions_follow_contents_and_filter(make_daemon):
    daemon = make_daemon({'a': fake(tools=2), 'b': fake(tools=2)})
    with daemon.client() as c:
        everything = c.call('tools/list', {'waitMs': 60000})['revision']
        a, b = (c.call('tools/list', {'server': n})['revision'] for n in 'ab')
        assert len({everything, a, b}) == 3
        assert c.call('tools/list', {'server': 'a', 'ifRevision': a}) == {'revision': a, 'notModified': True}
        assert 'servers' in c.call('tools/list', {'server': 'a', 'ifRevision': b})
        assert 'servers' in c.call('tools/list', {'ifRevision': a})
        c.call('servers/disconnect', {'server': 'b'})       # a state is no content
        assert c.call('tools/list')['revision'] == everything
        c.subscribe('tools')
        c.tool('a', 'setTools', {'tools': 3, 'times': 5}).wait()
        event = c.wait_event('events/tools')
        assert event['server'] == 'a' and event['revision'] != a
        assert c.call('tools/list', {'server': 'a'})['revision'] == event['revision']
        assert c.call('tools/list', {'server': 'b'})['revision'] == b
        assert c.call('tools/list')['revision'] != everything
        c.tool('a', 'setTools', {'tools': 2}).wait()
        assert c.wait_event('events/tools')['revision'] == a
        assert c.call('tools/list')['revision'] == everything


def test_a_failed_server_says_so_in_the_listing(make_daemon):
    daemon = make_daemon({'bad': {'command': 'no-such-program'}, 'good': fake()})
    with daemon.client() as c:
        servers = by_name(c.call('tools/list', {'waitMs': 60000}))
        assert servers['bad']['state'] == 'failed' and servers['bad']['tools'] == []
        assert 'no-such-program' in servers['bad']['error']
        assert servers['good']['tools']


def test_a_server_that_is_removed_while_it_is_waited_for(make_daemon):
    daemon = make_daemon({'slow': fake(initializeDelayMs=30000), 'good': fake()})
    with daemon.client() as c:
        one = c.request('tools/list', {'server': 'slow', 'waitMs': 60000})
        everything = c.request('tools/list', {'waitMs': 60000})
        daemon.write_config({'good': fake()})
        c.call('daemon/reload')
        assert one.wait().result['servers'] == []
        assert [s['name'] for s in everything.wait().result['servers']] == ['good']


def test_many_listings_at_once_are_one_start(make_daemon):
    """R9."""
    daemon = make_daemon({'fake': fake(server={'lazy': True}, initializeDelayMs=200)})
    clients = [daemon.client() for _ in range(20)]
    pending = [c.request('tools/list', {'waitMs': 60000}) for c in clients]
    for p in pending:
        assert len(p.wait().result['servers'][0]['tools']) == 1
    assert len(daemon.servers('fake.py')) == 1


@pytest.mark.parametrize('cursors', ['normal', 'repeat', 'empty'])
def test_R27_all_pages_are_one_list(make_daemon, cursors):
    daemon = make_daemon({'fake': fake(tools=5, pageSize=2, cursors=cursors)})
    with daemon.client() as c:
        tools = tool_names(c.call('tools/list', {'waitMs': 60000})['servers'][0])
        assert tools[:4] == ['tool0', 'tool1', 'tool2', 'tool3']
        assert cursors == 'repeat' or tools == ['tool%d' % i for i in range(5)]


def test_parameters(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        for params in ({'waitMs': -1}, {'waitMs': '5'}, {'server': None}, {'ifRevision': 5}):
            assert c.fails('tools/list', params).code == -32602, params
        assert json.dumps(c.call('tools/list', {'waitMs': 9007199254740991, 'cursor': 'ignored'}))

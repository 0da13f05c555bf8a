"""A server's life under the daemon: started once, kept, lost and found again, refreshed, ended (M1 to M6; R1, R5 to R9, R12, R25, R28)."""

import json
import os
import signal
import time

import pytest

from harness import fake, wait_for, wait_gone

TIMEOUT_OF_A_CALL = -32004
CLOSED = -32003
UNAVAILABLE = -32002


def pid_of(client, name='demo'):
    return client.server(name)['pid']


def listed(client, **params):
    """The listing of each server by its name."""
    return {s['name']: s for s in client.call('tools/list', params)['servers']}


def names(listing):
    return [tool['name'] for tool in listing['tools']]


# -- one process

def test_R1_many_clients_share_one_process(make_daemon):
    d = make_daemon({'demo': fake(tools=3), 'lazy': fake(server={'lazy': True})})
    clients = [d.client() for _ in range(10)]
    clients[0].wait_state('demo', 'connected')
    assert clients[0].server('lazy')['state'] == 'idle'
    for c in clients:
        assert len(listed(c, server='demo')['demo']['tools']) == 3
    assert [c.text('demo', 'tool0') for c in clients] == ['tool0 was called'] * 10
    assert len(d.servers('fake.py')) == 1
    # The lazy one has no cache: the first listing of it starts it.
    assert names(listed(clients[1], server='lazy', waitMs=20000)['lazy']) == ['tool0']
    assert len(d.servers('fake.py')) == 2


def test_R9_twenty_first_calls_start_a_server_once(make_daemon, tmp_path):
    pids = tmp_path / 'pids'
    d = make_daemon({'demo': fake(initializeDelayMs=300, pids=str(pids), server={'lazy': True})})
    clients = [d.client() for _ in range(20)]
    calls = [c.tool('demo', 'tool0') for c in clients]
    for call in calls:
        assert call.wait().result['content'][0]['text'] == 'tool0 was called'
    assert len(pids.read_text().split()) == 1


def test_idleTimeout_leaves_no_process_and_the_next_call_starts_one(make_daemon):
    d = make_daemon({'demo': fake(server={'idleTimeout': 200})})
    c = d.client()
    first = c.wait_state('demo', 'connected')['pid']
    c.wait_state('demo', 'idle')
    wait_gone(first)
    assert not d.servers('fake.py')
    assert listed(c)['demo']['deferred'] and names(listed(c)['demo']) == ['tool0']
    assert c.text('demo', 'tool0') == 'tool0 was called'
    assert 'idleTimeout' in json.dumps(c.server('demo')['history'])


# -- a slow start

def _slow_by_wrapper(d, seconds):
    """A definition whose start takes as long as a file says, which is no part of the definition."""
    script = d.path('slow.sh')
    wait = d.path('seconds')
    wait.write_text(str(seconds))
    inner = fake(tools=2)
    script.write_text('#!/bin/sh\nsleep "$(cat %s)"\nexec "$@"\n' % wait)
    script.chmod(0o755)
    return {'command': str(script), 'args': [inner['command'], *inner['args']], 'connectTimeout': 60000}, wait


def test_M2_R8_cached_tools_at_once_and_a_call_that_waits(make_daemon):
    d = make_daemon(start=False)
    slow, wait = _slow_by_wrapper(d, 0)
    d.write_config({'slow': slow, 'quick': fake()})
    d.start()
    c = d.client()
    c.wait_state('slow', 'connected')
    c.wait_state('quick', 'connected')
    revision = c.call('tools/list', {'server': 'slow'})['revision']
    d.stop()

    wait.write_text('15')
    started = time.monotonic()
    d.start()
    c = d.client()
    answer = c.request('tools/list', {}).wait()
    assert answer.seconds < 2      # 250 ms, on a machine that has nothing else to do
    slow = next(s for s in answer.result['servers'] if s['name'] == 'slow')
    assert slow['deferred'] and names(slow) == ['tool0', 'tool1'] and slow['state'] == 'connecting'
    assert c.call('tools/list', {'server': 'slow'})['revision'] == revision
    assert c.text('quick', 'tool0') == 'tool0 was called'
    assert time.monotonic() - started < 12
    assert c.text('slow', 'tool1') == 'tool1 was called'
    assert time.monotonic() - started > 14
    assert not listed(c)['slow']['deferred']


def test_M2_without_a_cache_a_listing_waits_as_long_as_it_is_told(make_daemon):
    d = make_daemon({'demo': fake(initializeDelayMs=1500)})
    c = d.client()
    first = c.request('tools/list', {'waitMs': 100}).wait()
    assert first.result['servers'][0]['tools'] == [] and first.result['servers'][0]['deferred']
    assert names(listed(c, waitMs=20000)['demo']) == ['tool0']


# -- what is remembered

def cache_files(d):
    folder = d.dir / 'cache' / 'mcpd'
    return sorted(folder.iterdir()) if folder.exists() else []


def test_M3_a_changed_definition_serves_no_stale_tools(make_daemon):
    d = make_daemon({'demo': fake(tools=['old'])})
    c = d.client()
    c.wait_state('demo', 'connected')
    assert [f.stat().st_mode & 0o777 for f in cache_files(d)] == [0o600]
    d.stop()
    d.write_config({'demo': fake(tools=['new'], initializeDelayMs=700)})
    d.start()
    c = d.client()
    assert names(listed(c, waitMs=0)['demo']) == []
    c.wait_state('demo', 'connected')
    assert names(listed(c)['demo']) == ['new']
    assert len(cache_files(d)) == 1      # the former definition's has gone


def test_a_damaged_cache_is_dropped_with_a_log_line(make_daemon):
    d = make_daemon({'demo': fake(), 'other': fake()})
    c = d.client()
    c.wait_state('demo', 'connected')
    c.wait_state('other', 'connected')
    d.stop()
    broken = next(f for f in cache_files(d) if f.name.startswith('demo-'))
    broken.write_bytes(broken.read_bytes().replace(b'tool0', b'tool1'))
    d.start()
    d.stderr.wait('demo.*dropped.*checksum')
    c = d.client()
    c.wait_state('demo', 'connected')
    assert names(listed(c)['demo']) == ['tool0']
    assert names(listed(c)['other']) == ['tool0']


def test_a_cache_that_cannot_be_written_hurts_nobody(make_daemon):
    d = make_daemon({'demo': fake()}, start=False)
    (d.dir / 'cache').rmdir()
    (d.dir / 'cache').write_text('no folder')
    d.start()
    c = d.client()
    c.wait_state('demo', 'connected')
    assert names(listed(c)['demo']) == ['tool0']
    d.stderr.wait('demo: its tools cannot be kept')


# -- changes

def test_R28_a_burst_of_changes_is_told_once(make_daemon):
    d = make_daemon({'demo': fake(tools=['a'])})
    c = d.client()
    c.wait_state('demo', 'connected')
    c.subscribe('tools')
    c.text('demo', 'setTools', {'tools': ['a', 'b'], 'times': 20})
    event = c.wait_event('events/tools', lambda p: p['server'] == 'demo')
    assert names(listed(c, server='demo')['demo']) == ['a', 'b']
    assert event['revision'] == c.call('tools/list', {'server': 'demo'})['revision']
    # What would come of a second telling comes before the answer to a call that takes longer than a burst.
    c.text('demo', 'sleep', {'ms': 500})
    assert c.take_events('events/tools') == []


def test_R28_tools_that_change_across_a_restart_of_the_server(make_daemon):
    d = make_daemon(start=False)
    tools = d.path('tools.json')
    tools.write_text('["a"]')
    d.write_config({'demo': fake(toolsFile=str(tools))})
    d.start()
    c = d.client()
    pid = c.wait_state('demo', 'connected')['pid']
    c.subscribe('tools')
    tools.write_text('["a", "b"]')
    os.kill(pid, signal.SIGKILL)
    c.wait_event('events/tools', lambda p: p['server'] == 'demo')
    assert names(listed(c)['demo']) == ['a', 'b']


# -- losses

def test_R5_a_server_killed_in_mid_call(make_daemon):
    d = make_daemon({'demo': fake()})
    c = d.client()
    pid = c.wait_state('demo', 'connected')['pid']
    hanging = [c.tool('demo', 'hang') for _ in range(3)]
    c.text('demo', 'tool0')      # by now the others have reached it
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    for call in hanging:
        error = call.wait().error
        assert error['code'] == CLOSED and error['message'] == 'Transport closed'
        assert error['data']['maybeExecuted'] is True and error['data']['server'] == 'demo'
    assert time.monotonic() - killed < 5      # 100 ms, on an idle machine; and never the minutes of others
    assert c.text('demo', 'tool0') == 'tool0 was called'
    assert pid_of(c) != pid
    history = [h['state'] for h in c.server('demo')['history']]
    assert history[-3:] == ['connected', 'reconnecting', 'connected']


@pytest.mark.parametrize('safe, runs', [(False, 1), (True, 2)])
def test_R6_M6_a_crash_repeats_nothing_that_is_not_said_to_be_safe(make_daemon, tmp_path, safe, runs):
    server = {'retrySafe': ['crash']} if safe else {}
    state = tmp_path / 'state'
    d = make_daemon({'demo': fake(state=str(state), server=server)})
    c = d.client()
    c.wait_state('demo', 'connected')
    c.subscribe('calls')
    error = c.tool('demo', 'crash', {'countFirst': 'k'}).wait().error
    assert error['code'] == CLOSED and error['data']['maybeExecuted'] is True
    assert c.text('demo', 'count', {'key': 'k'}).split()[1] == str(runs + 1)


def test_R12_a_timeout_ends_nobody_elses_call(make_daemon):
    d = make_daemon({'demo': fake()})
    a, b = d.client(), d.client()
    pid = a.wait_state('demo', 'connected')['pid']
    long = b.tool('demo', 'sleep', {'ms': 1500, 'text': 'rested'})
    error = a.tool('demo', 'hang', timeoutMs=300).wait().error
    assert error['code'] == TIMEOUT_OF_A_CALL and error['message'] == 'Request timeout after 300ms'
    assert error['data']['timeoutMs'] == 300 and error['data']['maybeExecuted'] is True
    assert long.wait().result['content'][0]['text'] == 'rested'
    assert pid_of(a) == pid


def test_a_timeout_covers_the_connecting(make_daemon):
    d = make_daemon({'demo': fake(initialize='ignore', server={'lazy': True})})
    c = d.client()
    error = c.tool('demo', 'tool0', timeoutMs=200).wait().error
    assert error['code'] == TIMEOUT_OF_A_CALL and error['message'] == 'Request timeout after 200ms'
    assert error['data']['state'] == 'connecting' and 'maybeExecuted' not in error['data']


def test_M5_the_breaker_and_the_way_back_by_hand(make_daemon, tmp_path):
    # Twice for each of the six attempts: one that ends over the probe is started again without it.
    d = make_daemon({'demo': fake(exitAt={'when': 'initialize', 'status': 5, 'stderr': 'no licence'}, exitTimes=12,
                                  state=str(tmp_path / 'state'))})
    c = d.client()
    failed = c.wait_state('demo', 'failed', timeout=60)
    assert 'exit status 5' in failed['lastError']['message'] and 'no licence' in failed['lastError']['message']
    assert 'mcpctl connect demo' in failed['lastError']['message']
    error = c.tool('demo', 'tool0').wait()
    assert error.seconds < 5 and error.error['code'] == UNAVAILABLE
    assert error.error['data']['state'] == 'failed' and 'no licence' in error.error['data']['lastError']['message']
    assert c.call('servers/connect', {'server': 'demo'})['state'] == 'connected'
    assert c.text('demo', 'tool0') == 'tool0 was called'


def test_pingInterval_finds_a_hung_server(make_daemon):
    d = make_daemon({'demo': fake(server={'pingInterval': 300})})
    c = d.client()
    pid = c.wait_state('demo', 'connected')['pid']
    c.subscribe('servers')
    os.kill(pid, signal.SIGSTOP)
    c.wait_event('events/server', lambda p: p['server']['state'] == 'reconnecting')
    again = c.wait_state('demo', 'connected')
    assert again['pid'] != pid and 'ping' in again['lastError']['message']
    wait_gone(pid)


# -- whose process

def counts(c, n=3):
    return [int(c.text('demo', 'count').split()[0]) for _ in range(n)]


def test_R25_shared_is_one_counter_for_all(make_daemon):
    d = make_daemon({'demo': fake()})
    clients = [d.client() for _ in range(8)]
    assert sorted(n for c in clients for n in counts(c)) == list(range(1, 25))
    assert len(d.servers('fake.py')) == 1


def test_R25_per_client_is_a_counter_for_each(make_daemon):
    d = make_daemon({'demo': fake(server={'sharing': 'per-client'})})
    clients = [d.client() for _ in range(8)]
    for c in clients:
        assert counts(c) == [1, 2, 3]
    instances = clients[0].server('demo')['instances']
    assert len(instances) == 8 and len({i['pid'] for i in instances}) == 8
    assert {i['state'] for i in instances} == {'connected'}
    gone = clients.pop()
    gone.close()
    wait_for(lambda: len(d.servers('fake.py')) == 7, what='the end of the process of a client that has gone')
    assert all(counts(c, 1) == [4] for c in clients)
    assert not listed(clients[0])['demo']['deferred']


def test_R25_exclusive_is_one_client_at_a_time(make_daemon, tmp_path):
    pids = tmp_path / 'pids'
    d = make_daemon({'demo': fake(pids=str(pids), server={'sharing': 'exclusive', 'lazy': True})})
    clients = [d.client() for _ in range(8)]
    calls = [c.tool('demo', 'count') for c in clients]
    for i, (c, call) in enumerate(zip(clients, calls)):
        assert call.wait().result['content'][0]['text'].split()[0] == '1'
        assert counts(c, 2) == [2, 3]
        running = d.servers('fake.py')
        assert len(running) == 1
        # A process of its own each time, and never two.
        assert len(pids.read_text().split()) == i + 1
        assert not any(other.done for other in calls[i + 1:])
        if i % 2:
            c.close()
        else:
            c.call('servers/release', {'server': 'demo'})
    wait_for(lambda: not d.servers('fake.py'), what='the end of the last process')


def test_R25_a_client_killed_while_it_holds_an_exclusive_server(make_daemon):
    d = make_daemon({'demo': fake(server={'sharing': 'exclusive'})})
    a, b = d.client(), d.client()
    held = a.tool('demo', 'hang')
    wait_for(lambda: b.server('demo')['inFlight'] == 1, what='the call in flight')
    waiting = b.tool('demo', 'count')
    a.close()
    assert not held.done
    assert waiting.wait().result['content'][0]['text'].split()[0] == '1'
    assert d.client().fails('servers/release', {'server': 'demo'}).code == -32602

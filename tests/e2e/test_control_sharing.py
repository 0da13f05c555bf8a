"""Sharing modes on the control dialect: `shared`, `per-client`, `exclusive` (ARCHITECTURE "Sharing", R25, servers/release)."""

import subprocess
import time

import pytest
from harness import alive, fake, program, wait_for, wait_gone


def counting(sharing, **more):
    return fake(server={'sharing': sharing, **more})


def test_R25_a_counter_in_all_three_modes(make_daemon):
    daemon = make_daemon({m: counting(m) for m in ('shared', 'per-client', 'exclusive')})
    clients = [daemon.client(name='agent%d' % i) for i in range(8)]
    # shared: one count for all. per-client: each its own.
    counts = sorted(int(c.text('shared', 'count').split()[0]) for c in clients)
    assert counts == list(range(1, 9))
    assert [c.text('per-client', 'count').split()[0] for c in clients for _ in range(2)] == ['1', '2'] * 8
    instances = clients[0].server('per-client')['instances']
    assert sorted(i['client'].split('#')[0] for i in instances) == ['agent%d' % i for i in range(8)]
    assert len({i['pid'] for i in instances}) == 8 and all(i['state'] == 'connected' for i in instances)
    assert 'pid' not in clients[0].server('per-client')
    # exclusive: one process at a time, each client's calls in a row, and nothing of one client left for the next.
    pending = [(c, [c.tool('exclusive', 'count') for _ in range(3)]) for c in clients]
    pids = set()
    while pending:
        holder = wait_for(lambda: clients[0].server('exclusive').get('holder'), what='a holder')
        c, calls = pending.pop(next(i for i, (c, _) in enumerate(pending) if holder.startswith('agent%d#' % clients.index(c))))
        # The fake runs its calls in threads, so in any order.
        assert sorted(call.wait().result['content'][0]['text'].split()[0] for call in calls) == ['1', '2', '3']
        assert all(not call.done for _, others in pending for call in others)
        pids.add(c.tool('exclusive', 'where').wait().result['structuredContent']['pid'])
        assert clients[0].server('exclusive')['queue'] == len(pending)
        assert c.call('servers/release', {'server': 'exclusive'}) == {}
    assert len(pids) == 8


def test_per_client_processes_end_with_their_client(make_daemon):
    daemon = make_daemon({'own': counting('per-client')})
    with daemon.client() as a, daemon.client() as b:
        a.text('own', 'count'), b.text('own', 'count')
        pids = {i['client']: i['pid'] for i in a.server('own')['instances']}
        assert len(pids) == 2
        mine = a.tool('own', 'sleep', {'ms': 700, 'text': 'mine'})
        b.close()
        wait_for(lambda: len(a.server('own')['instances']) == 1)
        left = a.server('own')['instances'][0]['pid']
        wait_gone([pid for pid in pids.values() if pid != left])
        assert alive(left) and mine.wait().result['content'][0]['text'] == 'mine'


def test_tool_lists_come_from_one_cache(make_daemon):
    daemon = make_daemon({'own': fake(tools=3, server={'sharing': 'per-client'})})
    with daemon.client() as a, daemon.client() as b:
        assert len(a.call('tools/list', {'waitMs': 60000})['servers'][0]['tools']) == 3
        a.text('own', 'count')
        assert len(b.call('tools/list')['servers'][0]['tools']) == 3
        assert len(daemon.servers('fake.py')) <= 2


def test_exclusive_clients_wait_in_turn_and_are_told_their_place(make_daemon):
    daemon = make_daemon({'turns': counting('exclusive')})
    clients = [daemon.client(name='c%d' % i) for i in range(4)]
    assert clients[0].text('turns', 'count').split()[0] == '1'
    waiting = []
    for i, c in enumerate(clients[1:], 1):
        waiting.append(c.tool('turns', 'count', _meta={'progressToken': 'place'}))
        wait_for(lambda: clients[0].server('turns').get('queue') == i)
        place = c.wait_event('notifications/progress')
        assert (place['progressToken'], place['progress']) == ('place', -i) and 'turns' in place['message']
    server = clients[0].server('turns')
    assert server['holder'].startswith('c0#') and server['queue'] == 3
    assert not any(w.done for w in waiting)
    assert clients[1].fails('servers/release', {'server': 'turns'}).code == -32602       # not its to give
    assert clients[0].call('servers/release', {'server': 'turns'}) == {}
    assert waiting[0].wait().result['content'][0]['text'].split()[0] == '1'
    wait_for(lambda: clients[0].server('turns')['queue'] == 2)
    clients[3].wait_until(lambda: any(e['params']['progress'] == -2 for e in clients[3].events), what='a better place')
    # One that gives up its place, one that closes while it holds.
    clients[2].notify('notifications/cancelled', {'requestId': waiting[1].id})
    assert waiting[1].wait().error['code'] == -32005
    clients[1].close()
    assert waiting[2].wait().result['content'][0]['text'].split()[0] == '1'


def test_R25_a_client_killed_while_it_holds(make_daemon):
    """A process that SIGKILL ends in mid-call: the next in the queue gets the server, on a new process; the others wait on."""
    daemon = make_daemon({'turns': counting('exclusive')})
    clients = [daemon.client(name='c%d' % i) for i in range(3)]
    holder = subprocess.Popen([program('mcpctl'), 'call', 'turns', 'hang'], env=daemon.environ, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: clients[0].server('turns')['inFlight'] == 1)
    server = clients[0].server('turns')
    assert server['holder'].startswith('mcpctl#')
    waiting = []
    for i, c in enumerate(clients, 1):
        waiting.append(c.tool('turns', 'count'))
        wait_for(lambda: c.server('turns')['queue'] == i)
    holder.kill()
    holder.wait()
    assert waiting[0].wait().result['content'][0]['text'].split()[0] == '1'
    now = clients[0].server('turns')
    assert now['holder'].startswith('c0#') and now['queue'] == 2 and now['pid'] != server['pid']
    wait_gone(server['pid'])
    assert not any(c.call('daemon/status') and w.done for c, w in zip(clients[1:], waiting[1:]))


def test_a_timeout_in_the_queue_says_so(make_daemon):
    daemon = make_daemon({'turns': counting('exclusive')})
    with daemon.client() as holder, daemon.client() as c:
        holder.text('turns', 'count')
        started = time.monotonic()
        error = c.tool('turns', 'count', timeoutMs=300).wait().error
        assert time.monotonic() - started >= 0.3
        assert error['code'] == -32004 and error['data']['queuePosition'] == 1
        assert error['data']['state'] == 'connected' and 'maybeExecuted' not in error['data']
        assert holder.server('turns')['queue'] == 0


def test_the_queue_has_a_limit(make_daemon):
    daemon = make_daemon({'turns': counting('exclusive')}, mcpd={'limits': {'maxExclusiveQueue': 2}})
    clients = [daemon.client() for _ in range(4)]
    clients[0].text('turns', 'count')
    waiting = [c.tool('turns', 'count') for c in clients[1:3]]
    wait_for(lambda: clients[0].server('turns')['queue'] == 2)
    error = clients[3].tool('turns', 'count').wait().error
    assert error['code'] == -32009
    assert (error['data']['limit'], error['data']['value']) == ('maxExclusiveQueue', 2)
    clients[0].close()
    assert waiting[0].wait().result


@pytest.mark.parametrize('sharing', ['shared', 'per-client'])
def test_there_is_nothing_to_release_elsewhere(make_daemon, sharing):
    daemon = make_daemon({'x': counting(sharing)})
    with daemon.client() as c:
        c.text('x', 'count')
        error = c.fails('servers/release', {'server': 'x'})
        assert error.code == -32602 and 'exclusive' in error.message


def test_notifications_of_an_own_instance_are_its_clients_alone(make_daemon):
    daemon = make_daemon({'own': counting('per-client'), 'all': counting('shared')})
    with daemon.client() as a, daemon.client() as b:
        for c in (a, b):
            c.subscribe('notifications')
            c.text('own', 'count')
        a.tool('own', 'notify', {'method': 'notifications/mine'}).wait()
        a.tool('all', 'notify', {'method': 'notifications/everybodys'}).wait()
        assert a.wait_event('events/notification')['method'] == 'notifications/mine'
        assert a.wait_event('events/notification')['method'] == 'notifications/everybodys'
        assert b.wait_event('events/notification')['method'] == 'notifications/everybodys'
        assert not b.events

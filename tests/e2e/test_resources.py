"""What servers use of the machine, in servers/get, servers/list and mcpctl; memoryMax."""

import json
import os

import pytest
from harness import PYTHON, fake, wait_for

BURN = 'import sys,time\nblob = bytearray(%d << 20)\nfor i in range(0, len(blob), 4096): blob[i] = 1\nend = time.process_time() + %f\nwhile time.process_time() < end: pass\n'


def launcher(mib, cpu, *, members=None):
    """A shell that starts a child which takes so much, then becomes the server: the tree counts, not one process."""
    child = '%s -c \'%s\ntime.sleep(600)\' </dev/null >/dev/null &' % (PYTHON, BURN % (mib, cpu))
    server = fake()
    return {'command': '/bin/sh', 'args': ['-c', child + ' exec "$@"', 'sh', server['command'], *server['args']], **(members or {})}


def test_the_whole_tree_is_counted(make_daemon):
    d = make_daemon({'big': launcher(64, 0.3), 'small': fake(), 'off': fake(server={'lazy': True})})
    with d.client() as c:
        for name in ('big', 'small'):
            c.wait_state(name, 'connected')
        big = wait_for(lambda: (r := c.server('big')['resources'])['memoryBytes'] > 64 << 20 and r['cpuMs'] >= 300 and r)
        small = c.server('small')['resources']
        assert big['processes'] == 2 and small['processes'] == 1
        assert 1 << 20 < small['memoryBytes'] < 64 << 20
        listed = {s['name']: s for s in c.call('servers/list')['servers']}
        assert listed['big']['resources']['processes'] == 2 and 'resources' not in listed['off']
        c.subscribe('servers', server='small')
        assert 'resources' not in c.wait_event('events/server')['server']      # nothing walks /proc for an event
    out = d.mcpctl('servers').stdout
    assert 'MEMORY' in out and 'MiB' in out and 'CPU' in out


def test_instances_have_their_own(make_daemon):
    d = make_daemon({'own': fake(server={'sharing': 'per-client'})})
    with d.client(hello=True) as a, d.client(hello=True) as b:
        a.text('own', 'tool0'), b.text('own', 'tool0')
        server = a.server('own')
        assert server['resources']['processes'] == 2
        assert [i['resources']['processes'] for i in server['instances']] == [1, 1]
        assert server['resources']['memoryBytes'] >= sum(i['resources']['memoryBytes'] for i in server['instances']) * 0.9


@pytest.mark.parametrize('value, bytes', [('512M', 512 << 20), ('2G', 2 << 30), (1 << 30, 1 << 30)])
def test_a_memory_limit_that_cannot_be_enforced_is_said_to_be_none(make_daemon, value, bytes):
    d = make_daemon({'f': fake(server={'memoryMax': value})})
    with d.client() as c:
        c.wait_state('f', 'connected')
        server = c.server('f')
        assert server['config']['memoryMax'] == value
        if os.path.exists('/sys/fs/cgroup/cgroup.controllers') and server['memoryMaxEnforced']:
            return
        assert server['memoryMaxEnforced'] is False
    d.stderr.wait('server f: memoryMax is not enforced')


@pytest.mark.parametrize('value', ['lots', '5X', '-1', 17, 1.5, '99999999999999999999', [], '1MM'])
def test_a_bad_memory_limit_fails_its_server_with_a_hint(make_daemon, value):
    d = make_daemon({'f': fake(server={'memoryMax': value})})
    with d.client() as c:
        assert c.server('f')['state'] == 'failed'
        assert '512M' in c.server('f')['lastError']['message'], json.dumps(value)


def test_a_server_that_takes_more_than_its_memory_ends_alone(user_manager):
    """In the service's delegated control group, where there is a memory controller."""
    m = user_manager({'greedy': fake(server={'memoryMax': '64M'}), 'fake': fake()})
    m.install()
    m.systemctl('start', 'mcpd.service')
    with m.client() as c:
        for name in ('greedy', 'fake'):
            c.wait_state(name, 'connected')
        if not c.server('greedy')['memoryMaxEnforced']:
            pytest.skip('no memory controller of control groups v2 is delegated here')
        daemon, pids = c.call('daemon/status')['pid'], [c.server(name)['pid'] for name in ('greedy', 'fake')]
        error = c.tool('greedy', 'bytes', {'size': 256 << 20}).wait().error
        assert error['data']['maybeExecuted'] is True
        lost = wait_for(lambda: next((h for h in c.server('greedy')['history'] if 'memoryMax' in json.dumps(h)), None))
        assert 'out of memory (memoryMax)' in json.dumps(lost)
        c.wait_state('greedy', 'connected')
        assert c.server('greedy')['pid'] != pids[0] and c.server('fake')['pid'] == pids[1]
        assert c.text('greedy', 'tool0') == 'tool0 was called'
        assert c.call('daemon/status')['pid'] == daemon

"""The system refuses something: programs/fault.c makes calls of mcpd fail, for as long as the test wants."""

import errno
import os
import re
import resource
import time

import pytest
from harness import BUILD, fake, wait_for


class Fault:
    def __init__(self, path):
        self.path = path
        self.env = {'LD_PRELOAD': str(BUILD / 'lib' / 'fault.so'), 'MCPD_TEST_FAULT': str(path)}

    def set(self, *lines):
        """Each `function, errno, text`; none: everything works."""
        new = self.path.with_suffix('.new')
        new.write_text(''.join('%s %d %s\n' % (line + ('',))[:3] for line in lines))
        new.rename(self.path)


@pytest.fixture
def fault(tmp_path, monkeypatch):
    # A sanitizer's runtime likes to be the first library.
    monkeypatch.setenv('ASAN_OPTIONS', 'verify_asan_link_order=0')
    return Fault(tmp_path / 'fault')


OWN = {'env': {'LD_PRELOAD': ''}}       # servers are not what is tested


def cpu_seconds(pid):
    fields = open('/proc/%d/stat' % pid).read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


CACHE = [('openat', errno.ENOSPC, '.writing'), ('openat', errno.EACCES, '.writing'), ('write', errno.ENOSPC, '.writing'),
         ('fsync', errno.EIO, '.writing'), ('renameat', errno.ENOSPC, '.tools'), ('mkdir', errno.EACCES, 'cache')]


@pytest.mark.parametrize('what', CACHE, ids=lambda w: '%s-%s' % (w[0], errno.errorcode[w[1]]))
def test_a_cache_that_cannot_be_written_costs_a_cold_start_and_no_more(make_daemon, fault, what):
    d = make_daemon({'f': fake(tools=2, server=OWN)}, env=fault.env, start=False)
    if what[0] == 'mkdir':
        (d.dir / 'cache').rmdir()
    fault.set(what)
    d.start()
    with d.client() as c:
        c.wait_state('f', 'connected')
        assert len(c.call('tools/list')['servers'][0]['tools']) == 2
        c.tool('f', 'setTools', {'tools': ['a']}).wait()
        wait_for(lambda: c.call('tools/list')['servers'][0]['tools'][0]['name'] == 'a')
    assert d.stderr.text.count('cannot be kept in') == 1, d.stderr.text     # told once, with the reason
    assert os.strerror(what[1]) in d.stderr.text
    d.stop()
    assert not [f for f in (d.dir / 'cache').glob('**/*') if 'writing' in f.name]
    fault.set()
    d.write_config({'f': fake(tools=2, server={**OWN, 'lazy': True})})
    d.start()
    with d.client() as c:       # cold: the server has to be asked
        listed = c.call('tools/list', {'waitMs': 60000})['servers'][0]
        assert len(listed['tools']) == 2 and not listed['deferred']


@pytest.mark.parametrize('function, number', [('fork', errno.EAGAIN), ('pipe2', errno.EMFILE), ('socketpair', errno.EMFILE),
                                              ('memfd_create', errno.ENOMEM)])
def test_a_server_that_cannot_be_started_now_is_tried_again(make_daemon, fault, function, number):
    d = make_daemon({'f': fake(server={**OWN, 'lazy': True}), 'up': fake(server=OWN)}, env=fault.env)
    with d.client() as c:
        c.wait_state('up', 'connected')
        fault.set((function, number))
        call = c.tool('f', 'tool0')
        error = wait_for(lambda: c.server('f').get('lastError'))
        assert os.strerror(number) in error['message'], error
        assert c.text('up', 'text', {'text': 'unharmed'}) == 'unharmed'
        fault.set()
        answer = call.wait()
        if answer.error is None:        # it had waited for a better time
            assert answer.result['content'][0]['text'] == 'tool0 was called'
        c.call('servers/connect', {'server': 'f'})
        assert c.text('f', 'tool0') == 'tool0 was called'


@pytest.mark.parametrize('number', [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_connections_that_cannot_be_accepted_wait_and_nothing_spins(make_daemon, fault, number):
    d = make_daemon({'f': fake(server=OWN)}, env=fault.env)
    with d.client() as c:
        c.wait_state('f', 'connected')
        fault.set(('accept4', number))
        before, started = cpu_seconds(d.pid), time.monotonic()
        waiting = d.client()
        request = waiting.request('daemon/status')
        while time.monotonic() < started + 1.5:     # those that are there are served meanwhile
            assert c.text('f', 'text', {'text': 'x'}) == 'x'
            time.sleep(0.1)
        assert cpu_seconds(d.pid) - before < 1.0
        if number == errno.EMFILE:
            assert not request.done or request.error is None
        fault.set()
        # One that was turned away at the limit may come again; the others were only late.
        with d.client() as again:
            assert again.call('daemon/status')['clients'] >= 2


# More than there is room for, and less than a configuration file may have.
LARGE = {'x': {'command': 'x', 'description': 'd' * (12 << 20)}}
EXIT_CONFIG = 4


def address_space(pid):
    return int(re.search(r'VmPeak:\s+(\d+) kB', open('/proc/%d/status' % pid).read()).group(1)) << 10


def set_room(pid, room):
    """As much memory may the process take; None: any amount."""
    soft = resource.RLIM_INFINITY if room is None else address_space(pid) + room
    resource.prlimit(pid, resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))


def test_a_configuration_that_finds_no_memory_changes_nothing(make_daemon):
    d = make_daemon({'f': fake()})
    if address_space(d.pid) > 1 << 40:
        pytest.skip('a sanitizer needs all the address space there is')
    with d.client() as c:
        pid = c.wait_state('f', 'connected')['pid']
        set_room(d.pid, 8 << 20)
        d.write_config({'f': fake(), **LARGE})
        result = c.call('daemon/reload')
        assert [e['message'] for e in result['errors']] == ['out of memory'], result
        assert (result['added'], result['removed'], result['changed'], result['unchanged']) == ([], [], [], 1)
        assert c.call('daemon/status')['config']['errors'] == result['errors']
        assert 'the configuration: out of memory' in d.stderr.text and 'was not reloaded' in d.stderr.text
        assert c.server('f')['pid'] == pid and c.text('f', 'text', {'text': 'unharmed'}) == 'unharmed'
        set_room(d.pid, None)
        assert c.call('daemon/reload')['added'] == ['x']
        assert c.server('f')['pid'] == pid


def test_a_start_that_finds_no_memory_for_the_configuration_says_so(make_daemon):
    d = make_daemon()
    room = address_space(d.pid) + (8 << 20)
    if room > 1 << 40:
        pytest.skip('a sanitizer needs all the address space there is')
    d.stop()
    d.write_config(LARGE)
    d.wrapper = ['sh', '-c', 'ulimit -v %d; exec "$@"' % (room >> 10), 'sh']
    d.start(wait=False)
    stderr = d.stderr
    d.wait_exit(EXIT_CONFIG)
    assert 'the configuration: out of memory' in stderr.text
    d.wrapper = []
    d.start()


def test_a_server_that_does_not_read_fails_its_own_callers(make_daemon, fault):
    """A full pipe: what is for it waits up to serverQueueBytes, then its callers are told."""
    d = make_daemon({'deaf': fake(server=OWN), 'well': fake(server=OWN)}, env=fault.env,
                    mcpd={'limits': {'serverQueueBytes': 1 << 20}})
    with d.client() as c:
        pid = c.wait_state('deaf', 'connected')['pid']
        c.wait_state('well', 'connected')
        os.kill(pid, 19)        # SIGSTOP
        calls = [c.tool('deaf', 'text', {'text': 'x' * 300000}, timeoutMs=60000) for _ in range(8)]
        limited = wait_for(lambda: (c.pump(0.05), [p for p in calls if p.done])[1])
        assert limited[0].error['code'] == -32009 and limited[0].error['data']['limit'] == 'serverQueueBytes'
        assert c.text('well', 'text', {'text': 'unharmed'}) == 'unharmed'
        os.kill(pid, 18)        # SIGCONT: what was taken is answered
        for p in calls:
            answer = p.wait()
            assert answer.error is None or answer.error['code'] == -32009
        assert sum(p.error is None for p in calls) >= 3

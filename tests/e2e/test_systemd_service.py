"""mcpd as a service of a real `systemd --user`: activation, reload, stop, kill, the watchdog (PITFALLS "systemd")."""

import os
import signal
import stat
import subprocess

import pytest
from harness import fake, program, wait_for, wait_gone
from mcpd_client import Client


@pytest.fixture
def m(user_manager):
    """With a server that ends only by force, and its tree: what is left of it would be seen."""
    manager = user_manager({'fake': fake(), 'stubborn': fake(ignoreEof=True, ignoreTerm=True,
                                                             server={'stopGrace': 200})})
    manager.install(WatchdogSec=2)
    manager.systemctl('start', 'mcpd.socket')
    return manager


def both(m):
    """The daemon with both servers; what then runs in the service."""
    with m.client() as c:
        pid = c.call('daemon/status')['pid']
        for name in ('fake', 'stubborn'):
            c.wait_state(name, 'connected')
    assert str(pid) == m.show('MainPID')
    found = m.processes()
    assert len([p for p in found if any('fake.py' in word for word in p.command)]) == 2
    return pid, found


def serves(m):
    """The next connection works, all of it."""
    with m.client() as c:
        c.wait_state('stubborn', 'connected')
        assert c.tool('fake', 'echo', {'a': 1}).wait().result['structuredContent'] == {'a': 1}
        return c.call('daemon/status')['pid']


def test_the_first_connection_starts_the_daemon(m):
    folder = m.socket.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(m.socket.stat().st_mode) == 0o600
    assert m.show('ActiveState') == 'inactive'
    pid, _ = both(m)
    with m.client() as c:
        status = c.call('daemon/status')
        server = c.server('fake')['pid']
    assert status['socket'] == m.runtime + '/mcpd/mcpd.sock'
    assert status['service'] == {'activated': True, 'unit': 'mcpd.service'}
    assert m.show('ActiveState') == 'active' and serves(m) == pid
    # Delegate=yes: the server has a control group of its own, inside the service's.
    groups = [open('/proc/%d/cgroup' % p).read().split('0::')[1].strip() for p in (pid, server)]
    assert all('/mcpd.service/' in g for g in groups) and groups[0] != groups[1]


def test_R11_twenty_first_connections_at_once_start_one_daemon(m):
    clients = [m.client() for _ in range(20)]
    answers = [c.request('daemon/status') for c in clients]
    assert {a.wait().result['pid'] for a in answers} == {int(m.show('MainPID'))}
    assert m.show('NRestarts') == '0'


def test_what_the_service_manager_shows(m):
    both(m)
    wait_for(lambda: m.show('StatusText').startswith('2 of 2 servers connected'), what='the status')
    m.mcpctl('disconnect', 'stubborn')
    wait_for(lambda: m.show('StatusText').startswith('1 of 2 servers connected'), what='the status')


def test_reload(m):
    pid, before = both(m)
    m.daemon.write_config({'fake': fake(), 'new': fake()})
    m.systemctl('reload', 'mcpd.service')
    m.wait_show('ActiveState', 'active')
    with m.client() as c:
        c.wait_state('new', 'connected')
        status = c.call('daemon/status')
        assert status['pid'] == pid and status['servers']['total'] == 2
    # What was removed has gone with all of its tree; what was not touched lives.
    left = [p for p in before if p.pid != pid]
    kept = wait_for(lambda: (lambda now: now if len(now) < len(left) else None)(
        [p for p in left if os.path.exists('/proc/%d' % p.pid)]), what='the end of the server')
    assert len([p for p in kept if any('fake.py' in word for word in p.command)]) == 1


def test_a_reload_of_a_broken_file_changes_nothing(m):
    """R37"""
    pid, before = both(m)
    m.daemon.write_config_text('{')
    m.systemctl('reload', 'mcpd.service')
    m.wait_show('ActiveState', 'active')
    with m.client() as c:
        wait_for(lambda: c.call('daemon/status')['config']['errors'], what='the error')
    assert serves(m) == pid
    assert {p.pid for p in before} <= {p.pid for p in m.processes()}


def test_a_broken_configuration_does_not_cost_the_socket(m):
    """A daemon that ended over it would be started again for the same client, until systemd gives the socket up."""
    m.daemon.write_config_text('{"mcpServers": {"fake": }}')
    with m.client() as c:
        status = c.call('daemon/status')
        assert status['servers']['total'] == 0 and str(m.home) in status['config']['errors'][0]['file']
    wait_for(lambda: '1 error in the configuration' in m.show('StatusText'), what='the status')
    assert 'problem' in m.mcpctl('status').stdout
    m.daemon.write_config({'fake': fake(), 'stubborn': fake()})
    assert m.mcpctl('reload').returncode == 0
    assert serves(m) == status['pid'] and m.show('NRestarts') == '0'


def test_a_patient_server_gets_its_time_at_the_end(m):
    """What "stopGrace" allows may be more than the unit's TimeoutStopSec."""
    m.daemon.write_config({'patient': fake(ignoreEof=True, ignoreTerm=True, server={'stopGrace': 1500})})
    m.write_service((m.units / 'mcpd.service').read_text(), TimeoutStopSec=1)
    m.systemctl('daemon-reload')
    with m.client() as c:
        c.wait_state('patient', 'connected')
        pid = c.server('patient')['pid']
        m.systemctl('stop', 'mcpd.service')
    assert m.show('Result') == 'success'
    wait_gone(pid)


def test_stop_leaves_nothing_but_the_socket(m):
    pid, before = both(m)
    m.systemctl('stop', 'mcpd.service')
    assert m.show('Result') == 'success' and m.show('ActiveState') == 'inactive'
    m.wait_left(before)
    assert not m.processes() and m.socket.exists()
    assert serves(m) != pid


def test_stop_lets_a_call_in_flight_end(m):
    both(m)
    with m.client() as c:
        slow = c.tool('fake', 'sleep', {'ms': 1500, 'text': 'done'})
        c.call('daemon/status')
        stop = m.popen('systemctl', '--user', 'stop', 'mcpd.service')
        assert slow.wait().result['content'][0]['text'] == 'done'
    assert stop.wait(60) == 0
    assert m.show('Result') == 'success'


@pytest.mark.parametrize('whom', ['all', 'main'])
def test_R3_kill_leaves_nothing_and_the_daemon_comes_back(m, whom):
    pid, before = both(m)
    m.systemctl('kill', '-s', 'KILL', '--kill-whom=' + whom, 'mcpd.service')
    m.wait_left(before)
    assert serves(m) != pid
    assert m.show('NRestarts') == '1'


def test_a_hung_loop_is_ended_by_the_watchdog(m):
    pid, before = both(m)
    with m.client() as served:
        served.call('daemon/status')
        # Its sockets are open and it is a live process: all that is missing is that the loop turns.
        os.kill(pid, signal.SIGSTOP)
        with m.client() as waiting:
            status = waiting.request('daemon/status')
            m.wait_left(before)
            served.wait_eof()
            # What was not accepted before is served by the next one: nothing is lost.
            assert status.wait().result['pid'] not in (pid, 0)
    assert m.show('NRestarts') == '1'
    assert serves(m) != pid
    assert any('MESSAGE=mcpd.service: Watchdog timeout' in said for said in m.journal.messages)


def test_shutdown_by_a_client_is_a_success(m):
    pid, before = both(m)
    with m.client() as c:
        assert c.call('daemon/shutdown') == {}
        c.wait_eof()
    m.wait_show('ActiveState', 'inactive')
    assert m.show('Result') == 'success' and m.show('NRestarts') == '0'
    m.wait_left(before)
    assert serves(m) != pid


def test_a_daemon_started_by_hand_makes_way_for_the_socket_unit(m):
    m.systemctl('stop', 'mcpd.socket')
    hand = m.popen(program('mcpd'), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: m.mcpctl('--no-start', 'status').returncode == 0, what='the daemon')
    with m.client() as c:
        assert c.call('daemon/status')['pid'] == hand.pid
        c.wait_state('fake', 'connected')
        slow = c.tool('fake', 'sleep', {'ms': 1500, 'text': 'done'})
        c.call('daemon/status')
        m.systemctl('start', 'mcpd.socket')             # replaces the socket file
        with Client(m.socket) as new:
            pid = new.call('daemon/status')['pid']      # answered once the old one has gone
            assert pid != hand.pid and str(pid) == m.show('MainPID')
            assert slow.wait().result['content'][0]['text'] == 'done'       # which has drained
    assert hand.wait(60) == 0
    assert serves(m) == pid


def test_a_server_sees_nothing_of_the_service_manager(m):
    both(m)
    names = ['LISTEN_FDS', 'LISTEN_PID', 'LISTEN_FDNAMES', 'NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']
    with m.client() as c:
        env = c.tool('fake', 'env', {'names': names}).wait().result['structuredContent']
    assert set(env.values()) == {None}


def test_the_loss_of_a_server_to_the_memory_killer_is_not_the_end_of_all(m):
    """What the kernel's memory killer does to a server, is a SIGKILL; mcpd and the others go on."""
    pid, _ = both(m)
    with m.client() as c:
        os.kill(c.server('stubborn')['pid'], signal.SIGKILL)
        c.wait_state('stubborn', 'reconnecting')
        c.wait_state('stubborn', 'connected')
    assert serves(m) == pid and m.show('OOMPolicy') == 'continue'

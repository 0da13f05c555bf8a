"""`idleExit`: the daemon leaves when nothing is connected or running, the socket brings it back, and who connects in
between is served (daemon/activity.h, daemon/ipc/listener.h)."""

import select
import signal
import socket
import threading
import time

import pytest
from harness import alive, fake, wait_for
from mcpd_client import Client
from service_manager import Activated

LAZY = {'lazy': True, 'idleTimeout': 300}


def left(m):
    m.wait_show('ActiveState', 'inactive')
    assert m.show('Result') == 'success' and not m.processes()


def test_it_leaves_and_the_next_connection_brings_it_back(user_manager):
    m = user_manager({'fake': fake(server=LAZY)}, mcpd={'idleExit': 1000})
    m.install()
    m.systemctl('start', 'mcpd.socket')
    pids = set()
    for _ in range(2):
        with m.client() as c:
            pids.add(c.call('daemon/status')['pid'])
            assert c.tool('fake', 'echo', {'a': 1}).wait().result['structuredContent'] == {'a': 1}
        left(m)
        assert m.socket.exists() and m.show('ActiveState', 'mcpd.socket') == 'active'
    assert len(pids) == 2
    assert m.show('NRestarts') == '0'


def test_a_client_keeps_it(make_daemon):
    daemon = make_daemon({'fake': fake(server=LAZY)}, mcpd={'idleExit': 1000})
    with daemon.client() as c:
        assert c.tool('fake', 'echo', {'a': 1}).wait().result
        c.wait_state('fake', 'idle')
        # Longer than it would wait without a client.
        assert not select.select([c.sock], [], [], 2.5)[0] and daemon.proc.poll() is None
    daemon.wait_exit(0)


def test_a_server_that_runs_keeps_it(make_daemon):
    """One that is not lazy, and one that is and was called, as long as nothing stops them."""
    daemon = make_daemon({'fake': fake(server={'lazy': True})}, mcpd={'idleExit': 1000})
    with daemon.client() as c:
        c.tool('fake', 'echo', {}).wait()
    with pytest.raises(TimeoutError):
        wait_for(lambda: daemon.proc.poll() is not None, 2.5)
    with daemon.client() as c:
        c.call('servers/disconnect', {'server': 'fake'})
    daemon.wait_exit(0)


def test_what_was_disconnected_by_hand_is_not_started_again_by_a_new_daemon(make_daemon):
    daemon = make_daemon({'fake': fake()}, mcpd={'idleExit': 1000})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        c.call('servers/disconnect', {'server': 'fake'})
    with pytest.raises(TimeoutError):
        wait_for(lambda: daemon.proc.poll() is not None, 2.5)
    with daemon.client() as c:
        assert c.server('fake')['state'] == 'idle'


def test_started_by_hand_and_told_to_it_leaves_and_takes_its_socket_with_it(make_daemon):
    daemon = make_daemon({'broken': {'command': 'no-such-program'}}, mcpd={'idleExit': 1000})
    daemon.stderr.wait('leaving until the next connection')
    daemon.wait_exit(0)
    assert not daemon.socket.exists()


def test_the_setting_can_be_changed_by_a_reload(make_daemon):
    daemon = make_daemon({'fake': fake(server=LAZY)})
    daemon.write_config({'fake': fake(server=LAZY)}, mcpd={'idleExit': 1000})
    daemon.signal(signal.SIGHUP)
    daemon.wait_exit(0)


class SocketUnit(threading.Thread):
    """What systemd does with a socket unit: starts the daemon whenever somebody waits and none runs."""

    def __init__(self, activated):
        super().__init__(daemon=True)
        self.activated, self.starts, self.over = activated, 1, False
        self.start()

    def run(self):
        while True:
            status = self.activated.proc.wait()
            while not select.select([self.activated.listening], [], [], 0.05)[0]:
                if self.over:
                    return
            assert status == 0
            self.starts += 1
            self.activated.start()


def test_who_connects_while_it_leaves_is_served(make_daemon):
    """The race between the last look and the end: whenever the connection comes, it is answered."""
    daemon = make_daemon({}, mcpd={'idleExit': 1000}, start=False)
    daemon.socket.parent.mkdir(mode=0o700)
    unit = SocketUnit(Activated(daemon, daemon.socket))
    served = 0
    try:
        with Client(daemon.socket) as c:
            c.call('daemon/status')
        gone_at = time.monotonic() + 1.0
        while unit.starts < 4 and served < 100:
            # Close to when it leaves, from a little before to a little after; on a slow machine that is later.
            time.sleep(max(0, gone_at - time.monotonic() - 0.003 + (served % 10) * 0.001 + served // 10 * 0.01))
            with Client(daemon.socket) as c:
                c.call('daemon/status')
                served += 1
            gone_at = time.monotonic() + 1.0
    finally:
        unit.over = True
        wait_for(lambda: unit.activated.proc.poll() is not None, what='the last leave')
        unit.join(10)
        unit.activated.proc.stderr.close()
        unit.activated.listening.close()
    assert unit.starts > 1, 'it never left'


def test_who_connects_while_it_drains_is_served_by_the_next(user_manager):
    """The same where the moment can be held: a stop that takes its time."""
    m = user_manager({'stubborn': fake(ignoreEof=True, ignoreTerm=True, server={'stopGrace': 700})})
    m.install()
    m.systemctl('start', 'mcpd.socket')
    with m.client() as old:
        pid = old.call('daemon/status')['pid']
        old.wait_state('stubborn', 'connected')
        old.call('daemon/shutdown')
        early = [m.client() for _ in range(20)]
        answers = [c.request('daemon/status') for c in early]
        assert alive(pid)
        pids = {a.wait().result['pid'] for a in answers}
    assert len(pids) == 1 and pid not in pids


def test_a_connection_waiting_at_the_last_moment_keeps_it(make_daemon):
    """It was there before the time was over, but the loop had no time to look."""
    daemon = make_daemon({}, mcpd={'idleExit': 1000})
    daemon.signal(signal.SIGSTOP)
    waiting = socket.socket(socket.AF_UNIX)
    waiting.settimeout(60)
    waiting.connect(str(daemon.socket))
    waiting.sendall(b'{"jsonrpc":"2.0","id":1,"method":"daemon/status"}\n')
    time.sleep(1.2)                 # its clock runs on
    daemon.signal(signal.SIGCONT)
    assert b'"pid":%d' % daemon.pid in waiting.recv(1 << 16)
    waiting.close()
    daemon.wait_exit(0)

"""R3: a server ends with all that it started, on every path, by hand and under systemd: the launcher, and what ignores
the end of its input and every signal, has a session of its own, has closed its stdio (servers/launcher.py).

Each test has two such servers, one whose launcher becomes the server, and one whose launcher waits for it and is as
deaf as the rest; and a third, ordinary one that has nothing to do with their end."""

import os
import signal
import uuid
from pathlib import Path

import harness
import pytest
from harness import HERE, PYTHON, Process, fake, marked, processes, program, wait_for, wait_gone
from service_manager import UserManager

GRACE = 100         # stopGrace, in milliseconds: waited for twice
GONE = 5            # seconds in which the last process has to be gone: that, and what a busy machine needs
TREE = 'MCPD_TEST_TREE'
STAYING = {'recluse', 'holder', 'hydra'}
SIZES = {'becomes': len(STAYING) + 1, 'waits': len(STAYING) + 2}      # with the server, and the launcher


# -- where the daemon runs

class ByHand:
    """Started by its user: without systemd, and without a control group of its own."""

    leaves = 0      # control groups of each server

    def __init__(self, make_daemon):
        self.daemon = make_daemon(start=False)

    def start(self):
        self.daemon.start()
        self.pid = self.daemon.pid

    def client(self):
        return self.daemon.client()

    def ended(self, status):
        self.daemon.wait_exit(status)       # which looks for anything that is left

    def restart(self):
        done = self.daemon.mcpctl('restart', env={'MCPD_PROGRAM': program('mcpd')})
        assert done.returncode == 0, done.stderr

    def end_restarted(self):
        assert self.daemon.mcpctl('shutdown').returncode == 0
        self.ended(0)

    def groups(self, name):
        return []


class Service:
    """The installed unit of a user's systemd, with a delegated control group."""

    leaves = 1

    def __init__(self, manager):
        self.manager, self.daemon = manager, manager.daemon

    def start(self):
        self.manager.systemctl('start', 'mcpd.socket')
        with self.client() as c:
            self.pid = c.call('daemon/status')['pid']
        group = Path('/proc/%d/cgroup' % self.pid).read_text().split('0::')[1].split('\n')[0].strip('/')
        tops = [Path('/sys/fs/cgroup'), Path('/sys/fs/cgroup/unified')]
        self.group = next(top / group for top in tops if (top / group / 'cgroup.procs').exists()).parent

    def client(self):
        return self.manager.client()

    def ended(self, status):
        wait_gone(self.pid)
        if status == 0:
            self.manager.wait_show('ActiveState', 'inactive')
            assert self.manager.show('Result') == 'success' and not self.manager.processes()
        else:       # systemd has started it again
            wait_for(lambda: self.manager.show('MainPID') not in ('0', str(self.pid)), what='the next daemon')

    def restart(self):
        done = self.manager.mcpctl('restart')
        assert done.returncode == 0, done.stderr

    def end_restarted(self):
        wait_gone(self.pid)

    def groups(self, name):
        return list(self.group.glob('server-%s-*' % name))

    def close(self):
        while self.daemon.clients:      # they would be given time to close by themselves
            self.daemon.clients.pop().close()
        self.manager.systemctl('stop', 'mcpd.socket', 'mcpd.service')
        self.manager.systemctl('reset-failed', 'mcpd.socket', 'mcpd.service', check=False)
        assert not self.manager.processes()
        assert not self.daemon.reports(), self.daemon.reports()


@pytest.fixture(scope='module')
def manager(described):
    """One for all tests, each of which starts the service anew."""
    daemon = harness.Daemon(start=False)
    try:
        manager = UserManager(daemon)
        try:
            manager.start()
            manager.install()
            yield manager
        finally:
            manager.close()
    finally:
        daemon.finish()


@pytest.fixture
def by_hand(make_daemon):
    return ByHand(make_daemon)


@pytest.fixture
def service(manager):
    service = Service(manager)
    yield service
    service.close()


@pytest.fixture(params=['by_hand', 'service'])
def place(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope='module', autouse=True)
def figure():
    yield
    print('R3: %(trees)d trees of %(processes)d processes ended, %(left)d left' % Trial.seen)


# -- what is to be ended

def launched(how, mark, server=None, **members):
    """A definition; server: options of servers/fake.py."""
    inner = fake(**{**(server or {}), **({'ignoreEof': True, 'ignoreTerm': True} if how == 'waits' else {})})
    verb = {'becomes': 'exec', 'waits': 'run'}[how]
    return {'command': PYTHON, 'args': [str(HERE / 'servers' / 'launcher.py'), verb, inner['command'], *inner['args']],
            'env': {TREE: mark}, 'stopGrace': GRACE, **members}


class Trial:
    """The servers of one test, in a daemon that has been started for it."""

    seen = {'trees': 0, 'processes': 0, 'left': 0}

    def __init__(self, place, options=None, **members):
        """options: of servers/fake.py, for each of them; members: of both definitions."""
        self.place, self.members, self.options = place, members, options or {}
        self.marks = {name: uuid.uuid4().hex for name in SIZES}
        self.trees, self.heads = {}, {}
        self.configure(*SIZES)
        place.start()
        self.client = place.client()
        for name in SIZES:
            self.grow(name)
        self.other = self.client.wait_state('other', 'connected')['pid']
        (self.guard,) = [p.pid for p in self.guards()]

    def configure(self, *names):
        victims = {name: launched(name, self.marks[name], self.options.get(name), **self.members) for name in names}
        self.place.daemon.write_config({**victims, 'other': fake()})

    def reload(self, *names):
        self.configure(*names)
        with self.place.client() as c:
            c.call('daemon/reload')

    def tree(self, name):
        return marked(self.marks[name], TREE)

    def grow(self, name):
        """Until the server answers, and its tree is really there, with nothing of another one."""
        def whole():
            assert self.client.text(name, 'tool0') == 'tool0 was called'
            tree = self.tree(name)
            return tree if len(tree) == SIZES[name] else None
        tree = wait_for(whole, what='the whole tree of ' + name)
        assert STAYING <= {p.name for p in tree}
        assert not {p.pid for p in tree} & {p.pid for p in self.trees.get(name, [])}
        wait_for(lambda: len(self.place.groups(name)) == self.place.leaves, GONE, 'the one control group of ' + name)
        self.trees[name], self.heads[name] = tree, self.client.server(name).get('pid')
        self.seen['trees'] += 1
        self.seen['processes'] += len(tree)

    def wait_lost(self, name):
        def is_lost():
            server = self.client.server(name)
            return server['state'] != 'connected' or server.get('pid') not in (None, self.heads[name])
        wait_for(is_lost, what='the loss of ' + name)

    def wait_gone(self, *names):
        """Until nothing is left of the trees of the servers, which are not started again."""
        try:
            wait_for(lambda: not any(self.tree(name) for name in names), GONE, 'the end of the trees')
        finally:
            self.seen['left'] += sum(len(self.tree(name)) for name in names)
        wait_for(lambda: not any(self.place.groups(name) for name in names), GONE, 'the end of the control groups')

    def check_unharmed(self):
        """The daemon and its other server."""
        with self.place.client() as c:
            assert c.call('daemon/status')['pid'] == self.place.pid
            assert c.server('other')['pid'] == self.other and c.text('other', 'tool0') == 'tool0 was called'
        ours = {self.place.pid} | {p.pid for p in self.helpers()}
        wait_for(lambda: not [p for p in processes() if p.ppid in ours and p.zombie], GONE, 'the end of zombies')

    def helpers(self, title=''):
        """mcpd-guard and the mcpd-keepers; those of a title."""
        return [p for p in marked(self.place.daemon.id)
                if p.name in ('mcpd-guard', 'mcpd-keeper') and ''.join(p.command[:1]).startswith(title)]

    def guards(self):
        return self.helpers('mcpd-guard')

    def keepers(self):
        return [p for name in SIZES for p in self.helpers('mcpd-keeper: ' + name)]

    def wait_next_guard(self):
        wait_for(lambda: [p.pid for p in self.guards()] not in ([], [self.guard]), what='the next guard')

    def check_started_again(self):
        for name in SIZES:
            self.wait_lost(name)
        for name in SIZES:
            self.grow(name)
        self.check_unharmed()

    def kill(self, *helpers):
        """At once: none of them sees another's end before its own."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for p in helpers:
                os.kill(p if isinstance(p, int) else p.pid, number)


# -- servers that end, while the daemon goes on

def by_disconnect(t):
    t.client.call('servers/disconnect', {'server': 'becomes'})
    done = t.place.daemon.mcpctl('--socket', t.client.path, 'disconnect', 'waits')
    assert done.returncode == 0, done.stderr


def by_their_last_client(t):
    t.client.close()


def by_idleTimeout(t):
    """Which comes by itself."""


def by_a_reload_without_them(t):
    t.reload()


def by_a_reload_that_disables_them(t):
    t.members = {'enabled': False}
    t.reload(*SIZES)


@pytest.mark.parametrize('end, members', [
    (by_disconnect, {}), (by_their_last_client, {'sharing': 'per-client'}), (by_idleTimeout, {'idleTimeout': 300}),
    (by_a_reload_without_them, {}), (by_a_reload_that_disables_them, {})],
    ids=lambda v: v.__name__ if callable(v) else '')
def test_R3_servers_that_are_ended(place, end, members):
    t = Trial(place, **members)
    end(t)
    t.wait_gone(*SIZES)
    t.check_unharmed()


def test_R3_servers_that_are_started_anew(place):
    """A changed definition, and a reconnect by hand: the old tree goes, the new one stays."""
    t = Trial(place)
    before, t.marks = t.marks, {name: uuid.uuid4().hex for name in SIZES}
    t.reload(*SIZES)
    for name in SIZES:
        t.grow(name)
    wait_for(lambda: not any(marked(mark, TREE) for mark in before.values()), GONE, 'the end of the trees')
    for name in SIZES:
        t.client.call('servers/reconnect', {'server': name})
        t.grow(name)
    t.check_unharmed()


def test_R3_servers_that_fail_until_the_breaker_opens(place, tmp_path):
    """Five lose their heads while they run; the next one exits in the handshake."""
    state = {name: tmp_path / (name + '.state') for name in SIZES}
    pids = {name: tmp_path / (name + '.pids') for name in SIZES}
    for name in SIZES:
        state[name].write_text('{"exits": 9}')
    # Three processes are one attempt: as it was before, then with the probe, then without it.
    t = Trial(place, {name: {'state': str(state[name]), 'pids': str(pids[name]), 'exitTimes': 3,
                             'exitAt': {'when': 'initialize', 'status': 3}} for name in SIZES})
    for left in range(4, -1, -1):
        for name in SIZES:
            if left == 0:
                state[name].write_text('{"exits": 0}')
            os.kill(t.heads[name], signal.SIGKILL)
        for name in SIZES:
            t.wait_lost(name)
            if left:
                t.grow(name)
    for name in SIZES:
        t.client.wait_state(name, 'failed')
    t.wait_gone(*SIZES)
    for path in pids.values():
        assert len(path.read_text().split()) == 5 + 3
    t.check_unharmed()


# -- the daemon ends

def by_daemon_shutdown(t):
    t.client.call('daemon/shutdown')
    return 0


def by_SIGTERM(t):
    t.client.close()        # it would be given time to do so
    os.kill(t.place.pid, signal.SIGTERM)
    return 0


def by_SIGKILL(t):
    os.kill(t.place.pid, signal.SIGKILL)
    return -signal.SIGKILL


@pytest.mark.parametrize('end', [by_daemon_shutdown, by_SIGTERM, by_SIGKILL], ids=lambda f: f.__name__)
def test_R3_a_daemon_that_ends(place, end):
    t = Trial(place)
    t.configure()       # for the daemon that systemd starts in its place
    status = end(t)
    t.wait_gone(*SIZES)
    place.ended(status)


def test_R3_mcpctl_restart(place):
    t = Trial(place)
    t.configure()
    place.restart()
    t.wait_gone(*SIZES)
    place.end_restarted()


# -- processes that were stopped

@pytest.mark.parametrize('end', [by_disconnect, by_SIGTERM, by_SIGKILL], ids=lambda f: f.__name__)
@pytest.mark.parametrize('helpers', [False, True], ids=['trees', 'helpers, too'])
def test_R3_processes_that_are_stopped(place, helpers, end):
    t = Trial(place)
    stopped = [p.pid for tree in t.trees.values() for p in tree]
    if helpers:
        stopped += [p.pid for p in t.keepers() + (t.guards() if end is not by_disconnect else [])]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: all(Process(pid).state == 'T' for pid in stopped), what='the stop')
    t.configure()
    status = end(t)
    t.wait_gone(*SIZES)
    if status is None:
        t.check_unharmed()
    else:
        place.ended(status)


# -- mcpd's own helpers are killed

def test_R3_keepers_that_are_killed(place):
    """The guard ends what they kept, and the daemon starts the servers again."""
    t = Trial(place)
    t.kill(*t.keepers())
    t.check_started_again()
    t.reload()
    t.wait_gone(*SIZES)


def test_R3_a_guard_that_is_killed(place):
    """Another one is started, and the servers do not notice."""
    t = Trial(place)
    t.kill(*t.guards())
    t.wait_next_guard()
    for name in SIZES:
        assert t.client.text(name, 'tool0') == 'tool0 was called'
        assert {p.pid for p in t.tree(name)} == {p.pid for p in t.trees[name]}
    by_disconnect(t)
    t.wait_gone(*SIZES)
    t.check_unharmed()
    for name in SIZES:
        t.client.call('servers/connect', {'server': name})
        t.grow(name)
    t.configure()
    place.ended(by_SIGTERM(t))
    t.wait_gone(*SIZES)


@pytest.mark.parametrize('at_once', [True, False], ids=['at once', 'one after the other'])
def test_R3_keepers_whose_guard_was_killed_as_well(place, at_once):
    """What they kept comes to the daemon."""
    t = Trial(place)
    keepers = t.keepers()
    if at_once:
        t.kill(*t.guards(), *keepers)
    else:
        t.kill(*t.guards())
        t.wait_next_guard()
        t.kill(*keepers)
    t.check_started_again()
    t.configure()
    place.ended(by_SIGTERM(t))
    t.wait_gone(*SIZES)


@pytest.mark.parametrize('helpers', ['guards', 'keepers'])
def test_R3_a_daemon_that_is_killed_with_helpers(place, helpers):
    """Keepers do without their guard, and the guard does without keepers."""
    t = Trial(place)
    t.configure()
    t.kill(place.pid, *getattr(t, helpers)())
    t.wait_gone(*SIZES)
    place.ended(-signal.SIGKILL)

"""mcpctl restart, and the word about a daemon that is older than mcpctl."""

import json
import os
import re
import subprocess

import pytest
from harness import Output, alive, fake, marked, program, wait_for, wait_gone

VERSION = subprocess.run([program('mcpd'), '--version'], stdout=subprocess.PIPE, text=True).stdout.split()[1]


def said(done, status=0):
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def older_program(daemon, version='0.0.9'):
    """The mcpd of this build, under an older version's number: the same program otherwise."""
    assert len(version) == len(VERSION)
    bytes = open(program('mcpd'), 'rb').read()
    assert VERSION.encode() in bytes
    path = daemon.path('older-mcpd')
    path.write_bytes(bytes.replace(VERSION.encode() + b'\0', version.encode() + b'\0'))
    path.chmod(0o755)
    return str(path)


class ByHand:
    """A daemon that mcpctl restarts: what runs afterwards is no child of the test's."""

    def __init__(self, daemon, *command):
        self.daemon = daemon
        self.proc = subprocess.Popen(command, env=daemon.environ, cwd=daemon.dir, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.stderr = Output(self.proc.stderr)
        self.stderr.wait('is listening on')

    def mcpctl(self, *args, **env):
        return self.daemon.mcpctl(*args, env={'MCPD_PROGRAM': program('mcpd'), **env})

    def end(self):
        if self.daemon.socket.exists():
            self.mcpctl('shutdown')
        wait_for(lambda: not marked(self.daemon.id), what='the end of all processes')
        self.proc.wait()
        self.stderr.thread.join(5)
        self.proc.stderr.close()


@pytest.fixture
def by_hand(make_daemon):
    made = []

    def make(servers, *command, **options):
        daemon = make_daemon(servers, start=False, **options)
        made.append(ByHand(daemon, *(command or (program('mcpd'),))))
        return made[-1]

    yield make
    for hand in made:
        hand.end()


# -- started by hand

def test_calls_in_flight_end_before_the_new_daemon_starts(by_hand):
    h = by_hand({'fake': fake()})
    with h.daemon.client() as c:
        server = c.wait_state('fake', 'connected')['pid']
        slow = c.tool('fake', 'sleep', {'ms': 1500, 'text': 'done'})
        c.call('daemon/status')
        restart = subprocess.Popen([program('mcpctl'), 'restart'], stdout=subprocess.PIPE, text=True,
                                   env={**h.daemon.environ, 'MCPD_PROGRAM': program('mcpd')})
        h.stderr.wait('shutting down')
        assert c.tool('fake', 'tool0').wait().error['code'] == -32002       # new ones are refused
        assert slow.wait().result['content'][0]['text'] == 'done'
        c.wait_eof()
    out = restart.communicate(timeout=60)[0]
    assert restart.returncode == 0
    assert h.proc.wait(60) == 0 and not alive(server)
    with h.daemon.client() as c:
        new = c.call('daemon/status')['pid']
        assert new != h.proc.pid
    assert out == 'mcpd %s, pid %d (before: %s, pid %d)\n' % (VERSION, new, VERSION, h.proc.pid)


def test_with_json_it_is_the_new_daemons_status(by_hand):
    h = by_hand({'fake': fake()})
    status = json.loads(said(h.mcpctl('restart', '--json')))
    assert status['pid'] != h.proc.pid and status['servers']['total'] == 1


def test_without_a_daemon_it_starts_one(make_daemon):
    daemon = make_daemon({'fake': fake()}, start=False)
    text = said(daemon.mcpctl('restart', env={'MCPD_PROGRAM': program('mcpd')}))
    assert re.fullmatch(r'mcpd %s, pid \d+\n' % re.escape(VERSION), text)
    said(daemon.mcpctl('shutdown'))
    wait_for(lambda: not marked(daemon.id), what='the end of all processes')


def test_a_daemon_with_other_files_is_not_turned_into_one_without(by_hand, tmp_path):
    (tmp_path / 'other.json').write_text('{"mcpServers": {}}')
    h = by_hand({'fake': fake()}, program('mcpd'), '--config', str(tmp_path / 'other.json'))
    done = h.mcpctl('restart')
    assert done.returncode == 1 and 'other configuration files' in done.stderr and 'mcpctl shutdown' in done.stderr
    with h.daemon.client() as c:
        assert c.call('daemon/status')['pid'] == h.proc.pid
    assert 'cannot' in h.mcpctl('--no-start', 'restart').stderr


# -- an upgrade

def test_an_older_daemon_is_noticed_and_replaced(by_hand, make_daemon):
    old = older_program(make_daemon(start=False))
    h = by_hand({'fake': fake()}, old)
    done = h.mcpctl('servers')
    assert 'fake' in said(done)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and 'mcpd 0.0.9, older than this mcpctl (%s)' % VERSION in lines[0]
    assert 'mcpctl restart' in lines[0]
    assert h.mcpctl('servers', '--json').stderr == ''
    assert 'mcpd %s, pid' % VERSION in said(h.mcpctl('restart')) and h.proc.wait(60) == 0
    assert h.mcpctl('servers').stderr == ''


def test_a_newer_daemon_is_nobodys_trouble(by_hand, make_daemon):
    h = by_hand({'fake': fake()}, older_program(make_daemon(start=False), '0.9.0'))
    done = h.mcpctl('status')
    assert 'mcpd 0.9.0' in said(done) and done.stderr == ''


def test_a_restart_that_brings_the_old_one_back_says_where_to_look(by_hand, make_daemon):
    old = older_program(make_daemon(start=False))
    h = by_hand({'fake': fake()}, old)
    done = h.mcpctl('restart', MCPD_PROGRAM=old)
    assert 'mcpd 0.0.9' in said(done) and 'still mcpd 0.0.9' in done.stderr and 'MCPD_PROGRAM' in done.stderr


# -- run by systemd

def test_the_socket_unit_brings_the_new_one(user_manager):
    m = user_manager({'fake': fake()})
    m.install()
    m.systemctl('start', 'mcpd.socket')
    with m.client() as c:
        pid = c.call('daemon/status')['pid']
        c.wait_state('fake', 'connected')
        slow = c.tool('fake', 'sleep', {'ms': 1000, 'text': 'done'})
        c.call('daemon/status')
        done = m.mcpctl('restart')
        assert slow.wait().result['content'][0]['text'] == 'done'
    assert 'before: %s, pid %d' % (VERSION, pid) in said(done)
    new = int(m.show('MainPID'))
    assert 'pid %d ' % new in done.stdout and new != pid
    assert m.show('NRestarts') == '0'


def test_after_an_upgrade_under_the_unit(user_manager):
    m = user_manager({'fake': fake()})
    older = older_program(m.daemon)
    m.install()
    unit = (m.units / 'mcpd.service').read_text()
    (m.units / 'mcpd.service').write_text(unit.replace('ExecStart=' + program('mcpd'), 'ExecStart=' + older))
    m.systemctl('daemon-reload')
    m.systemctl('start', 'mcpd.socket')
    assert 'mcpd 0.0.9' in m.mcpctl('status').stderr
    # As a package manager does it: another file under the same name, while the old one runs.
    os.rename(older, older + '.gone')
    os.symlink(program('mcpd'), older)
    assert 'mcpd %s' % VERSION in said(m.mcpctl('restart'))
    assert m.mcpctl('status').stderr == ''


def test_a_unit_without_a_socket_is_restarted_by_systemd(user_manager):
    m = user_manager({'fake': fake()})
    (m.units / 'own.service').write_text('[Service]\nType=notify\nDelegate=yes\nKillMode=mixed\nExecStart=%s\n' %
                                         program('mcpd'))
    m.systemctl('daemon-reload')
    m.systemctl('start', 'own.service')
    status = m.client().call('daemon/status')
    assert status['service'] == {'activated': False, 'unit': 'own.service'}
    assert re.search(r'^service +own.service$', m.mcpctl('status').stdout, re.M)
    said(m.mcpctl('restart'))
    assert m.show('MainPID', 'own.service') == str(m.client().call('daemon/status')['pid']) != str(status['pid'])
    wait_gone(status['pid'])


def test_what_a_unit_merely_started_is_not_taken_for_it(user_manager):
    """An agent that is a service, and the daemon that it starts: restarting the agent would be the wrong thing."""
    m = user_manager({'fake': fake()})
    (m.units / 'agent.service').write_text('[Service]\nKillMode=none\nExecStart=/bin/sh -c "%s & wait"\n' % program('mcpd'))
    m.systemctl('daemon-reload')
    m.systemctl('start', 'agent.service')
    wait_for(lambda: m.mcpctl('--no-start', 'status').returncode == 0, what='the daemon')
    with m.client() as c:
        assert 'service' not in c.call('daemon/status')
        c.call('daemon/shutdown')
        c.wait_eof()

"""Where the socket is, who may use it, one daemon per socket, the daemon's start and end (PROTOCOL "Framing", PITFALLS
"Sockets" and "systemd", R11, R38)."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import alive, fake, marked, program, wait_for, wait_gone
from mcpd_client import Client
from service_manager import Activated

ANOTHER_RUNS, BAD_CONFIG, FAILED, USAGE = 3, 4, 1, 2


def run(daemon, *args, env=None, without=(), timeout=60):
    """Runs mcpd in the daemon's environment until it ends."""
    environ = {k: v for k, v in daemon.environ.items() if k not in without}
    return subprocess.run([program('mcpd'), *map(str, args)], env={**environ, **(env or {})}, cwd=daemon.dir, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)


@pytest.fixture
def stopped(make_daemon):
    """A daemon's folders and environment, without a daemon."""
    return make_daemon(start=False)


# -- paths

def test_directory_and_socket_are_the_users_alone(make_daemon):
    daemon = make_daemon()
    assert stat.S_IMODE(os.lstat(daemon.socket.parent).st_mode) == 0o700
    assert stat.S_IMODE(os.lstat(daemon.socket).st_mode) & 0o077 == 0
    with daemon.client() as c:
        assert c.call('daemon/status')['socket'] == str(daemon.socket)
    daemon.stop()
    assert not daemon.socket.exists()


def test_option_beats_variable_beats_default(make_daemon):
    daemon = make_daemon(start=False)
    daemon.extra_env['MCPD_SOCKET'] = str(daemon.path('variable.sock'))
    daemon.start()
    with Client(daemon.path('variable.sock')) as c:
        assert c.call('daemon/status')['socket'].endswith('variable.sock')
    daemon.stop()
    daemon.args = ['--socket', 'option.sock']       # relative to the working directory
    daemon.start()
    with Client(daemon.path('option.sock')) as c:
        assert c.call('daemon/status')['socket'] == str(daemon.path('option.sock'))
    assert not daemon.path('variable.sock').exists() and not daemon.socket.exists()


def test_R38_a_path_that_is_too_long_is_told_whole(stopped):
    path = str(stopped.dir / ('x' * 120))
    ended = run(stopped, '--socket', path)
    assert ended.returncode == FAILED
    assert path in ended.stderr and '107' in ended.stderr


def test_without_a_runtime_directory_it_says_what_to_set(stopped):
    standard = '/run/user/%d' % os.getuid()
    if os.path.isdir(standard):
        pytest.skip('%s is there' % standard)
    ended = run(stopped, without=('XDG_RUNTIME_DIR',))
    assert ended.returncode == FAILED
    assert 'XDG_RUNTIME_DIR' in ended.stderr and standard in ended.stderr and 'MCPD_SOCKET' in ended.stderr


@pytest.mark.parametrize('spoil, part', [
    (lambda d: d.mkdir(mode=0o750) or d.chmod(0o750), 'chmod 700'),
    (lambda d: d.symlink_to('elsewhere'), 'not a directory'),
    (lambda d: d.write_text(''), 'not a directory'),
])
def test_a_directory_that_is_not_ours_alone_is_refused(stopped, spoil, part):
    directory = stopped.socket.parent
    (directory.parent / 'elsewhere').mkdir()
    spoil(directory)
    ended = run(stopped)
    assert ended.returncode == FAILED
    assert part in ended.stderr and str(directory) in ended.stderr
    assert not list((directory.parent / 'elsewhere').iterdir())


def test_R38_a_stale_socket_is_replaced(make_daemon):
    daemon = make_daemon()
    daemon.kill()
    assert daemon.socket.exists()
    with pytest.raises(ConnectionRefusedError):
        Client(daemon.socket)
    daemon.start()
    with daemon.client() as c:
        assert c.call('daemon/status')['pid'] == daemon.pid


def test_R38_a_file_in_the_sockets_place_is_left_alone(stopped):
    stopped.socket.parent.mkdir(mode=0o700)
    stopped.socket.write_text('precious')
    ended = run(stopped)
    assert ended.returncode == FAILED and str(stopped.socket) in ended.stderr and 'no socket' in ended.stderr
    assert stopped.socket.read_text() == 'precious'


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which('unshare'), reason='needs root to mount a full disk')
def test_R38_a_full_disk_is_told_at_once(stopped):
    script = ('mount -t tmpfs -o nr_inodes=1,mode=700 tmpfs "$XDG_RUNTIME_DIR" && exec %s' % program('mcpd'))
    started = time.monotonic()
    ended = subprocess.run(['unshare', '-m', 'sh', '-c', script], env=stopped.environ, text=True, timeout=60,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if 'unshare: ' in ended.stderr or ('mount' in ended.stderr and 'permitted' in ended.stderr):
        pytest.skip('mounting is not permitted here')
    assert ended.returncode == FAILED
    assert 'No space left on device' in ended.stderr and str(stopped.socket.parent) in ended.stderr
    assert time.monotonic() - started < 30


# -- one daemon

def test_R11_a_second_daemon_ends_with_a_status_of_its_own(make_daemon):
    daemon = make_daemon({'fake': fake()})
    ended = run(daemon)
    assert ended.returncode == ANOTHER_RUNS
    assert str(daemon.pid) in ended.stderr and str(daemon.socket) in ended.stderr
    with daemon.client() as c:
        assert c.call('daemon/status')['pid'] == daemon.pid


def test_R11_twenty_starts_at_once_give_one_daemon(make_daemon):
    daemon = make_daemon({'fake': fake(pids='/dev/null')}, start=False)
    procs = [subprocess.Popen([program('mcpd')], env=daemon.environ, cwd=daemon.dir, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True) for _ in range(20)]
    try:
        wait_for(lambda: sum(p.poll() is not None for p in procs) >= 19, what='the end of nineteen')
        statuses = sorted(p.returncode for p in procs if p.poll() is not None)
        assert statuses == [ANOTHER_RUNS] * 19
        winner = next(p for p in procs if p.poll() is None)
        with Client(daemon.socket) as c:
            assert c.call('daemon/status')['pid'] == winner.pid
            c.wait_state('fake', 'connected')
        assert len(daemon.servers('fake.py')) == 1
        winner.terminate()
        assert winner.wait(60) == 0
    finally:
        for p in procs:
            p.kill() if p.poll() is None else None
            p.wait()
            p.stderr.close()
    wait_for(lambda: not marked(daemon.id), what='the end of all processes')


def test_a_daemon_that_is_leaving_is_waited_for(make_daemon):
    """What starts while the old one still drains becomes the new one; it does not give up, nor take the socket away."""
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        slow = c.tool('fake', 'sleep', {'ms': 1500, 'text': 'done'})
        c.call('daemon/status')
        daemon.signal(signal.SIGTERM)
        wait_for(lambda: not daemon.socket.exists(), what='the end of listening')
        second = subprocess.Popen([program('mcpd')], env=daemon.environ, cwd=daemon.dir, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert slow.wait().result['content'][0]['text'] == 'done'
            assert daemon.proc.wait(60) == 0
            wait_for(daemon.socket.exists, what='the new socket')
            with Client(daemon.socket) as other:
                assert other.call('daemon/status')['pid'] == second.pid
        finally:
            second.terminate()
            assert second.wait(60) == 0
    daemon.wait_exit(0)


def test_the_lock_goes_with_its_process(make_daemon):
    """Servers inherit neither the lock nor the socket: a daemon that was killed can be followed at once."""
    daemon = make_daemon({'fake': fake(ignoreEof=True)})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        where = c.tool('fake', 'where').wait().result['structuredContent']
    assert not [d for d in where['descriptors'].values() if 'sock' in d or 'lock' in d]
    daemon.kill()
    daemon.start()
    with daemon.client() as c:
        assert c.call('daemon/status')['pid'] == daemon.pid


# -- other users

needs_root = pytest.mark.skipif(os.getuid() != 0, reason='needs root to become somebody else')


def as_nobody(daemon, *command):
    return subprocess.run([str(c) for c in command], user=65534, group=65534, extra_groups=[], cwd='/', text=True,
                          env={'PATH': '/usr/bin:/bin', 'HOME': '/'}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)


@needs_root
def test_other_users_are_refused_by_their_credentials(make_daemon):
    """Even where the modes would let them in. They are told why, and nothing of what they send is looked at."""
    daemon = make_daemon({'fake': fake()}, start=False)
    path = daemon.path('s.sock')
    daemon.args = ['--socket', str(path)]
    daemon.dir.chmod(0o755)
    daemon.start()
    os.chmod(path, 0o666)
    code = ('import socket,sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ns.settimeout(30)\n'
            'try: s.sendall(b\'{"jsonrpc":"2.0","id":1,"method":"daemon/shutdown"}\\n\')\nexcept OSError: pass\n'
            'data = b""\ntry:\n while (d := s.recv(1000)): data += d\nexcept ConnectionResetError: pass\n'
            'print(data.decode())\n')
    other = as_nobody(daemon, '/usr/bin/python3', '-c', code, path)
    [line] = other.stdout.split('\n')[:-2]
    answer = json.loads(line)
    assert answer['id'] is None and answer['error']['code'] == -32600
    assert 'uid 0 alone' in answer['error']['message'] and 'uid 65534' in answer['error']['message']
    daemon.stderr.wait('refused a connection from process [0-9]+ of uid 65534')
    told = as_nobody(daemon, program('mcpctl'), '--socket', path, 'status')
    if told.returncode != 126:          # the build's folder may be closed to others
        assert told.returncode == 4 and 'refused' in told.stderr and 'uid 65534' in told.stderr
    with Client(path) as c:
        assert c.call('daemon/status')['clients'] == 1
        assert c.wait_state('fake', 'connected')


@needs_root
def test_other_users_do_not_even_reach_the_socket(make_daemon):
    daemon = make_daemon()
    daemon.dir.chmod(0o755)
    daemon.socket.parent.parent.chmod(0o755)
    tried = as_nobody(daemon, '/usr/bin/python3', '-c', 'import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])',
                      daemon.socket)
    assert 'PermissionError' in tried.stderr


@needs_root
@pytest.mark.parametrize('standard', [True, False])
def test_another_users_directory_is_refused(stopped, standard):
    directory = stopped.socket.parent
    directory.mkdir(mode=0o700)
    os.chown(directory, 65534, 65534)
    ended = run(stopped, *([] if standard else ['--socket', stopped.socket]))
    assert ended.returncode == FAILED and 'belongs to another user (uid 65534)' in ended.stderr
    assert str(directory) in ended.stderr


def test_a_directory_that_others_may_change_is_refused_wherever_it_is(stopped):
    directory = stopped.path('open')
    directory.mkdir()
    for mode, fine in ((0o777, False), (0o770, False), (0o1777, True), (0o755, True)):
        directory.chmod(mode)
        stopped.args = ['--socket', str(directory / 's.sock')]
        if fine:
            stopped.start()
            assert stat.S_IMODE(os.lstat(directory / 's.sock').st_mode) & 0o077 == 0
            stopped.stop()
        else:
            ended = run(stopped, *stopped.args)
            assert ended.returncode == FAILED and 'open to others (mode %03o)' % mode in ended.stderr


def test_nothing_listens_on_a_network_address(make_daemon):
    """Nor on an abstract address, which has no modes. With servers of every kind, and clients."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / 'servers'))
    from fake_http import FakeHttp
    with FakeHttp() as web, FakeHttp(old=True) as old:
        daemon = make_daemon({'fake': fake(), 'web': web.definition(), 'old': {**old.definition(), 'type': 'sse'}})
        with daemon.client() as c:
            for server in ('fake', 'web', 'old'):
                c.wait_state(server, 'connected')
            sockets = {d[len('socket:['):-1] for d in daemon.descriptors() if d.startswith('socket:[')}
            assert sockets
            bound = set()
            for kind in ('tcp', 'tcp6', 'udp', 'udp6', 'raw', 'raw6'):
                for line in Path('/proc/%d/net/%s' % (daemon.pid, kind)).read_text().splitlines()[1:]:
                    fields = line.split()
                    remote, state, inode = fields[2], fields[3], fields[9]
                    # Listening; or, where nothing listens, bound and not connected.
                    taken = state == '0A' if kind.startswith('tcp') else int(remote.split(':')[0], 16) == 0
                    if inode in sockets and taken:
                        bound.add(line)
            assert not bound, bound
            unix = [line.split() for line in Path('/proc/%d/net/unix' % daemon.pid).read_text().splitlines()[1:]]
            names = {fields[7] for fields in unix if len(fields) > 7 and fields[6] in sockets}
            assert names == {str(daemon.socket)}


# -- the start

def test_version_and_help(stopped):
    version = run(stopped, '--version')
    assert version.returncode == 0 and version.stdout.startswith('mcpd ')
    text = run(stopped, '--help')
    assert text.returncode == 0
    for option in ('--config', '--socket', '--check-config', '--log-level', '--background', 'Exit status'):
        assert option in text.stdout


@pytest.mark.parametrize('args', [['--nonsense'], ['stray'], ['--log-level', 'loud'], ['--config']])
def test_a_wrong_command_line_is_told(stopped, args):
    ended = run(stopped, *args)
    assert ended.returncode == USAGE and ended.stderr.startswith(('mcpd:', program('mcpd')))


def test_a_missing_default_configuration_is_fine(make_daemon):
    daemon = make_daemon(config=False)
    with daemon.client() as c:
        status = c.call('daemon/status')
        assert status['servers']['total'] == 0 and status['config']['errors'] == []
    daemon.stderr.wait(re.escape(str(daemon.config_path)))


def test_a_named_configuration_must_be_there(stopped):
    ended = run(stopped, '--config', stopped.path('none.json'))
    assert ended.returncode == BAD_CONFIG and str(stopped.path('none.json')) in ended.stderr
    assert not stopped.socket.exists()


def test_a_broken_configuration_stops_the_start_with_all_its_problems(stopped):
    stopped.write_config_text('{"mcpServers": {"a": {"command": "x",}}}')
    ended = run(stopped)
    assert ended.returncode == BAD_CONFIG and str(stopped.config_path) in ended.stderr
    assert '--check-config' in ended.stderr
    assert not stopped.socket.exists()


def test_one_bad_server_does_not_stop_the_start(make_daemon):
    daemon = make_daemon({'bad': {'command': 7}, 'good': fake()})
    with daemon.client() as c:
        c.wait_state('good', 'connected')
        status = c.call('daemon/status')
        assert status['servers']['failed'] == 1
        assert [(e['server'], e['file']) for e in status['config']['errors']] == [('bad', str(daemon.config_path))]
    daemon.stderr.wait('bad')


def test_several_files_and_their_order(make_daemon):
    daemon = make_daemon(start=False)
    for name, servers in (('a', {'one': fake(name='a-one'), 'two': fake()}), ('b', {'one': fake(name='b-one')})):
        daemon.path(name + '.json').write_text(json.dumps({'mcpServers': servers}))
    daemon.args = ['--config', 'a.json', '--config', 'b.json']
    daemon.start()
    with daemon.client() as c:
        status = c.call('daemon/status')
        assert status['config']['files'] == [str(daemon.path('a.json')), str(daemon.path('b.json'))]
        assert status['servers']['total'] == 2
        assert status['config']['warnings']
        assert c.wait_state('one', 'connected')['serverInfo']['name'] == 'b-one'


def test_log_level(make_daemon):
    daemon = make_daemon(mcpd={'logLevel': 'debug'}, args=['--log-level', 'error'])
    daemon.stop()
    assert daemon.stderr.text == ''


def test_in_the_background_it_lets_go_of_its_output_once_it_listens(make_daemon):
    daemon = make_daemon({'fake': fake()}, start=False)
    proc = subprocess.Popen([program('mcpd'), '--background'], env=daemon.environ, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # The pipes end although the daemon, and its server, live.
        out, err = proc.stdout.read(), proc.stderr.read()
        assert out == b'' and b'listening' in err
        assert proc.poll() is None
        with Client(daemon.socket) as c:
            c.wait_state('fake', 'connected')
    finally:
        proc.terminate()
        assert proc.wait(60) == 0
        proc.stdout.close(), proc.stderr.close()
    wait_for(lambda: not marked(daemon.id), what='the end of all processes')


# -- the service manager

def test_an_inherited_socket_is_used_and_left(make_daemon):
    daemon = make_daemon({'fake': fake()}, start=False)
    daemon.socket.parent.mkdir(mode=0o700)
    before = os.umask(0o077)
    try:
        activated = Activated(daemon, daemon.socket)
    finally:
        os.umask(before)
    with Client(daemon.socket) as c:        # it may connect before the daemon runs
        status = c.call('daemon/status')
        assert status['pid'] == activated.proc.pid and status['socket'] == str(daemon.socket)
        c.wait_state('fake', 'connected')
        where = c.tool('fake', 'where').wait().result['structuredContent']
        names = c.tool('fake', 'env', {'names': ['LISTEN_FDS', 'LISTEN_PID', 'NOTIFY_SOCKET', 'WATCHDOG_USEC']})
        assert set(names.wait().result['structuredContent'].values()) == {None}
        assert not [d for d in where['descriptors'].values() if d.startswith('socket:')]
    assert activated.end() == 0
    assert daemon.socket.exists()
    # It still listens: the next client waits in its backlog for the next daemon.
    with Client(daemon.socket):
        pass
    activated.listening.close()


def test_an_inherited_socket_that_is_open_to_others_is_warned_about(make_daemon):
    daemon = make_daemon(start=False)
    daemon.socket.parent.mkdir(mode=0o700)
    activated = Activated(daemon, daemon.socket)
    os.chmod(daemon.socket, 0o666)
    with Client(daemon.socket) as c:
        assert c.call('daemon/status')['clients'] == 1
    line = activated.proc.stderr.readline().decode()
    while 'SocketMode' not in line:
        line = activated.proc.stderr.readline().decode()
    assert str(daemon.socket) in line and 'SocketMode=0600' in line
    assert activated.end() == 0
    activated.listening.close()


def test_the_newcomer_with_the_service_managers_socket_has_the_old_one_leave(make_daemon):
    """Starting mcpd.socket beside a daemon started by hand replaces its socket file (PITFALLS "systemd")."""
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        slow = c.tool('fake', 'sleep', {'ms': 1000, 'text': 'done'})
        c.call('daemon/status')
        daemon.socket.unlink()
        activated = Activated(daemon, daemon.socket)
        try:
            assert slow.wait().result['content'][0]['text'] == 'done'       # it drains
            assert daemon.proc.wait(60) == 0
            with Client(daemon.socket) as new:
                assert new.call('daemon/status')['pid'] == activated.proc.pid
                new.wait_state('fake', 'connected')
        finally:
            assert activated.end() == 0
            activated.listening.close()
    daemon.wait_exit(0)


def test_what_the_service_manager_is_told(make_daemon):
    daemon = make_daemon({'fake': fake(), 'lazy': fake(server={'lazy': True})}, env={'WATCHDOG_USEC': '400000'})
    assert daemon.notify.has('READY=1')
    wait_for(lambda: daemon.notify.has('STATUS=1 of 2 servers connected, 0 clients'), what='the status')
    # An idle loop still says that it lives, each time within the interval.
    before = sum('WATCHDOG=1' in m for m in daemon.notify.messages)
    wait_for(lambda: sum('WATCHDOG=1' in m for m in daemon.notify.messages) >= before + 3, what='the watchdog')
    daemon.signal(signal.SIGHUP)
    wait_for(lambda: daemon.notify.has('RELOADING=1'), what='the reload')
    assert any(re.search(r'RELOADING=1\nMONOTONIC_USEC=\d+$', m) for m in daemon.notify.messages)
    wait_for(lambda: sum('READY=1' in m for m in daemon.notify.messages) == 2, what='the end of the reload')
    with daemon.client() as c:
        c.call('servers/connect', {'server': 'lazy'})
        wait_for(lambda: daemon.notify.has('STATUS=2 of 2 servers connected, 1 client'), what='the status')
    notify = daemon.notify
    daemon.stop()
    assert notify.has('STOPPING=1') and notify.has('EXTEND_TIMEOUT_USEC=25000000')


def test_a_stuck_loop_does_not_feed_the_watchdog(make_daemon):
    daemon = make_daemon(env={'WATCHDOG_USEC': '200000'})
    wait_for(lambda: daemon.notify.has('WATCHDOG=1'), what='the watchdog')
    daemon.signal(signal.SIGSTOP)
    wait_for(lambda: next(l for l in open('/proc/%d/status' % daemon.pid) if l.startswith('State')).split()[1] == 'T')
    time.sleep(0.05)        # what was sent before it stopped has been read
    before = len(daemon.notify.messages)
    time.sleep(0.5)
    assert len(daemon.notify.messages) == before
    daemon.signal(signal.SIGCONT)
    wait_for(lambda: len(daemon.notify.messages) > before, what='the watchdog')


# -- the end

def test_SIGTERM_lets_calls_end_and_refuses_new_ones(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        slow = c.tool('fake', 'sleep', {'ms': 1000, 'text': 'done'})
        c.call('daemon/status')
        daemon.signal(signal.SIGTERM)
        wait_for(lambda: not daemon.socket.exists(), what='the end of listening')
        assert c.tool('fake', 'tool0').wait().error['code'] == -32002
        assert slow.wait().result['content'][0]['text'] == 'done'
        c.wait_eof()
    daemon.wait_exit(0)


def test_after_five_seconds_calls_in_flight_are_closed(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        stuck = c.tool('fake', 'hang', timeoutMs=0)
        started = time.monotonic()
        assert c.call('daemon/shutdown') == {}
        stuck.wait()
        assert time.monotonic() - started >= 4.9
        assert stuck.error['code'] == -32003 and stuck.error['message'] == 'Transport closed'
        assert stuck.error['data']['maybeExecuted'] is True
        c.wait_eof()
    daemon.wait_exit(0)


def test_a_second_signal_does_not_wait_for_calls(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        stuck = c.tool('fake', 'hang', timeoutMs=0)
        c.call('daemon/status')
        started = time.monotonic()
        daemon.signal(signal.SIGTERM)
        daemon.stderr.wait('shutting down')
        daemon.signal(signal.SIGINT)
        assert stuck.wait().error['code'] == -32003
        assert time.monotonic() - started < 4.9
    daemon.wait_exit(0)


def test_shutdown_ends_with_slow_and_idle_clients(make_daemon):
    """A client that does not read holds nothing up."""
    daemon = make_daemon({'fake': fake()})
    idle, slow = daemon.client(), daemon.client()
    slow.wait_state('fake', 'connected')
    for _ in range(20):
        slow.tool('fake', 'bytes', {'size': 1 << 20})
    idle.call('daemon/status')
    wait_for(lambda: idle.call('daemon/status')['inFlight'] == 0)
    daemon.stop()
    idle.wait_eof()


def test_the_server_outlives_no_daemon(make_daemon):
    daemon = make_daemon({'fake': fake(ignoreEof=True, ignoreTerm=True)})
    with daemon.client() as c:
        pid = c.wait_state('fake', 'connected')['pid']
    assert alive(pid)
    daemon.stop()
    wait_gone(pid)


def test_shutdown_ends_with_half_closed_clients_that_do_not_read(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c, daemon.client() as other:
        other.wait_state('fake', 'connected')
        c.tool('fake', 'bytes', {'size': 8 << 20})
        c.shut_writing()
        wait_for(lambda: other.call('daemon/status')['inFlight'] == 0)
        assert other.call('daemon/status')['clients'] == 2     # it may still read
        daemon.stop()

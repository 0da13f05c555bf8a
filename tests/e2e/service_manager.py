"""Service managers for tests: a socket handed in as a socket unit does it, and a real `systemd --user`.

The user manager runs in a mount namespace of its own, with a fresh /run, and in control groups of its own, so that
several tests, and a real user manager, do not meet. Tests drive it from outside: m.systemctl(..), m.run(program, ..),
m.client(). All that it starts inherits the test's mark (harness.MARK)."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from harness import BUILD, ROOT, NotifySocket, Output, marked, program, wait_for, wait_gone
from mcpd_client import Client

SYSTEMD = '/lib/systemd/systemd'
NSENTER = shutil.which('nsenter') or ''
CANNOT = 77     # the script's status where a user manager cannot be
SCRIPT = '''
set -eu
mount -t tmpfs tmpfs /run || exit %(cannot)d
mkdir -p /run/systemd/system "$XDG_RUNTIME_DIR"
chmod 700 "$XDG_RUNTIME_DIR"
for top in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
    if [ -e $top/cgroup.procs ]; then
        mkdir -p $top/%(group)s || exit %(cannot)d
        # Where there is a memory controller, it is handed on.
        echo +memory >$top/%(slice)s/cgroup.subtree_control 2>/dev/null || true
        echo $$ >$top/%(group)s/cgroup.procs
    fi
done
mkdir /run/systemd/journal
touch /run/systemd/journal/socket
mount --bind %(journal)s /run/systemd/journal/socket
exec %(systemd)s --user --log-target=journal
'''


class Activated:
    """A daemon that is handed a listening socket, as a socket unit does it. The socket outlives it: start() again."""

    def __init__(self, daemon, path, args=(), **env):
        self.args, self.environ = list(args), {**daemon.environ, **env}
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(path))
        self.listening.listen(10)
        self.proc = None
        self.start()

    def start(self):
        if self.proc:
            self.proc.stderr.close()
        script = 'exec 3<&%d; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"' % self.listening.fileno()
        self.proc = subprocess.Popen(['bash', '-c', script, program('mcpd'), *self.args], env=self.environ,
                                     pass_fds=[self.listening.fileno()], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def end(self):
        self.proc.terminate()
        status = self.proc.wait(60)
        self.proc.stderr.close()
        return status


class UserManager:
    """A `systemd --user` with the folders and the environment of a harness.Daemon that is not started. Its home is
    `home`; mcpd's configuration is that of the daemon, in its usual place below it."""

    def __init__(self, daemon):
        if os.getuid() != 0 or not os.path.exists(SYSTEMD) or not NSENTER:
            pytest.skip('needs root and systemd')
        self.daemon = daemon
        self.home = daemon.dir / 'home'
        self.units = self.home / '.config' / 'systemd' / 'user'
        self.units.mkdir(parents=True)
        (self.home / '.config' / 'mcpd').symlink_to(daemon.config_path.parent)
        self.runtime = '/run/user/%d' % os.getuid()
        self.environ = {k: v for k, v in daemon.environ.items() if not k.startswith('XDG_')}
        self.environ.update(HOME=str(self.home), XDG_RUNTIME_DIR=self.runtime)
        self.journal = NotifySocket(str(daemon.path('journal')))     # what the manager logs, as datagrams, too
        self.slice = 'mcpd-test-%s.slice' % daemon.id
        self.group = '%s/user@%d.service' % (self.slice, os.getuid())
        self.proc = None

    # -- its life

    def start(self):
        script = SCRIPT % {'cannot': CANNOT, 'slice': self.slice, 'group': self.group, 'systemd': SYSTEMD, 'journal': self.journal.path}
        self.proc = subprocess.Popen(['unshare', '-m', 'sh', '-c', script], env=self.environ, cwd=self.home,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.output = Output(self.proc.stdout)
        wait_for(lambda: self.proc.poll() is not None or self.is_up(), what='the user manager')
        if self.proc.poll() is not None:
            said = self.output.text + '\n'.join(self.journal.messages)
            if self.proc.returncode == CANNOT or 'unshare:' in said:
                pytest.skip('no user manager can be here: ' + said[-300:])
            pytest.fail('the user manager ended at its start:\n' + said[-4000:])

    def is_up(self):
        if os.readlink('/proc/%d/exe' % self.proc.pid) != os.path.realpath(SYSTEMD):
            return False
        return self.run('systemctl', '--user', 'is-system-running', check=False).stdout.strip() in ('running', 'degraded')

    def close(self, failed=False):
        """Ends it, and checks that nothing of what it ran is left."""
        try:
            if self.proc and self.proc.poll() is None:
                self.run('systemctl', '--user', 'exit', check=False)
                try:
                    self.proc.wait(120)
                except subprocess.TimeoutExpired:
                    self.proc.kill()
                    self.proc.wait()
            self.journal.close()
            if self.proc:
                self.output.thread.join(5)
                self.proc.stdout.close()
            if not failed:
                wait_for(lambda: not marked(self.daemon.id), what='the end of all processes')
        finally:
            self.remove_groups()

    def remove_groups(self):
        for top in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified', '/sys/fs/cgroup/systemd'):
            for folder, _, _ in os.walk(os.path.join(top, self.slice), topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass

    # -- what tests ask

    def run(self, *command, check=True, env=None, **options):
        """Runs a program beside the manager; the CompletedProcess (text)."""
        done = subprocess.run([NSENTER, '-t', str(self.proc.pid), '-m', '--', *map(str, command)], text=True,
                              env={**self.environ, **(env or {})}, cwd=self.home, stdin=subprocess.DEVNULL, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        assert not check or done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done

    def popen(self, *command, **options):
        return subprocess.Popen([NSENTER, '-t', str(self.proc.pid), '-m', '--', *map(str, command)],
                                env=self.environ, cwd=self.home, stdin=subprocess.DEVNULL, **options)

    def systemctl(self, *args, **options):
        return self.run('systemctl', '--user', *args, **options)

    def mcpctl(self, *args, **options):
        return self.run(program('mcpctl'), *args, **{'check': False, **options})

    def show(self, name, unit='mcpd.service'):
        return self.systemctl('show', unit, '-p', name, '--value').stdout.strip()

    def wait_show(self, name, value, unit='mcpd.service'):
        wait_for(lambda: self.show(name, unit) == value, what='%s=%s of %s' % (name, value, unit))

    @property
    def socket(self):
        """The standard socket, as seen from here."""
        return Path('/proc/%d/root%s/mcpd/mcpd.sock' % (self.proc.pid, self.runtime))

    def client(self):
        client = Client(self.socket)
        self.daemon.clients.append(client)
        return client

    def install(self, **settings):
        """The project's units, with the program of this build, and settings of [Service] on top."""
        shutil.copy(ROOT / 'systemd' / 'mcpd.socket', self.units)
        self.write_service((BUILD / 'systemd' / 'mcpd.service').read_text(), **settings)
        self.systemctl('daemon-reload')

    def write_service(self, text, **settings):
        lines = ['ExecStart=' + program('mcpd') if line.startswith('ExecStart=') else line for line in text.split('\n')]
        (self.units / 'mcpd.service').write_text('\n'.join(lines))
        if settings:
            drop_in = self.units / 'mcpd.service.d'
            drop_in.mkdir(exist_ok=True)
            (drop_in / 'test.conf').write_text('[Service]\n' + ''.join('%s=%s\n' % s for s in settings.items()))

    def processes(self):
        """All that runs in the service."""
        def inside(pid):
            try:
                return '/mcpd.service' in Path('/proc/%d/cgroup' % pid).read_text()
            except OSError:
                return False
        return [p for p in marked(self.daemon.id) if inside(p.pid)]

    def wait_left(self, processes):
        """Until all of these have gone."""
        wait_gone([p.pid for p in processes])

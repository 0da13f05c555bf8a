"""The daemon under test, its processes, and servers for it. conftest.py makes fixtures of this.

    d = make_daemon({'fake': fake(tools=3), 'time': time_server()})      # started, ready, XDG folders of its own
    with d.client() as c: ...
    d.mcpctl('servers', '--json').stdout
    d.stop()                                                             # or leave it to the fixture

What every test gets for free when its daemon is stopped: exit status 0, no process left that the daemon or its servers
started (all of them inherit MCPD_TEST_ID; what cleans its environment is found by being a descendant), and no sanitizer
report of any program (they are sent to a folder by log_path). A test that ends the daemon itself uses stop(), kill() or
wait_exit().

The programs are those of the folder in MCPD_BUILD_DIR (bin/mcpd, bin/mcpctl, bin/mcpd-time-server).
"""

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from mcpd_client import Client, TIMEOUT

PYTHON = '/usr/bin/python3'
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = Path(os.environ.get('MCPD_BUILD_DIR') or ROOT / 'build' / 'debug')
NODE_MODULES = Path(os.environ.get('MCPD_NODE_MODULES') or HERE.parent / 'npm' / 'node_modules')
MARK = 'MCPD_TEST_ID'
LEFT_SECONDS = 10     # in which what a daemon started may still be ending after it


def program(name):
    return str(BUILD / 'bin' / name)


# -- server definitions

def fake(**options):
    """A definition that runs servers/fake.py; the options are listed at the head of that file. `server={...}` gives
    further members of the definition itself (timeout, lazy, env, ...)."""
    definition = dict(options.pop('server', {}))
    definition.update(command=PYTHON, args=[str(HERE / 'servers' / 'fake.py'), json.dumps(options)])
    return definition


def time_server(**members):
    return {'command': program('mcpd-time-server'), **members}


def node():
    """The node program that the tests' lock file brings, or None where tests/npm is not installed."""
    # Not .bin/node: the npm of Debian 12 makes no link for an optional package.
    found = sorted(NODE_MODULES.glob('node-linux-*/bin/node'))
    return str(found[0]) if found else None


# Most of the start of a Node.js program is compiling it: with this in the environment it is done once.
NODE_CACHE = {'NODE_COMPILE_CACHE': str(NODE_MODULES / '.cache')}


def npm_server(package, *args, **members):
    """A definition that runs a package's program from tests/npm, e.g. '@modelcontextprotocol/server-everything'."""
    folder = NODE_MODULES / package
    with open(folder / 'package.json') as f:
        bin = json.load(f)['bin']
    script = bin if isinstance(bin, str) else next(iter(bin.values()))
    return {'command': node(), 'args': [str(folder / script), *args], **members}


# -- processes

class Process:
    """One process as /proc showed it."""

    def __init__(self, pid):
        self.pid = pid
        stat = Path('/proc/%d/stat' % pid).read_text()
        name, rest = stat.rsplit(')', 1)
        fields = rest.split()
        self.name = name.split('(', 1)[1]
        self.state = fields[0]
        self.ppid, self.pgid, self.sid, self.tty = (int(n) for n in fields[1:5])
        self.started = int(fields[19])
        self.command = Path('/proc/%d/cmdline' % pid).read_bytes().decode(errors='replace').split('\0')[:-1]

    @property
    def zombie(self):
        return self.state in 'ZX'

    def environ(self):
        return dict(e.split('=', 1) for e in
                    Path('/proc/%d/environ' % self.pid).read_bytes().decode(errors='replace').split('\0') if '=' in e)

    def __repr__(self):
        return '<%d (parent %d, session %d) %s %s>' % (self.pid, self.ppid, self.sid, self.state,
                                                       ' '.join(self.command)[:160] or self.name)


def processes():
    found = []
    for entry in os.listdir('/proc'):
        if entry.isdigit():
            try:
                found.append(Process(int(entry)))
            except (OSError, ValueError, IndexError):
                pass        # it has gone meanwhile
    return found


def alive(pid):
    try:
        return not Process(pid).zombie
    except OSError:
        return False


def marked(mark, variable=MARK):
    """The living processes that carry the mark in their environment, and all their descendants."""
    everyone = processes()
    pids = set()
    for p in everyone:
        try:
            if b'%s=%s\0' % (variable.encode(), mark.encode()) in Path('/proc/%d/environ' % p.pid).read_bytes() + b'\0':
                pids.add(p.pid)
        except OSError:
            pass
    grown = True
    while grown:
        more = {p.pid for p in everyone if p.ppid in pids} - pids
        pids |= more
        grown = bool(more)
    return [p for p in everyone if p.pid in pids and not p.zombie]


def wait_for(condition, timeout=TIMEOUT, what='the condition'):
    """Polls for what no event announces (files, /proc); returns the condition's value. Prefer events."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError('%s was not there within %s s' % (what, timeout))
        time.sleep(0.01)


def wait_gone(pids, timeout=TIMEOUT):
    """Waits until the processes have ended (through pidfds)."""
    deadline = time.monotonic() + timeout
    for pid in [pids] if isinstance(pids, int) else pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError('process %d is still there: %r' % (pid, Process(pid)))
        finally:
            os.close(fd)


# -- a process whose output is read all the time

class Output:
    """Collects what comes out of a descriptor; waits for text in it."""

    def __init__(self, file):
        self.file, self.data, self.ended = file, b'', False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while True:
            data = os.read(self.file.fileno(), 1 << 16)
            with self.changed:
                self.data += data
                self.ended = not data
                self.changed.notify_all()
            if not data:
                return

    @property
    def text(self):
        return self.data.decode(errors='replace')

    def wait(self, pattern, timeout=TIMEOUT):
        """Waits until the regular expression matches somewhere; returns the match."""
        with self.changed:
            if not self.changed.wait_for(lambda: re.search(pattern, self.text) or self.ended, timeout):
                raise TimeoutError('%r was not written within %s s; there is:\n%s' %
                                   (pattern, timeout, self.text[-4000:]))
        match = re.search(pattern, self.text)
        assert match, '%r was never written; there is:\n%s' % (pattern, self.text[-4000:])
        return match


class NotifySocket:
    """The service manager's side of sd_notify: collects the messages, so that the daemon never waits for room."""

    def __init__(self, path):
        self.path, self.messages = path, []
        self.changed = threading.Condition()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(path)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            data = self.sock.recv(1 << 16)
            if not data:
                return
            with self.changed:
                self.messages.append(data.decode(errors='replace'))
                self.changed.notify_all()

    def has(self, line):
        return any(line in message.split('\n') for message in self.messages)

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)


# -- the daemon

class Daemon:
    """One daemon with folders of its own below a short path in /tmp (a socket path has 108 bytes)."""

    def __init__(self, servers=None, *, args=(), env=None, mcpd=None, start=True, config=True, wrapper=()):
        """servers: the "mcpServers" of the configuration; mcpd: its "mcpd" member; config=False: no file is written.
        wrapper: a command in front of mcpd's, which it must exec."""
        self.id = uuid.uuid4().hex
        self.dir = Path(tempfile.mkdtemp(prefix='mcpd-t-'))
        for name in ('run', 'config', 'cache', 'home', 'reports'):
            (self.dir / name).mkdir(mode=0o700)
        self.config_path = self.dir / 'config' / 'mcpd' / 'mcp.json'
        self.config_path.parent.mkdir()
        self.socket = self.dir / 'run' / 'mcpd' / 'mcpd.sock'
        self.args, self.extra_env, self.wrapper = list(args), dict(env or {}), list(wrapper)
        self.proc = self.notify = self.stderr = None
        self.expected_end = False
        self.clients = []
        if config:
            self.write_config(servers or {}, mcpd=mcpd)
        if start:
            self.start()

    # -- files

    def write_config(self, servers, mcpd=None, **top):
        """Replaces the configuration file, atomically as editors do."""
        document = {'mcpServers': servers, **top}
        if mcpd is not None:
            document['mcpd'] = mcpd
        self.write_config_text(json.dumps(document, indent=2))

    def write_config_text(self, text):
        new = self.config_path.with_suffix('.new')
        new.write_text(text)
        new.chmod(0o600)        # it may hold secrets: mcpd would warn
        new.rename(self.config_path)

    def path(self, name):
        """A path for a file of the test, gone with the daemon's folder."""
        return self.dir / name

    @property
    def environ(self):
        """The environment of the daemon, and of programs run beside it. Deliberately little of the caller's."""
        sanitizer = 'log_path=%s:' % (self.dir / 'reports' / 'san')
        env = {
            'PATH': os.environ.get('PATH', '/usr/bin:/bin'),
            'LANG': 'C.UTF-8',
            'HOME': str(self.dir / 'home'),
            'XDG_RUNTIME_DIR': str(self.dir / 'run'),
            'XDG_CONFIG_HOME': str(self.dir / 'config'),
            'XDG_CACHE_HOME': str(self.dir / 'cache'),
            'XDG_STATE_HOME': str(self.dir / 'state'),
            'ASAN_OPTIONS': sanitizer + 'detect_leaks=1:' + os.environ.get('ASAN_OPTIONS', ''),
            'LSAN_OPTIONS': os.environ.get('LSAN_OPTIONS', ''),
            'UBSAN_OPTIONS': sanitizer + 'print_stacktrace=1:' + os.environ.get('UBSAN_OPTIONS', ''),
            MARK: self.id,
        }
        if os.getuid() != 0:
            env['MCPD_DUMPABLE'] = '1'      # these tests look into its /proc; root may in any case
        env.update(self.extra_env)
        return {name: value for name, value in env.items() if value is not None}

    # -- life

    def start(self, wait=True):
        assert self.proc is None, 'it runs already'
        number = uuid.uuid4().hex[:8]
        self.notify = NotifySocket(str(self.dir / ('notify-' + number)))
        self.expected_end = False
        self.proc = subprocess.Popen([*self.wrapper, program('mcpd'), *self.args], cwd=self.dir,
                                     env={**self.environ, 'NOTIFY_SOCKET': self.notify.path},
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, start_new_session=True)
        self.stderr = Output(self.proc.stderr)
        if wait:
            self.wait_ready()

    @property
    def pid(self):
        return self.proc.pid

    def wait_ready(self, timeout=TIMEOUT):
        """Until READY=1, which the daemon sends once it listens."""
        deadline = time.monotonic() + timeout
        with self.notify.changed:
            while not self.notify.has('READY=1'):
                self.notify.changed.wait(0.1)
                if self.proc.poll() is not None:
                    raise AssertionError('mcpd ended at its start with status %s:\n%s\n%s' %
                                         (self.proc.returncode, self.stderr.text, self.reports()))
                if time.monotonic() > deadline:
                    raise TimeoutError('mcpd was not ready within %s s:\n%s' % (timeout, self.stderr.text))

    def wait_exit(self, status=0, timeout=TIMEOUT):
        """Waits for an end that the test has caused, and checks what it left."""
        self.proc.wait(timeout)
        self._ended(status)

    def stop(self, timeout=TIMEOUT):
        """SIGTERM, and everything that has to be true afterwards."""
        self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            left = self.processes()
            self._end_hard()
            raise AssertionError('mcpd did not end within %s s of SIGTERM; there were %s\n%s' %
                                 (timeout, left, self.stderr.text[-4000:])) from None
        self._ended(0)

    def kill(self, timeout=TIMEOUT):
        """SIGKILL of the daemon alone; nothing of it may survive (R3)."""
        self.proc.kill()
        self.proc.wait(timeout)
        self._ended(-signal.SIGKILL)

    def _ended(self, status):
        code, stderr = self.proc.returncode, self.stderr
        self.notify.close()
        self.proc = None
        self.expected_end = True
        try:
            wait_for(lambda: not self.processes(), LEFT_SECONDS, 'the end of all processes')
        except TimeoutError:
            left = self.processes()
            self._end_hard()
            raise AssertionError('processes were left behind: %s\n%s' % (left, stderr.text[-4000:])) from None
        finally:
            stderr.thread.join(5)
            stderr.file.close()
        assert not self.reports(), self.reports()
        assert code == status, 'mcpd ended with status %s, not %s:\n%s' % (code, status, stderr.text[-4000:])

    def _end_hard(self):
        for p in self.processes():
            try:
                os.kill(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.proc:
            self.proc.wait()

    def reports(self):
        """What sanitizers of any program reported, and what a program without log_path wrote to the daemon's stderr."""
        texts = [f.read_text(errors='replace') for f in sorted((self.dir / 'reports').iterdir())]
        if self.stderr and re.search(r'Sanitizer|runtime error:', self.stderr.text):
            texts.append(self.stderr.text)
        return '\n'.join(texts)

    def finish(self, failed=False):
        """The fixture's end: stops what runs, with all checks unless the test has failed, and removes the folder."""
        try:
            for client in self.clients:
                client.close()
            if self.proc is not None and failed:
                sys.stderr.write('--- stderr of mcpd:\n%s\n%s\n' % (self.stderr.text[-8000:], self.reports()))
                self.proc.terminate()
                try:
                    self.proc.wait(20)
                except subprocess.TimeoutExpired:
                    pass
            elif self.proc is not None:
                self.stop()
            elif not failed:
                assert not self.reports(), self.reports()
        finally:
            self._end_hard()
            shutil.rmtree(self.dir, ignore_errors=True)

    # -- what tests ask

    def client(self, hello=False, **hello_params):
        """A connected client, closed with the daemon at the latest."""
        client = Client(self.socket)
        self.clients.append(client)
        if hello or hello_params:
            client.hello(**hello_params)
        return client

    def mcpctl(self, *args, input=None, timeout=TIMEOUT, env=None, **popen):
        """Runs mcpctl against this daemon; returns the CompletedProcess (text)."""
        return subprocess.run([program('mcpctl'), *map(str, args)], input=input, timeout=timeout, text=True,
                              stdin=None if input is not None else subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**self.environ, **(env or {})},
                              **popen)

    def processes(self):
        """All living processes of this daemon, itself included."""
        return marked(self.id)

    def servers(self, word=None):
        """The server processes (all below the daemon but its own helpers), or those whose command line has the word."""
        return [p for p in self.processes() if p.pid != (self.proc and self.proc.pid)
                and p.name not in ('mcpd-guard', 'mcpd-keeper')
                and p.command[:1] != [program('mcpd')] and (word is None or any(word in a for a in p.command))]

    def zombies(self):
        """Children of the daemon that have ended and were not reaped."""
        return [p for p in processes() if p.ppid == self.pid and p.zombie]

    def descriptors(self):
        found = []
        for f in Path('/proc/%d/fd' % self.pid).iterdir():
            try:
                found.append(os.readlink(f))
            except FileNotFoundError:
                pass        # closed meanwhile
        return sorted(found)

    def signal(self, signo):
        self.proc.send_signal(signo)


# -- a server alone, without a daemon

class StdioServer:
    """Runs a server definition and speaks to it over its pipes, as a transport would: for testing servers."""

    def __init__(self, definition, env=None, cwd=None):
        self.id = uuid.uuid4().hex
        self.reports_dir = tempfile.mkdtemp(prefix='mcpd-t-')
        log = 'log_path=%s/san:' % self.reports_dir
        self.proc = subprocess.Popen([definition['command'], *definition.get('args', [])], cwd=cwd,
                                     env={**os.environ, 'ASAN_OPTIONS': log, 'UBSAN_OPTIONS': log, MARK: self.id,
                                          **definition.get('env', {}), **(env or {})},
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.stderr = Output(self.proc.stderr)
        self.rest = b''
        self.skipped = []           # messages that were read while another one was waited for
        self.next_id = 1

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b'\n')

    def send_bytes(self, data):
        self.proc.stdin.write(data)
        self.proc.stdin.flush()

    def read_line(self, timeout=TIMEOUT):
        """The next line, without its newline; None at the end of the stream (what is unterminated is in `rest`)."""
        deadline = time.monotonic() + timeout
        if b'\n' not in self.rest:
            pieces = [self.rest]
            while b'\n' not in pieces[-1]:
                if not select.select([self.proc.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                    raise TimeoutError('no line within %s s' % timeout)
                pieces.append(os.read(self.proc.stdout.fileno(), 1 << 16))
                if not pieces[-1]:
                    self.rest = b''.join(pieces)
                    return None
            self.rest = b''.join(pieces)
        line, self.rest = self.rest.split(b'\n', 1)
        return line

    def read(self, timeout=TIMEOUT):
        line = self.read_line(timeout)
        return None if line is None else json.loads(line)

    def request(self, method, params=None, id=None, timeout=TIMEOUT):
        """Sends a request and returns its answer; what comes before it goes to `skipped`."""
        if id is None:
            id, self.next_id = self.next_id, self.next_id + 1
        message = {'jsonrpc': '2.0', 'id': id, 'method': method}
        if params is not None:
            message['params'] = params
        self.send(message)
        return self.answer(id, timeout)

    def answer(self, id, timeout=TIMEOUT):
        while True:
            message = self.read(timeout)
            assert message is not None, 'the server closed its output; stderr: %s' % self.stderr.text
            if message.get('id') == id and 'method' not in message:
                return message
            self.skipped.append(message)

    def notify(self, method, params=None):
        message = {'jsonrpc': '2.0', 'method': method}
        if params is not None:
            message['params'] = params
        self.send(message)

    def initialize(self, version='2025-11-25', capabilities=None):
        answer = self.request('initialize', {'protocolVersion': version, 'capabilities': capabilities or {},
                                             'clientInfo': {'name': 'test', 'version': '1'}})
        self.notify('notifications/initialized')
        return answer

    def close(self, timeout=TIMEOUT):
        """Ends its input and waits; returns its exit status. Sanitizer reports are failures."""
        try:
            if not self.proc.stdin.closed:
                try:
                    self.proc.stdin.close()
                except BrokenPipeError:
                    pass
            status = self.proc.wait(timeout)
        finally:
            for p in marked(self.id):
                try:
                    os.kill(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.proc.wait()
            self.proc.stdout.close()
            self.stderr.thread.join(5)
            self.proc.stderr.close()
            reports = [Path(self.reports_dir, f).read_text(errors='replace') for f in os.listdir(self.reports_dir)]
            shutil.rmtree(self.reports_dir, ignore_errors=True)
        assert not reports, '\n'.join(reports)
        return status

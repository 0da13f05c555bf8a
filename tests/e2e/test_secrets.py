"""Secrets (house rule 7): values of env, headers, URLs and arguments that are secret, and tokens that variables stand for, are in
no log, event, answer or file of mcpd's, whatever a server does with them; and others can read no core file of it, nor
its memory."""

import base64
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness import PYTHON, fake, program, wait_for
from mcpd_client import Client

sys.path.insert(0, str(Path(__file__).resolve().parent / 'servers'))
from fake_http import FakeHttp  # noqa: E402

TOPICS = ['servers', 'tools', 'logs', 'notifications', 'calls']


class Hunt:
    """What was seen where. Secrets are named by where they were put."""

    def __init__(self):
        self.secrets, self.seen = {}, []

    def secret(self, name):
        return self.secrets.setdefault(name, 'hidden-%s-%s' % (name, os.urandom(6).hex()))

    def also(self, name, text):
        self.secrets[name] = text

    def look(self, where, text):
        if isinstance(text, bytes):
            text = text.decode(errors='replace')
        elif not isinstance(text, str):
            text = json.dumps(text)
        self.seen.append(where)
        for name, secret in self.secrets.items():
            at = text.find(secret)
            assert at < 0, '%s is in %s: ..%s' % (name, where, text[max(0, at - 200):at + 80])


class Listening(Client):
    """A client that keeps every line."""

    def __init__(self, path):
        super().__init__(path)
        self.lines = []

    def _line(self, line):
        self.lines.append(line)
        super()._line(line)


def shell(script, **members):
    return {'command': 'sh', 'args': ['-c', script], **members}


def talkative(hunt):
    """A server that tells its secrets on every way it has."""
    definition = fake(tools=2)
    quoted = ' '.join("'%s'" % a for a in definition['args'])
    script = ('echo "using $API_TOKEN and $PLAIN_VALUE and $FROM_DAEMON_KEY"; echo "stderr $API_TOKEN $1 $2" >&2; '
              'exec %s %s' % (definition['command'], quoted))
    return {'command': 'sh', 'args': ['-c', script, 'sh', '--password=' + hunt.secret('argument'), '${ARG_SECRET}'],
            'env': {'API_TOKEN': hunt.secret('env'), 'PLAIN_VALUE': hunt.secret('random')}}


@pytest.fixture
def web():
    with FakeHttp() as server:
        yield server


def echo_everything(status):
    """An error that sends back all that came with the request, as some servers do to help."""
    def fault(x):
        headers = '\n'.join('%s: %s' % h for h in x.seen.headers.items())
        x.respond(status, '%s %s\n%s' % (x.seen.verb, x.seen.target, headers),
                  [('WWW-Authenticate', 'Bearer realm="%s"' % x.seen.headers.get('authorization')),
                   ('Location', 'http://127.0.0.1' + x.seen.target)])
    return fault


def test_no_secret_gets_out(make_daemon, web):
    hunt = Hunt()
    user = 'me:' + hunt.secret('userinfo')
    hunt.also('basic', base64.b64encode(user.encode()).decode())
    address = web.url.replace('://', '://%s@' % user).replace('/mcp', '/${PATH_TOKEN}/mcp') + \
        '?api_key=${QUERY_KEY}&token=' + hunt.secret('query')
    definitions = {
        'talk': talkative(hunt),
        'dies': shell('echo "bad token $API_TOKEN" >&2; exit 3', env={'API_TOKEN': hunt.secret('env')}),
        'none': {'command': '/nowhere/at/all', 'args': ['--token', hunt.secret('argument')]},
        'web': {'type': 'http', 'url': address,
                'headers': {'X-Api-Key': hunt.secret('header'), 'X-Plain': hunt.secret('plain-header')}},
        'auth': {'type': 'http', 'url': web.url, 'headers': {'Authorization': 'Bearer ${BEARER_TOKEN}'}},
        'bad': {'type': 'http', 'url': 7, 'headers': {'Authorization': 'Bearer ' + hunt.secret('bad-header')}},
        'unset': {'command': 'x', 'env': {'A_TOKEN': hunt.secret('unset-env'), 'B': '${NOT_SET_ANYWHERE}'}},
    }
    daemon = make_daemon(definitions, start=False, args=['--log-level', 'debug'],
                         mcpd={'environment': {'FROM_DAEMON_KEY': hunt.secret('daemon-environment')}},
                         env={name: hunt.secret(name) for name in ('PATH_TOKEN', 'QUERY_KEY', 'BEARER_TOKEN', 'ARG_SECRET')})
    daemon.start()
    hunt.look('the log', daemon.stderr.text)
    watcher = Listening(daemon.socket)
    watcher.subscribe(*TOPICS)
    with Listening(daemon.socket) as c:
        for server in ('talk', 'web', 'auth'):
            watcher.wait_state(server, 'connected')
        for server in ('dies', 'none', 'bad', 'unset'):
            watcher.wait_state(server, 'failed', 'reconnecting')
        # The server has them: nothing here is hidden because it was lost.
        given = c.tool('talk', 'env', {'names': ['API_TOKEN', 'PLAIN_VALUE', 'FROM_DAEMON_KEY']}).wait().result
        assert given['structuredContent'] == {'API_TOKEN': hunt.secret('env'), 'PLAIN_VALUE': hunt.secret('random'),
                                              'FROM_DAEMON_KEY': hunt.secret('daemon-environment')}
        c.lines.clear()         # that was asked for, and is a server's result
        seen = web.requests[-1].headers
        assert any(hunt.secret('header') in r.headers.get('x-api-key', '') for r in web.requests)
        assert any(r.headers.get('authorization') == 'Bearer ' + hunt.secret('BEARER_TOKEN') for r in web.requests)
        assert any(hunt.secret('QUERY_KEY') in r.target and hunt.secret('PATH_TOKEN') in r.target for r in web.requests), seen
        for status in (500, 403, 404, 401, 302):
            for server in ('web', 'auth'):
                web.faults['tools/call'] = echo_everything(status)
                error = c.tool(server, 'tool0').wait().error
                assert error['code'] in (-32007, -32010), error
                if status == 500:
                    assert '***' in error['message'] and '***' in error['data']['body']
                web.faults.clear()
                c.request('servers/reconnect', {'server': server}).wait()
        # Failures of the connection itself, with all of it in the answers.
        web.faults['initialize'] = web.faults['server/discover'] = echo_everything(403)
        for server in ('web', 'auth'):
            c.request('servers/reconnect', {'server': server}).wait()
            c.tool(server, 'tool0', timeoutMs=500).wait()
        for method in ('daemon/hello', 'daemon/status', 'servers/list', 'tools/list', 'daemon/metrics', 'daemon/reload', 'rpc.discover'):
            c.call(method)
        c.call('daemon/metrics', {'format': 'prometheus'})
        for server in definitions:
            c.call('servers/get', {'server': server})
            c.call('servers/logs', {'server': server})
            c.request('servers/connect', {'server': server, 'timeoutMs': 300}).wait()
            c.request('mcp/request', {'server': server, 'method': 'no/such', 'timeoutMs': 300}).wait()
        c.tool('talk', 'crash').wait()
        watcher.wait_state('talk', 'reconnecting', 'connected')
        logs = json.dumps([e['text'] for e in c.call('servers/logs', {'server': 'talk'})['lines']])
        assert 'stderr ***' in logs and 'using ***' in logs
        hunt.look('answers', b'\n'.join(c.lines))
        with Listening(daemon.socket) as attached:
            attached.mcp_attach()
            attached.request('initialize', {'protocolVersion': '2025-11-25', 'capabilities': {},
                                            'clientInfo': {'name': 'x', 'version': '1'}}).wait()
            attached.request('tools/list').wait()
            for server in ('web', 'dies', 'talk'):
                attached.request('tools/call', {'name': server + '__tool0'}).wait()
            hunt.look('answers of the MCP dialect', b'\n'.join(attached.lines))
    watcher.pump(0.2)
    assert any(b'events/log' in line for line in watcher.lines) and any(b'events/server' in line for line in watcher.lines)
    hunt.look('events', b'\n'.join(watcher.lines))
    watcher.close()
    for command in (['status'], ['servers'], ['servers', '--json'], ['logs', 'talk'], ['logs', 'dies', '--json'], ['metrics'],
                    ['call', 'web', 'tool0'], ['call', 'auth', 'tool0', '--json'], ['connect', 'dies'], ['reload']):
        ended = subprocess.run([program('mcpctl'), *command], env=daemon.environ, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, timeout=60)
        hunt.look('mcpctl ' + ' '.join(command), ended.stdout)
    checked = subprocess.run([program('mcpd'), '--check-config'], env=daemon.environ, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=60)
    hunt.look('--check-config', checked.stdout)
    hunt.look('the command line', Path('/proc/%d/cmdline' % daemon.pid).read_bytes())
    files = [f for f in daemon.path('cache').rglob('*') if f.is_file()]
    assert files
    for f in files:
        hunt.look(str(f), f.read_bytes() + str(f).encode())
        assert f.stat().st_mode & 0o077 == 0
    daemon.stop()
    hunt.look('the log', daemon.stderr.text)
    assert 'tools/call' in daemon.stderr.text and len(hunt.seen) >= 20


# -- files that others can read

def check(daemon, path):
    ended = subprocess.run([program('mcpd'), '--check-config', '--config', str(path)], env=daemon.environ,
                           stdout=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 0
    return ended.stdout


@pytest.mark.parametrize('server, where', [
    ({'command': 'x', 'env': {'API_KEY': 'abcdefgh'}}, '"env" of server "s"'),
    ({'command': 'x', 'env': {'WHAT': 'ghp_abcdefgh'}}, '"env" of server "s"'),
    ({'command': 'x', 'args': ['--token', 'abcdefgh']}, '"args" of server "s"'),
    ({'command': 'x', 'args': ['postgres://me:abcdefgh@h/db']}, '"args" of server "s"'),
    ({'type': 'http', 'url': 'http://h/', 'headers': {'Authorization': 'Bearer abcdefgh'}}, '"headers" of server "s"'),
    ({'type': 'http', 'url': 'http://me:abcdefgh@h/'}, '"url" of server "s"'),
    ({'type': 'http', 'url': 'http://h/?key=abcdefgh'}, '"url" of server "s"'),
])
def test_a_file_with_secrets_that_others_can_read_is_warned_about(make_daemon, server, where):
    daemon = make_daemon(start=False)
    path = daemon.path('c.json')
    path.write_text(json.dumps({'mcpServers': {'s': server}}))
    for mode, warned in ((0o600, False), (0o400, False), (0o640, True), (0o604, True), (0o644, True), (0o622, False)):
        path.chmod(mode)
        out = check(daemon, path)
        assert ('can be read by others' in out) == warned, (oct(mode), out)
        assert 'abcdefgh' not in out
        if warned:
            assert '%s: warning: can be read by others (mode %03o)' % (path, mode) in out
            assert where in out and 'chmod 600 %s' % path in out and '${VAR}' in out


@pytest.mark.parametrize('server', [
    {'command': 'x', 'env': {'API_KEY': '${API_KEY:-}', 'LANG': 'C', 'DEBUG': '1', 'TOKEN': ''}},
    {'command': 'x', 'args': ['--token', '${API_KEY:-}', '--verbose', '-e', 'LANG=C', 'https://h/?page=2']},
    {'type': 'http', 'url': 'http://h/?page=2&key=${API_KEY:-}', 'headers': {'Authorization': 'Bearer ${API_KEY:-}', 'X-Id': '7'}},
])
def test_what_stands_elsewhere_is_no_secret_of_the_file(make_daemon, server):
    daemon = make_daemon(start=False)
    path = daemon.path('c.json')
    path.write_text(json.dumps({'mcpServers': {'s': server}}))
    path.chmod(0o644)
    assert 'can be read' not in check(daemon, path)


def test_the_warning_is_in_the_log_and_in_status(make_daemon):
    daemon = make_daemon(start=False)
    daemon.write_config({}, mcpd={'environment': {'DB_PASSWORD': 'abcdefgh'}})
    daemon.config_path.chmod(0o644)
    daemon.start()
    daemon.stderr.wait(r'mcp\.json: .*can be read by others')
    with daemon.client() as c:
        [warning] = c.call('daemon/status')['config']['warnings']
        assert warning['file'] == str(daemon.config_path) and '"mcpd": "environment"' in warning['message']
        daemon.config_path.chmod(0o600)
        assert c.call('daemon/reload')['warnings'] == []
        assert c.call('daemon/status')['config']['warnings'] == []
    assert 'abcdefgh' not in daemon.stderr.text


# -- core files, and others' eyes

def core_of(daemon):
    return [f for f in daemon.dir.glob('core*')]


@pytest.mark.skipif(Path('/proc/sys/kernel/core_pattern').read_text().strip() not in ('core', 'core.%p'),
                    reason='core files go elsewhere here')
@pytest.mark.parametrize('dumpable', [None, '1'])
def test_a_crash_leaves_no_core_file_unless_it_is_asked_for(make_daemon, dumpable):
    daemon = make_daemon({'fake': fake()}, start=False)
    daemon.extra_env['MCPD_DUMPABLE'] = dumpable
    daemon.extra_env['ASAN_OPTIONS'] = 'handle_segv=0:disable_coredump=0:detect_leaks=0'
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] == 0:
        pytest.skip('no core files are allowed here')
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        daemon.start()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        # Servers keep their own limit, and can leave theirs.
        pid = c.server('fake')['pid']
        limits = Path('/proc/%d/limits' % pid).read_text()
        assert [line.split()[4] for line in limits.splitlines() if line.startswith('Max core file size')] != ['0']
    daemon.signal(signal.SIGSEGV)
    daemon.wait_exit(-signal.SIGSEGV)
    assert bool(core_of(daemon)) == bool(dumpable)


@pytest.mark.skipif(os.getuid() != 0, reason='needs root to become somebody else')
@pytest.mark.parametrize('dumpable', [None, '1'])
def test_other_processes_of_the_user_cannot_look_into_the_daemon(make_daemon, dumpable):
    """A server runs as the same user: it could read the daemon's variables and memory, and those of the others in it."""
    daemon = make_daemon(start=False)
    environ = {**daemon.environ, 'SOME_TOKEN': 'x', **({'MCPD_DUMPABLE': dumpable} if dumpable else {})}
    for path in [daemon.dir, *daemon.dir.rglob('*')]:
        shutil.chown(path, 65534, 65534)
    proc = subprocess.Popen([program('mcpd')], env=environ, cwd=daemon.dir, user=65534, group=65534, extra_groups=[],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    code = 'import sys; print(open("/proc/%s/environ" % sys.argv[1], "rb").read())'
    try:
        wait_for(lambda: daemon.socket.exists() or proc.poll() is not None)
        if proc.poll() is not None:
            pytest.skip('mcpd cannot be run by another user here: %s' % proc.stderr.read())
        looked = subprocess.run([PYTHON, '-c', code, str(proc.pid)], user=65534, group=65534, extra_groups=[],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if dumpable:
            assert 'SOME_TOKEN' in looked.stdout
        else:
            assert looked.returncode != 0 and 'PermissionError' in looked.stderr
        proc.terminate()
        assert proc.wait(60) == 0
    finally:
        proc.kill() if proc.poll() is None else None
        proc.wait()
        proc.stderr.close()

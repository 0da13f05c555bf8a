"""Faults and hostile peers: each costs only who made it. The daemon lives, other clients and servers notice nothing, memory
is bounded, and afterwards it is idle: no descriptor, process or processor time is left over."""

import json
import os
import random
import resource
import signal
import socket
import subprocess
import threading
import time

import pytest
from harness import alive, fake, processes, program, time_server, wait_for
from mcpd_client import Client

EVERYTHING = {'sampling': {}, 'elicitation': {}, 'roots': {}}
TICKS = os.sysconf('SC_CLK_TCK')


def descriptors(daemon):
    return len(os.listdir('/proc/%d/fd' % daemon.pid))


def processor_seconds(daemon):
    with open('/proc/%d/stat' % daemon.pid) as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def check_works(daemon, server='fake'):
    with daemon.client() as c:
        assert c.text(server, 'text', {'text': 'fine'}) == 'fine'


def check_quiet(daemon, fds=None):
    """Nothing spins, is left in flight, or leaks. A spinning loop takes all of a second; a busy machine only makes it less."""
    def at_rest():
        with daemon.client() as c:
            status = c.call('daemon/status')
            return status['inFlight'] == 0 and status['clients'] == 1
    wait_for(at_rest, what='the end of all requests and clients')
    if fds is not None:
        wait_for(lambda: descriptors(daemon) <= fds, what='the end of all descriptors')
    wait_for(lambda: not [p for p in processes() if p.ppid == daemon.pid and p.zombie], what='the end of all zombies')
    before, begin = processor_seconds(daemon), time.monotonic()
    time.sleep(0.5)         # of doing nothing is what is measured
    assert processor_seconds(daemon) - before < 0.5 * (time.monotonic() - begin), 'the daemon spins'


@pytest.fixture
def daemon(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
    return daemon


# -- clients

def test_every_line_however_damaged_is_answered_or_ignored(daemon):
    line = (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"server":"fake","name":"text",'
            b'"arguments":{"text":"a\\u1234"},"timeoutMs":500,"_meta":{"progressToken":3}}}')
    chance, fds = random.Random(7), descriptors(daemon)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(daemon.socket))
        for _ in range(1500):
            damaged = bytearray(line)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(damaged))
                damaged[at:at + chance.randrange(2)] = bytes([chance.choice(b'{}[]",:\\0e-.\x00\xff\xc3 ')])
            s.sendall(bytes(damaged) + b'\n')
        s.sendall(b'{"jsonrpc":"2.0","id":"the end","method":"daemon/hello"}\n')
        s.shutdown(socket.SHUT_WR)
        answers = s.makefile('rb').read().split(b'\n')
    assert answers.pop() == b'' and any(json.loads(a).get('id') == 'the end' for a in answers)
    assert all(('error' in a) != ('result' in a) for a in map(json.loads, answers) if 'method' not in a)
    check_works(daemon)
    check_quiet(daemon, fds)


def test_all_ways_to_be_half_there(daemon):
    fds, sockets = descriptors(daemon), []
    for begin in (b'', b'{"jsonrpc"', b'{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"topics":["calls","logs"]}}\n',
                  b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"server":"fake","name":"hang","timeoutMs":0}}\n'):
        for how in (None, socket.SHUT_WR, socket.SHUT_RD, socket.SHUT_RDWR):
            s = socket.socket(socket.AF_UNIX)
            s.connect(str(daemon.socket))
            s.sendall(begin)
            if how is not None:
                s.shutdown(how)
            sockets.append(s)
    check_works(daemon)
    before = processor_seconds(daemon)
    time.sleep(0.5)
    assert processor_seconds(daemon) - before < 0.25, 'the daemon spins over half-closed connections'
    for s in sockets:
        s.close()
    check_quiet(daemon, fds)


def test_a_thousand_clients_that_leave_in_mid_sentence(daemon):
    fds = descriptors(daemon)
    said = (b'', b'{"jsonrpc":"2.0","id":1,"meth',
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"server":"fake","name":"sleep","arguments":{"ms":50}}}\n',
            b'{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"topics":["servers","calls"]}}\n')
    for i in range(1000):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(daemon.socket))
            s.sendall(said[i % len(said)])
    check_works(daemon)
    check_quiet(daemon, fds)


def test_clients_killed_in_mid_call(make_daemon):
    daemon = make_daemon({'fake': fake(), 'own': fake(server={'sharing': 'per-client'}),
                          'turns': fake(server={'sharing': 'exclusive'})})
    check_works(daemon)
    fds = descriptors(daemon)
    clients = [subprocess.Popen([program('mcpctl'), 'call', server, 'hang'], env=daemon.environ,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for server in ('fake', 'own', 'turns') for _ in range(3)]
    with daemon.client() as c:
        wait_for(lambda: c.call('daemon/status')['inFlight'] == len(clients))
    for p in clients:
        p.kill()
        p.wait()
    for server in ('fake', 'own', 'turns'):
        check_works(daemon, server)
    check_quiet(daemon, fds + 4)        # the exclusive server stays: its three pipes and the handle of its process


def test_a_malformed_answer_ends_the_question_and_no_request(make_daemon):
    """The client's request and the daemon's question may have one id: what is wrong with the answer is told without it."""
    daemon = make_daemon({'own': fake(server={'sharing': 'per-client'})})
    with daemon.client(capabilities=EVERYTHING) as c:
        call = c.tool('own', 'ask', {'method': 'roots/list'})
        question = c.wait_question()
        same = c.tool('own', 'sleep', {'ms': 300}, id=question['id'])
        c.send_json({'jsonrpc': '2.0', 'id': question['id'], 'result': {}, 'error': {'code': 1, 'message': 'both'}})
        assert c.wait_orphan()['code'] == -32600
        assert call.wait().result['structuredContent']['error']['code'] == -32603
        assert same.wait().result


def test_out_of_descriptors_it_waits_and_comes_back(make_daemon):
    daemon = make_daemon({'fake': fake(), 'lazy': fake(server={'lazy': True})})
    check_works(daemon)
    first = daemon.client(hello=True)
    fds = descriptors(daemon)
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (fds + 6, before[1]))
    sockets = []
    for _ in range(20):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(daemon.socket))
        sockets.append(s)
    daemon.stderr.wait('out of file descriptors')
    spent = processor_seconds(daemon)
    time.sleep(0.5)
    assert processor_seconds(daemon) - spent < 0.25, 'the daemon spins without descriptors'
    error = first.request('servers/connect', {'server': 'lazy', 'timeoutMs': 20000}).wait().error
    assert 'Too many open files' in error['message']
    assert first.call('daemon/reload')['errors'] and first.text('fake', 'text', {'text': 'a'}) == 'a'
    for s in [first, *sockets]:
        s.close()
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
    with daemon.client() as c:
        assert c.call('servers/connect', {'server': 'lazy'})['state'] == 'connected'
    check_works(daemon, 'lazy')
    check_quiet(daemon)


# -- servers

@pytest.mark.parametrize('era', ['legacy', 'modern'])
def test_an_answer_that_cannot_be_read_fails_its_call(make_daemon, era):
    """S6, -32008: the line is dropped and the connection lives, but its asker is not left to wait out the timeout."""
    daemon = make_daemon({'fake': fake(era=era)})
    with daemon.client() as c:
        slow = c.tool('fake', 'sleep', {'ms': 2500, 'text': 'fine'})
        bad = [c.tool('fake', 'raw', {'lines': ['{"jsonrpc":"2.0","id":$ID,' + rest]}, timeoutMs=60000) for rest in (
            '"result":{"x":NaN}}', '"result":{"x":"\udcff\udcfe"}}', '"result":{},"error":{"code":1,"message":"x"}}',
            '"error":5}', '"result":1,"result":2}', '"result":' + '[' * 200 + ']' * 200 + '}', '"result":{"cut')]
        for call in bad:
            error = call.wait(30).error
            assert error['code'] == -32008 and error['data']['maybeExecuted'] is True, error
        late = c.tool('fake', 'raw', {'lines': ['{"id":$ID,"result":NaN}', '{"id":$ID,"result":{"resultType":"complete","n":1}}']})
        assert late.wait().result['n'] == 1       # a good answer that follows still counts
        assert slow.wait().result['content'][0]['text'] == 'fine'
        assert c.server('fake')['state'] == 'connected'
    check_quiet(daemon)


@pytest.mark.parametrize('era', ['legacy', 'modern'])
def test_answers_to_the_wrong_twice_and_too_late(make_daemon, era):
    daemon = make_daemon({'fake': fake(era=era)})
    answer = '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","n":1}}'
    with daemon.client() as c:
        wrong = [answer % id for id in ('1', 'null', '"m-0"', '"m-99999"', '"m-18446744073709551617"', '1.5', '[]', '""')]
        call = c.tool('fake', 'raw', {'lines': wrong + [answer % '$ID', answer % '$ID', '{"id":$ID,"error":{}}']})
        assert call.wait().result['n'] == 1
        gone = c.tool('fake', 'hang')
        c.notify('notifications/cancelled', {'requestId': gone.id})
        assert gone.wait().error['code'] == -32005
        for n in range(1, 30):      # among them the ids of all that went before
            assert c.tool('fake', 'raw', {'lines': [answer % ('"m-%d"' % i) for i in range(1, n)] + [answer % '$ID']}).wait().result
        assert c.server('fake')['state'] == 'connected'
    check_quiet(daemon)


FLOOD = ('import json, os, sys, threading\n'
         'def flood(fd, line):\n'
         '    while True: os.write(fd, line)\n'
         'for raw in sys.stdin.buffer:\n'
         '    m = json.loads(raw)\n'
         '    if "id" not in m or "method" not in m: continue\n'
         '    answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "f", "version": "1"}}}\n'
         '    if m["method"] == "server/discover": answer = {"error": {"code": -32601, "message": "no"}}\n'
         '    os.write(1, json.dumps({"jsonrpc": "2.0", "id": m["id"], **answer}).encode() + b"\\n")\n'
         '    if m["method"] == "initialize":\n'
         '        threading.Thread(target=flood, args=(%d, %r), daemon=True).start()\n')


@pytest.mark.parametrize('fd, line', [
    (1, b'no message\n' * 1000), (2, b'words\n' * 1000), (1, b'\n' * 60000),
    (1, b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n' * 100),
    (1, b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}\n' * 100),
], ids=['noise', 'stderr', 'empty lines', 'notifications', 'questions'])
def test_a_server_that_floods_hurts_nobody(make_daemon, fd, line):
    daemon = make_daemon({'fake': fake(), 'flood': {'command': '/usr/bin/python3', 'args': ['-c', FLOOD % (fd, line)]}},
                         mcpd={'limits': {'serverQueueBytes': 1 << 20, 'clientQueueSoftBytes': 1 << 20}})
    check_works(daemon)
    with daemon.client() as c, daemon.client() as deaf:
        deaf.subscribe('logs', 'notifications')
        c.wait_state('flood', 'connected')
        for _ in range(50):
            check_works(daemon)
        assert 'result' in c.request('mcp/request', {'server': 'flood', 'method': 'ping'}).wait().message or fd == 1
        # Far below what has come by then, and the sanitizers' quarantine of 256 MiB above it.
        assert c.call('daemon/status')['memory']['rssBytes'] < 700 << 20
        assert c.call('servers/disconnect', {'server': 'flood'})['state'] == 'idle'
    check_quiet(daemon)


def test_S14_a_server_that_never_reads(make_daemon):
    daemon = make_daemon({'fake': fake(), 'deaf': fake(server={'stopGrace': 100})},
                         mcpd={'limits': {'serverQueueBytes': 1 << 20}})
    check_works(daemon)
    with daemon.client() as c:
        pid = c.wait_state('deaf', 'connected')['pid']
        os.kill(pid, signal.SIGSTOP)
        calls = [c.tool('deaf', 'text', {'x': 'y' * 100000}, timeoutMs=1000) for _ in range(30)]
        assert {call.wait().error['code'] for call in calls} == {-32004, -32009}
        check_works(daemon)
        assert c.call('servers/disconnect', {'server': 'deaf'})['state'] == 'idle'
        wait_for(lambda: not alive(pid))
    check_works(daemon, 'deaf')
    check_quiet(daemon)


# -- the daemon

def test_reloads_and_signals_under_load(make_daemon):
    daemon = make_daemon({'fake': fake(), 'other': fake()})
    check_works(daemon)
    stop, wrong, calls = threading.Event(), [], []

    def caller(server):
        while not stop.is_set():
            try:
                with Client(daemon.socket) as c:
                    for _ in range(20):
                        call = c.tool(server, 'sleep', {'ms': 5}, timeoutMs=30000).wait()
                        calls.append(server)
                        # gone from the configuration, disabled, or ended in mid-call
                        if call.error and call.error['code'] not in (-32001, -32002, -32003):
                            wrong.append(call.error)
            except Exception as e:
                wrong.append(e)
    threads = [threading.Thread(target=caller, args=(name,)) for name in ('fake', 'other', 'own', 'turns')]
    for t in threads:
        t.start()
    chance = random.Random(3)
    try:
        with daemon.client() as c:
            for n in range(40):
                servers = {'fake': fake()}
                if n % 3:
                    servers['other'] = fake(server={'env': {'N': str(n % 5)}, 'timeout': 1000 + 30000 * (n % 2)})
                if n % 4:
                    servers['own'] = fake(server={'sharing': ('per-client', 'shared', 'exclusive')[n % 3]})
                servers['turns'] = fake(server={'sharing': 'exclusive', 'enabled': n % 2 == 0})
                daemon.write_config(servers) if n % 10 else daemon.write_config_text('{broken')
                for _ in range(chance.randrange(4)):
                    os.kill(daemon.pid, chance.choice((signal.SIGHUP, signal.SIGHUP, signal.SIGPIPE, signal.SIGWINCH)))
                c.call('daemon/reload')
    finally:
        stop.set()
        for t in threads:
            t.join(60)
    assert not wrong and 'fake' in calls
    daemon.write_config({'fake': fake()})
    with daemon.client() as c:
        c.call('daemon/reload')
    check_works(daemon)
    wait_for(lambda: len(daemon.processes()) <= 4, what='the end of the removed servers')     # and guard, keeper, fake
    check_quiet(daemon)


def test_memory_and_descriptors_do_not_grow_with_use(make_daemon):
    daemon = make_daemon({'time': time_server(), 'fake': fake()})

    def use(c, n):
        for i in range(n):
            calls = [c.tool('time', 'get_current_time', {'timezone': 'UTC'}, _meta={'progressToken': k}) for k in range(50)]
            gone = c.tool('fake', 'sleep', {'ms': 60000}, id='gone-%d' % i)
            c.notify('notifications/cancelled', {'requestId': gone.id})
            assert all(call.wait().result for call in calls) and gone.wait().error
        for _ in range(5):
            c.call('servers/reconnect', {'server': 'time'})
            with daemon.client() as other:
                other.subscribe('servers', 'calls')
    with daemon.client() as c:
        use(c, 20)
        fds, used = descriptors(daemon), c.call('daemon/status')['memory']['rssBytes']
        use(c, 60)
        wait_for(lambda: descriptors(daemon) <= fds)
        # The sanitizers keep what was freed, 256 MiB of it, so that only a leak of pages would show there; LeakSanitizer
        # sees the rest.
        sanitized = b'__asan_init' in open(program('mcpd'), 'rb').read()
        assert c.call('daemon/status')['memory']['rssBytes'] - used < (256 << 20 if sanitized else 2 << 20)
    check_quiet(daemon)


def test_no_secret_is_shown_anywhere(make_daemon):
    """Environment values, headers, what addresses hold: in no answer, event, log, listing, cache file or command line."""
    mark = 'S3CRET'
    url = 'http://127.0.0.1:9/x'
    daemon = make_daemon({
        'fake': fake(server={'env': {'TOKEN': mark}}), 'absent': {'command': '/nonexistent', 'env': {'A': mark}},
        'dies': {'command': 'false', 'env': {'A': mark}},
        'header': {'type': 'http', 'url': url, 'headers': {'Authorization': 'Bearer ' + mark}},
        'address': {'type': 'http', 'url': 'http://user:%s@127.0.0.1:9/x?api_key=%s' % (mark, mark)},
        'variable': {'type': 'http', 'url': url, 'headers': {'X': '${MARK}'}},
        'two lines': {'type': 'http', 'url': url, 'headers': {'X': mark + '\r\nY: z'}},
        'a number': {'command': 'x', 'env': {'N': 5, 'A': mark}}, 'a text': {'command': 'x', 'env': mark},
        'a list': {'type': 'http', 'url': url, 'headers': [mark]},
        'scheme': {'type': 'http', 'url': 'gopher://user:%s@host/' % mark},
        'unset': {'command': 'x', 'env': {'N': '${NOT_SET}', 'A': mark}},
    }, env={'MARK': mark}, mcpd={'logLevel': 'debug', 'environment': {'Z': mark}})
    told = []
    with daemon.client() as c, daemon.client() as watcher:
        watcher.subscribe('servers', 'tools', 'logs', 'notifications', 'calls')
        check_works(daemon)
        for server in c.call('servers/list')['servers']:
            name = {'server': server['name']}
            for method, more in (('servers/connect', {'timeoutMs': 2000}), ('tools/call', {'name': 'x', 'timeoutMs': 300}),
                                 ('servers/get', {}), ('servers/logs', {}), ('tools/list', {})):
                told.append(c.request(method, {**name, **more}).wait().raw.decode())
        for method in ('daemon/status', 'daemon/reload', 'servers/list'):
            told.append(c.request(method).wait().raw.decode())
        told.append(json.dumps(watcher.take_events()))
    for args in (['servers'], ['servers', '--json'], ['status'], ['logs', 'address'], ['tools']):
        done = daemon.mcpctl(*args)
        told += [done.stdout, done.stderr]
    check = subprocess.run([program('mcpd'), '--check-config'], env=daemon.environ, capture_output=True, text=True)
    told += [check.stdout, check.stderr, daemon.stderr.text]
    told += [' '.join(p.command) for p in daemon.processes()]
    told += [f.read_text() for f in daemon.path('cache').rglob('*') if f.is_file()]
    assert any('127.0.0.1:9' in text for text in told)
    assert not [text for text in told if mark in text]


CLOSED = ['sh', '-c', 'exec "$@" <&- >&- 2>&-', 'sh']


def test_a_daemon_that_was_started_without_standard_streams_has_none(make_daemon):
    """What it logs must not go into what it opened next: its lock file, or a client's connection."""
    daemon = make_daemon({'fake': fake()}, wrapper=CLOSED)
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        c.server('fake')
        assert [os.readlink('/proc/%d/fd/%d' % (daemon.pid, fd)) for fd in range(3)] == ['/dev/null'] * 3
        assert c.tool('fake', 'echo', {'a': 1}).wait().result['structuredContent'] == {'a': 1}
        where = c.tool('fake', 'where').wait().result['structuredContent']
        assert {'0', '1', '2'} <= set(where['descriptors'])
    with open(str(daemon.socket) + '.lock') as lock:
        assert 'server' not in lock.read()


@pytest.mark.parametrize('name, args, status', [('mcpctl', ['servers'], 1), ('mcpctl', ['call', 'fake', 'tool0'], 1), ('mcpd-bridge', ['fake'], 0),
                                                   ('mcpd-time-server', [], 1)])
def test_programs_that_were_started_without_standard_streams_end(make_daemon, name, args, status):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        done = subprocess.run([*CLOSED, program(name), *args], env=daemon.environ, timeout=60)
        assert done.returncode == status
        # Nothing was lost of the connections that took the place of their streams.
        assert c.text('fake', 'tool0') == 'tool0 was called'

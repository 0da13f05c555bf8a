"""libmcpd-client from outside: its examples against the daemon, starting the daemon on demand, and what it exports. Its behaviour
towards a daemon that misbehaves is in tests/unit/test_client_library.c."""

import json
import os
import re
import subprocess

import harness
from harness import ROOT, fake, processes, program, time_server, wait_for
from mcpd_client import TIMEOUT

LIBRARY = ROOT / 'libmcpd-client'


def run(d, name, *args, env=None, **popen):
    return subprocess.run([program('example-' + name), *map(str, args)], env={**d.environ, **(env or {})},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIMEOUT, **popen)


# -- the examples

def test_the_blocking_example(make_daemon):
    d = make_daemon({'fake': fake()})
    done = run(d, 'blocking', 'fake', 'echo', '{"n": 123456789012345678901234567890, "n": 1.0}')
    assert done.returncode == 0, done.stderr
    assert '{"n": 123456789012345678901234567890, "n": 1.0}' in done.stdout     # byte for byte
    done = run(d, 'blocking', 'nobody', 'echo')
    assert done.returncode != 0 and 'error -32001' in done.stderr


def test_the_poll_loop_example_has_many_calls_in_flight(make_daemon):
    d = make_daemon({'fake': fake()})
    done = run(d, 'poll_loop', 50, 'fake', 'progress', '{"steps": 2}')
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 50
    seen = [line.split(':')[0] for line in done.stderr.splitlines() if ': progress ' in line]
    assert sorted(seen) == sorted('call %d' % n for n in range(1, 51) for _ in range(2))


def test_the_poll_loop_example_answers_questions(make_daemon):
    d = make_daemon({'fake': fake(server={'sharing': 'per-client'})})
    done = run(d, 'poll_loop', 1, 'fake', 'ask', '{"method": "roots/list", "params": {}}')
    assert done.returncode == 0 and 'file:///tmp' in done.stdout, done.stderr
    done = run(d, 'poll_loop', 1, 'fake', 'ask', '{"method": "sampling/createMessage", "params": {}}')
    assert done.returncode == 0 and 'file:///tmp' not in done.stdout


def test_the_poll_loop_example_is_told_of_the_daemons_end(make_daemon):
    d = make_daemon({'fake': fake()})
    p = subprocess.Popen([program('example-poll_loop'), '3', 'fake', 'hang'], env=d.environ, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    with d.client() as c:
        wait_for(lambda: c.server('fake')['inFlight'] == 3)
    d.kill()
    out, err = p.communicate(timeout=TIMEOUT)
    assert p.returncode == 1 and err.count('it may have run') == 3 and 'disconnected' in err


def test_the_libevent_example(make_daemon):
    d = make_daemon({'fake': fake(), 'time': time_server()})
    done = run(d, 'libevent_loop', 2, 'servers')
    assert done.returncode == 0, done.stderr
    names = {json.loads(line.split(' ', 1)[1])['server']['name'] for line in done.stdout.splitlines()}
    assert names == {'fake', 'time'}
    done = run(d, 'libevent_loop', 1, 'weather')
    assert done.returncode == 1 and done.stderr


# -- starting the daemon

def test_R11_twenty_clients_start_one_daemon(make_daemon):
    d = make_daemon({'time': time_server()}, start=False)
    env = {**d.environ, 'MCPD_PROGRAM': program('mcpd')}
    clients = [subprocess.Popen([program('example-blocking'), 'time', 'get_current_time', '{"timezone":"UTC"}'],
                                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(20)]
    for client in clients:
        out, err = client.communicate(timeout=TIMEOUT)
        assert client.returncode == 0 and '"UTC' in out.replace('\\', ''), err
    daemons = [p for p in d.processes() if p.command[:2] == ['mcpd', '--background']]
    assert len(daemons) == 1
    # It is nobody's child here, in a session of its own, and holds no descriptor of those who started it.
    assert daemons[0].ppid not in [c.pid for c in clients] + [os.getpid()]
    assert os.getsid(daemons[0].pid) != os.getsid(0)
    held = [os.readlink('/proc/%d/fd/%d' % (daemons[0].pid, fd)) for fd in (0, 1, 2)]
    assert all(h == '/dev/null' or h.startswith('socket:') for h in held), held
    assert d.mcpctl('shutdown').returncode == 0
    wait_for(lambda: not d.processes())


def test_a_daemon_that_cannot_start_says_why(make_daemon):
    d = make_daemon({}, start=False)
    d.write_config_text('{ "mcpServers": ')
    done = run(d, 'blocking', 'time', 'x', env={'MCPD_PROGRAM': program('mcpd')})
    assert done.returncode == 1 and str(d.config_path) in done.stderr
    done = run(d, 'blocking', 'time', 'x', env={'MCPD_PROGRAM': '/no/such/mcpd'})
    assert done.returncode == 1 and '/no/such/mcpd: no such file' in done.stderr
    done = run(d, 'blocking', 'time', 'x', env={'MCPD_PROGRAM': '/bin/false'})
    assert done.returncode == 1 and 'does not listen' in done.stderr
    assert not [p for p in processes() if p.ppid == os.getpid() and p.zombie and 'mcpd' in p.command]


# -- what it exports, and its reference

def test_exports_are_the_headers_functions():
    header = (LIBRARY / 'include' / 'mcpd-client.h').read_text()
    code = re.sub(r'/\*.*?\*/', '', header, flags=re.S)
    declared = set(re.findall(r'\b(mcpd_\w+)\(', code)) - set(re.findall(r'typedef void (mcpd_\w+)\(', code))
    library = harness.BUILD / 'lib' / 'libmcpd-client.so'
    table = subprocess.run(['nm', '-D', '--defined-only', str(library)], stdout=subprocess.PIPE, text=True, check=True).stdout
    exported = {line.split()[2].split('@')[0] for line in table.splitlines() if line.split()[1] in 'TDBR'}
    assert exported - {'MCPD_CLIENT_0'} == declared
    # Nor does the map name what there no longer is.
    assert set(re.findall(r'\b(mcpd_\w+);', (LIBRARY / 'libmcpd-client.map').read_text())) == declared


def test_the_header_needs_no_other_library():
    header = (LIBRARY / 'include' / 'mcpd-client.h').read_text()
    assert set(re.findall(r'#include <(.+?)>', header)) == {'stddef.h', 'stdint.h'}
    needed = subprocess.run(['readelf', '-d', str(harness.BUILD / 'lib' / 'libmcpd-client.so')], stdout=subprocess.PIPE,
                            text=True, check=True).stdout
    foreign = set(re.findall(r'\(NEEDED\).*\[(.+?)\]', needed))
    assert not [lib for lib in foreign if re.search('json|event|curl|systemd', lib)]


def test_the_reference_is_made_from_the_header():
    subprocess.run([str(LIBRARY / 'make-reference'), '--check'], check=True)

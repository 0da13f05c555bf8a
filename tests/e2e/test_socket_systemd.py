"""The user units under a real `systemd --user` (PITFALLS "systemd"), in a mount namespace of the test's own."""

import os
import re
import shutil
import subprocess
import textwrap

import pytest
from harness import BUILD, ROOT, fake, marked, program, wait_for

MANAGER = '/lib/systemd/systemd'
SCRIPT = '''
set -eu
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/$(id -u)
chmod 700 /run/user/$(id -u)
export XDG_RUNTIME_DIR=/run/user/$(id -u)
{manager} --user --log-target=console 2> "$HOME/manager.log" &
manager=$!
i=0
until [ "$(systemctl --user is-system-running 2> /dev/null)" = running ]; do
    i=$((i + 1))
    [ $i -lt 600 ] || {{ echo 'no manager'; cat "$HOME/manager.log"; exit 77; }}
    sleep 0.1
done
status=0
python3 "$HOME/inside.py" || status=$?
systemctl --user exit 2> /dev/null || true
wait $manager || true
exit $status
'''
# What runs beside the manager.
INSIDE = '''
import json, os, socket, subprocess, time

def systemctl(*args):
    return subprocess.run(['systemctl', '--user', *args], check=True, stdout=subprocess.PIPE, text=True).stdout

def show(name):
    return systemctl('show', 'mcpd.service', '-p', name, '--value').strip()

def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)

def call(method, params=None):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(os.environ['XDG_RUNTIME_DIR'] + '/mcpd/mcpd.sock')
    s.sendall(json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params or {}}).encode() + b'\\n')
    return json.loads(s.makefile().readline())['result']

MCPD = os.environ["MCPD"]
'''


def inside(make_daemon, code):
    """Runs code beside a user manager that knows the units; skips where there can be none."""
    if os.getuid() != 0 or not os.path.exists(MANAGER) or not shutil.which('unshare'):
        pytest.skip('needs root and systemd')
    daemon = make_daemon({'fake': fake()}, start=False)
    home = daemon.dir / 'home'
    units = home / '.config' / 'systemd' / 'user'
    units.mkdir(parents=True)
    shutil.copytree(daemon.dir / 'config' / 'mcpd', home / '.config' / 'mcpd')
    shutil.copy(ROOT / 'systemd' / 'mcpd.socket', units)
    unit = (BUILD / 'systemd' / 'mcpd.service').read_text()
    assert not re.search(r'@\w+@', unit)
    # Not the program that is installed; and with the test's mark, so that what is left is found.
    unit = re.sub(r'(?m)^ExecStart=.*', 'ExecStart=%s\nEnvironment=%s' % (
        program('mcpd'), ' '.join('"%s=%s"' % (k, v) for k, v in daemon.environ.items() if not k.startswith('XDG_')
                                  and k not in ('HOME', 'PATH'))), unit)
    (units / 'mcpd.service').write_text(unit)
    (home / 'inside.py').write_text(INSIDE + textwrap.dedent(code))
    environ = {k: v for k, v in daemon.environ.items() if not k.startswith('XDG_')}
    ended = subprocess.run(['unshare', '-m', 'sh', '-c', SCRIPT.format(manager=MANAGER)], timeout=200, text=True,
                           env={**environ, 'HOME': str(home), 'MCPD': program('mcpd')}, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if ended.returncode == 77 or 'ermission denied' in ended.stdout and 'mount' in ended.stdout:
        pytest.skip('no user manager here: ' + ended.stdout[-300:])
    log = (home / 'manager.log').read_text(errors='replace')
    assert ended.returncode == 0, '%s\n%s' % (ended.stdout[-4000:], log[-4000:])
    wait_for(lambda: not marked(daemon.id), what='the end of all processes')


def test_the_units_are_what_systemd_understands(make_daemon):
    inside(make_daemon, '''
        units = [os.environ['HOME'] + '/.config/systemd/user/mcpd.' + kind for kind in ('service', 'socket')]
        said = subprocess.run(['systemd-analyze', '--user', 'verify', *units], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        assert said.returncode == 0 and 'mcpd' not in said.stdout, said.stdout
    ''')


def test_socket_activation_reload_stop_and_restart(make_daemon):
    inside(make_daemon, '''
        systemctl('start', 'mcpd.socket')
        folder = os.environ['XDG_RUNTIME_DIR'] + '/mcpd'
        assert os.stat(folder).st_mode & 0o777 == 0o700 and os.stat(folder + '/mcpd.sock').st_mode & 0o777 == 0o600
        assert show('ActiveState') == 'inactive'
        status = call('daemon/status')                      # started by the first client
        assert str(status['pid']) == show('MainPID') and status['socket'] == folder + '/mcpd.sock'
        server = call('servers/connect', {'server': 'fake'})
        until(lambda: show('StatusText') == '1 of 1 servers connected', 'the status')
        assert show('ActiveState') == 'active'
        systemctl('reload', 'mcpd.service')
        until(lambda: show('ActiveState') == 'active', 'the reload')
        assert call('servers/get', {'server': 'fake'})['pid'] == server['pid']
        systemctl('stop', 'mcpd.service')
        assert not os.path.exists('/proc/%d' % server['pid'])
        assert os.path.exists(folder + '/mcpd.sock')        # the service manager's, and left
        pid = call('daemon/status')['pid']
        assert pid != status['pid']
        os.kill(pid, 9)
        until(lambda: show('NRestarts') == '1', 'the restart')
        until(lambda: show('ActiveState') == 'active', 'the restart')
        assert call('daemon/status')['pid'] != pid
        call('daemon/shutdown')
        until(lambda: show('ActiveState') == 'inactive', 'the end')
        assert show('Result') == 'success'
    ''')


def test_a_daemon_started_by_hand_makes_way_for_the_socket_unit(make_daemon):
    inside(make_daemon, '''
        hand = subprocess.Popen([MCPD], stdin=subprocess.DEVNULL)
        until(lambda: os.path.exists(os.environ['XDG_RUNTIME_DIR'] + '/mcpd/mcpd.sock'), 'the socket')
        assert call('daemon/status')['pid'] == hand.pid
        systemctl('start', 'mcpd.socket')                   # replaces the socket file
        pid = call('daemon/status')['pid']
        assert pid != hand.pid and str(pid) == show('MainPID')
        assert hand.wait(60) == 0
        assert call('daemon/status')['pid'] == pid
    ''')

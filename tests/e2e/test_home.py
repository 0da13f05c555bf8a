"""Homes that are not as they should be: a configuration that comes later, folders that cannot be written."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from harness import Output, fake, program, wait_for
from mcpd_client import Client


def mount_is_possible():
    return os.getuid() == 0 and subprocess.run(['unshare', '-m', 'mount', '--bind', '/', '/'], stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL).returncode == 0


# -- a configuration that appears later

@pytest.mark.parametrize('how', ['SIGHUP', 'request', 'mcpctl'])
@pytest.mark.parametrize('there', ['nothing', 'XDG_CONFIG_HOME', 'its folder'])
def test_a_file_that_comes_later_is_found_by_a_reload(make_daemon, there, how):
    daemon = make_daemon(config=False, start=False)
    folder = daemon.config_path.parent
    if there != 'its folder':
        folder.rmdir()
    if there == 'nothing':
        folder.parent.rmdir()
    daemon.start()
    with daemon.client() as c:
        config = c.call('daemon/status')['config']
        assert config['files'] == [] and config['errors'] == [] and config['missing'] == [str(daemon.config_path)]
        text = daemon.mcpctl('status').stdout
        assert '%s does not exist; once it does: mcpctl reload' % daemon.config_path in text
        folder.mkdir(parents=True, exist_ok=True)
        daemon.write_config({'fake': fake()})
        if how == 'SIGHUP':
            daemon.signal(signal.SIGHUP)
            daemon.stderr.wait('the configuration was reloaded: 1 server')
        elif how == 'request':
            assert c.call('daemon/reload')['added'] == ['fake']
        else:
            assert 'added     fake' in daemon.mcpctl('reload').stdout
        c.wait_state('fake', 'connected')
        config = c.call('daemon/status')['config']
        assert config['files'] == [str(daemon.config_path)] and config['missing'] == []


def test_it_says_where_it_looked(make_daemon):
    daemon = make_daemon(config=False)
    daemon.stderr.wait('no servers are configured in %s' % re.escape(str(daemon.config_path)))


def test_of_named_files_all_must_be_there(make_daemon):
    """One that is missing at a reload changes nothing (R37)."""
    daemon = make_daemon({'fake': fake()}, start=False)
    other = daemon.path('other.json')
    other.write_text(json.dumps({'mcpServers': {'more': fake()}}))
    daemon.args = ['--config', str(daemon.config_path), '--config', str(other)]
    daemon.start()
    with daemon.client() as c:
        c.wait_state('more', 'connected')
        other.unlink()
        assert 'does not exist' in c.call('daemon/reload')['errors'][0]['message']
        assert c.server('more')['state'] == 'connected' and c.call('daemon/status')['config']['missing'] == []


# -- a home that cannot be written

READ_ONLY = '''
mount --bind "$HOME" "$HOME" && mount -o remount,bind,ro "$HOME" || exit 77
cd / && exec "$0" "$@"
'''


@pytest.mark.skipif(not mount_is_possible(), reason='needs root to mount')
def test_a_read_only_home_costs_the_cache_and_nothing_else(make_daemon):
    daemon = make_daemon(start=False)
    home = daemon.path('home')
    (home / '.config' / 'mcpd').mkdir(parents=True)
    (home / '.config' / 'mcpd' / 'mcp.json').write_text(json.dumps({'mcpServers': {'fake': fake(tools=2),
                                                                                   'other': fake(tools=1)}}))
    env = {k: v for k, v in daemon.environ.items() if k not in ('XDG_CONFIG_HOME', 'XDG_CACHE_HOME', 'XDG_STATE_HOME')}
    proc = subprocess.Popen(['unshare', '-m', 'sh', '-c', READ_ONLY, program('mcpd')], env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    stderr = Output(proc.stderr)
    try:
        stderr.wait('is listening on')
        with Client(daemon.socket) as c:
            c.wait_state('fake', 'connected')
            assert c.tool('fake', 'echo', {'a': 1}).wait().result['structuredContent'] == {'a': 1}
            for _ in range(3):
                c.call('servers/reconnect', {'server': 'fake'})
                assert len(c.call('tools/list', {'server': 'fake'})['servers'][0]['tools']) == 2
            c.wait_state('other', 'connected')
            assert c.call('daemon/reload')['errors'] == []
    finally:
        proc.terminate()
        assert proc.wait(60) == 0
        stderr.thread.join(5)
        proc.stderr.close()
    # Said once for each server, with the place and the reason.
    said = [line for line in stderr.text.splitlines() if 'Read-only file system' in line]
    assert len(said) == 2 and all(str(home / '.cache' / 'mcpd') in line for line in said), stderr.text
    assert sorted(os.listdir(home)) == ['.config']


@pytest.mark.skipif(not mount_is_possible(), reason='needs root to mount')
def test_a_read_only_runtime_directory_is_told_with_the_path(make_daemon):
    daemon = make_daemon(start=False)
    env = {**daemon.environ, 'HOME': str(daemon.path('run'))}
    ended = subprocess.run(['unshare', '-m', 'sh', '-c', READ_ONLY, program('mcpd')], env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 1
    assert 'Read-only file system' in ended.stderr and str(daemon.socket.parent) in ended.stderr
    # mcpctl passes on what the daemon said.
    ended = subprocess.run(['unshare', '-m', 'sh', '-c', READ_ONLY, program('mcpctl'), 'servers'], text=True, timeout=60,
                           env={**env, 'MCPD_PROGRAM': program('mcpd')}, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ended.returncode == 4 and 'Read-only file system' in ended.stderr


def test_a_home_that_is_not_there(make_daemon):
    daemon = make_daemon({'fake': fake(server={'cwd': '/'})}, env={'XDG_CACHE_HOME': None}, start=False)
    shutil.rmtree(daemon.path('home'))
    daemon.start()
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
    daemon.stop()
    wait_for(lambda: not daemon.processes(), what='the end of all processes')


# -- R38 for clients

def test_R38_mcpctl_tells_a_path_that_is_too_long(make_daemon):
    daemon = make_daemon(start=False)
    path = str(daemon.dir / ('x' * 120))
    ended = daemon.mcpctl('--socket', path, 'status')
    assert ended.returncode == 4 and path in ended.stderr and '107' in ended.stderr


def test_R38_mcpctl_replaces_a_stale_socket(make_daemon):
    daemon = make_daemon({'fake': fake()})
    daemon.kill()
    assert daemon.socket.exists()
    ended = daemon.mcpctl('status')
    assert ended.returncode == 4 and 'Connection refused' in ended.stderr
    assert 'fake' in daemon.mcpctl('servers', env={'MCPD_PROGRAM': program('mcpd')}).stdout
    daemon.mcpctl('shutdown')
    wait_for(lambda: not daemon.processes(), what='the end of all processes')

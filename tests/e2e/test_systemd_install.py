"""mcpctl install-service and remove-service: a build that no package brought, under a real `systemd --user`."""

import json
import os
import re
import shutil

import pytest
from harness import fake, program, wait_for

NAMES = ('mcpd.socket', 'mcpd.service')


@pytest.fixture
def m(user_manager):
    return user_manager({'fake': fake()})


def written(m):
    return sorted(f.name for f in m.units.iterdir())


def said(done, status=0):
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def complained(done, status=1):
    assert done.returncode == status and done.stderr.startswith('mcpctl: '), (done.returncode, done.stdout, done.stderr)
    return done.stderr


def is_enabled(m, name='mcpd.socket'):
    return m.systemctl('is-enabled', name, check=False).stdout.strip() or 'not-found'


def runs(m):
    with m.client() as c:
        c.wait_state('fake', 'connected')
        return c.call('daemon/status')['pid']


def test_installed_it_starts_with_the_next_login(m):
    text = said(m.mcpctl('install-service'))
    for name in NAMES:
        assert 'wrote     %s' % (m.units / name) in text
        assert (m.units / name).read_text().startswith('# Written by `mcpctl install-service`')
    assert 'program   %s' % program('mcpd') in text and 'systemctl --user start mcpd.socket' in text
    assert is_enabled(m) == 'enabled' and m.show('ActiveState', 'mcpd.socket') == 'inactive'
    m.systemctl('start', 'sockets.target')
    verified = m.run('systemd-analyze', '--user', 'verify', *(m.units / name for name in NAMES), check=False)
    assert verified.returncode == 0 and 'mcpd' not in verified.stdout + verified.stderr, verified


def test_with_now_it_is_there_at_once_and_runs_this_build(m):
    said(m.mcpctl('install-service', '--now'))
    pid = runs(m)
    assert m.run('readlink', '/proc/%d/exe' % pid).stdout.strip() == os.path.realpath(program('mcpd'))
    assert str(pid) == m.show('MainPID') and m.show('Type') == 'notify'


def test_again_it_changes_nothing(m):
    said(m.mcpctl('install-service', '--now'))
    before = [(m.units / name).stat().st_mtime_ns for name in NAMES]
    pid = runs(m)
    text = said(m.mcpctl('install-service', '--now'))
    assert text.count('unchanged ') == 2 and 'wrote' not in text
    assert [(m.units / name).stat().st_mtime_ns for name in NAMES] == before and runs(m) == pid
    assert json.loads(said(m.mcpctl('install-service', '--now', '--json'))) == {
        'units': [str(m.units / name) for name in NAMES], 'program': program('mcpd'), 'changed': False, 'started': True}


def test_an_older_unit_of_ours_is_brought_up_to_date(m):
    said(m.mcpctl('install-service'))
    text = (m.units / 'mcpd.service').read_text()
    (m.units / 'mcpd.service').write_text(text.replace('WatchdogSec=60', 'WatchdogSec=1'))
    text = said(m.mcpctl('install-service', '--now'))
    assert 'wrote     %s' % (m.units / 'mcpd.service') in text and 'unchanged %s' % (m.units / 'mcpd.socket') in text
    runs(m)
    assert m.show('WatchdogUSec') == '1min'


def test_removed_nothing_is_left(m):
    said(m.mcpctl('install-service', '--now'))
    runs(m)
    processes = m.processes()
    text = said(m.mcpctl('remove-service'))
    assert all('removed   %s' % (m.units / name) in text for name in NAMES)
    m.wait_left(processes)
    assert [n for n in written(m) if n in NAMES] == [] and not list(m.units.glob('*/mcpd.*'))
    assert is_enabled(m) == 'not-found' and m.show('LoadState', 'mcpd.socket') == 'not-found'
    assert 'nothing to remove' in said(m.mcpctl('remove-service'))
    assert json.loads(said(m.mcpctl('remove-service', '--json'))) == {'removed': []}


def test_what_it_did_not_write_is_left_alone(m):
    makers = {'file': lambda path: path.write_text('# mine\n[Unit]\nDescription=mine\n'),
              'masked': lambda path: path.symlink_to('/dev/null'), 'folder': lambda path: path.mkdir()}
    for name in NAMES:
        for kind, make in makers.items():
            path = m.units / name
            make(path)
            before = os.lstat(path)
            for command in ('install-service', 'remove-service'):
                text = complained(m.mcpctl(command))
                assert str(path) in text and 'was not written by mcpctl' in text
            after = os.lstat(path)
            assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns) and written(m) == [name]
            path.rmdir() if kind == 'folder' else path.unlink()
    m.systemctl('daemon-reload')
    assert is_enabled(m) == 'not-found'


def test_a_packages_units_are_not_its_to_remove(m):
    share = m.home / '.local' / 'share' / 'systemd' / 'user'
    share.mkdir(parents=True)
    said(m.mcpctl('install-service'))
    for name in NAMES:
        shutil.copy(m.units / name, share)      # the same words, but in another place
    said(m.mcpctl('remove-service'))
    m.systemctl('enable', '--now', 'mcpd.socket')
    pid = runs(m)
    assert 'nothing to remove' in said(m.mcpctl('remove-service'))
    assert is_enabled(m) == 'enabled' and runs(m) == pid


def test_without_a_user_manager_it_says_so_and_writes_nothing(m):
    nowhere = {'XDG_RUNTIME_DIR': str(m.home)}
    text = complained(m.mcpctl('install-service', env=nowhere))
    assert 'no systemd user manager' in text and 'loginctl enable-linger' in text and 'Failed to connect' in text
    assert written(m) == []
    error = json.loads(said(m.mcpctl('install-service', '--json', env=nowhere), 1))['error']
    assert 'no systemd user manager' in error['message']
    text = complained(m.mcpctl('install-service', env={'PATH': str(m.home)}))
    assert 'systemctl cannot be run' in text and written(m) == []


def test_it_can_be_removed_without_a_user_manager(m):
    said(m.mcpctl('install-service'))
    assert list(m.units.glob('sockets.target.wants/mcpd.socket'))
    said(m.mcpctl('remove-service', env={'XDG_RUNTIME_DIR': str(m.home)}))
    assert not [n for n in written(m) if n in NAMES] and not list(m.units.glob('*/mcpd.*'))
    m.systemctl('daemon-reload')
    assert is_enabled(m) == 'not-found'


def test_another_HOME_than_the_managers_is_noticed(m):
    text = complained(m.mcpctl('install-service', env={'HOME': '/somewhere/else'}))
    assert 'does not look for units in /somewhere/else/.config/systemd/user' in text and str(m.units) in text


def test_a_runtime_directory_that_su_forgot_is_found(m):
    done = m.run('env', '-u', 'XDG_RUNTIME_DIR', program('mcpctl'), 'install-service', '--now', check=False)
    assert done.returncode == 0, done
    runs(m)


@pytest.mark.parametrize('value, words', [('/no/such/mcpd', 'no mcpd was found'), ('/bin/true', 'no mcpd that runs here'),
                                          ('no-such-mcpd', 'no mcpd was found')])
def test_a_program_that_is_none_is_told(m, value, words):
    assert words in complained(m.mcpctl('install-service', env={'MCPD_PROGRAM': value}))
    assert written(m) == []


def copy_build(m, folder):
    folder.mkdir()
    for name in ('mcpd', 'mcpctl'):
        shutil.copy(program(name), folder)
    return str(folder / 'mcpctl')


def test_a_path_that_systemd_would_read_otherwise(m):
    folder = m.home / '100% of $HOME'
    done = m.run(copy_build(m, folder), 'install-service', '--now', check=False)
    assert 'program   %s/mcpd' % folder in said(done)
    pid = runs(m)
    assert m.run('readlink', '/proc/%d/exe' % pid).stdout.strip() == str(folder / 'mcpd')


def test_a_path_that_systemd_cannot_have_is_refused(m):
    folder = m.home / 'a"b'
    done = m.run(copy_build(m, folder), 'install-service', check=False)
    assert 'quote' in complained(done) and str(folder) in done.stderr and written(m) == []


def test_a_link_on_PATH_to_the_same_program_is_what_is_written(m):
    """The next version moves the link."""
    bin = m.home / 'bin'
    bin.mkdir()
    for name in ('mcpd', 'mcpctl'):
        (bin / name).symlink_to(program(name))
    path = '%s:%s' % (bin, m.environ['PATH'])
    assert 'program   %s/mcpd' % bin in said(m.mcpctl('install-service', env={'PATH': path}))


def test_it_says_what_the_service_will_not_see(m):
    path = '%s:%s' % (m.home, m.environ['PATH'])
    text = m.mcpctl('install-service', env={'PATH': path, 'MCPD_SOCKET': '/x/y'}).stderr
    theirs = re.search(r'^PATH=(.*)', m.systemctl('show-environment').stdout, re.M)[1]
    assert 'PATH=%s,' % theirs in text and '"environment"' in text and 'MCPD_SOCKET is set here' in text
    assert m.mcpctl('install-service', env={'PATH': theirs}).stderr == ''
    assert 'systemctl --user edit mcpd.socket' in complained(m.mcpctl('--socket', '/x/y', 'install-service'), 2)


def test_a_read_only_home_is_told(m):
    m.run('mount', '--bind', m.home, m.home)
    m.run('mount', '-o', 'remount,bind,ro', m.home)
    # Its own working directory would be the writable one.
    done = m.run('sh', '-c', 'cd / && exec "$0" install-service --now', program('mcpctl'), check=False)
    assert 'Read-only file system' in complained(done) and str(m.units) in done.stderr
    assert written(m) == [] and is_enabled(m) == 'not-found'


def test_a_daemon_that_runs_already_makes_way(m):
    hand = m.popen(program('mcpd'))
    wait_for(lambda: m.mcpctl('--no-start', 'status').returncode == 0, what='the daemon')
    said(m.mcpctl('install-service', '--now'))
    assert str(runs(m)) == m.show('MainPID')
    assert hand.wait(60) == 0

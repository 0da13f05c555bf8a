"""The units as they are installed: what systemd thinks of them, where they go, and the preset (PITFALLS "systemd")."""

import re
import subprocess

from harness import BUILD, ROOT, fake, program, wait_for


def install(prefix):
    done = subprocess.run(['cmake', '--install', str(BUILD), '--prefix', str(prefix)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


def test_systemd_has_nothing_to_say_about_the_units(user_manager):
    m = user_manager({'fake': fake()})
    m.install()
    said = m.run('systemd-analyze', '--user', 'verify', m.units / 'mcpd.service', m.units / 'mcpd.socket', check=False)
    assert said.returncode == 0
    # It also looks at units that others installed, and may speak of those.
    assert 'mcpd' not in said.stdout + said.stderr, said


def test_what_systemd_makes_of_them(user_manager):
    m = user_manager({'fake': fake()})
    m.install()
    m.systemctl('start', 'mcpd.socket')
    wanted = {'Type': 'notify', 'KillMode': 'mixed', 'OOMPolicy': 'continue', 'Delegate': 'yes', 'Restart': 'on-failure',
              'TimeoutAbortUSec': '10s', 'NotifyAccess': 'main'}
    assert {name: m.show(name) for name in wanted} == wanted
    assert 'mcpd.socket' in m.show('Requires').split()
    wanted = {'SocketMode': '0600', 'DirectoryMode': '0700', 'Triggers': 'mcpd.service',
              'Listen': '%s/mcpd/mcpd.sock (Stream)' % m.runtime}
    assert {name: m.show(name, 'mcpd.socket') for name in wanted} == wanted
    m.client().call('daemon/status')
    assert m.show('WatchdogUSec') == '1min'     # which it does not show before


def test_installed_in_the_home_they_are_found_and_run_the_installed_program(user_manager):
    m = user_manager({'fake': fake()})
    prefix = m.home / '.local'
    install(prefix)
    units = prefix / 'share' / 'systemd' / 'user'
    assert not re.search(r'@\w+@', (units / 'mcpd.service').read_text())
    m.systemctl('daemon-reload')
    assert m.show('FragmentPath') == str(units / 'mcpd.service')
    m.systemctl('enable', '--now', 'mcpd.socket')
    with m.client() as c:
        pid = c.call('daemon/status')['pid']
        c.wait_state('fake', 'connected')
    assert m.run('readlink', '/proc/%d/exe' % pid).stdout.strip() == str(prefix / 'bin' / 'mcpd')


def test_a_prefix_that_systemd_would_read_otherwise(user_manager):
    """Blanks, percent signs and dollars are all possible in a path."""
    m = user_manager({'fake': fake()})
    prefix = m.home / '100% of $HOME'
    install(prefix)
    for name in ('mcpd.service', 'mcpd.socket'):
        (prefix / 'share' / 'systemd' / 'user' / name).rename(m.units / name)
    m.systemctl('daemon-reload')
    m.systemctl('start', 'mcpd.socket')
    with m.client() as c:
        pid = c.call('daemon/status')['pid']
    assert m.run('readlink', '/proc/%d/exe' % pid).stdout.strip() == str(prefix / 'bin' / 'mcpd')


def test_below_usr_they_go_to_lib(tmp_path):
    """As a package has them."""
    done = subprocess.run(['cmake', '--install', str(BUILD), '--prefix', '/usr'], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={'PATH': '/usr/bin:/bin', 'DESTDIR': str(tmp_path)})
    assert done.returncode == 0, done.stdout[-4000:]
    lib = tmp_path / 'usr' / 'lib' / 'systemd'
    assert 'ExecStart=/usr/bin/mcpd\n' in (lib / 'user' / 'mcpd.service').read_text()
    assert (lib / 'user' / 'mcpd.socket').read_text() == (ROOT / 'systemd' / 'mcpd.socket').read_text()
    assert (lib / 'user-preset' / '80-mcpd.preset').exists()


def test_the_preset_turns_the_socket_on_and_not_the_daemon(user_manager):
    m = user_manager({'fake': fake()})
    m.install()
    m.run('mkdir', '-p', '/run/systemd/user-preset')
    m.run('cp', ROOT / 'systemd' / '80-mcpd.preset', '/run/systemd/user-preset/')
    m.systemctl('preset', 'mcpd.socket', 'mcpd.service')
    assert m.systemctl('is-enabled', 'mcpd.socket', check=False).stdout.strip() == 'enabled'
    assert m.systemctl('is-enabled', 'mcpd.service', check=False).stdout.strip() == 'disabled'


def test_a_command_that_is_not_on_the_managers_PATH_says_where_to_set_it(user_manager):
    """R35: nvm, uv and mise put programs where only the login shell looks."""
    m = user_manager({})
    tools = m.home / 'tools'
    tools.mkdir()
    (tools / 'stub-server').symlink_to(program('mcpd-time-server'))
    m.daemon.write_config({'stub': {'command': 'stub-server'}})
    m.install()
    m.systemctl('start', 'mcpd.socket')
    with m.client() as c:
        error = c.wait_state('stub', 'failed')['lastError']['message']
        assert 'stub-server' in error and 'PATH searched: ' in error and '"environment"' in error
        m.daemon.write_config({'stub': {'command': 'stub-server'}}, mcpd={'environment': {'PATH': str(tools)}})
        m.systemctl('reload', 'mcpd.service')
        c.wait_state('stub', 'connected')
    # The same by systemd's own means.
    m.daemon.write_config({'stub': {'command': 'stub-server'}})
    m.write_service((m.units / 'mcpd.service').read_text(), Environment='PATH=%h/tools')
    m.systemctl('daemon-reload')
    m.systemctl('stop', 'mcpd.service')
    with m.client() as c:
        c.wait_state('stub', 'connected')
    wait_for(lambda: m.show('StatusText').startswith('1 of 1'), what='the status')

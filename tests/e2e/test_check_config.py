"""mcpd --check-config and --print-config-table (R36, R37, L4), and what the configuration makes of a real server (R35, R36)."""

import json
import subprocess

import harness
from harness import program, time_server

SECRET = 'hunter2'


def run(daemon, *args, env=None, cwd=None):
    """mcpd with the daemon's folders; (status, standard output). Never a secret in it."""
    done = subprocess.run([program('mcpd'), *args], env={**daemon.environ, **(env or {})}, cwd=cwd or daemon.dir,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.TIMEOUT)
    assert SECRET not in done.stdout + done.stderr
    return done.returncode, done.stdout


def check(daemon, text, *args, **kwargs):
    daemon.write_config_text(text if isinstance(text, str) else json.dumps(text))
    return run(daemon, '--check-config', *args, **kwargs)


def test_a_good_configuration_has_nothing_to_say(make_daemon):
    d = make_daemon(start=False)
    status, out = check(d, {'mcpServers': {'a': {'command': 'x'}, 'b': {'type': 'http', 'url': 'https://h'}}})
    assert (status, out) == (0, '2 servers; 0 errors, 0 warnings\n')


def test_each_problem_names_file_server_member_and_what_was_expected(make_daemon):
    d = make_daemon(start=False)
    status, out = check(d, {'mcpServers': {'port': {'command': 'x', 'env': {'PORT': 8080, 'KEY': SECRET}},
                                           'l4': {'type': 'websocket', 'url': 'http://h'},
                                           'hint': {'url': 'http://h', 'headers': {'Authorization': SECRET}},
                                           'good': {'command': 'x', 'comand': SECRET}}})
    file = d.config_path
    assert status == 1
    lines = out.splitlines()
    assert f'{file}: server port: "env": "PORT": expected a string, found a number; write it in double quotes' in lines
    assert f'{file}: server l4: Unknown server type: websocket' in lines
    assert any(l.startswith(f'{file}: server hint: ') and 'add "type": "http"' in l for l in lines)
    assert f'{file}: server good: warning: "comand": unknown member, ignored; is "command" meant?' in lines
    assert lines[-1] == '4 servers, 3 of them unusable; 3 errors, 2 warnings'


def test_warnings_alone_are_no_failure(make_daemon):
    d = make_daemon(start=False)
    status, out = check(d, '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')
    assert status == 0
    assert 'warning: "mcpServers": "a" is there twice (lines 1 and 1); the last one counts' in out


def test_r37_what_is_no_json_is_told_with_line_and_column(make_daemon):
    d = make_daemon(start=False)
    status, out = check(d, '{\n  "mcpServers": {} // none yet\n}')
    assert status == 1
    assert out.startswith(f'{d.config_path}: line 2, column 20: ')
    assert 'JSON has no comments' in out


def test_r36_variables_come_from_mcpds_environment(make_daemon):
    d = make_daemon(start=False)
    config = {'mcpServers': {'a': {'type': 'http', 'url': 'http://h', 'headers': {'Authorization': 'Bearer ${MY_TOKEN}'}}}}
    status, out = check(d, config)
    assert status == 1 and 'server a: "headers": "Authorization": the variable MY_TOKEN is not set' in out
    status, out = check(d, config, env={'MY_TOKEN': SECRET})
    assert status == 0
    status, out = check(d, config, env={'MY_TOKEN': SECRET + '\n'})
    assert status == 1 and 'contains a line break' in out


def test_files_that_are_named_must_exist_and_the_default_one_need_not(make_daemon):
    d = make_daemon(config=False, start=False)
    status, out = run(d, '--check-config')
    assert status == 0 and f'no configuration file ({d.config_path} does not exist)' in out
    missing = d.path('missing.json')
    status, out = run(d, '--check-config', '--config', str(missing))
    assert status == 1 and out.startswith(f'{missing}: does not exist\n')


def test_later_files_win_and_both_are_named(make_daemon):
    d = make_daemon({'a': {'command': 'x'}}, start=False)
    second = d.path('second.json')
    second.write_text(json.dumps({'mcpServers': {'a': {'command': 'y'}, 'b': {'command': 'z'}}}))
    status, out = run(d, '--check-config', '--config', str(d.config_path), '--config', 'second.json')
    assert status == 0
    assert f'{second}: server a: warning: replaces the server of the same name in {d.config_path}\n' in out
    assert '2 servers; ' in out


def test_the_printed_table_holds_each_limit_of_the_code(make_daemon):
    d = make_daemon(start=False)
    status, out = run(d, '--print-config-table')
    assert status == 0
    header = (harness.ROOT / 'proto' / 'limits.h').read_text()
    keys = [line.split('"')[1] for line in header.splitlines() if line.lstrip().startswith('X(') and '"' in line]
    assert len(keys) >= 10
    for key in keys + ['mcpServers', 'command', 'url', 'retrySafe', 'environment']:
        assert out.count(f'| `{key}` |') == 1, key


def test_r35_the_servers_path_can_be_set_for_all_and_for_one(make_daemon):
    """A service's PATH is not the shell's: stubs in folders that only the configuration names."""
    d = make_daemon(start=False)
    for name in ('for-all', 'for-one'):
        folder = d.path(name)
        folder.mkdir()
        (folder / 'my-time').symlink_to(program('mcpd-time-server'))
    d.path('for-one').joinpath('my-other').symlink_to(program('mcpd-time-server'))
    d.write_config({'all': {'command': 'my-time'},
                    'one': {'command': 'my-other', 'env': {'PATH': '%s:${PATH}' % d.path('for-one')}},
                    'none': {'command': 'my-other'}},
                   mcpd={'environment': {'PATH': '%s:${PATH}' % d.path('for-all')}})
    d.start()
    with d.client() as c:
        for server in ('all', 'one'):
            assert c.call('servers/connect', {'server': server})['state'] == 'connected'
        failed = c.request('servers/connect', {'server': 'none'}).wait().error
        assert failed['code'] == -32002
        assert str(d.path('for-all')) in json.dumps(failed)      # the PATH that was searched


def test_r36_expanded_values_reach_the_server_and_nobody_else(make_daemon):
    d = make_daemon(start=False, env={'MY_SECRET': SECRET})
    shell = 'printf %s "$KEY" >"$1"; exec "$2"'
    seen = d.path('seen')
    d.write_config({'s': {'command': 'sh', 'args': ['-c', shell, 'sh', str(seen), program('mcpd-time-server')],
                          'env': {'KEY': '<${MY_SECRET}${env:NOT_THERE:-!}>'}},
                    'unset': {'command': 'sh', 'args': ['${NOT_THERE}']}})
    d.start()
    with d.client() as c:
        assert c.call('servers/connect', {'server': 's'})['state'] == 'connected'
        assert seen.read_text() == f'<{SECRET}!>'
        shown = c.call('servers/get', {'server': 's'})
        assert shown['config']['env'] == {'KEY': '***'}
        assert SECRET not in json.dumps(shown)
        status = c.call('daemon/status')
        assert [e['server'] for e in status['config']['errors']] == ['unset']
        assert c.request('servers/connect', {'server': 'unset'}).wait().error['code'] == -32002
    assert SECRET not in d.stderr.text


def test_r37_a_reload_with_a_broken_file_keeps_what_is_there(make_daemon):
    d = make_daemon({'a': time_server()})
    with d.client() as c:
        before = c.call('servers/connect', {'server': 'a'})
        d.write_config_text('{"mcpServers": {')
        refused = c.request('daemon/reload').wait()
        told = json.dumps(refused.message)
        assert 'line 1, column' in told and str(d.config_path) in told
        after = c.call('servers/get', {'server': 'a'})
        assert (after['state'], after['pid']) == ('connected', before['pid'])
        d.write_config({'a': time_server(), 'b': time_server(lazy=True)})
        assert c.call('daemon/reload')['added'] == ['b']
        assert c.call('servers/get', {'server': 'a'})['pid'] == before['pid']

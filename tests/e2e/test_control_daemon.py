"""daemon/hello, daemon/status, daemon/reload, daemon/shutdown (PROTOCOL "Control dialect")."""

import json
import re
import signal

import pytest
from harness import alive, fake, time_server, wait_for, wait_gone


def test_hello_is_optional_and_may_be_repeated(make_daemon):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        assert c.call('servers/list')['servers']
        for _ in range(2):
            hello = c.call('daemon/hello', {'protocol': 1, 'client': {'name': 'x', 'version': '1', 'more': []}, 'cwd': '/',
                                            'unknown': 1})
            assert hello['protocol'] == 1 and hello['daemon']['name'] == 'mcpd' and hello['pid'] == daemon.pid
            assert re.fullmatch(r'\d+\.\d+\.\d+', hello['daemon']['version'])
            assert {'daemon/hello', 'tools/call', 'events/subscribe', 'servers/release'} <= set(hello['methods'])
        assert c.call('daemon/hello')['protocol'] == 1


def test_what_hello_lists_exists_and_nothing_else(make_daemon):
    daemon = make_daemon()
    with daemon.client() as c:
        methods = c.hello()['methods']
        assert len(set(methods)) == len(methods)
        for method in set(methods) - {'daemon/shutdown', 'mcp/attach'}:
            answer = c.request(method).wait()
            assert answer.error is None or answer.error['code'] != -32601, method
        for method in ('', 'tools', 'tools/list/', 'Tools/list', 'daemon/metrics2'):
            assert c.fails(method).code == -32601


@pytest.mark.parametrize('protocol', [0, 2, 9007199254740991])
def test_a_protocol_the_daemon_lacks(make_daemon, protocol):
    daemon = make_daemon()
    with daemon.client() as c:
        error = c.fails('daemon/hello', {'protocol': protocol})
        assert error.code == -32602 and error.data == {'supported': [1]}
        assert c.call('daemon/status')


@pytest.mark.parametrize('params', [{'protocol': '1'}, {'protocol': 1.5}, {'client': 'me'}, {'capabilities': []}, {'cwd': 1}])
def test_hello_with_wrong_types(make_daemon, params):
    daemon = make_daemon()
    with daemon.client() as c:
        error = c.fails('daemon/hello', params)
        assert error.code == -32602 and next(iter(params)) in error.message


def test_status(make_daemon):
    daemon = make_daemon({'a': fake(), 'b': fake(server={'lazy': True}), 'c': fake(server={'enabled': False}),
                          'd': {'command': '/nonexistent/program'}})
    with daemon.client() as c, daemon.client():
        c.wait_state('a', 'connected')
        c.wait_state('d', 'failed')
        c.tool('a', 'hang')
        status = wait_for(lambda: (lambda s: s if s['inFlight'] == 1 and s['clients'] == 2 else None)(c.call('daemon/status')))
        assert status['pid'] == daemon.pid and status['uptimeMs'] >= 0
        assert status['version'] == c.hello()['daemon']['version']
        assert status['config']['files'] == [str(daemon.config_path)]
        assert status['servers'] == {'total': 4, 'idle': 1, 'connecting': 0, 'connected': 1, 'reconnecting': 0, 'failed': 1,
                                     'needs-auth': 0, 'disabled': 1}
        assert status['memory']['rssBytes'] > 1 << 20
        assert status['limits']['maxMessageBytes'] == 64 << 20


# -- reload

def names(result):
    return {k: sorted(result[k]) for k in ('added', 'removed', 'changed')}


@pytest.mark.parametrize('how', ['request', 'signal'])
def test_a_reload_touches_only_what_changed(make_daemon, how):
    daemon = make_daemon({'same': fake(), 'changes': fake(), 'goes': fake()})
    with daemon.client() as c, daemon.client() as watcher:
        pids = {n: c.wait_state(n, 'connected')['pid'] for n in ('same', 'changes', 'goes')}
        slow = c.tool('same', 'sleep', {'ms': 500, 'text': 'undisturbed'})
        watcher.subscribe('servers')
        daemon.write_config({'new': fake(), 'same': fake(), 'changes': fake(tools=2)})
        if how == 'request':
            result = c.call('daemon/reload')
            assert names(result) == {'added': ['new'], 'removed': ['goes'], 'changed': ['changes']}
            assert result['unchanged'] == 1 and result['errors'] == []
        else:
            daemon.signal(signal.SIGHUP)
        removed = watcher.wait_event('events/server', lambda p: p.get('removed'))
        assert removed == {'server': {'name': 'goes'}, 'removed': True}
        watcher.wait_event('events/server', lambda p: p['server']['name'] == 'new' and p['server']['state'] == 'connected')
        wait_gone([pids['changes'], pids['goes']])
        assert alive(pids['same']) and slow.wait().result['content'][0]['text'] == 'undisturbed'
        assert c.server('same')['pid'] == pids['same']
        assert c.wait_state('changes', 'connected')['pid'] != pids['changes']
        assert [s['name'] for s in c.call('servers/list')['servers']] == ['new', 'same', 'changes']
        assert c.fails('servers/get', {'server': 'goes'}).code == -32001


@pytest.mark.parametrize('how', ['request', 'signal'])
def test_R37_a_broken_file_changes_nothing(make_daemon, how):
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        pid = c.wait_state('fake', 'connected')['pid']
        daemon.write_config_text('{"mcpServers": {"x": ')
        if how == 'request':
            result = c.call('daemon/reload')
            assert names(result) == {'added': [], 'removed': [], 'changed': []}
            assert result['unchanged'] == 1
            errors = result['errors']
        else:
            daemon.signal(signal.SIGHUP)
            errors = wait_for(lambda: c.call('daemon/status')['config']['errors'])
        assert len(errors) == 1 and errors[0]['file'] == str(daemon.config_path) and errors[0]['message']
        assert c.call('daemon/status')['config']['errors'] == errors
        assert c.server('fake')['pid'] == pid and alive(pid)
        daemon.write_config({'fake': fake(), 'more': fake()})           # mended
        assert c.call('daemon/reload')['added'] == ['more']
        assert c.call('daemon/status')['config']['errors'] == []
        assert c.server('fake')['pid'] == pid


def test_R37_one_bad_server_in_a_reload(make_daemon):
    daemon = make_daemon({'fake': fake(), 'bad': fake()})
    with daemon.client() as c:
        c.wait_state('bad', 'connected')
        daemon.write_config({'fake': fake(), 'bad': {'command': ['not', 'a', 'string']}})
        result = c.call('daemon/reload')
        assert result['changed'] == ['bad']
        assert [e['server'] for e in result['errors']] == ['bad'] and 'command' in result['errors'][0]['message']
        bad = c.server('bad')
        assert bad['state'] == 'failed' and 'command' in bad['lastError']['message']
        assert c.text('fake', 'text', {'text': 'fine'}) == 'fine'


def test_secrets_are_in_no_answer(make_daemon):
    """House rule 7: values of env and headers are masked."""
    secret = 'tops3cret-value'
    daemon = make_daemon({'fake': fake(server={'env': {'TOKEN': secret}}),
                          'web': {'type': 'http', 'url': 'http://user:%s@127.0.0.1:9/mcp?key=%s' % (secret, secret),
                                  'headers': {'Authorization': 'Bearer ' + secret}}})
    with daemon.client() as c:
        c.subscribe('servers', 'logs', 'calls')
        c.wait_state('fake', 'connected')
        everything = [c.call('servers/list'), c.server('fake'), c.server('web'), c.call('daemon/status'),
                      c.call('daemon/reload'), c.call('tools/list')]
        everything.append(c.tool('web', 'x', timeoutMs=300).wait().error)
        everything.append([e for e in c.events])
        assert secret not in json.dumps(everything)
        assert 'TOKEN' in json.dumps(c.server('fake')['config'])
        assert c.server('web')['url'].startswith('http://')
        assert c.tool('fake', 'env', {'names': ['TOKEN']}).wait().result['structuredContent'] == {'TOKEN': secret}
    assert secret not in daemon.stderr.text


def test_shutdown_answers_then_ends(make_daemon):
    daemon = make_daemon({'fake': fake(), 'time': time_server()})
    with daemon.client() as c, daemon.client() as other:
        pid = c.wait_state('fake', 'connected')['pid']
        assert c.call('daemon/shutdown') == {}
        c.wait_eof()
        other.wait_eof()
    daemon.wait_exit(0)
    wait_gone(pid)

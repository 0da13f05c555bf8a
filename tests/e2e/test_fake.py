"""The fake server and the harness themselves: a test base that lies would make every other test worthless."""

import json
import os
import signal

import pytest

import harness
import rawjson
from harness import fake, marked, wait_for, wait_gone

META = {'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {}}


def call(server, name, arguments=None, **meta):
    params = {'name': name, 'arguments': arguments or {}}
    if meta:
        params['_meta'] = meta
    return server.request('tools/call', params)


def text(answer):
    return answer['result']['content'][0]['text']


def test_legacy_handshake_and_call(run_server):
    server = run_server(fake(tools=2, instructions='read me', protocolVersion='2025-06-18'))
    result = server.initialize()['result']
    assert result['protocolVersion'] == '2025-06-18' and result['instructions'] == 'read me'
    assert [t['name'] for t in server.request('tools/list')['result']['tools']] == ['tool0', 'tool1']
    assert text(call(server, 'tool1')) == 'tool1 was called'
    assert call(server, 'nothing')['error']['code'] == -32602
    assert server.close() == 0


@pytest.mark.parametrize('probe, expect', [
    ('error', lambda a: a['error']['code'] == -32601),
    ('empty', lambda a: a['result'] == {}),
    ({'code': -32602, 'message': 'bad'}, lambda a: a['error'] == {'code': -32602, 'message': 'bad'}),
])
def test_probe_of_a_legacy_server(run_server, probe, expect):
    assert expect(run_server(fake(probe=probe)).request('server/discover', {'_meta': META}))


def test_probe_exit_happens_a_counted_number_of_times(run_server, tmp_path):
    options = dict(probe='exit', exitTimes=1, state=str(tmp_path / 'state'))
    first = run_server(fake(**options))
    first.send({'jsonrpc': '2.0', 'id': 1, 'method': 'server/discover', 'params': {}})
    assert first.read() is None and first.close() == 1
    assert 'error' in run_server(fake(**options)).request('server/discover', {})


def test_modern_server_wants_meta(run_server):
    server = run_server(fake(era='modern', supportedVersions=['2026-07-28']))
    assert server.request('server/discover', {'_meta': META})['result']['supportedVersions'] == ['2026-07-28']
    assert server.request('tools/list', {})['error']['code'] == -32602
    assert server.request('tools/list', {'_meta': META})['result']['ttlMs'] == 0
    old = {**META, 'io.modelcontextprotocol/protocolVersion': '2025-11-25'}
    assert server.request('tools/list', {'_meta': old})['error']['code'] == -32022
    assert server.request('initialize', {})['error']['code'] == -32601


def test_modern_subscription(run_server):
    server = run_server(fake(era='modern'))
    server.send({'jsonrpc': '2.0', 'id': 'L', 'method': 'subscriptions/listen',
                 'params': {'_meta': META, 'notifications': {'toolsListChanged': True}}})
    assert server.read()['method'] == 'notifications/subscriptions/acknowledged'
    call(server, 'setTools', {'tools': 5}, **META)
    changed = [m for m in server.skipped if m['method'] == 'notifications/tools/list_changed']
    assert [m['params']['_meta'] for m in changed] == [{'io.modelcontextprotocol/subscriptionId': 'L'}]


@pytest.mark.parametrize('cursors, expect', [
    ('normal', ['page-1', 'page-2', None]),
    ('repeat', ['page-1', 'page-1', 'page-1']),
    ('empty', ['', 'page-2', None]),
])
def test_pages(run_server, cursors, expect):
    server, seen, cursor = run_server(fake(tools=5, pageSize=2, cursors=cursors)), [], None
    for _ in expect:
        result = server.request('tools/list', {} if cursor is None else {'cursor': cursor})['result']
        cursor = result.get('nextCursor')
        seen.append(cursor)
    assert seen == expect


def test_echo_keeps_bytes(run_server):
    arguments = b'{"a": 1.0, "a":-0,"big":123456789012345678901234567890, "e":1e400, "s":"\\ud800"}'
    server = run_server(fake())
    server.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":%s}}\n' % arguments)
    assert rawjson.raw(server.read_line(), 'result', 'structuredContent') == arguments


def test_noise_crlf_and_single_bytes(run_server):
    server = run_server(fake(noise=['{not json', ''], noiseAtStart=['banner'], crlf=True, byteAtATime=True))
    server.send({'jsonrpc': '2.0', 'id': 1, 'method': 'ping'})
    lines = [server.read_line() for _ in range(4)]
    assert lines[:3] == [b'banner', b'{not json', b''] and lines[3].endswith(b'}\r')


def test_record_and_pids(run_server, tmp_path):
    server = run_server(fake(record=str(tmp_path / 'r'), pids=str(tmp_path / 'p')))
    server.send_bytes(b'rubbish\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    server.answer(1)
    assert (tmp_path / 'r').read_bytes() == b'rubbish\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    assert (tmp_path / 'p').read_text() == '%d\n' % server.proc.pid


def test_counters_outlive_the_process(run_server, tmp_path):
    options = dict(state=str(tmp_path / 'state'))
    first = run_server(fake(**options))
    assert [text(call(first, 'count')) for _ in range(2)] == ['1 1', '2 2']
    assert text(call(run_server(fake(**options)), 'count')) == '1 3'


def test_crash_ends_in_mid_answer(run_server):
    server = run_server(fake())
    server.send({'jsonrpc': '2.0', 'id': 7, 'method': 'tools/call',
                 'params': {'name': 'crash', 'arguments': {'partial': True}}})
    assert server.read_line() is None and b'"id":7' in server.rest
    assert server.close() == -signal.SIGKILL


def test_progress_and_late_progress(run_server):
    server = run_server(fake())
    answer = call(server, 'progress', {'steps': 2, 'late': True, 'token': 'made up'}, progressToken=9)
    assert text(answer) == 'done'
    assert [m['params']['progressToken'] for m in server.skipped] == ['made up', 9, 'made up', 9]
    assert server.read()['params'] == {'progressToken': 9, 'progress': 3}


def test_sleep_is_cancelled_and_reported(run_server):
    server = run_server(fake())
    server.send({'jsonrpc': '2.0', 'id': 'x', 'method': 'tools/call',
                 'params': {'name': 'sleep', 'arguments': {'ms': 60000}}})
    server.notify('notifications/cancelled', {'requestId': 'x', 'reason': 'test'})
    report = call(server, 'report')['result']['structuredContent']
    assert report['cancelled'] == [{'requestId': 'x', 'reason': 'test'}] and not server.skipped


def test_ask_with_the_id_of_the_call(run_server):
    server = run_server(fake())
    server.send({'jsonrpc': '2.0', 'id': 3, 'method': 'tools/call',
                 'params': {'name': 'ask', 'arguments': {'method': 'roots/list', 'id': 'same'}}})
    question = server.read()
    assert question == {'jsonrpc': '2.0', 'id': 3, 'method': 'roots/list'}
    server.send({'jsonrpc': '2.0', 'id': 3, 'result': {'roots': []}})
    assert server.answer(3)['result']['structuredContent'] == {'result': {'roots': []}}


def test_raw_lines_and_overrides(run_server):
    server = run_server(fake(answers={'x/y': {'raw': '{"n": 1.0}'}, 'x/z': {'error': {'code': 5, 'message': 'm'}}}))
    server.send({'jsonrpc': '2.0', 'id': 'i', 'method': 'tools/call',
                 'params': {'name': 'raw', 'arguments': {'lines': ['chatter', '{"id":$ID}']}}})
    assert [server.read_line(), server.read_line()] == [b'chatter', b'{"id":"i"}']
    server.send({'jsonrpc': '2.0', 'id': 2, 'method': 'x/y'})
    assert server.read_line() == b'{"jsonrpc":"2.0","id":2,"result":{"n": 1.0}}'
    assert server.request('x/z')['error'] == {'code': 5, 'message': 'm'}


def test_stubborn_processes_are_seen_by_their_mark(run_server):
    """The harness finds a grandchild in a session of its own, and a server that ignores EOF and SIGTERM."""
    server = run_server(fake(ignoreEof=True, ignoreTerm=True, grandchild={'setsid': True, 'ignoreTerm': True}))
    grandchild = call(server, 'report')['result']['structuredContent']['grandchild']
    server.proc.stdin.close()
    server.proc.terminate()
    assert {p.pid for p in marked(server.id)} == {server.proc.pid, grandchild}
    os.kill(server.proc.pid, signal.SIGKILL)
    server.proc.wait()
    assert [p.pid for p in marked(server.id)] == [grandchild]
    os.kill(grandchild, signal.SIGKILL)
    wait_gone(grandchild)


def test_stderr_flood_and_last_words(run_server):
    server = run_server(fake(stderrFlood=1 << 20, exitAt={'when': 'ping', 'status': 3, 'stderr': 'last words'}))
    call(server, 'tool0')
    wait_for(lambda: len(server.stderr.data) > 1 << 20, what='the flood')
    server.send({'jsonrpc': '2.0', 'id': 1, 'method': 'ping'})
    server.stderr.wait('last words')
    assert server.close() == 3


def test_where_and_env(run_server, tmp_path):
    server = run_server({**fake(), 'env': {'FOO': 'bar'}}, cwd=tmp_path)
    values = call(server, 'env', {'names': ['FOO', 'NOPE']})['result']['structuredContent']
    assert values == {'FOO': 'bar', 'NOPE': None}
    where = call(server, 'where')['result']['structuredContent']
    assert where['cwd'] == str(tmp_path) and where['pid'] == server.proc.pid
    assert set(where['descriptors']) >= {'0', '1', '2'}


def test_tools_file_is_read_at_each_listing(run_server, tmp_path):
    (tmp_path / 'tools').write_text(json.dumps(['one']))
    server = run_server(fake(toolsFile=str(tmp_path / 'tools')))
    assert [t['name'] for t in server.request('tools/list')['result']['tools']] == ['one']
    (tmp_path / 'tools').write_text(json.dumps(['two']))
    assert [t['name'] for t in server.request('tools/list')['result']['tools']] == ['two']


def test_raw_json_finds_bytes():
    doc = b' {"a" : [1.10, {"b\\u0063":"x\\"]}"}, -0 ], "id":1e400, "id":2}'
    assert rawjson.raw(doc, 'a', 1, 'bc') == b'"x\\"]}"'
    assert rawjson.raw(doc, 'a', 0) == b'1.10' and rawjson.raw(doc, 'a', 2) == b'-0'
    assert rawjson.raw(doc, 'id') == b'1e400' and rawjson.raw(doc, 'no') is None and rawjson.raw(doc, 'a', 9) is None
    assert [k for k, _ in rawjson.members(doc)] == ['a', 'id', 'id']


def test_harness_paths_are_short_enough():
    """A socket path has 108 bytes; the daemon's folder must leave room."""
    daemon = harness.Daemon(start=False)
    try:
        assert len(str(daemon.socket)) < 90
    finally:
        daemon.finish()

"""tools/call, mcp/request, mcp/notify: timeouts, cancellation, progress, errors with their data (PROTOCOL "Errors", C1 to
C5, M6)."""

import os
import signal
import time

import pytest
from harness import fake, time_server, wait_for, wait_gone


@pytest.fixture
def daemon(make_daemon):
    daemon = make_daemon({'fake': fake(tools=2, resources=2, prompts=2), 'modern': fake(era='modern')})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        c.wait_state('modern', 'connected')
    return daemon


def report(client, server='fake'):
    return client.tool(server, 'report').wait().result['structuredContent']


def other_pid(client, pid):
    """Waits for the server's next process."""
    return wait_for(lambda: (lambda s: s.get('pid') if s['state'] == 'connected' and s.get('pid') != pid else None)(
        client.server('fake')))


# -- results

def test_tools_call_and_mcp_request(daemon):
    with daemon.client() as c:
        assert c.tool('fake', 'tool0').wait().result['content'][0]['text'] == 'tool0 was called'
        assert c.tool('fake', 'toolError', {'text': 'no'}).wait().result['isError'] is True

        def request(method, **params):
            return c.call('mcp/request', {'server': 'fake', 'method': method, **({'params': params} if params else {})})
        assert [r['uri'] for r in request('resources/list')['resources']] == ['fake://r0', 'fake://r1']
        assert request('resources/read', uri='fake://r1')['contents'][0]['text'] == 'contents of fake://r1'
        assert request('prompts/get', name='p1')['messages'][0]['content']['text'] == 'prompt p1'
        assert request('completion/complete', ref={'type': 'ref/prompt', 'name': 'p0'},
                       argument={'name': 'a', 'value': ''})['completion']['values'] == ['alpha', 'beta']
        assert request('ping') == {}
        assert request('tools/call', name='tool1')['content'][0]['text'] == 'tool1 was called'
        assert c.call('mcp/request', {'server': 'modern', 'method': 'tools/list'})['tools'][0]['name'] == 'tool0'


def test_what_is_the_daemons_own_is_refused(daemon):
    with daemon.client() as c:
        before = report(c)
        for method in ('initialize', 'subscriptions/listen', 'subscriptions/anything'):
            assert c.fails('mcp/request', {'server': 'fake', 'method': method, 'params': {}}).code == -32602
        for method in ('notifications/initialized', 'notifications/cancelled'):
            assert c.fails('mcp/notify', {'server': 'fake', 'method': method}).code == -32602
        after = report(c)
        assert before['notifications'] == after['notifications']
        assert {**before['methods'], 'tools/call': 0} == {**after['methods'], 'tools/call': 0}


def test_notify(daemon):
    with daemon.client() as c:
        assert c.call('mcp/notify', {'server': 'fake', 'method': 'notifications/roots/list_changed'}) == {}
        assert wait_for(lambda: 'notifications/roots/list_changed' in report(c)['notifications'])
        c.call('servers/disconnect', {'server': 'fake'})
        error = c.fails('mcp/notify', {'server': 'fake', 'method': 'notifications/x'})
        assert error.code == -32003 and error.message == 'Transport not connected'
        assert error.data == {'server': 'fake', 'state': 'idle'}


# -- errors

def test_the_servers_error_is_told_verbatim(daemon):
    with daemon.client() as c:
        call = c.tool('fake', 'raw', {'lines': [
            '{"jsonrpc":"2.0","id":$ID,"error":{"message":"no \\u00e9","data":{"n":1.0,"n":1e400},"code":-7, "x":[ ]}}']}).wait()
        assert call.error['code'] == -32006 and call.error['message'] == 'MCP error -7: no \u00e9'
        assert call.error['data']['server'] == 'fake'
        raw = b'{"message":"no \\u00e9","data":{"n":1.0,"n":1e400},"code":-7, "x":[ ]}'
        assert raw in call.raw
        error = c.tool('fake', 'unknown tool').wait().error
        assert error['code'] == -32006 and error['data']['error']['code'] == -32602
        assert 'maybeExecuted' not in error['data']


def test_C1_C2_timeouts(daemon):
    with daemon.client() as c:
        started = time.monotonic()
        error = c.tool('fake', 'hang', timeoutMs=200).wait().error
        assert time.monotonic() - started >= 0.2
        assert error['code'] == -32004 and error['message'] == 'Request timeout after 200ms'
        assert error['data'] == {'server': 'fake', 'timeoutMs': 200, 'state': 'connected', 'maybeExecuted': True}
        # The server is told (C5), and stays.
        cancelled = wait_for(lambda: report(c)['cancelled'])
        assert len(cancelled) == 1 and 'requestId' in cancelled[0]
        assert c.tool('fake', 'tool0').wait().result
        # 0 is none; a late answer is dropped.
        assert c.tool('fake', 'sleep', {'ms': 300}, timeoutMs=0).wait().result
        assert c.fails('mcp/request', {'server': 'fake', 'method': 'tools/call', 'timeoutMs': 100,
                                       'params': {'name': 'sleep', 'arguments': {'ms': 300}}}).code == -32004
        time.sleep(0.4)         # the late answer comes now, and must not be taken for anything
        assert c.tool('fake', 'tool0').wait().result['content'][0]['text'] == 'tool0 was called'


def test_C1_the_servers_own_timeout_is_the_default(make_daemon):
    daemon = make_daemon({'fake': fake(server={'timeout': 250})})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        assert c.tool('fake', 'hang').wait().error['message'] == 'Request timeout after 250ms'


def test_R12_one_clients_timeout_ends_only_that_request(daemon):
    with daemon.client() as a, daemon.client() as b:
        pid = a.server('fake')['pid']
        slow = b.tool('fake', 'sleep', {'ms': 900, 'text': 'mine'})
        assert a.tool('fake', 'hang', timeoutMs=200).wait().error['code'] == -32004
        assert slow.wait().result['content'][0]['text'] == 'mine'
        assert a.server('fake')['pid'] == pid


def test_a_timeout_covers_connecting(make_daemon):
    daemon = make_daemon({'fake': fake(initializeDelayMs=20000)})
    with daemon.client() as c:
        error = c.tool('fake', 'tool0', timeoutMs=300).wait().error
        assert error['code'] == -32004 and error['message'] == 'Request timeout after 300ms'
        assert error['data'] == {'server': 'fake', 'timeoutMs': 300, 'state': 'connecting'}


def test_R31_progress_extends_the_clock_up_to_a_maximum(make_daemon):
    daemon = make_daemon({'fake': fake(server={'timeout': 1000, 'maxTimeout': 1500})})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        assert c.tool('fake', 'progress', {'steps': 4, 'ms': 200}, timeoutMs=500, _meta={'progressToken': 1}).wait().result
        error = c.tool('fake', 'progress', {'steps': 100, 'ms': 200}, timeoutMs=500,
                       _meta={'progressToken': 2}).wait().error
        assert error['code'] == -32004 and error['message'].startswith('Request timeout after')
        assert error['data']['timeoutMs'] == 500 and error['data']['maxTimeoutMs'] == 1500


def test_C4_C5_cancellation(daemon):
    with daemon.client() as c, daemon.client() as other:
        mine = c.tool('fake', 'sleep', {'ms': 60000}, id=7)
        theirs = other.tool('fake', 'sleep', {'ms': 1000, 'text': 'theirs'}, id=7)
        wait_for(lambda: c.call('daemon/status')['inFlight'] == 2)
        c.notify('notifications/cancelled', {'requestId': 7, 'reason': 'bored \u00e9'})
        error = mine.wait().error
        assert error['code'] == -32005
        assert error['data'] == {'server': 'fake', 'reason': 'bored \u00e9', 'maybeExecuted': True}
        # R22: the server gets its own id, and the other's call, with the same id, goes on.
        cancelled = wait_for(lambda: report(c)['cancelled'])
        assert len(cancelled) == 1 and cancelled[0]['requestId'] != 7 and cancelled[0]['reason'] == 'bored \u00e9'
        assert theirs.wait().result['content'][0]['text'] == 'theirs'


def test_cancelling_what_is_unknown_or_late_is_ignored(daemon):
    with daemon.client() as c, daemon.client() as other:
        done = c.tool('fake', 'tool0', id='x').wait()
        slow = other.tool('fake', 'sleep', {'ms': 400, 'text': 'ok'}, id='y')
        for params in ({'requestId': 'x'}, {'requestId': 'y'}, {'requestId': None}, {}, {'requestId': {}}):
            c.notify('notifications/cancelled', params)
        assert slow.wait().result['content'][0]['text'] == 'ok' and done.result
        assert not report(c)['cancelled']


def test_a_call_that_waits_can_be_cancelled(make_daemon):
    daemon = make_daemon({'fake': fake(initializeDelayMs=1000)})
    with daemon.client() as c:
        call = c.tool('fake', 'count')
        c.notify('notifications/cancelled', {'requestId': call.id})
        error = call.wait().error
        assert error['code'] == -32005 and 'maybeExecuted' not in error['data']
        c.wait_state('fake', 'connected')
        assert c.text('fake', 'count') == '1 None'


def test_R5_a_server_that_is_killed(daemon):
    with daemon.client() as c:
        pid = c.server('fake')['pid']
        calls = [c.tool('fake', 'hang') for _ in range(5)]
        wait_for(lambda: c.server('fake')['inFlight'] == 5)
        os.kill(pid, signal.SIGKILL)
        for call in calls:
            error = call.wait().error
            assert error['code'] == -32003 and error['message'] == 'Transport closed'
            assert error['data']['maybeExecuted'] is True and error['data']['server'] == 'fake'
        assert c.tool('fake', 'tool0').wait().result['content'][0]['text'] == 'tool0 was called'
        assert other_pid(c, pid) != pid


def test_R6_a_call_is_never_sent_twice(make_daemon):
    daemon = make_daemon(start=False)
    state = str(daemon.path('state'))
    daemon.write_config({'fake': fake(state=state), 'safe': fake(state=state, server={'retrySafe': ['crash']})})
    daemon.start()
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        c.subscribe('calls')
        assert c.tool('fake', 'crash', {'countFirst': 'unsafe'}).wait().error['code'] == -32003
        event = c.wait_event('events/call')
        assert event['outcome'] == 'closed' and 'resent' not in event
        assert c.text('fake', 'count', {'key': 'unsafe'}).split()[1] == '2'        # one before this one
        # M6: a tool that the configuration calls safe is sent again, once, and the event says so.
        c.wait_state('safe', 'connected')
        assert c.tool('safe', 'crash', {'countFirst': 'safe'}).wait().error['code'] == -32003
        assert c.wait_event('events/call', lambda e: e['server'] == 'safe')['resent'] is True
        c.wait_state('fake', 'connected')
        assert c.text('fake', 'count', {'key': 'safe'}).split()[1] == '3'


def test_a_broken_answer(make_daemon):
    """-32008: an over-long answer fails its own call alone (R16, S7a)."""
    daemon = make_daemon({'fake': fake()}, mcpd={'limits': {'maxMessageBytes': 65536}})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        slow = c.tool('fake', 'sleep', {'ms': 500, 'text': 'fine'})
        error = c.tool('fake', 'bytes', {'size': 70000}).wait().error
        assert error['code'] == -32008 and error['data']['maybeExecuted'] is True
        assert slow.wait().result['content'][0]['text'] == 'fine'


# -- progress

def test_R21_own_tokens_come_back_byte_for_byte(daemon):
    with daemon.client() as c:
        for token in (b'1.0', b'"\\u0041\\/"', b'123456789012345678901234567890', b'-0'):
            lines = []
            original, c._line = c._line, lines.append
            c.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"server":"fake","name":"progress",'
                         b'"arguments":{"steps":2,"total":2,"message":"m"},"_meta":{"progressToken":%s}}}\n' % token)
            c.wait_until(lambda: len(lines) == 3, what='two notifications and the answer')
            c._line = original
            assert all(b'"progressToken":' + token in line.replace(b': ', b':') for line in lines[:2]), lines
            assert b'"result"' in lines[2]


def test_progress_through_mcp_request(daemon):
    with daemon.client() as c, daemon.client() as other:
        other.subscribe('notifications', 'calls')
        c.call('mcp/request', {'server': 'fake', 'method': 'tools/call', 'params': {
            'name': 'progress', 'arguments': {'steps': 2}, '_meta': {'progressToken': 'p'}}})
        assert [e['progress'] for e in c.take_events('notifications/progress')] == [1, 2]
        assert other.wait_event()['outcome'] == 'ok'
        assert not other.take_events('notifications/progress')


def test_no_token_no_progress(daemon):
    with daemon.client() as c:
        c.tool('fake', 'progress', {'steps': 3, 'token': 'invented'}).wait()
        c.call('daemon/status')
        assert not c.events


def test_R26_progress_after_the_answer_or_unknown_is_dropped(daemon):
    with daemon.client() as c:
        c.tool('fake', 'progress', {'steps': 1, 'late': True, 'token': 'invented'}, _meta={'progressToken': 5}).wait()
        assert [e['progress'] for e in c.take_events()] == [1]
        c.tool('fake', 'tool0').wait()
        assert not c.events


@pytest.mark.parametrize('token', [{}, [], None, True])
def test_a_token_must_be_one(daemon, token):
    with daemon.client() as c:
        assert c.tool('fake', 'tool0', _meta={'progressToken': token}).wait().error['code'] == -32602


def test_meta_is_relayed(daemon):
    """The rest of `_meta` reaches the server; the token that it gets is the daemon's."""
    with daemon.client() as c:
        c.tool('fake', 'tool0', _meta={'progressToken': 1, 'trace': 'abc'}).wait()
        c.tool('fake', 'report', _meta={'progressToken': 1, 'trace': 'abc'}).wait()
        meta = report(c)['lastCallMeta']
        assert meta is None or 'trace' not in meta
        call = c.tool('fake', 'report', _meta={'progressToken': 1, 'trace': 'abc'}).wait()
        meta = call.result['structuredContent']['lastCallMeta']
        assert meta['trace'] == 'abc' and meta['progressToken'] != 1


# -- the time server

def test_two_clients_share_one_time_server(make_daemon):
    daemon = make_daemon({'time': time_server(lazy=True)})
    with daemon.client() as a, daemon.client() as b:
        calls = [c.tool('time', 'convert_time', {'source_timezone': 'UTC', 'time': '12:00', 'target_timezone': 'Asia/Tokyo'})
                 for c in (a, b)]
        assert all('21:00' in call.wait().raw.decode() for call in calls)
        assert len(daemon.servers('mcpd-time-server')) == 1


def test_R9_twenty_first_calls_start_one_process(make_daemon):
    daemon = make_daemon({'fake': fake(server={'lazy': True}, initializeDelayMs=200)})
    clients = [daemon.client() for _ in range(20)]
    calls = [c.tool('fake', 'tool0') for c in clients]
    for call in calls:
        assert call.wait().result
    pid = daemon.servers('fake.py')
    assert len(pid) == 1
    daemon.stop()
    wait_gone(pid[0].pid)

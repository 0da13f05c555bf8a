"""The socket's framing, against a daemon with real servers (PROTOCOL "Framing")."""

import json

import pytest
from harness import fake, wait_for

import rawjson


@pytest.fixture
def daemon(make_daemon):
    daemon = make_daemon({'fake': fake(tools=2)})
    daemon.client().wait_state('fake', 'connected')
    return daemon


def test_what_is_no_json_is_told_and_the_connection_lives(daemon):
    with daemon.client() as c:
        for line in (b'{not json', b'', b'"unterminated', b'{"a":1}x', b'\xff\xfe', b"{'a':1}"):
            c.send_bytes(line + b'\n')
            assert c.wait_orphan()['code'] == -32700, line
        assert c.call('daemon/status')['clients'] == 2


def test_what_is_no_request_is_told_with_its_id(daemon):
    with daemon.client() as c:
        for line in (b'[]', b'[{"jsonrpc":"2.0","id":1,"method":"daemon/status"}]', b'1', b'"x"', b'null',
                     b'{"jsonrpc":"2.0","id":null,"method":"daemon/status"}',
                     b'{"jsonrpc":"2.0","id":true,"method":"daemon/status"}',
                     b'{"jsonrpc":"2.0","id":[1],"method":"daemon/status"}'):
            c.send_bytes(line + b'\n')
            assert c.wait_orphan()['code'] == -32600, line
        pending = c.expect(5)
        c.send_bytes(b'{"id":5,"method":"daemon/status"}\n')
        assert pending.wait().error['code'] == -32600
        assert c.fails('servers/list', []).code == -32602
        assert c.fails('no/such').code == -32601
        assert 'servers' in c.call('servers/list')


def test_notifications_that_mean_nothing_are_ignored(daemon):
    with daemon.client() as c:
        c.notify('notifications/nothing', {'a': 1})
        c.notify('tools/call', {'server': 'fake', 'name': 'tool0'})
        c.notify('notifications/cancelled', {'requestId': 99})
        c.notify('notifications/cancelled', [1])
        c.send_json({'jsonrpc': '2.0', 'id': 'mcpd-1', 'result': {}})
        c.call('daemon/status')
        assert not c.orphans and not c.events
        report = c.tool('fake', 'report').wait().result['structuredContent']
        assert report['methods'].get('tools/call') == 1     # the report itself


def test_ids_come_back_byte_for_byte(daemon):
    ids = [b'1', b'1.10', b'1e400', b'-0', b'123456789012345678901234567890', b'"\\u0041\\/"', b'"\\ud800"',
           '"\u2028\u00e9"'.encode(), b'""', b'0.1E-7']
    with daemon.client() as c:
        for id in ids:
            c.send_bytes(b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"server":"fake","name":"tool0"}}\n' % id)
        lines = []
        c._line = lines.append
        c.wait_until(lambda: len(lines) == len(ids), what='all answers')
        assert sorted(rawjson.raw(line, 'id') for line in lines) == sorted(ids)
        assert all(rawjson.raw(line, 'result') for line in lines)


def test_an_id_in_flight_is_not_taken_twice(daemon):
    """Strings are compared decoded, numbers by their bytes; the first is left alone."""
    with daemon.client() as c:
        lines = []
        c._line = lines.append

        def send(id, ms):
            c.send_bytes(b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"server":"fake","name":"sleep",'
                         b'"arguments":{"ms":%d,"text":"first"}}}\n' % (id, ms))
        send(b'"A"', 300)
        send(b'"\\u0041"', 0)
        send(b'1', 300)
        send(b'1.0', 300)
        send(b'1', 0)
        c.wait_until(lambda: len(lines) == 5, what='five answers')
        refused = [rawjson.raw(line, 'id') for line in lines if rawjson.raw(line, 'error', 'code') == b'-32600']
        done = [rawjson.raw(line, 'id') for line in lines if rawjson.raw(line, 'result')]
        assert sorted(refused) == [b'"\\u0041"', b'1']
        assert sorted(done) == [b'"A"', b'1', b'1.0']
        assert all(b'first' in line for line in lines if rawjson.raw(line, 'result'))


def test_answers_come_in_completion_order(daemon):
    with daemon.client() as c:
        slow = c.tool('fake', 'sleep', {'ms': 400})
        quick = c.tool('fake', 'tool0')
        status = c.request('daemon/status')
        quick.wait(), status.wait()
        assert not slow.done
        assert slow.wait().result


def test_R15_only_a_line_feed_ends_a_line(daemon):
    text = 'a\u2028b\u2029c\u0085d\u000b\u000c\u000de'
    with daemon.client() as c:
        # Raw where JSON allows it, escaped where it does not.
        raw = 'a\u2028b\u2029c\u0085d\\u000b\\f\\re'
        answer = c.request_raw('tools/call', ('{"server":"fake","name":"text","arguments":{"text":"%s"}}' % raw).encode())
        assert answer.wait().result['content'][0]['text'] == text


def test_R17_a_byte_at_a_time(daemon):
    line = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {
        'server': 'fake', 'name': 'text', 'arguments': {'text': '\U0001f600'}}}, ensure_ascii=False).encode() + b'\r\n'
    with daemon.client() as c:
        pending = c.expect(1)
        for i in range(len(line)):
            c.send_bytes(line[i:i + 1])
        assert pending.wait().result['content'][0]['text'] == '\U0001f600'


@pytest.mark.parametrize('size', [(64 << 10) - 1, 64 << 10, (64 << 10) + 1, (1 << 20) + 1, 20 << 20])
def test_R16_long_lines_pass_both_ways(daemon, size):
    with daemon.client() as c:
        text = 'x' * size
        assert c.text('fake', 'text', {'text': text}) == text


def test_R16_a_line_over_the_limit_is_told_and_the_connection_closed(make_daemon):
    daemon = make_daemon({'fake': fake()}, mcpd={'limits': {'maxMessageBytes': 8192}})
    with daemon.client() as c, daemon.client() as other:
        line = b'{"jsonrpc":"2.0","id":1,"method":"daemon/status","params":{"x":"%s"}}'
        fits = line % (b'y' * (8192 - len(line) + 2))
        assert len(fits) == 8192
        pending = c.expect(1)
        c.send_bytes(fits + b'\n')
        pending.wait()
        assert pending.result['version']
        # Much more than the socket takes at once: the sender must get to see the error all the same.
        c.send_bytes(line % (b'y' * (3 << 20)) + b'\n')
        error = c.wait_orphan()
        assert error['code'] == -32600 and 'maxMessageBytes' in error['message'] and '8192' in error['message']
        c.wait_eof()
        assert other.call('daemon/status')['limits']['maxMessageBytes'] == 8192


def test_a_client_that_stops_sending_still_gets_its_answers(daemon):
    """As `socat` and `nc -N` do."""
    with daemon.client() as c:
        slow = c.tool('fake', 'sleep', {'ms': 300, 'text': 'late'})
        big = c.tool('fake', 'bytes', {'size': 3 << 20})
        last = c.expect(99)
        c.send_bytes(b'{"jsonrpc":"2.0","id":99,"method":"servers/list"}')      # without a newline
        c.shut_writing()
        assert last.wait().result['servers'][0]['name'] == 'fake'
        assert slow.wait().result['content'][0]['text'] == 'late'
        assert len(big.wait().result['content'][0]['text']) == 3 << 20
        c.wait_eof()


def test_a_client_that_closes_cancels_what_it_has_in_flight(daemon):
    with daemon.client() as c, daemon.client() as other:
        c.tool('fake', 'sleep', {'ms': 60000})
        mine = other.tool('fake', 'sleep', {'ms': 700, 'text': 'mine'})
        wait_for(lambda: other.call('daemon/status')['inFlight'] == 2)
        c.close()

        def cancelled():
            return other.tool('fake', 'report').wait().result['structuredContent']['cancelled']
        assert len(wait_for(cancelled)) == 1
        assert other.call('daemon/status')['inFlight'] == 1
        assert mine.wait().result['content'][0]['text'] == 'mine'


def test_half_closed_then_gone_is_noticed(daemon):
    """EOF alone is not the end; the hang-up that follows is."""
    with daemon.client() as c, daemon.client() as other:
        c.tool('fake', 'hang')
        c.shut_writing()
        wait_for(lambda: other.call('daemon/status')['inFlight'] == 1)
        assert other.call('daemon/status')['clients'] == 3
        c.close()
        wait_for(lambda: other.call('daemon/status')['clients'] == 2)
        assert other.call('daemon/status')['inFlight'] == 0


def test_R19_numbers_keys_and_surrogates_pass_both_ways(daemon):
    arguments = (b'{ "n":12345678901234567890 ,"m":123456789012345678901234567890,"f":1.0,"z":-0,"e":1e400,'
                 b'"dup":1,"dup":2,"s":"\\ud800 \\u00e9 \\/","":null,"deep":' + b'[' * 100 + b']' * 100 + b'}')
    with daemon.client() as a, daemon.client() as b:
        pending = [(c, c.request_raw('tools/call', b'{"server":"fake","name":"echo","arguments":' + arguments + b'}'))
                   for c in (a, b)]
        for c, answer in pending:
            answer.wait()
            assert answer.raw_result('structuredContent') == arguments

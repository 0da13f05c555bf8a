"""mcpd-bridge against a daemon that goes, refuses, stalls: what its client is told, what the next daemon is told, and the exit status."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

from fake_daemon import FakeDaemon
from harness import ROOT, StdioServer, program, wait_for
from mcpd_client import TIMEOUT

LEGACY = '2025-06-18'
INITIALIZE = {'protocolVersion': LEGACY, 'capabilities': {'sampling': {}, 'roots': {'listChanged': True}},
              'clientInfo': {'name': 'agent', 'version': '7', 'x': 12345678901234567890}}
LIST_CHANGED = {'tools': {'listChanged': True}, 'prompts': {}, 'resources': {'listChanged': True, 'subscribe': True},
                'logging': {}}
MODERN_META = {'io.modelcontextprotocol/protocolVersion': '2026-07-28',
               'io.modelcontextprotocol/clientCapabilities': {}}
SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'


@pytest.fixture
def daemon():
    # Short: a socket path has 108 bytes.
    fake = FakeDaemon('/tmp/mcpd-b-%d-%x.sock' % (os.getpid(), time.monotonic_ns()))
    yield fake
    fake.finish()


@pytest.fixture
def bridge(daemon):
    made = []

    def start(server='fake', *args):
        made.append(StdioServer({'command': program('mcpd-bridge'),
                                 'args': ['--socket', daemon.path, '--no-start', *args, *([server] if server else [])]}))
        return made[-1]

    yield start
    daemon.finish()     # or they would wait for it
    for b in made:
        if not b.proc.stdout.closed:
            b.close()


def hand_shake(bridge, conn, capabilities=LIST_CHANGED, initialized=True):
    """A legacy client's beginning, through both."""
    bridge.send({'jsonrpc': '2.0', 'id': 'init', 'method': 'initialize', 'params': INITIALIZE})
    request = conn.expect('initialize')
    assert request['params'] == INITIALIZE
    conn.answer(request, {'protocolVersion': LEGACY, 'capabilities': capabilities,
                          'serverInfo': {'name': 'fake', 'version': '1'}})
    assert bridge.read()['id'] == 'init'
    if initialized:
        bridge.notify('notifications/initialized')
        conn.expect('notifications/initialized')


def begin(bridge, daemon, **options):
    conn = daemon.accept()
    conn.attach()
    hand_shake(bridge, conn, **options)
    return conn


def come_back(daemon, initialized=True):
    """The next connection, up to where the client's session is as it was."""
    conn = daemon.accept()
    conn.attach()
    request = conn.expect('initialize')
    assert request['params'] == INITIALIZE and request['id'] != 'init'
    conn.answer(request, {'protocolVersion': LEGACY, 'capabilities': LIST_CHANGED,
                          'serverInfo': {'name': 'fake', 'version': '2'}})
    if initialized:
        conn.expect('notifications/initialized')
    return conn


def lost(message, executed=True):
    assert message['error']['code'] == -32603, message
    assert message['error']['message'] == 'Transport closed'
    assert message['error']['data'] == {'mcpd': {'code': -32003, **({'maybeExecuted': True} if executed else {})}}
    return message['id']


def read_changes(bridge):
    assert bridge.read() == {'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed'}
    assert bridge.read() == {'jsonrpc': '2.0', 'method': 'notifications/resources/list_changed'}


def works(bridge, conn, id='works'):
    """A request and its answer pass."""
    bridge.send({'jsonrpc': '2.0', 'id': id, 'method': 'tools/list'})
    conn.answer(conn.expect('tools/list'), {'tools': []})
    assert bridge.read() == {'jsonrpc': '2.0', 'id': id, 'result': {'tools': []}}


# -- attaching

def test_attach_says_who_and_where(daemon, bridge):
    b = bridge('one')
    params = daemon.accept().attach()
    assert params['server'] == 'one' and params['cwd'] == os.getcwd()
    assert params['client']['name'] == 'mcpd-bridge'
    b = bridge(None)
    assert 'server' not in daemon.accept().attach()


def test_bytes_pass_as_they_are_in_both_directions(daemon, bridge):
    b = bridge()
    conn = daemon.accept()
    conn.attach()
    lines = [b'{ "jsonrpc" : "2.0", "id":1.0,"method":"x","params":{"a":1,"a":2,"n":1e400,"s":"\\ud800\xe2\x80\xa8"} }',
             b'not json at all', b'', b'   ', b'[]', b'{"jsonrpc":"2.0","id":1,"id":2,"method":"y"}',
             b'[{"jsonrpc":"2.0","id":5,"method":"z"},{"jsonrpc":"2.0","method":"n"}]', b'{"unfinished', b'\xff\xfe\x00']
    for line in lines:
        b.send_bytes(line + b'\n')
        assert conn.read_line() == line
    for line in lines:
        conn.send_bytes(line + b'\n')
        assert b.read_line() == line
    b.send_bytes(b'crlf\r\n')
    assert conn.read_line() == b'crlf\r'


def test_what_came_before_the_connection_waits(daemon, bridge):
    daemon.stop()
    b = bridge('x', '--wait', '60')
    assert b.close() == 4       # the first time nobody is waited for
    daemon.listen()
    b = bridge('x')
    b.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    conn = daemon.accept()
    request = conn.expect('mcp/attach')
    assert conn.is_silent(0.2)
    conn.answer(request, {'server': 'x'})
    conn.answer(conn.expect('ping'), {})
    assert b.read()['id'] == 1


REFUSALS = [
    (3, -32001, {'known': ['git', 'time']}, ['no server "fake"', 'git, time', 'mcpctl reload']),
    (5, -32002, {'state': 'disabled'}, ['"fake"', '"disabled"', 'mcpctl reload']),
    (7, -32601, None, ['older', 'mcpctl restart']),
    (7, -32009, {'limit': 'maxClients'}, ['because']),
]


@pytest.mark.parametrize('status, code, data, words', REFUSALS)
def test_a_refusal_is_told_in_words_and_by_the_status(daemon, bridge, status, code, data, words):
    b = bridge()
    conn = daemon.accept()
    conn.error(conn.expect('mcp/attach'), code, 'because', data)
    conn.close()
    assert b.proc.wait(TIMEOUT) == status
    assert b.close() == status
    for word in words:
        b.stderr.wait(re.escape(word))
    assert b.proc.stdout.closed or b.rest == b''


@pytest.mark.parametrize('answer', [b'hello\n', b'{"jsonrpc":"2.0","id":"other","result":{}}\n', b'x' * 100000 + b'\n'])
def test_something_else_listens_there(daemon, bridge, answer):
    b = bridge()
    conn = daemon.accept()
    conn.expect('mcp/attach')
    conn.send_bytes(answer)
    assert b.proc.wait(TIMEOUT) == 7
    b.stderr.wait('does not answer as mcpd does')


def test_a_daemon_that_is_leaving_is_tried_again(daemon, bridge):
    b = bridge()
    for _ in range(3):
        daemon.accept().close()
    conn = daemon.accept()
    conn.attach()
    works(b, conn)
    assert b.stderr.text == ''


def test_a_daemon_that_always_closes_is_none(daemon, bridge):
    b = bridge()
    for _ in range(4):
        daemon.accept().close()
    assert b.proc.wait(TIMEOUT) == 4
    b.stderr.wait('closed the connection')


# -- the loss of the daemon

def test_requests_in_flight_are_answered_and_the_session_goes_on(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    for id in [1, '1', 'a\u00e9', 99999999999999999999]:
        b.send({'jsonrpc': '2.0', 'id': id, 'method': 'tools/call', 'params': {'name': 'x'}})
        conn.expect('tools/call')
    b.send({'jsonrpc': '2.0', 'id': 'answered', 'method': 'tools/call', 'params': {'name': 'x'}})
    conn.answer(conn.expect('tools/call'), {'content': []})
    conn.send_bytes(b'{"jsonrpc":"2.0","id":"cut off","resu')
    conn.close()
    assert b.read()['id'] == 'answered'
    assert [lost(b.read()) for _ in range(4)] == [1, '1', 'a\u00e9', 99999999999999999999]
    conn = come_back(daemon)
    read_changes(b)
    works(b, conn)
    b.stderr.wait('connected again\n')
    assert b.stderr.text == ('mcpd-bridge: the daemon has closed the connection\n'
                             'mcpd-bridge: connected again\n')


def test_what_the_client_set_up_is_set_up_again(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    steps = [('logging/setLevel', {'level': 'warning'}, True), ('resources/subscribe', {'uri': 'a://1'}, True),
             ('resources/subscribe', {'uri': 'a://2\u00e9'}, True), ('resources/subscribe', {'uri': 'a://3'}, False),
             ('resources/subscribe', {'uri': 'a://4'}, True), ('resources/unsubscribe', {'uri': 'a://4'}, True),
             ('logging/setLevel', {'level': 'debug'}, True), ('logging/setLevel', {'level': 'error'}, False)]
    for number, (method, params, good) in enumerate(steps):
        b.send({'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params})
        request = conn.expect(method)
        if good:
            conn.answer(request, {})
        else:
            conn.error(request, -32602, 'no')
        assert b.read()['id'] == number
    for again in range(2):
        conn.close()
        conn = come_back(daemon)
        read_changes(b)
        told = [conn.read() for _ in range(3)]
        for request in told:
            conn.answer(request, {})
        assert told[0]['method'] == 'logging/setLevel' and told[0]['params'] == {'level': 'debug'}
        assert {r['params'].get('uri') for r in told[1:]} == {'a://1', 'a://2\u00e9'}
        # Nobody hears of those answers.
        works(b, conn, id='after %d' % again)


def test_list_changes_only_as_announced(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon, capabilities={'prompts': {'listChanged': True}, 'tools': {'listChanged': False}})
    conn.close()
    conn = come_back(daemon)
    assert b.read()['method'] == 'notifications/prompts/list_changed'
    works(b, conn)


def test_a_handshake_that_was_not_answered_is_asked_again(daemon, bridge):
    b = bridge()
    conn = daemon.accept()
    conn.attach()
    b.send({'jsonrpc': '2.0', 'id': 0, 'method': 'initialize', 'params': INITIALIZE})
    conn.expect('initialize')
    conn.close()
    conn = daemon.accept()
    conn.attach()
    request = conn.expect('initialize')
    assert request == {'jsonrpc': '2.0', 'id': 0, 'method': 'initialize', 'params': INITIALIZE}
    conn.answer(request, {'protocolVersion': LEGACY, 'capabilities': LIST_CHANGED,
                          'serverInfo': {'name': 'fake', 'version': '1'}})
    assert b.read()['id'] == 0
    # Lost between the answer and notifications/initialized: that is the client's to send.
    conn.close()
    conn = come_back(daemon, initialized=False)
    assert conn.is_silent(0.2)
    b.notify('notifications/initialized')
    conn.expect('notifications/initialized')
    works(b, conn)


def test_lines_meanwhile_wait(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    daemon.stop()
    conn.close()
    b.stderr.wait('no daemon listens')
    b.send({'jsonrpc': '2.0', 'id': 'meanwhile', 'method': 'tools/call', 'params': {}})
    daemon.listen()
    conn = come_back(daemon)
    request = conn.expect('tools/call')
    conn.answer(request, {'content': []})
    read_changes(b)
    assert b.read()['id'] == 'meanwhile'


def test_after_half_the_wait_requests_are_refused_and_after_it_the_bridge_ends(daemon, bridge):
    b = bridge('fake', '--wait', '4')
    conn = begin(b, daemon)
    daemon.stop()
    conn.close()
    started = time.monotonic()
    b.send({'jsonrpc': '2.0', 'id': 'early', 'method': 'tools/call', 'params': {}})
    big = json.dumps({'jsonrpc': '2.0', 'method': 'tools/call', 'params': {'a': 'x' * 200000}, 'id': 'big'})
    b.send_bytes(big.encode() + b'\n')
    for id in ['early', 'big']:
        message = b.read()
        assert message['id'] == id
        assert message['error'] == {'code': -32603, 'message': 'Transport not connected',
                                    'data': {'mcpd': {'code': -32003}}}
    assert time.monotonic() - started >= 2
    b.notify('notifications/progress', {})      # nobody to hear it, nobody to answer
    assert b.request('tools/call', {}, id='late')['error']['message'] == 'Transport not connected'
    assert b.proc.wait(TIMEOUT) == 6
    assert b.read_line() is None
    b.stderr.wait(r'(?s)no daemon listens.*no daemon listens')


def test_a_daemon_that_comes_back_late_finds_the_session(daemon, bridge):
    b = bridge('fake', '--wait', '60')
    conn = begin(b, daemon)
    daemon.stop()
    conn.close()
    b.stderr.wait(r'(?s)(no daemon listens.*){3}')
    daemon.listen()
    conn = come_back(daemon)
    read_changes(b)
    works(b, conn)


def test_a_refusal_on_coming_back_is_waited_out(daemon, bridge):
    b = bridge('fake', '--wait', '60')
    conn = begin(b, daemon)
    conn.close()
    conn = daemon.accept()
    conn.error(conn.expect('mcp/attach'), -32001, 'Unknown server', {'known': []})
    conn.close()
    conn = come_back(daemon)
    read_changes(b)
    works(b, conn)


def test_a_refusal_that_stays_is_the_status(daemon, bridge):
    b = bridge('fake', '--wait', '1')
    conn = begin(b, daemon)
    conn.close()
    while b.proc.poll() is None:
        try:
            conn = daemon.accept(timeout=0.2)
        except TimeoutError:
            continue
        conn.error(conn.expect('mcp/attach'), -32001, 'Unknown server', {'known': []})
        conn.close()
    assert b.close() == 3


def test_a_handshake_that_fails_is_made_again(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    conn.close()
    conn = daemon.accept()
    conn.attach()
    conn.error(conn.expect('initialize'), -32603, 'the server does not start', None)
    assert conn.read_line() is None
    conn = come_back(daemon)
    read_changes(b)
    works(b, conn)
    b.stderr.wait('the server does not start')


def test_questions_of_the_lost_daemon_are_withdrawn_and_their_answers_are_for_nobody(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    for id in ['q1', 'q2', 'q3', 'q4']:
        conn.send({'id': id, 'method': 'sampling/createMessage', 'params': {}})
        assert b.read()['id'] == id
    b.send({'jsonrpc': '2.0', 'id': 'q1', 'result': {}})
    assert conn.read() == {'jsonrpc': '2.0', 'id': 'q1', 'result': {}}
    conn.send({'method': 'notifications/cancelled', 'params': {'requestId': 'q2'}})
    assert b.read()['params'] == {'requestId': 'q2'}
    conn.close()
    for id in ['q3', 'q4']:
        assert b.read() == {'jsonrpc': '2.0', 'method': 'notifications/cancelled',
                            'params': {'requestId': id, 'reason': 'Transport closed'}}
    conn = come_back(daemon)
    read_changes(b)
    conn.send({'id': 'q5', 'method': 'sampling/createMessage', 'params': {}})
    assert b.read()['id'] == 'q5'
    for id in ['q3', 'q5', 'unknown']:
        b.send({'jsonrpc': '2.0', 'id': id, 'result': {'for': id}})
    assert conn.read()['id'] == 'q5'
    assert conn.read()['id'] == 'unknown'
    works(b, conn)


def test_what_the_client_cancelled_is_not_answered(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    for id in ['cancelled', 'not']:
        b.send({'jsonrpc': '2.0', 'id': id, 'method': 'tools/call', 'params': {}})
        conn.expect('tools/call')
    b.notify('notifications/cancelled', {'requestId': 'cancelled'})
    conn.expect('notifications/cancelled')
    conn.close()
    assert lost(b.read()) == 'not'
    conn = come_back(daemon)
    read_changes(b)
    works(b, conn)


def test_a_batch_in_flight(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    b.send_bytes(b'[{"jsonrpc":"2.0","id":1,"method":"tools/call"},{"jsonrpc":"2.0","method":"n"},'
                 b'{"jsonrpc":"2.0","id":2,"method":"tools/call"},{"jsonrpc":"2.0","id":3,"method":"tools/call"}]\n')
    conn.read()
    conn.send_bytes(b'[{"jsonrpc":"2.0","id":2,"result":{}}]\n')
    assert b.read()[0]['id'] == 2
    conn.close()
    assert [lost(b.read()), lost(b.read())] == [1, 3]


def test_many_losses_in_a_row(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    for number in range(20):
        b.send({'jsonrpc': '2.0', 'id': number, 'method': 'tools/call', 'params': {}})
        conn.expect('tools/call')
        conn.close()
        assert lost(b.read()) == number
        conn = come_back(daemon)
        read_changes(b)
        works(b, conn)


def test_a_long_handshake_answer_is_known_and_swallowed_the_second_time(daemon, bridge):
    b = bridge()
    conn = daemon.accept()
    conn.attach()
    b.send({'jsonrpc': '2.0', 'id': 'init', 'method': 'initialize', 'params': INITIALIZE})
    result = {'instructions': 'i' * 300000, 'protocolVersion': LEGACY, 'capabilities': LIST_CHANGED,
              'serverInfo': {'name': 'fake', 'version': '1'}}
    writer = threading.Thread(target=conn.answer, args=(conn.expect('initialize'), result))
    writer.start()
    assert b.read() == {'jsonrpc': '2.0', 'id': 'init', 'result': result}
    writer.join()
    b.notify('notifications/initialized')
    conn.expect('notifications/initialized')
    conn.close()
    conn = daemon.accept()
    conn.attach()
    conn.answer(conn.expect('initialize'), result)
    conn.expect('notifications/initialized')
    read_changes(b)
    works(b, conn)


def test_a_handshake_that_is_too_long_to_be_kept(daemon, bridge):
    b = bridge()
    conn = daemon.accept()
    conn.attach()
    params = {**INITIALIZE, 'capabilities': {'experimental': {'x': 'y' * 100000}}}
    b.send({'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': params})
    conn.answer(conn.expect('initialize'), {'protocolVersion': LEGACY, 'capabilities': {}})
    assert b.read()['id'] == 1
    works(b, conn)
    conn.close()
    assert b.proc.wait(TIMEOUT) == 6
    b.stderr.wait('too long to be kept')


def test_a_client_with_too_much_in_flight_waits(daemon, bridge):
    """Past 256 KiB of ids the bridge reads on when some are answered."""
    b = bridge()
    conn = begin(b, daemon)
    ids = ['%04d' % n + 'i' * 4000 for n in range(100)]
    writer = threading.Thread(target=lambda: [b.send({'jsonrpc': '2.0', 'id': id, 'method': 'x'}) for id in ids])
    writer.start()
    seen = []
    while not conn.is_silent(1):
        seen.append(conn.read())
    assert 60 <= len(seen) < 70
    for request in seen:
        conn.answer(request, {})
        assert b.read()['id'] == request['id']
    rest = [conn.read() for _ in ids[len(seen):]]
    writer.join()
    assert [r['id'] for r in seen + rest] == ids
    conn.close()
    assert [lost(b.read()) for _ in rest] == ids[len(seen):]


def test_an_id_too_long_to_be_kept_passes(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    works(b, conn, id='i' * 5000)
    b.send({'jsonrpc': '2.0', 'id': 'i' * 5000, 'method': 'tools/call'})
    conn.expect('tools/call')
    conn.close()
    conn = come_back(daemon)
    read_changes(b)         # and no error before it: that is what it costs
    works(b, conn)


# -- modern clients

def listen(b, conn, id, **notifications):
    b.send({'jsonrpc': '2.0', 'id': id, 'method': 'subscriptions/listen',
            'params': {'_meta': MODERN_META, 'notifications': notifications}})
    request = conn.expect('subscriptions/listen')
    assert request['id'] == id
    acknowledge(conn, id, **notifications)
    assert b.read()['method'] == 'notifications/subscriptions/acknowledged'
    return request


def acknowledge(conn, id, **notifications):
    conn.send({'method': 'notifications/subscriptions/acknowledged',
               'params': {'_meta': {SUBSCRIPTION: id}, 'notifications': notifications}})


def test_subscriptions_of_a_modern_client_go_on(daemon, bridge):
    b = bridge()
    conn = daemon.accept()
    conn.attach()
    first = listen(b, conn, 7, toolsListChanged=True, promptsListChanged=True)
    second = listen(b, conn, 'ended', toolsListChanged=True)
    third = listen(b, conn, 'x', resourceSubscriptions=['a://b'])
    b.notify('notifications/cancelled', {'requestId': 'ended'})
    conn.expect('notifications/cancelled')
    b.send({'jsonrpc': '2.0', 'id': 8, 'method': 'tools/call', 'params': {'_meta': MODERN_META}})
    conn.expect('tools/call')
    conn.close()
    assert lost(b.read()) == 8
    conn = daemon.accept()
    conn.attach()
    assert conn.expect('subscriptions/listen') == first
    assert conn.expect('subscriptions/listen') == third
    acknowledge(conn, 'x', resourceSubscriptions=['a://b'])
    acknowledge(conn, 7, toolsListChanged=True)
    assert b.read() == {'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed',
                        'params': {'_meta': {SUBSCRIPTION: 7}}}
    works(b, conn)


def test_subscriptions_that_a_leaving_daemon_ends_go_on_too(daemon, bridge):
    b = bridge()
    conn = daemon.accept()
    conn.attach()
    request = listen(b, conn, 1, toolsListChanged=True)
    conn.answer(request, {'resultType': 'complete', '_meta': {SUBSCRIPTION: 1}})
    conn.close()
    conn = daemon.accept()
    conn.attach()
    assert conn.expect('subscriptions/listen') == request
    # One that stays has meant it.
    acknowledge(conn, 1, toolsListChanged=True)
    assert b.read()['method'] == 'notifications/tools/list_changed'
    conn.answer(request, {'resultType': 'complete', '_meta': {SUBSCRIPTION: 1}})
    assert b.read() == {'jsonrpc': '2.0', 'id': 1,
                        'result': {'resultType': 'complete', '_meta': {SUBSCRIPTION: 1}}}
    conn.close()
    conn = daemon.accept()
    conn.attach()
    works(b, conn)


def test_a_subscription_that_the_next_daemon_refuses_ends(daemon, bridge):
    b = bridge()
    conn = daemon.accept()
    conn.attach()
    listen(b, conn, 1, toolsListChanged=True)
    conn.close()
    conn = daemon.accept()
    conn.attach()
    conn.error(conn.expect('subscriptions/listen'), -32602, 'no')
    assert b.read()['error']['message'] == 'no'
    works(b, conn)


# -- long lines, slow readers

def test_a_long_line_passes_both_ways_wherever_its_id_is(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    args = 'y' * (20 << 20)
    line = json.dumps({'jsonrpc': '2.0', 'method': 'tools/call', 'params': {'arguments': args}, 'id': 'far'}).encode()
    writer = threading.Thread(target=b.send_bytes, args=(line + b'\n',))
    writer.start()
    assert conn.read_line() == line
    writer.join()
    answer = json.dumps({'jsonrpc': '2.0', 'result': {'content': args}, 'id': 'far'}).encode()
    writer = threading.Thread(target=conn.send_bytes, args=(answer + b'\n',))
    writer.start()
    assert b.read_line() == answer
    writer.join()
    # The answer was seen, at its end: nothing is in flight.
    conn.close()
    conn = come_back(daemon)
    read_changes(b)
    works(b, conn)


def test_a_long_request_that_was_torn_was_not_executed(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    line = json.dumps({'jsonrpc': '2.0', 'method': 'tools/call', 'params': {'a': 'y' * (8 << 20)}, 'id': 'torn'}).encode()
    writer = threading.Thread(target=b.send_bytes, args=(line + b'\n' + b'{"jsonrpc":"2.0","id":"next","method":"ping"}\n',))
    writer.start()
    assert len(conn.sock.recv(1 << 20)) > 0
    conn.close()
    conn = come_back(daemon)
    read_changes(b)
    assert lost(b.read(), executed=False) == 'torn'
    writer.join()
    # Nothing of it is sent to the next daemon.
    conn.answer(conn.expect('ping'), {})
    assert b.read()['id'] == 'next'


def test_a_long_request_that_was_read_may_have_been_executed(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    line = json.dumps({'jsonrpc': '2.0', 'method': 'tools/call', 'params': {'a': 'y' * (1 << 20)}, 'id': 'whole'}).encode()
    writer = threading.Thread(target=b.send_bytes, args=(line + b'\n',))
    writer.start()
    assert conn.read_line() == line
    writer.join()
    conn.close()
    assert lost(b.read()) == 'whole'


def test_a_long_answer_that_was_torn_is_ended_and_told(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    b.send({'jsonrpc': '2.0', 'id': 'big', 'method': 'tools/call', 'params': {}})
    conn.expect('tools/call')
    sent = b'{"jsonrpc":"2.0","id":"big","result":{"text":"' + b'z' * (1 << 20)
    writer = threading.Thread(target=lambda: (conn.send_bytes(sent), conn.close()))
    writer.start()
    line = b.read_line()
    writer.join()
    assert line == sent
    assert lost(b.read()) == 'big'
    conn = come_back(daemon)
    read_changes(b)
    works(b, conn)


def test_short_lines_are_never_torn(daemon, bridge):
    """A daemon that reads nothing, then goes: what it did not read is in flight, what was not sent is sent to the next one, once."""
    b = bridge()
    conn = begin(b, daemon)
    n = 3000
    pad = 'p' * 1000

    def write():
        for id in range(n):
            b.send({'jsonrpc': '2.0', 'id': id, 'method': 'tools/call', 'params': {'pad': pad}})
    writer = threading.Thread(target=write)
    writer.start()
    first = conn.expect('tools/call')
    assert first['id'] == 0
    wait_for(lambda: is_stuck(b), what='a full pipe')
    conn.close()
    lost_ids, sent_ids = [], []
    conn = come_back(daemon)
    done = threading.Event()

    def serve():
        while len(sent_ids) + 1 < n and not done.is_set():
            request = conn.read()
            if request is None:
                break
            sent_ids.append(request['id'])
            conn.answer(request, {})
    server = threading.Thread(target=serve)
    server.start()
    answered = []
    while len(lost_ids) + len(answered) < n:
        message = b.read()
        if 'method' in message:
            continue
        if 'error' in message:
            lost_ids.append(lost(message))
        else:
            answered.append(message['id'])
    done.set()
    writer.join()
    assert lost_ids == list(range(len(lost_ids))) and len(lost_ids) > 0
    assert answered == sent_ids == list(range(len(lost_ids), n))
    b.proc.stdin.close()        # which ends the server's last read
    server.join(TIMEOUT)


def is_stuck(b):
    """The bridge's input pipe is full, and stays so."""
    for _ in range(20):
        if select.select([], [b.proc.stdin], [], 0)[1]:
            return False
        time.sleep(0.01)
    return True


def test_both_sides_flood_and_nobody_is_stuck(daemon, bridge):
    """Each side writes much before it reads anything of the other's: more than all buffers hold, so that writing waits for reading; with both
    directions pumped, it ends."""
    b = bridge()
    conn = begin(b, daemon)
    total = 4000
    line = json.dumps({'jsonrpc': '2.0', 'method': 'notifications/x', 'params': {'p': 'q' * 2000}}).encode()
    up, down = [], []
    threads = [threading.Thread(target=f) for f in (
        lambda: [b.send_bytes(line + b'\n') for _ in range(total)],
        lambda: [conn.send_bytes(line + b'\n') for _ in range(total)],
        lambda: [up.append(conn.read_line()) for _ in range(total)],
        lambda: [down.append(b.read_line()) for _ in range(total)])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert up == [line] * total and down == [line] * total


def test_a_client_that_does_not_read_stops_the_daemon_and_nothing_else(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    conn.sock.setblocking(False)
    line = json.dumps({'jsonrpc': '2.0', 'method': 'notifications/x', 'params': {'p': 'q' * 2000}}).encode() + b'\n'
    sent = bytearray()
    quiet = time.monotonic()
    while time.monotonic() - quiet < 1:
        try:
            sent += line[:conn.sock.send(line)]
            quiet = time.monotonic()
            if len(sent) % len(line):
                conn.sock.setblocking(True)
                rest = line[len(sent) % len(line):]
                threading.Thread(target=conn.sock.sendall, args=(rest,)).start()
                sent += rest
                break
        except BlockingIOError:
            time.sleep(0.01)
    assert len(sent) < 4 << 20      # nothing is queued without bound
    conn.sock.setblocking(True)
    # The other direction still flows.
    b.send({'jsonrpc': '2.0', 'id': 1, 'method': 'ping'})
    conn.expect('ping')
    for _ in range(len(sent) // len(line)):
        assert b.read_line() + b'\n' == line


# -- the end

def test_the_clients_end_waits_for_answers(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    b.send({'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {}})
    b.send_bytes(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')        # without a line end
    b.proc.stdin.close()
    call, ping = conn.expect('tools/call'), conn.expect('ping')
    assert conn.read_line() is None
    conn.answer(call, {'content': []})
    conn.answer(ping, {})
    conn.close()
    assert [b.read()['id'], b.read()['id']] == [1, 2]
    assert b.read_line() is None
    assert b.close() == 0
    assert b.stderr.text == ''


def test_a_daemon_that_goes_before_the_last_answer(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    listen(b, conn, 'stream')
    b.send({'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {}})
    b.proc.stdin.close()
    conn.expect('tools/call')
    assert conn.read_line() is None
    conn.close()
    assert lost(b.read()) == 1
    assert b.read_line() is None
    assert b.close() == 6


def test_the_end_while_there_is_no_daemon(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    daemon.stop()
    conn.close()
    b.stderr.wait('no daemon listens')
    b.proc.stdin.close()
    assert b.close() == 0


def test_the_end_with_lines_left_and_no_daemon_yet(daemon, bridge):
    b = bridge()
    conn = begin(b, daemon)
    daemon.stop()
    conn.close()
    b.stderr.wait('no daemon listens')
    b.send({'jsonrpc': '2.0', 'id': 'last', 'method': 'tools/call', 'params': {}})
    b.proc.stdin.close()
    daemon.listen()
    conn = come_back(daemon)
    conn.answer(conn.expect('tools/call'), {})
    assert conn.read_line() is None
    conn.close()
    read_changes(b)
    assert b.read()['id'] == 'last'
    assert b.close() == 0


def test_a_client_that_reads_no_more(daemon, bridge):
    b = bridge()
    begin(b, daemon)
    b.proc.stdout.close()
    assert b.proc.wait(TIMEOUT) == 8
    b.stderr.thread.join(TIMEOUT)


def test_a_client_that_reads_no_more_over_a_socket(daemon):
    ours, theirs = socket.socketpair()
    proc = subprocess.Popen([program('mcpd-bridge'), '--socket', daemon.path, '--no-start'], stdin=subprocess.PIPE,
                            stdout=theirs)
    theirs.close()
    conn = daemon.accept()
    conn.attach()
    conn.send({'method': 'notifications/x'})
    assert ours.recv(100).endswith(b'\n')
    ours.close()
    assert proc.wait(TIMEOUT) == 8
    proc.stdin.close()


@pytest.mark.parametrize('signo', [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_at_once(daemon, bridge, signo):
    b = bridge()
    conn = begin(b, daemon)
    b.send({'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {}})
    conn.expect('tools/call')
    b.proc.send_signal(signo)
    assert b.proc.wait(TIMEOUT) == -signo
    assert conn.read_line() is None


def test_a_client_that_never_reads_stderr(daemon):
    """A daemon that refuses for ever makes a line each time; the pipe is full before that."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while os.write(write, b'x' * 4096):
            pass
    except BlockingIOError:
        pass
    os.set_blocking(write, True)
    proc = subprocess.Popen([program('mcpd-bridge'), '--socket', daemon.path, '--no-start', '--wait', '1'],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=write)
    os.close(write)
    conn = daemon.accept()
    conn.attach()
    daemon.stop()
    conn.close()
    assert proc.wait(TIMEOUT) == 6
    proc.stdin.close()
    proc.stdout.close()
    os.close(read)


# -- the command line

def run(*args, env=None):
    return subprocess.run([program('mcpd-bridge'), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, env=env)


def test_help_and_readme_list_the_exit_statuses():
    told = re.findall(r'^  (\d+)  (.*)$', run('--help').stdout, re.M)
    assert [status for status, _ in told] == [str(status) for status in range(9)]
    assert told == re.findall(r'^\| (\d) \| (.*) \|$', (ROOT / 'README.md').read_text(), re.M)
    assert run('--version').stdout.startswith('mcpd-bridge ')


@pytest.mark.parametrize('args', [['--nonsense'], ['a', 'b'], ['--wait', 'x'], ['--wait', '-1'], ['--socket']])
def test_wrong_usage(args):
    result = run(*args)
    assert result.returncode == 2 and result.stdout == '' and 'mcpd-bridge' in result.stderr


def test_no_daemon_and_none_to_be_started(tmp_path):
    path = str(tmp_path / 'none.sock')
    result = run('--socket', path, '--no-start')
    assert result.returncode == 4 and path in result.stderr and 'start it with: mcpd' in result.stderr
    result = run('--socket', path, env={'MCPD_PROGRAM': '/no/such/mcpd', 'PATH': os.environ['PATH']})
    assert result.returncode == 4 and '/no/such/mcpd' in result.stderr
    result = run('--socket', '/tmp/' + 'x' * 200)
    assert result.returncode == 4 and '107' in result.stderr

"""mcp/attach and the MCP dialect behind it, with clients of the legacy era (PROTOCOL.md "MCP dialect")."""

import json

import pytest

import rawjson
from harness import fake, time_server, wait_for
from mcp_session import Session, legacy, wait_connected
from mcpd_client import Closed, RpcError


# -- attaching

def test_attach_to_one_server_answers_at_once_whatever_its_state(make_daemon):
    d = make_daemon({'slow': fake(startDelayMs=600000), 'f': fake()})
    s = Session(d.socket, 'slow')
    assert s.attached_to == {'server': 'slow'}
    assert Session(d.socket).attached_to == {'aggregate': True}
    s.close()


@pytest.mark.parametrize('params, code', [
    ({'server': 'nobody'}, -32001), ({'server': 'off'}, -32002), ({'server': 7}, -32602), ({'client': []}, -32602)])
def test_a_refused_attach_is_told_and_ends_the_connection(make_daemon, params, code):
    d = make_daemon({'f': fake(), 'off': fake(server={'enabled': False})})
    with d.client() as c:
        error = c.fails('mcp/attach', params)
        assert error.code == code
        if code == -32001:
            assert error.data['known'] == ['f', 'off']
        c.wait_eof()


def test_an_attach_with_requests_in_flight_is_refused(make_daemon):
    d = make_daemon({'f': fake()})
    with d.client() as c:
        c.tool('f', 'hang')
        assert c.fails('mcp/attach', {'server': 'f'}).code == -32600
        c.wait_eof()


def test_every_byte_after_the_attach_is_mcp(make_daemon):
    d = make_daemon({'f': fake()})
    with d.client() as c:
        attach, init = c.expect(1), c.expect(2)
        c.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"mcp/attach","params":{"server":"f"}}\n'
                     b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
                     b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n')
        assert attach.wait().result == {'server': 'f'}
        c.attached = True
        assert init.wait().result['protocolVersion'] == '2025-06-18'
        assert c.fails('daemon/status').code == -32601      # the server's own word: no such method


def test_subscriptions_of_the_control_dialect_end(make_daemon):
    d = make_daemon({'f': fake()})
    with d.client() as c:
        c.subscribe('servers', 'tools', 'calls')
        c.mcp_attach('f')
        c.events.clear()
        c.call('initialize', {'protocolVersion': '2025-11-25', 'capabilities': {}})
        assert c.call('tools/call', {'name': 'echo', 'arguments': {'a': 1}})
        assert c.take_events() == []


# -- the handshake

@pytest.mark.parametrize('asked, told', [
    ('2024-11-05', '2024-11-05'), ('2025-03-26', '2025-03-26'), ('2025-06-18', '2025-06-18'),
    ('2025-11-25', '2025-11-25'), ('1999-01-01', '2025-11-25'), ('2026-07-28', '2025-11-25')])
def test_initialize_echoes_a_version_it_knows(make_daemon, asked, told):
    d = make_daemon({'f': fake(name='the fake', version='7', instructions='be nice')})
    s = legacy(d, 'f', version=asked)
    assert s.opened['protocolVersion'] == told
    assert s.opened['serverInfo'] == {'name': 'the fake', 'version': '7'}
    assert s.opened['instructions'] == 'be nice'
    assert s.opened['capabilities']['tools'] == {'listChanged': True}
    assert s.call('ping') == {}


def test_initialize_is_answered_from_the_cache_before_the_server_is_up(make_daemon):
    d = make_daemon(start=False)
    definition = fake(instructions='remember', tools=2)
    script = d.path('server.sh')
    script.write_text('exec "$@"\n')
    definition = {'command': '/bin/sh', 'args': [str(script), definition['command'], *definition['args']]}
    d.write_config({'f': definition})
    d.start()
    legacy(d, 'f')
    d.stop()
    script.write_text('exec sleep 600\n')       # the same definition does not get up any more
    d.start()
    s = legacy(d, 'f')
    assert s.opened['instructions'] == 'remember'
    assert s.names() == ['tool0', 'tool1']
    with d.client() as c:
        assert c.server('f')['state'] == 'connecting'


def test_a_server_without_a_cache_is_connected_to_first(make_daemon):
    d = make_daemon({'lazy': fake(name='lazy one', server={'lazy': True})})
    s = Session(d.socket, 'lazy')
    assert s.initialize()['serverInfo']['name'] == 'lazy one'


def test_a_server_that_cannot_be_started_says_why_in_the_handshake(make_daemon):
    d = make_daemon({'bad': {'command': '/nonexistent/program'}})
    s = Session(d.socket, 'bad')
    error = s.fails('initialize', {'protocolVersion': '2025-11-25', 'capabilities': {}})
    assert error.code == -32603
    assert error.data['mcpd']['code'] == -32002
    assert '/nonexistent/program' in error.message
    assert s.fails('tools/list').code == -32600         # still nobody has said hello


def test_requests_before_the_handshake_are_refused_with_a_hint(make_daemon):
    d = make_daemon({'f': fake()})
    s = Session(d.socket, 'f')
    error = s.fails('tools/list')
    assert error.code == -32600 and 'initialize' in error.message
    assert s.call('ping') == {}
    s.initialize()
    assert s.fails('initialize', {'protocolVersion': '2025-11-25', 'capabilities': {}}).code == -32600


# -- requests

def test_results_and_errors_of_the_server_are_verbatim(make_daemon):
    d = make_daemon({'f': fake()})
    s = legacy(d, 'f')
    arguments = b'{"n":12345678901234567890,"x":1.10,"e":1e400,"d":1,"d":2,"s":"\\ud800","z":-0}'
    answer = s.request_raw('tools/call', b'{"name":"echo","arguments":%s}' % arguments).wait()
    assert answer.raw_result('structuredContent') == arguments
    error = s.fails('tools/call', {'name': 'error', 'arguments': {'code': -31999, 'message': 'no', 'data': {'a': [1]}}})
    assert error.error == {'code': -31999, 'message': 'no', 'data': {'a': [1]}}
    assert s.fails('no/such').error == {'code': -32601, 'message': 'Method not found'}


def test_the_daemons_own_errors_are_internal_errors_with_its_code(make_daemon):
    d = make_daemon({'f': fake(server={'timeout': 200}), 'g': fake()})
    s = legacy(d, 'f')
    error = s.fails('tools/call', {'name': 'hang'})
    assert error.code == -32603 and error.message == 'Request timeout after 200ms'
    assert error.data['mcpd']['code'] == -32004 and error.data['mcpd']['maybeExecuted'] is True
    assert error.data['mcpd']['server'] == 'f'
    s = legacy(d, 'g')
    error = s.fails('tools/call', {'name': 'crash'})
    assert error.data['mcpd']['code'] == -32003 and error.data['mcpd']['maybeExecuted'] is True
    assert s.tool_text('text', {'text': 'again'}) == 'again'        # the next one starts it anew


def test_a_cancelled_request_gets_no_answer_and_the_server_is_told(make_daemon):
    d = make_daemon({'f': fake()})
    s = legacy(d, 'f')
    pending = s.call_tool('sleep', {'ms': 600000}, id='to be cancelled')
    s.tool_text('text', {'text': 'it has begun'})
    s.notify('notifications/cancelled', {'requestId': 'to be cancelled', 'reason': 'enough'})
    told = wait_for(lambda: s.call_tool('report').wait().result['structuredContent']['cancelled'])
    assert [c['reason'] for c in told] == ['enough']
    assert not pending.done
    s.in_flight.pop(json.dumps('to be cancelled'))
    again = s.call_tool('text', {'text': 'same id'}, id='to be cancelled')     # it is free again
    assert again.wait().result['content'][0]['text'] == 'same id'


def test_progress_comes_with_the_clients_token(make_daemon):
    d = make_daemon({'f': fake()})
    s = legacy(d, 'f')
    s.call_tool('progress', {'steps': 3, 'ms': 1, 'late': True}, _meta={'progressToken': 'mine'}).wait()
    s.call('ping')
    told = s.take_events('notifications/progress')
    assert [(p['progressToken'], p['progress']) for p in told] == [('mine', 1), ('mine', 2), ('mine', 3)]


def test_bad_input_gets_the_error_of_json_rpc(make_daemon):
    d = make_daemon({'f': fake()})
    s = legacy(d, 'f')
    s.send_bytes(b'{nonsense\n')
    assert s.wait_orphan()['code'] == -32700
    s.send_bytes(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n')
    assert s.wait_orphan()['code'] == -32600
    assert s.request_raw('tools/call', b'[1]').wait().error['code'] == -32602
    assert s.request_raw('tools/call', b'{"_meta":3}').wait().error['code'] == -32602
    assert s.fails('tools/list', {'cursor': 'invented'}).code == -32602
    assert s.call('ping') == {}


# -- batches (2025-03-26 only)

def test_batches_are_answered_as_one_array(make_daemon):
    d = make_daemon({'f': fake()})
    s = legacy(d, 'f', version='2025-03-26')
    s.send_json([{'jsonrpc': '2.0', 'id': 'a', 'method': 'tools/call', 'params': {'name': 'sleep', 'arguments': {'ms': 30, 'text': 'x'}}},
                 {'jsonrpc': '2.0', 'method': 'notifications/cancelled', 'params': {'requestId': 'unknown'}},
                 {'jsonrpc': '2.0', 'id': 'b', 'method': 'ping'}, {'jsonrpc': '2.0', 'id': 'c'}])
    lines = []
    s._line = lines.append
    s.wait_until(lambda: lines)
    answers = {a['id']: a for a in json.loads(lines[0])}
    assert answers['b']['result'] == {} and answers['a']['result']['content'][0]['text'] == 'x'
    assert answers['c']['error']['code'] == -32600
    assert len(answers) == 3
    s.send_json([])
    s.wait_until(lambda: len(lines) == 2)
    assert json.loads(lines[1])['error']['code'] == -32600


# -- lists

def test_lists_are_the_servers_and_come_in_pages(make_daemon):
    d = make_daemon({'f': fake(tools=7, resources=3, prompts=2)}, mcpd={'limits': {'maxListPageItems': 3}})
    s = legacy(d, 'f')
    names, cursor, pages = [], None, 0
    while True:
        page = s.call('tools/list', {'cursor': cursor} if cursor else {})
        names += [t['name'] for t in page['tools']]
        pages, cursor = pages + 1, page.get('nextCursor')
        if cursor is None:
            break
    assert names == ['tool%d' % i for i in range(7)] and pages == 3
    assert len(s.call('resources/list')['resources']) == 3
    assert len(s.call('prompts/list')['prompts']) == 2
    assert s.call('resources/templates/list') == {'resourceTemplates': []}


def test_items_are_verbatim(make_daemon):
    tool = '{"name":"odd","inputSchema":{"type":"object","x":1.10,"y":1e400},"zzz":"\\u00e9"}'
    d = make_daemon({'f': fake(answers={'tools/list': {'raw': '{"tools":[%s]}' % tool}})})
    s = legacy(d, 'f')
    answer = s.request('tools/list').wait()
    assert rawjson.raw(answer.raw, 'result', 'tools') == ('[%s]' % tool).encode()


def test_legacy_clients_hear_of_list_changes_unasked(make_daemon):
    d = make_daemon({'f': fake(tools=1, prompts=1)})
    s = legacy(d, 'f')
    assert s.names() == ['tool0']
    s.call_tool('setTools', {'tools': ['a', 'b']}).wait()
    s.wait_event('notifications/tools/list_changed')
    assert s.names() == ['a', 'b']
    s.call_tool('notify', {'method': 'notifications/prompts/list_changed'}).wait()
    s.wait_event('notifications/prompts/list_changed')


def test_log_messages_come_at_the_clients_own_level(make_daemon):
    d = make_daemon({'f': fake()})
    a, b = legacy(d, 'f'), legacy(d, 'f')
    assert a.call('logging/setLevel', {'level': 'error'}) == {}
    assert b.call('logging/setLevel', {'level': 'debug'}) == {}
    b.call_tool('notify', {'method': 'notifications/message', 'params': {'level': 'info', 'data': 'one'}}).wait()
    b.call_tool('notify', {'method': 'notifications/message', 'params': {'level': 'error', 'data': 'two'}}).wait()
    assert a.wait_event('notifications/message')['data'] == 'two'
    assert [b.wait_event('notifications/message')['data'] for _ in range(2)] == ['one', 'two']
    assert a.fails('logging/setLevel', {'level': 'loud'}).code == -32602


def test_a_log_level_starts_no_server(make_daemon):
    d = make_daemon({'f': fake(server={'lazy': True})})
    legacy(d, 'f').close()
    d.stop()
    d.start()
    s = legacy(d, 'f')
    s.call('logging/setLevel', {'level': 'debug'})
    s.names()
    with d.client() as c:
        assert c.server('f')['state'] == 'idle'
    assert s.tool_text('text', {'text': 'x'}) == 'x'
    report = s.call_tool('report').wait().result['structuredContent']
    assert set(report['levels']) == {'debug'}


def test_resource_updates_reach_those_who_subscribed(make_daemon):
    d = make_daemon({'f': fake(resources=2)})
    a, b = legacy(d, 'f'), legacy(d, 'f')
    uri = a.names('resources/list', 'resources', 'uri')[0]
    assert a.call('resources/subscribe', {'uri': uri}) == {}
    b.call_tool('notify', {'method': 'notifications/resources/updated', 'params': {'uri': uri}}).wait()
    assert a.wait_event('notifications/resources/updated') == {'uri': uri}
    b.call('ping')
    assert b.take_events('notifications/resources/updated') == []


# -- questions

def test_questions_come_as_requests_to_the_asker_alone(make_daemon):
    d = make_daemon({'f': fake()})
    a = legacy(d, 'f', capabilities={'sampling': {}, 'elicitation': {}, 'roots': {}})
    b = legacy(d, 'f', capabilities={'sampling': {}})
    call = a.call_tool('ask', {'method': 'sampling/createMessage', 'params': {'messages': [], 'maxTokens': 5}})
    question = a.wait_question()
    assert question['method'] == 'sampling/createMessage'
    assert question['params'] == {'messages': [], 'maxTokens': 5}       # as the server wrote it
    b.respond(question, {'content': 'foreign'})                         # R24: not b's to answer
    b.call('ping')
    a.respond(question, {'role': 'assistant', 'content': {'type': 'text', 'text': 'hi'}, 'model': 'm'})
    assert call.wait().result['structuredContent']['result']['content']['text'] == 'hi'
    assert b.questions == []


def test_what_the_client_did_not_declare_is_refused_to_the_server(make_daemon):
    d = make_daemon({'f': fake()})
    s = legacy(d, 'f')
    answer = s.call_tool('ask', {'method': 'elicitation/create', 'params': {'message': '?'}}).wait().result
    assert answer['structuredContent']['error']['code'] == -32601
    assert s.questions == []


# -- the union

def test_the_union_names_tools_by_server(make_daemon):
    d = make_daemon({'one': fake(tools=2), 'two': fake(tools=1), 'off': fake(server={'enabled': False})})
    wait_connected(d, 'one', 'two')
    s = legacy(d)
    assert s.opened['serverInfo']['name'] == 'mcpd'
    assert s.names() == ['one__tool0', 'one__tool1', 'two__tool0']
    assert s.tool_text('two__tool0') == 'tool0 was called'
    assert s.tool_text('one__text', {'text': 'from one'}) == 'from one'
    error = s.fails('tools/call', {'name': 'nobody__x'})
    assert error.code == -32602 and 'nobody__x' in error.message
    assert s.fails('some/method').code == -32601


def test_R29_long_and_odd_names_are_shortened_and_found_again(make_daemon):
    names = ['a' * 65, 'a' * 130, 'with.dot', 'with/slash', 'with dot', 'n\u00e4me', '']
    d = make_daemon({'srv': fake(tools=names), 'under__score_': fake(tools=['t'])})
    wait_connected(d, 'srv', 'under__score_')
    s = legacy(d)
    shown = s.names()
    assert len(set(shown)) == len(names) + 1
    for name, exposed in zip(names, shown):
        assert len(exposed) <= 64 and all(c.isalnum() and c.isascii() or c in '_-' for c in exposed), exposed
        assert s.tool_text(exposed) == '%s was called' % name
    assert s.tool_text(shown[-1]) == 't was called'
    d.stop()
    d.start()
    assert legacy(d).names() == shown           # stable


def test_the_union_finds_resources_by_uri_and_the_first_configured_wins(make_daemon):
    def with_uri(uri, text):
        return fake(resources=1, answers={
            'resources/list': {'result': {'resources': [{'uri': u, 'name': u} for u in uri]}},
            'resources/templates/list': {'result': {'resourceTemplates': [{'uriTemplate': text + '://x/{id}', 'name': 't'}]}},
            'resources/read': {'result': {'contents': [{'uri': 'u', 'text': text}]}}})
    d = make_daemon({'a': with_uri(['r://both', 'r://a'], 'a'), 'b': with_uri(['r://both', 'r://b'], 'b')})
    wait_connected(d, 'a', 'b')
    s = legacy(d)
    assert sorted(s.names('resources/list', 'resources', 'uri')) == ['r://a', 'r://b', 'r://both']
    read = lambda uri: s.call('resources/read', {'uri': uri})['contents'][0]['text']   # noqa: E731
    assert [read('r://both'), read('r://a'), read('r://b'), read('b://x/7')] == ['a', 'a', 'b', 'b']
    assert s.fails('resources/read', {'uri': 'r://nobody'}).error['code'] == -32002
    with d.client() as c:
        assert c.server('b')['shadowedResources'] == [{'uri': 'r://both', 'server': 'a'}]
        assert 'shadowedResources' not in c.server('a')


def test_the_union_completes_by_prompt_and_by_template(make_daemon):
    d = make_daemon({'a': fake(prompts=1), 'b': fake(prompts=1, resources=1)})
    wait_connected(d, 'a', 'b')
    s = legacy(d)
    prompts = s.names('prompts/list', 'prompts')
    assert len(prompts) == 2 and prompts[1].startswith('b__')
    assert s.call('prompts/get', {'name': prompts[1]})
    done = s.call('completion/complete', {'ref': {'type': 'ref/prompt', 'name': prompts[1]}, 'argument': {'name': 'x', 'value': 'a'}})
    assert done['completion']['values'] == ['alpha', 'beta']
    uri = s.names('resources/list', 'resources', 'uri')[0]
    assert s.call('completion/complete', {'ref': {'type': 'ref/resource', 'uri': uri}, 'argument': {'name': 'x', 'value': 'a'}})
    assert s.fails('completion/complete', {'ref': {'type': 'ref/else'}}).code == -32602


def test_one_slow_server_does_not_hold_up_the_union(make_daemon):
    d = make_daemon({'slow': fake(initializeDelayMs=4000, probe='ignore'), 'quick': fake(tools=1)})
    wait_connected(d, 'quick')
    s = legacy(d)
    assert s.names() == ['quick__tool0']
    s.wait_event('notifications/tools/list_changed')
    assert s.names() == ['slow__tool0', 'quick__tool0']


def test_the_union_follows_a_reload(make_daemon):
    d = make_daemon({'one': fake(), 'two': time_server()})
    wait_connected(d, 'one', 'two')
    s = legacy(d)
    assert any(n.startswith('two__') for n in s.names())
    d.write_config({'one': fake()})
    with d.client() as c:
        c.call('daemon/reload')
    s.wait_event('notifications/tools/list_changed')
    assert s.names() == ['one__tool0']


def test_instructions_are_joined(make_daemon):
    d = make_daemon({'a': fake(instructions='first'), 'b': fake(instructions='second')})
    legacy(d, 'a'), legacy(d, 'b')
    text = legacy(d).opened['instructions']
    assert text.index('# a') < text.index('first') < text.index('# b') < text.index('second')


# -- the end

def test_a_half_closed_client_gets_its_answers(make_daemon):
    d = make_daemon({'f': fake()})
    s = legacy(d, 'f')
    pending = s.call_tool('sleep', {'ms': 100, 'text': 'still'})
    s.shut_writing()
    assert pending.wait().result['content'][0]['text'] == 'still'
    s.wait_eof()


def test_shutdown_ends_attached_clients(make_daemon):
    d = make_daemon({'f': fake()})
    s = legacy(d, 'f')
    call = s.call_tool('hang')
    d.stop()
    try:
        error = RpcError(call.wait().error)
        assert error.data['mcpd']['code'] == -32003 and error.data['mcpd']['maybeExecuted'] is True
    except Closed:
        raise AssertionError('the call was not answered')
    s.wait_eof()


# -- tasks (2025-11-25)

def test_tasks_of_one_server_are_their_clients(make_daemon):
    d = make_daemon({'f': fake(tasks=True)})
    a, b = legacy(d, 'f'), legacy(d, 'f')
    made = a.call('tools/call', {'name': 'sleep', 'arguments': {'ms': 50, 'text': 'done'}, 'task': {}})
    id = made['task']['taskId']
    assert a.call('tasks/get', {'taskId': id})['taskId'] == id
    assert b.fails('tasks/get', {'taskId': id}).code == -32602
    assert b.call('tasks/list')['tasks'] == [] and [t['taskId'] for t in a.call('tasks/list')['tasks']] == [id]
    assert a.call('tasks/result', {'taskId': id})['content'][0]['text'] == 'done'


def test_the_union_finds_the_server_of_a_task(make_daemon):
    d = make_daemon({'a': fake(), 'b': fake(tasks=True)})
    wait_connected(d, 'a', 'b')
    s = legacy(d)
    assert s.opened['capabilities']['tasks']['requests']['tools']['call'] == {}
    made = s.call('tools/call', {'name': 'b__sleep', 'arguments': {'ms': 50, 'text': 'done'}, 'task': {}})
    id = made['task']['taskId']
    assert s.call('tasks/result', {'taskId': id})['content'][0]['text'] == 'done'
    assert s.fails('tasks/get', {'taskId': 'invented'}).code == -32602
    assert legacy(d).fails('tasks/get', {'taskId': id}).code == -32602

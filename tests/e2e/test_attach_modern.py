"""The MCP dialect with clients of 2026-07-28, and the bridge between the eras in all four corners (PROTOCOL.md "MCP
dialect", the schemas of both eras)."""

import pytest

from harness import fake
from mcp_session import META, MODERN, Session, legacy, modern, wait_connected
from mcpd_client import RpcError

ELICIT = {'method': 'elicitation/create', 'params': {'message': 'name?', 'requestedSchema': {'type': 'object', 'properties': {}}}}
ACCEPT = {'action': 'accept', 'content': {'name': 'x'}}


@pytest.fixture(params=['legacy', 'modern'])
def era(request):
    return request.param


def ask(s, what=ELICIT, **more):
    return s.call_tool('ask', what, **more)


# -- opening

def test_discover_tells_the_server(make_daemon, era):
    d = make_daemon({'f': fake(era=era, name='it', version='3', instructions='be nice')})
    s = modern(d, 'f')
    assert s.opened['resultType'] == 'complete' and s.opened['supportedVersions'] == [MODERN]
    assert s.opened['capabilities']['tools'] == {'listChanged': True}
    assert s.opened['instructions'] == 'be nice'
    assert s.opened['_meta'][META + 'serverInfo'] == {'name': 'it', 'version': '3'}
    assert s.opened['ttlMs'] == 0 and s.opened['cacheScope'] == 'private'


def test_unsupported_versions_are_named(make_daemon):
    d = make_daemon({'f': fake()})
    s = Session(d.socket, 'f')
    s.be_modern()
    s.modern_meta[META + 'protocolVersion'] = '2099-01-01'
    error = s.fails('tools/list')
    assert error.code == -32022
    # The same as server/discover tells: what a request can name, which the versions of the handshake are not.
    assert error.data == {'requested': '2099-01-01', 'supported': [MODERN]}
    s.modern_meta[META + 'protocolVersion'] = MODERN
    assert s.call('server/discover')['supportedVersions'] == [MODERN]


def test_initialize_is_a_handshake_or_unknown(make_daemon):
    """A modern request without what a handshake is made of is no handshake; one with it is, whatever else it has."""
    d = make_daemon({'f': fake()})
    s = Session(d.socket, 'f')
    s.be_modern()
    assert s.fails('initialize').code == -32601
    assert s.call('server/discover')
    s = Session(d.socket, 'f')
    s.be_modern()
    assert s.call('initialize', {'protocolVersion': '2025-06-18', 'capabilities': {},
                                 'clientInfo': {'name': 'x', 'version': '1'}})['protocolVersion'] == '2025-06-18'


def test_each_request_must_say_what_the_client_can(make_daemon):
    d = make_daemon({'f': fake()})
    s = Session(d.socket, 'f')
    s.modern_meta = {META + 'protocolVersion': MODERN}
    assert s.fails('tools/list').code == -32602
    s.modern_meta = None
    assert s.fails('server/discover').code == -32602


@pytest.mark.parametrize('method', ['ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'])
def test_what_the_modern_era_does_not_have_is_unknown(make_daemon, method):
    d = make_daemon({'f': fake()})
    assert modern(d, 'f').fails(method, {'uri': 'x', 'level': 'debug'}).code == -32601


# -- lists and results

def test_results_have_the_members_of_the_era(make_daemon, era):
    d = make_daemon({'f': fake(era=era, tools=2, resources=1, prompts=1, ttlMs=60000)})
    s = modern(d, 'f')
    for method, member in [('tools/list', 'tools'), ('resources/list', 'resources'), ('prompts/list', 'prompts')]:
        page = s.call(method)
        assert page['resultType'] == 'complete' and page['cacheScope'] in ('public', 'private') and page[member]
        assert page['ttlMs'] == 0 if era == 'legacy' else 0 < page['ttlMs'] <= 60000
    uri = s.names('resources/list', 'resources', 'uri')[0]
    read = s.call('resources/read', {'uri': uri})
    assert read['resultType'] == 'complete' and 'ttlMs' in read and 'cacheScope' in read
    called = s.call('tools/call', {'name': 'tool0'})
    assert called['resultType'] == 'complete' and 'ttlMs' not in called


def test_a_legacy_servers_resource_not_found_is_said_in_modern_words(make_daemon):
    answer = {'resources/read': {'error': {'code': -32002, 'message': 'Resource not found', 'data': {'uri': 'x'}}}}
    d = make_daemon({'f': fake(resources=1, answers=answer)})
    assert modern(d, 'f').fails('resources/read', {'uri': 'x'}).error == {
        'code': -32602, 'message': 'Resource not found', 'data': {'uri': 'x'}}
    assert legacy(d, 'f').fails('resources/read', {'uri': 'x'}).code == -32002


# -- questions: legacy server, modern client

def test_a_legacy_servers_question_becomes_an_input_required_result(make_daemon):
    d = make_daemon({'f': fake()})
    s = modern(d, 'f', {'elicitation': {}})
    first = ask(s, _meta={'progressToken': 'p'}).wait().result
    assert first['resultType'] == 'input_required'
    (key, question), = first['inputRequests'].items()
    assert question == ELICIT
    second = ask(s, inputResponses={key: ACCEPT}, requestState=first['requestState']).wait().result
    assert second['resultType'] == 'complete'
    assert second['structuredContent']['result'] == ACCEPT
    # Once answered, it is over.
    error = RpcError(ask(s, inputResponses={key: ACCEPT}, requestState=first['requestState']).wait().error)
    assert error.code == -32602 and 'requestState' in error.message
    with d.client() as c:       # the server was asked once
        assert c.tool('f', 'report').wait().result['structuredContent']['methods']['tools/call'] == 2


def test_an_answer_that_is_missing_is_asked_for_again(make_daemon):
    d = make_daemon({'f': fake()})
    s = modern(d, 'f', {'elicitation': {}})
    first = ask(s).wait().result
    again = ask(s, inputResponses={}, requestState=first['requestState']).wait().result
    assert again['resultType'] == 'input_required' and again['inputRequests'] == first['inputRequests']
    key, = again['inputRequests']
    # Each round has a state of its own.
    assert again['requestState'] != first['requestState']
    assert ask(s, inputResponses={key: ACCEPT}, requestState=first['requestState']).wait().error['code'] == -32602
    assert ask(s, inputResponses={key: ACCEPT}, requestState=again['requestState']).wait().result['structuredContent']


def test_a_question_does_not_go_with_a_call_that_was_given_up(make_daemon):
    """Whose of several calls' it is cannot be known; it goes with one that the client waits for."""
    d = make_daemon({'f': fake()})
    s = modern(d, 'f', {'elicitation': {}})
    given_up = ask(s).wait().result
    for _ in range(2):
        asked = ask(s).wait().result
        key, = asked['inputRequests']
        assert key not in given_up['inputRequests']
        assert ask(s, inputResponses={key: ACCEPT}, requestState=asked['requestState']).wait().result['structuredContent']


def test_the_state_of_one_client_is_nothing_to_another(make_daemon):
    d = make_daemon({'f': fake(server={'sharing': 'per-client'})})
    a, b = modern(d, 'f', {'elicitation': {}}), modern(d, 'f', {'elicitation': {}})
    first = ask(a).wait().result
    key, = first['inputRequests']
    assert ask(b, inputResponses={key: ACCEPT}, requestState=first['requestState']).wait().error['code'] == -32602
    assert ask(a, inputResponses={key: ACCEPT}, requestState=first['requestState']).wait().result['structuredContent']


def test_the_calls_clock_runs_while_the_client_is_asked(make_daemon):
    d = make_daemon({'f': fake(server={'timeout': 300})})
    s = modern(d, 'f', {'elicitation': {}})
    first = ask(s).wait().result
    with d.client() as c:
        c.subscribe('calls')
        try:
            c.wait_event('events/call', lambda p: p['outcome'] != 'ok', 1)
        except TimeoutError:
            pass        # it had ended before
    error = RpcError(ask(s, inputResponses={}, requestState=first['requestState']).wait().error)
    assert error.code == -32603 and error.data['mcpd']['code'] == -32004
    assert error.message == 'Request timeout after 300ms'


def test_a_repeat_can_be_cancelled(make_daemon):
    d = make_daemon({'f': fake()})
    s = modern(d, 'f', {'elicitation': {}})
    first = ask(s).wait().result
    # A repeat without the answer would be asked again at once; one whose answer makes the server ask more waits.
    key, = first['inputRequests']
    done = ask(s, inputResponses={key: {'action': 'cancel'}}, requestState=first['requestState']).wait().result
    assert done['structuredContent']['result'] == {'action': 'cancel'}


def test_a_question_that_the_client_cannot_answer_is_refused_to_the_server(make_daemon):
    d = make_daemon({'f': fake()})
    assert ask(modern(d, 'f')).wait().result['structuredContent']['error']['code'] == -32601


def test_a_url_that_a_legacy_server_wants_visited_is_asked_for(make_daemon):
    error = {'code': -32042, 'message': 'visit', 'data': {'elicitations': [
        {'mode': 'url', 'elicitationId': 'e1', 'url': 'https://example.com/x', 'message': 'go there'}]}}
    d = make_daemon({'f': fake(answers={'tools/call': {'error': error}})})
    s = modern(d, 'f', {'elicitation': {'url': {}}})
    result = s.call('tools/call', {'name': 'tool0'})
    assert result['resultType'] == 'input_required'
    (key, request), = result['inputRequests'].items()
    assert request['method'] == 'elicitation/create' and request['params'] == error['data']['elicitations'][0]
    assert s.call('tools/call', {'name': 'tool0', 'inputResponses': {key: {'action': 'accept'}}})['inputRequests']
    cannot = modern(d, 'f').fails('tools/call', {'name': 'tool0'})
    assert cannot.code == -32021 and cannot.data['requiredCapabilities'] == {'elicitation': {'url': {}}}
    assert legacy(d, 'f').fails('tools/call', {'name': 'tool0'}).error == error


# -- questions: modern server

def test_a_modern_server_and_a_modern_client_talk_to_each_other(make_daemon):
    d = make_daemon({'f': fake(era='modern')})
    s = modern(d, 'f', {'elicitation': {}})
    arguments = {'rounds': [{'who': ELICIT}]}
    first = s.call_tool('needs', arguments).wait().result
    assert first['resultType'] == 'input_required' and first['inputRequests'] == {'who': ELICIT}
    second = s.call_tool('needs', arguments, inputResponses={'who': ACCEPT},
                         requestState=first['requestState']).wait().result
    assert second['resultType'] == 'complete'


def test_a_modern_servers_need_becomes_a_request_to_a_legacy_client(make_daemon):
    d = make_daemon({'f': fake(era='modern')})
    s = legacy(d, 'f', capabilities={'elicitation': {}})
    call = s.call_tool('needs', {'rounds': [{'who': ELICIT}, {'again': ELICIT}]})
    for _ in range(2):
        question = s.wait_question()
        assert question['method'] == 'elicitation/create' and question['params'] == ELICIT['params']
        s.respond(question, ACCEPT)
    assert call.wait().result['resultType'] == 'complete'


# -- streams

def test_a_listener_hears_what_it_asked_for(make_daemon, era):
    d = make_daemon({'f': fake(era=era, resources=2, tools=1)})
    s = modern(d, 'f')
    uri, other = s.names('resources/list', 'resources', 'uri')
    wanted = {'toolsListChanged': True, 'promptsListChanged': True, 'resourceSubscriptions': [uri]}
    s.request('subscriptions/listen', {'notifications': wanted}, id='stream')
    ack = s.wait_event('notifications/subscriptions/acknowledged')
    assert ack['_meta'][META + 'subscriptionId'] == 'stream'
    assert ack['notifications'] == {'toolsListChanged': True, 'resourceSubscriptions': [uri]}   # it has no prompts
    s.call_tool('setTools', {'tools': ['a']}).wait()
    assert s.wait_event('notifications/tools/list_changed')['_meta'][META + 'subscriptionId'] == 'stream'
    for u in (other, uri):
        s.call_tool('notify', {'method': 'notifications/resources/updated', 'params': {'uri': u}}).wait()
    told = s.wait_event('notifications/resources/updated')
    assert told['uri'] == uri and told['_meta'][META + 'subscriptionId'] == 'stream'
    s.notify('notifications/cancelled', {'requestId': 'stream'})
    s.call_tool('setTools', {'tools': ['b']}).wait()
    s.call('tools/list')
    assert s.take_events('notifications/tools/list_changed') == []
    s.in_flight.clear()


def test_without_a_stream_nothing_is_told(make_daemon):
    d = make_daemon({'f': fake()})
    s = modern(d, 'f')
    s.names()
    s.call_tool('setTools', {'tools': ['a']}).wait()
    with d.client() as c:
        c.subscribe('tools')
        s.call_tool('setTools', {'tools': ['b']}).wait()
        c.wait_event('events/tools')
    s.call('tools/list')
    assert s.take_events() == []


def test_streams_are_closed_with_a_result_at_the_daemons_end(make_daemon):
    d = make_daemon({'f': fake()})
    s = modern(d, 'f')
    stream = s.request('subscriptions/listen', {'notifications': {'toolsListChanged': True}}, id=77)
    s.wait_event('notifications/subscriptions/acknowledged')
    d.stop()
    assert stream.wait().result['_meta'][META + 'subscriptionId'] == 77
    s.wait_eof()


@pytest.mark.parametrize('level, told', [(None, []), ('debug', ['one', 'two']), ('error', ['two'])])
def test_log_messages_come_for_requests_with_a_level(make_daemon, level, told):
    d = make_daemon({'f': fake()})
    s = modern(d, 'f')
    meta = {META + 'logLevel': level} if level else {}
    for text, at in (('one', 'info'), ('two', 'error')):
        s.call_tool('notify', {'method': 'notifications/message', 'params': {'level': at, 'data': text}}, _meta=meta).wait()
    s.call('tools/list')
    assert [p['data'] for p in s.take_events('notifications/message')] == told


def test_the_union_speaks_the_modern_era(make_daemon):
    d = make_daemon({'a': fake(tools=1), 'b': fake(era='modern', tools=1, ttlMs=5000)})
    wait_connected(d, 'a', 'b')
    s = modern(d, None, {'elicitation': {}})
    assert s.opened['capabilities']['resources']['subscribe'] is True
    assert s.names() == ['a__tool0', 'b__tool0']
    page = s.call('tools/list')
    assert page['ttlMs'] == 0 and page['cacheScope'] == 'private'
    first = s.call_tool('a__ask', ELICIT).wait().result
    key, = first['inputRequests']
    assert s.call_tool('a__ask', ELICIT, inputResponses={key: ACCEPT}, requestState=first['requestState']).wait().result['structuredContent']
    first = s.call_tool('b__needs', {'rounds': [{'who': ELICIT}]}).wait().result
    assert first['inputRequests'] == {'who': ELICIT}

"""Questions from servers to clients: to the client whose call it is, by proof; answered by it alone; else refused with the
reason (R24, ARCHITECTURE "Sharing", PROTOCOL "Requests from the daemon")."""

import pytest
from harness import fake, wait_for

EVERYTHING = {'sampling': {}, 'elicitation': {}, 'roots': {}}
SAMPLING = {'method': 'sampling/createMessage', 'params': {'messages': [], 'maxTokens': 1}}
ELICIT = {'method': 'elicitation/create', 'params': {'message': 'Who?', 'requestedSchema': {'type': 'object', 'properties': {}}}}
ROOTS = {'method': 'roots/list'}


@pytest.fixture
def daemon(make_daemon):
    daemon = make_daemon({'shared': fake(), 'own': fake(server={'sharing': 'per-client'}),
                          'turns': fake(server={'sharing': 'exclusive'})})
    with daemon.client() as c:
        c.wait_state('shared', 'connected')
    return daemon


def told(call):
    """What the server was answered."""
    return call.wait().result['structuredContent']


@pytest.mark.parametrize('server', ['shared', 'own', 'turns'])
@pytest.mark.parametrize('what, answer', [
    (SAMPLING, {'role': 'assistant', 'content': {'type': 'text', 'text': 'hi'}, 'model': 'm'}),
    (ELICIT, {'action': 'accept', 'content': {'n': 1}}),
    (ROOTS, {'roots': [{'uri': 'file:///x'}]}),
])
def test_a_question_goes_to_the_client_whose_call_it_is(daemon, server, what, answer):
    with daemon.client(capabilities=EVERYTHING) as c, daemon.client(capabilities=EVERYTHING) as other:
        call = c.tool(server, 'ask', what)
        question = c.wait_question()
        assert question['method'] == what['method']
        assert question['params']['_meta'] == {'dev.mcpd/server': server}
        for key, value in what.get('params', {}).items():
            assert question['params'][key] == value
        c.respond(question, answer)
        assert told(call) == {'result': answer}
        other.call('daemon/status')
        assert not other.questions


def test_an_error_is_an_answer(daemon):
    with daemon.client(capabilities=EVERYTHING) as c:
        call = c.tool('shared', 'ask', SAMPLING)
        c.respond(c.wait_question(), error={'code': -1, 'message': 'User said no', 'data': {'x': 1}})
        assert told(call) == {'error': {'code': -1, 'message': 'User said no', 'data': {'x': 1}}}


def test_R23_a_servers_question_with_the_id_of_a_call(daemon):
    with daemon.client(capabilities=EVERYTHING) as c:
        call = c.tool('shared', 'ask', {**SAMPLING, 'id': 'same'})
        c.respond(c.wait_question(), {'model': 'm'})
        assert told(call) == {'result': {'model': 'm'}}


def test_R24_a_foreign_answer_is_refused(daemon):
    with daemon.client(capabilities=EVERYTHING) as c, daemon.client(capabilities=EVERYTHING) as foreign:
        call = c.tool('shared', 'ask', SAMPLING)
        question = c.wait_question()
        foreign.respond(question, {'forged': True})
        foreign.call('daemon/status')
        c.respond({'id': question['id'] + '0'}, {'wrong': True})
        c.respond(question, {'right': True})
        c.respond(question, {'again': True})
        assert told(call) == {'result': {'right': True}}
        assert c.call('daemon/status') and foreign.call('daemon/status')
        daemon.stderr.wait('another client was asked')


def test_what_cannot_be_proven_is_refused_with_the_reason(daemon):
    with daemon.client(capabilities=EVERYTHING) as c, daemon.client(capabilities=EVERYTHING) as other:
        slow = other.tool('shared', 'sleep', {'ms': 60000})
        wait_for(lambda: other.server('shared')['inFlight'] == 1)
        for what in (SAMPLING, ELICIT, ROOTS):
            error = told(c.tool('shared', 'ask', what))['error']
            assert 'per-client' in error['message'] and 'exclusive' in error['message'] and 'shared' in error['message']
        assert not c.questions and not other.questions
        assert 'per-client' in c.server('shared')['advice']
        other.notify('notifications/cancelled', {'requestId': slow.id})
        assert slow.wait().error['code'] == -32005


def test_a_cancelled_call_still_counts_as_in_flight(daemon):
    """Tombstones: the server may still be at work on it, so nothing is proven until it has answered."""
    with daemon.client(capabilities=EVERYTHING) as c, daemon.client(capabilities=EVERYTHING) as other:
        gone = other.tool('shared', 'hang', timeoutMs=100)
        assert gone.wait().error['code'] == -32004
        assert 'error' in told(c.tool('shared', 'ask', SAMPLING))
        assert not c.questions


def test_calls_of_one_client_prove_each_other(daemon):
    with daemon.client(capabilities=EVERYTHING) as c:
        c.tool('shared', 'sleep', {'ms': 60000})
        call = c.tool('shared', 'ask', SAMPLING)
        c.respond(c.wait_question(), {'ok': 1})
        assert told(call) == {'result': {'ok': 1}}


@pytest.mark.parametrize('server', ['own', 'turns'])
def test_own_and_exclusive_servers_ask_their_client_whatever_else_goes_on(daemon, server):
    with daemon.client(capabilities=EVERYTHING) as c, daemon.client(capabilities=EVERYTHING) as other:
        call = c.tool(server, 'ask', SAMPLING)
        question = c.wait_question()
        waiting = other.tool(server, 'ask', ELICIT)
        other.call('daemon/status')
        c.respond(question, {'n': 1})
        assert told(call) == {'result': {'n': 1}}
        if server == 'turns':
            c.call('servers/release', {'server': server})
        question = other.wait_question()
        assert question['method'] == 'elicitation/create'
        other.respond(question, {'action': 'decline'})
        assert told(waiting) == {'result': {'action': 'decline'}}
        assert not c.questions


@pytest.mark.parametrize('capabilities, what, missing', [
    ({}, SAMPLING, 'sampling'), ({'elicitation': {}}, SAMPLING, 'sampling'), ({'sampling': {}}, ELICIT, 'elicitation'),
    ({'sampling': {}}, {**SAMPLING, 'params': {'messages': [], 'tools': []}}, 'sampling.tools'),
    ({'elicitation': {}}, {**ELICIT, 'params': {'mode': 'url', 'url': 'http://x', 'message': 'm'}}, 'elicitation.url'),
])
def test_what_a_client_did_not_declare_it_is_not_asked(daemon, capabilities, what, missing):
    with daemon.client(capabilities=capabilities) as c:
        error = told(c.tool('shared', 'ask', what))['error']
        assert error['code'] == -32601 and missing in error['message']
        assert not c.questions


def test_hello_may_be_repeated_with_other_capabilities(daemon):
    with daemon.client() as c:
        assert 'error' in told(c.tool('shared', 'ask', SAMPLING))
        c.hello(capabilities={'sampling': {}})
        call = c.tool('shared', 'ask', SAMPLING)
        c.respond(c.wait_question(), {'ok': 1})
        assert told(call) == {'result': {'ok': 1}}
        c.hello()
        assert 'error' in told(c.tool('shared', 'ask', SAMPLING))


def test_roots_without_a_call_are_the_configurations(make_daemon):
    asking = fake(onInitialized=[{'jsonrpc': '2.0', 'id': 'r', 'method': 'roots/list'}])
    configured = fake(onInitialized=[{'jsonrpc': '2.0', 'id': 'r', 'method': 'roots/list'}],
                      server={'roots': ['/srv/data', {'uri': 'file:///home', 'name': 'home'}]})
    daemon = make_daemon({'none': asking, 'some': configured,
                          'own': fake(onInitialized=[{'jsonrpc': '2.0', 'id': 'r', 'method': 'roots/list'}],
                                      server={'sharing': 'per-client'})})
    with daemon.client(capabilities=EVERYTHING) as c:
        def answers(server):
            return c.tool(server, 'report').wait().result['structuredContent']['responses']
        c.wait_state('none', 'connected')
        c.wait_state('some', 'connected')
        assert wait_for(lambda: answers('none'))[0]['result'] == {'roots': []}
        assert wait_for(lambda: answers('some'))[0]['result']['roots'] == [
            {'uri': 'file:///srv/data'}, {'uri': 'file:///home', 'name': 'home'}]
        # A per-client instance asks its own client.
        call = c.tool('own', 'report')
        c.respond(c.wait_question(), {'roots': [{'uri': 'file:///mine'}]})
        call.wait()
        assert wait_for(lambda: answers('own'))[0]['result'] == {'roots': [{'uri': 'file:///mine'}]}


def test_a_client_that_leaves_without_answering_fails_only_its_own_call(daemon):
    with daemon.client(capabilities=EVERYTHING) as leaving, daemon.client(capabilities=EVERYTHING) as staying:
        leaving.tool('own', 'ask', SAMPLING)
        mine = staying.tool('own', 'ask', SAMPLING)
        leaving.wait_question()
        question = staying.wait_question()
        leaving.tool('shared', 'ask', SAMPLING)
        leaving.wait_question()
        leaving.close()
        staying.respond(question, {'ok': 1})
        assert told(mine) == {'result': {'ok': 1}}

        def answered():
            return staying.tool('shared', 'report').wait().result['structuredContent']['responses']
        assert 'left' in wait_for(answered)[0]['error']['message']


def test_a_question_is_withdrawn_with_its_call(daemon):
    with daemon.client(capabilities=EVERYTHING) as c:
        call = c.tool('shared', 'ask', SAMPLING)
        question = c.wait_question()
        c.notify('notifications/cancelled', {'requestId': call.id, 'reason': 'enough'})
        assert call.wait().error['code'] == -32005
        withdrawn = c.wait_event('notifications/cancelled')
        assert withdrawn['requestId'] == question['id'] and withdrawn['reason']
        c.respond(question, {'late': True})
        responses = c.tool('shared', 'report').wait().result['structuredContent']['responses']
        assert len(responses) == 1 and 'error' in responses[0]


def test_a_question_is_withdrawn_by_its_server(daemon):
    with daemon.client(capabilities=EVERYTHING) as c:
        c.tool('shared', 'raw', {'lines': [
            '{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{"messages":[]}}',
            '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q1","reason":"found it"}}',
            '{"jsonrpc":"2.0","id":$ID,"result":{}}']}).wait()
        question = c.wait_question()
        assert c.wait_event('notifications/cancelled') == {'requestId': question['id'], 'reason': 'found it'}


def test_a_question_ends_with_its_server(daemon):
    with daemon.client(capabilities=EVERYTHING) as c:
        call = c.tool('shared', 'ask', SAMPLING)
        question = c.wait_question()
        c.call('servers/disconnect', {'server': 'shared'})
        assert call.wait().error['code'] == -32003
        assert c.wait_event('notifications/cancelled')['requestId'] == question['id']
        c.respond(question, {'late': True})
        assert c.tool('shared', 'tool0').wait().result


def test_unknown_requests_of_servers_are_refused(daemon):
    with daemon.client(capabilities=EVERYTHING) as c:
        assert told(c.tool('shared', 'ask', {'method': 'no/such', 'params': {}}))['error']['code'] == -32601
        assert told(c.tool('shared', 'ask', {'method': 'ping'})) == {'result': {}}
        assert not c.questions


def test_payloads_of_questions_pass_byte_for_byte(daemon):
    """R19, for questions and their answers."""
    with daemon.client(capabilities=EVERYTHING) as c:
        call = c.tool('shared', 'raw', {'lines': [
            '{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{ "n":1.10,"n":1e400,"s":"\\ud800"}}']})
        lines = []
        original, c._line = c._line, lines.append
        c.wait_until(lambda: lines)
        assert b'"params":{ "n":1.10,"n":1e400,"s":"\\ud800","_meta":{"dev.mcpd/server":"shared"}}' in lines[0]
        c._line = original
        c.notify('notifications/cancelled', {'requestId': call.id})
        call.wait()

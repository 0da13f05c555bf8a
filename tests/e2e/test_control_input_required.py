"""A modern server's questions on the control dialect: they come as input-required results of the call that they belong to,
which is proof of whose they are, also on a shared server (ARCHITECTURE "Sharing", PROTOCOL "tools/call, mcp/request")."""

import pytest
from harness import fake, wait_for
from mcp_schema import MODERN, check
from servers.fake import META

SAMPLING = {'method': 'sampling/createMessage', 'params': {'messages': [], 'maxTokens': 1}}
ELICIT = {'method': 'elicitation/create', 'params': {'mode': 'form', 'message': 'Who?',
                                                     'requestedSchema': {'type': 'object', 'properties': {}}}}
ROOTS = {'method': 'roots/list'}
EVERYTHING = {'sampling': {}, 'elicitation': {'form': {}}, 'roots': {}}


@pytest.fixture
def daemon(make_daemon):
    daemon = make_daemon({'s': fake(era='modern')})
    with daemon.client() as c:
        assert c.wait_state('s', 'connected')['era'] == 'modern'
    return daemon


def needs(c, *rounds, **more):
    return c.tool('s', 'needs', {'rounds': rounds}, **more)


def answers(call):
    return call.wait().result['structuredContent']['answers']


def calls(c):
    return c.tool('s', 'report').wait().result['structuredContent']['methods']['tools/call']


@pytest.mark.parametrize('what, answer', [
    (SAMPLING, {'role': 'assistant', 'content': {'type': 'text', 'text': 'hi'}, 'model': 'm'}),
    (ELICIT, {'action': 'accept', 'content': {'n': 1}}), (ROOTS, {'roots': [{'uri': 'file:///x'}]})])
def test_a_shared_server_can_ask_while_others_use_it(daemon, what, answer):
    with daemon.client(capabilities=EVERYTHING) as c, daemon.client(capabilities=EVERYTHING) as other:
        other.tool('s', 'sleep', {'ms': 60000})
        wait_for(lambda: c.server('s')['inFlight'] == 1)
        call = needs(c, {'k': what})
        question = c.wait_question()
        assert question['method'] == what['method'] and question['params']['_meta'] == {'dev.mcpd/server': 's'}
        for key, value in what.get('params', {}).items():
            assert question['params'][key] == value
        c.respond(question, answer)
        assert answers(call) == [{'k': answer}]
        other.call('daemon/status')
        assert not other.questions
        assert 'advice' not in c.server('s')


def test_several_questions_at_once_and_several_rounds(daemon):
    with daemon.client(capabilities=EVERYTHING) as c:
        call = needs(c, {'a': ELICIT, 'b': ROOTS, 'c': SAMPLING}, {'again': ELICIT})
        c.wait_until(lambda: len(c.questions) == 3)
        for question in reversed(c.questions):      # in any order
            c.respond(question, {'answers': question['method']})
        c.questions.clear()
        c.respond(c.wait_question(), {'action': 'decline'})
        assert answers(call) == [{k: {'answers': w['method']} for k, w in (('a', ELICIT), ('b', ROOTS), ('c', SAMPLING))},
                                 {'again': {'action': 'decline'}}]
        assert calls(c) == 4                        # three of the call itself, and this one


def test_the_server_is_told_what_this_client_can_answer(daemon):
    def told(c):
        return c.tool('s', 'report').wait().result['structuredContent']['lastCallMeta'][META + 'clientCapabilities']
    with daemon.client(capabilities={'elicitation': {'form': {}}}) as c, daemon.client() as mute:
        assert told(c) == {'elicitation': {'form': {}}} and told(mute) == {}
        check(MODERN, 'ClientCapabilities', told(c))
        # A server that asks all the same has broken the protocol: the client is not bothered.
        for client, what in ((mute, ELICIT), (c, SAMPLING)):
            error = needs(client, {'k': what}).wait().error
            assert error['code'] == -32008 and what['method'] in error['message'] and error['data']['maybeExecuted'] is True
            assert not client.questions


def test_two_clients_are_asked_at_once_each_its_own(daemon):
    """R24: an answer counts only from the client that was asked, and once."""
    with daemon.client(capabilities=EVERYTHING) as a, daemon.client(capabilities=EVERYTHING) as b:
        of_a, of_b = needs(a, {'k': {**SAMPLING, 'params': {'whose': 'a'}}}), needs(b, {'k': {**SAMPLING, 'params': {'whose': 'b'}}})
        asked_a, asked_b = a.wait_question(), b.wait_question()
        assert (asked_a['params']['whose'], asked_b['params']['whose']) == ('a', 'b')
        b.respond(asked_a, {'from': 'forger'})
        b.call('daemon/status')
        a.respond(asked_a, {'from': 'a'})
        a.respond(asked_a, {'from': 'a again'})
        b.respond(asked_b, {'from': 'b'})
        assert answers(of_a) == [{'k': {'from': 'a'}}] and answers(of_b) == [{'k': {'from': 'b'}}]


def test_a_client_that_leaves_without_answering_fails_only_its_own_call(daemon):
    with daemon.client(capabilities=EVERYTHING) as leaving, daemon.client(capabilities=EVERYTHING) as staying:
        needs(leaving, {'k': ELICIT})
        call = needs(staying, {'k': ELICIT})
        leaving.wait_question()
        question = staying.wait_question()
        leaving.close()
        wait_for(lambda: staying.call('daemon/status')['inFlight'] == 1)
        staying.respond(question, {'action': 'cancel'})
        assert answers(call) == [{'k': {'action': 'cancel'}}]
        assert calls(staying) == 4                  # the one that had been left was never repeated


def test_a_refused_question_ends_the_call(daemon):
    """There is no way to tell a modern server of an error, so the asker gets its own back."""
    refusal = {'code': -1, 'message': 'User said no', 'data': {'x': 1}}
    with daemon.client(capabilities=EVERYTHING) as c:
        call = needs(c, {'k': ELICIT, 'l': ROOTS})
        c.wait_until(lambda: len(c.questions) == 2)
        first, second = c.questions
        c.respond(first, error=refusal)
        error = call.wait().error
        assert 'User said no' in error['message'] and error['data']['error'] == refusal
        assert c.wait_event('notifications/cancelled')['requestId'] == second['id']


@pytest.mark.parametrize('how', ['cancelled', 'timeout', 'disconnect'])
def test_a_question_is_withdrawn_with_its_call(daemon, how):
    with daemon.client(capabilities=EVERYTHING) as c:
        call = needs(c, {'k': ELICIT}, **({'timeoutMs': 1500} if how == 'timeout' else {}))
        question = c.wait_question()
        if how == 'cancelled':
            c.notify('notifications/cancelled', {'requestId': call.id, 'reason': 'enough'})
        elif how == 'disconnect':
            c.call('servers/disconnect', {'server': 's'})
        assert call.wait().error['code'] == {'cancelled': -32005, 'timeout': -32004, 'disconnect': -32003}[how]
        assert c.wait_event('notifications/cancelled')['requestId'] == question['id']
        c.respond(question, {'action': 'accept', 'content': {}})
        before = calls(c)
        assert calls(c) == before + 1               # the late answer has made no call


def test_resources_and_prompts_may_ask_lists_may_not(make_daemon):
    asks = {'resultType': 'input_required', 'inputRequests': {'k': ROOTS}, 'requestState': 's'}
    daemon = make_daemon({'s': fake(era='modern', prompts=1, answers={'prompts/get': {'result': asks},
                                                                     'completion/complete': {'result': asks}})})
    with daemon.client(capabilities=EVERYTHING) as c:
        call = c.request('mcp/request', {'server': 's', 'method': 'prompts/get', 'params': {'name': 'p0'}})
        assert c.wait_question()['method'] == 'roots/list'
        c.notify('notifications/cancelled', {'requestId': call.id})
        assert call.wait().error['code'] == -32005
        error = c.fails('mcp/request', {'server': 's', 'method': 'completion/complete', 'params': {}})
        assert error.code == -32008 and not c.questions

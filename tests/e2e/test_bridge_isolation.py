"""Agents behind mcpd-bridge do not see each other: R20 to R26 of the reports in the MCP dialect, in both eras on both sides, and what an
agent that stops reading, floods, dies or sends rubbish does to the others: nothing."""

import json
import os
import random
import signal

import harness
import pytest
from bridge_client import Agent, bridges_of
from harness import alive, fake, wait_for, wait_gone

ERAS = [(client, server) for client in ('legacy', 'modern') for server in ('legacy', 'modern')]
eras = pytest.mark.parametrize('client, server', ERAS)


@pytest.fixture(scope='module')
def world():
    """One daemon for all tests that leave it as it was, with a server of each era."""
    daemon = harness.Daemon({'legacy': fake(), 'modern': fake(era='modern')})
    try:
        with daemon.client() as c:
            for name in ('legacy', 'modern'):
                c.wait_state(name, 'connected')
        yield daemon
    finally:
        daemon.finish()


@pytest.fixture
def agents(request):
    """agents(daemon, server, n, era, ..): that many, shaken hands where their era has that; ended at the end of the test."""
    made = []

    def make(daemon, server=None, count=2, era='legacy', capabilities=None, **more):
        new = [Agent(daemon, server, modern=era == 'modern', capabilities=capabilities, name='agent%d' % (len(made) + i), **more)
               for i in range(count)]
        made.extend(new)
        for agent in new:
            if era == 'legacy':
                agent.initialize()
        return new

    yield make
    failed = getattr(request.node, 'call_failed', True)
    for agent in made:
        agent.kill() if failed else agent.close()


def ready(make_daemon, servers, **more):
    daemon = make_daemon(servers, **more)
    with daemon.client() as c:
        for name, definition in servers.items():
            if definition.get('sharing', 'shared') == 'shared':
                c.wait_state(name, 'connected')
    return daemon


def structured(pending):
    return pending.wait().result['structuredContent']


# -- ids and tokens

@eras
def test_R20_equal_ids_of_fifty_agents(world, agents, client, server):
    rng, everyone = random.Random(20), agents(world, server, 50, era=client)
    ids = [1, 2, 0, -1, 'a', '1', 3.5, 10**20]
    calls = [(a, id, a.tool('sleep', {'ms': rng.randrange(200), 'text': '%s-%r' % (a.name, id)}, id=id))
             for id in ids for a in everyone]
    rng.shuffle(calls)
    for a, id, call in calls:
        assert call.wait().result['content'][0]['text'] == '%s-%r' % (a.name, id)
    assert len(world.servers('fake.py')) == 2


def test_R20_an_id_in_flight_is_refused_and_the_first_goes_on(world, agents):
    a, b = agents(world, 'legacy')
    first, other = a.tool('sleep', {'ms': 600, 'text': 'first'}, id=7), b.tool('sleep', {'ms': 300, 'text': 'other'}, id=7)
    # Not through request(), which would know better.
    a.in_flight.clear()
    second = a.request('tools/call', {'name': 'tool0'}, id=7)
    assert second.wait().error['code'] == -32600
    a.in_flight[json.dumps(7)] = first
    assert first.wait().result['content'][0]['text'] == 'first' and other.wait().result['content'][0]['text'] == 'other'


@eras
def test_R21_equal_progress_tokens(world, agents, client, server):
    a, b = agents(world, server, era=client)
    calls = [x.tool('progress', {'steps': 5, 'ms': 20, 'message': x.name}, id=1, token=1) for x in (a, b)]
    for x, call in zip((a, b), calls):
        assert call.wait().result
        assert x.progress() == [(1, n, x.name) for n in range(1, 6)]


def test_tokens_come_back_as_they_were(world, agents):
    a, = agents(world, 'legacy', 1)
    for token in ('t', '', 0, -1, 1.5, 2**53 + 1, 'ü\u2028'):
        assert a.tool('progress', {'steps': 1}, token=token).wait().result
        assert a.progress() == [(token, 1, None)]


@eras
def test_R22_cancelling_one_of_two_with_equal_ids(world, agents, client, server):
    a, b = agents(world, server, era=client)
    before = a.report()
    pid, done = before['pid'], len(before['cancelled'])
    mine, theirs = a.tool('hang', id='same'), b.tool('sleep', {'ms': 700, 'text': 'theirs'}, id='same')
    with world.client() as control:
        wait_for(lambda: control.server(server)['inFlight'] == 2)
    a.cancel(mine, 'no longer wanted')
    cancelled = wait_for(lambda: a.report()['cancelled'][done:])
    assert len(cancelled) == 1 and cancelled[0]['requestId'] != 'same' and cancelled[0].get('reason') == 'no longer wanted'
    assert theirs.wait().result['content'][0]['text'] == 'theirs'
    # What nobody knows, or what is done, cancels nothing; the process is the same.
    for params in ({'requestId': 'same'}, {'requestId': 99}, {'requestId': None}, {}):
        b.notify('notifications/cancelled', params)
    report = b.report()
    assert len(report['cancelled']) == done + 1 and report['pid'] == pid


# -- questions. Each with a daemon of its own: as long as a cancelled call may still run in a legacy server, what that asks cannot be told
# from a question of the call.

def roots(agent):
    return {'roots': [{'uri': 'file:///' + agent.name, 'name': agent.name}]}


def test_R23_a_question_whose_id_is_that_of_a_call_in_flight(make_daemon, agents):
    """The server asks with an id that is in flight, in both directions: the question is none the less a question."""
    d = ready(make_daemon, {'legacy': fake()})
    a, = agents(d, 'legacy', 1, capabilities={'roots': {}})
    call = a.tool('ask', {'method': 'roots/list', 'id': 'same'}, id=1)
    other = a.tool('hang', id=2)
    question = a.question('roots/list')
    a.respond(question, roots(a))
    assert structured(call) == {'result': roots(a)}
    # And with an id that the agent's own requests have.
    for id in (1, 2, '1'):
        call = a.tool('ask', {'method': 'roots/list', 'id': id}, id='c')
        a.respond(a.question('roots/list'), roots(a))
        assert structured(call) == {'result': roots(a)}
    a.cancel(other)


@pytest.mark.parametrize('client', ['legacy', 'modern'])
def test_R24_only_the_one_that_was_asked_can_answer(make_daemon, agents, client):
    """Another agent answers with the very id; only what the asked one says reaches the server."""
    d = ready(make_daemon, {'legacy': fake()})
    a, = agents(d, 'legacy', 1, capabilities={'roots': {}}, era=client)
    b, = agents(d, 'legacy', 1, capabilities={'roots': {}})
    seen = len(b.report()['responses'])
    call = a.tool('ask', {'method': 'roots/list', 'id': 'q'})
    if client == 'legacy':
        question = a.question('roots/list')
        ids = [question['id']]
    else:
        first = call.wait().result
        assert first['resultType'] == 'input_required', first
        (key, asked), = first['inputRequests'].items()
        assert asked['method'] == 'roots/list'
        ids = [key, first['requestState']]
    for id in [*ids, 'q', 0, 1, 'mcpd-1', 'mcpd-2']:
        b.send_json({'jsonrpc': '2.0', 'id': id, 'result': roots(b)})
    b.call('ping')
    if client == 'legacy':
        a.respond(question, roots(a))
        assert structured(call) == {'result': roots(a)}
    else:
        # Not even with the state that the other one was given.
        thief, = agents(d, 'legacy', 1, capabilities={'roots': {}}, era='modern')
        again = {'inputResponses': {key: roots(thief)}, 'requestState': first['requestState']}
        assert thief.tool('ask', {'method': 'roots/list', 'id': 'q'}, **again).wait().error['code'] == -32602
        again['inputResponses'] = {key: roots(a)}
        assert structured(a.tool('ask', {'method': 'roots/list', 'id': 'q'}, **again)) == {'result': roots(a)}
    assert [r['result'] for r in a.report()['responses'][seen:]] == [roots(a)]
    assert b.questions == []


@pytest.mark.parametrize('client', ['legacy', 'modern'])
def test_R24_a_modern_servers_questions_go_to_the_caller(world, agents, client):
    """Both call at the same time, both are asked, each for its own call."""
    both = agents(world, 'modern', 2, capabilities={'roots': {}, 'elicitation': {}}, era=client)
    ask = {'rounds': [{'r': {'method': 'roots/list'}}, {'r': {'method': 'roots/list'}}]}
    calls = [x.tool('needs', ask, id=1) for x in both]
    for _ in range(2):
        for i in (1, 0):
            x = both[i]
            if client == 'legacy':
                x.respond(x.question('roots/list'), roots(x))
            else:
                asked = calls[i].wait().result
                assert asked['resultType'] == 'input_required'
                calls[i] = x.tool('needs', ask, inputResponses={key: roots(x) for key in asked['inputRequests']},
                                  requestState=asked['requestState'])
    for x, call in zip(both, calls):
        assert structured(call) == {'answers': [{'r': roots(x)}, {'r': roots(x)}]}


def test_R24_what_cannot_be_proven_is_asked_of_nobody(make_daemon, agents):
    d = ready(make_daemon, {'legacy': fake()})
    a, b = agents(d, 'legacy', capabilities={'roots': {}})
    busy = b.tool('sleep', {'ms': 800})
    with d.client() as control:
        wait_for(lambda: control.server('legacy')['inFlight'] == 1)
    error = structured(a.tool('ask', {'method': 'sampling/createMessage', 'params': {}}))['error']
    assert 'per-client' in error['message'] or 'exclusive' in error['message'], error
    assert busy.wait().result and a.questions == b.questions == []


def test_a_question_is_withdrawn_when_its_call_ends(make_daemon, agents):
    d = ready(make_daemon, {'legacy': fake()})
    a, b = agents(d, 'legacy', capabilities={'roots': {}})
    call = a.tool('ask', {'method': 'roots/list'})
    question = a.question('roots/list')
    a.cancel(call)
    assert a.wait_event('notifications/cancelled')['requestId'] == question['id']
    a.respond(question, roots(a))       # too late, and for nobody
    assert b.text('tool0') == 'tool0 was called' == a.text('tool0')


# -- sharing

@pytest.mark.parametrize('era', ['legacy', 'modern'])
def test_R25_a_counter_in_all_three_modes(make_daemon, agents, era):
    modes = ('shared', 'per-client', 'exclusive')
    d = make_daemon({m: fake(server={'sharing': m, 'stopGrace': 100}) for m in modes})
    everyone = agents(d, None, 6, era=era)
    counts = sorted(int(a.text('shared__count').split()[0]) for a in everyone)
    assert counts == [1, 2, 3, 4, 5, 6]
    assert [a.text('per-client__count').split()[0] for a in everyone for _ in range(2)] == ['1', '2'] * 6
    # One after the other, each on a process of its own: an agent lets go of it by leaving.
    pids = set()
    waiting = {a: a.tool('exclusive__count') for a in everyone}
    with d.client() as control:
        while waiting:
            holder = wait_for(lambda: control.server('exclusive').get('holder'))
            a = next(a for a in waiting if holder.startswith(a.name + '#'))
            assert waiting.pop(a).wait().result['content'][0]['text'].split()[0] == '1'
            assert a.text('exclusive__count').split()[0] == '2'
            assert not any(call.done for call in waiting.values())
            pids.add(control.server('exclusive')['pid'])
            a.close()
    assert len(pids) == 6


# -- progress that nobody wants

@eras
def test_R26_late_and_unknown_progress_is_dropped(world, agents, client, server):
    a, b = agents(world, server, era=client)
    for _ in range(20):
        assert a.tool('progress', {'steps': 2, 'late': True}, token='t').wait().result
    assert a.tool('progress', {'steps': 3, 'token': 'invented'}, token='u').wait().result
    assert a.tool('progress', {'steps': 3, 'token': 'invented'}).wait().result
    a.text('tool0')
    # Two for each of the calls, before its answer, and none besides.
    assert a.progress() == [('t', n, None) for _ in range(20) for n in (1, 2)] + [('u', n, None) for n in (1, 2, 3)]
    assert b.text('tool0') and b.events == []


# -- agents that misbehave

def witness(agent, n=20):
    """The other agent's day: it goes on, and nothing but its own comes."""
    for i in range(n):
        assert agent.text('text', {'text': 'mine-%d' % i}) == 'mine-%d' % i
    assert agent.events == [] and agent.questions == [] and agent.orphans == []


def test_an_agent_that_stops_reading(make_daemon, agents):
    """Forty answers of half a megabyte that nobody fetches: the others do not wait, and the one gets them all once it reads."""
    d = ready(make_daemon, {'s': fake()}, mcpd={'limits': {'clientQueueSoftBytes': 1 << 20}})
    lazy, other = agents(d, 's')
    pid = other.report()['pid']
    calls = [lazy.tool('bytes', {'size': 1 << 19, 'char': 'abcdefghij'[i % 10]}, id=i) for i in range(40)]
    witness(other)
    for i, call in enumerate(calls):
        assert call.wait().result['content'][0]['text'] == 'abcdefghij'[i % 10] * (1 << 19)
    witness(lazy, 3)
    assert other.report()['pid'] == pid


def test_an_agent_that_never_reads_again(make_daemon, agents):
    """Past the hard limit it is disconnected; its bridge says so and ends. Nobody else notices."""
    d = ready(make_daemon, {'s': fake()}, mcpd={'limits': {'clientQueueSoftBytes': 1 << 20, 'clientQueueHardBytes': 4 << 20}})
    other, = agents(d, 's', 1)
    with d.client() as control:
        lazy = Agent(d, 's', name='lazy')
        lazy.initialize()
        calls = [lazy.tool('bytes', {'size': 1 << 19}, id=i) for i in range(40)]
        witness(other)
        wait_for(lambda: control.call('daemon/status')['clients'] == 2, what='the end of the lazy client')
        witness(other)
        assert control.server('s')['inFlight'] == 0
    assert calls
    lazy.kill()


def test_an_agent_that_floods(make_daemon, agents):
    """Two thousand calls at once, and what has no room is refused; the other agent's calls go in between."""
    d = ready(make_daemon, {'s': fake()}, mcpd={'limits': {'maxRequestsPerClient': 64}})
    flood, other = agents(d, 's')
    calls = [flood.tool('text', {'text': str(i)}, id=i) for i in range(2000)]
    witness(other)
    refused = 0
    for i, call in enumerate(calls):
        call.wait()
        if call.error is not None:
            assert call.error['code'] == -32603 and call.error['data']['mcpd']['code'] == -32009, call.error
            assert call.error['data']['mcpd']['limit'] == 'maxRequestsPerClient'
            refused += 1
        else:
            assert call.result['content'][0]['text'] == str(i)
    assert refused < 2000


@eras
def test_agents_that_die(world, agents, client, server):
    """With calls in flight and questions open: the server hears of it, keeps its process, and the others' calls end as they should."""
    other, = agents(world, server, 1, era=client)
    pid = other.report()['pid']
    slow = other.tool('sleep', {'ms': 1500, 'text': 'mine'})
    for how in ('bridge', 'agent', 'both'):
        victim = Agent(world, server, modern=client == 'modern', capabilities={'roots': {}}, name='victim')
        if client == 'legacy':
            victim.initialize()
        for i in range(3):
            victim.tool('hang', id=i)
        with world.client() as control:
            wait_for(lambda: control.server(server)['inFlight'] >= 4)
        seen = len(other.report()['cancelled'])
        if how == 'agent':
            victim.sock.close()
            victim.proc.wait(60)
        elif how == 'bridge':
            os.kill(victim.proc.pid, signal.SIGKILL)
            victim.wait_eof()
        victim.kill()
        wait_for(lambda: len(other.report()['cancelled']) == seen + 3, what='the news at the server')
    assert slow.wait().result['content'][0]['text'] == 'mine'
    assert other.report()['pid'] == pid and alive(pid)
    wait_for(lambda: len(bridges_of(world)) == 1)


RUBBISH = {
    'no JSON': b'hello\n',
    'half a message': b'{"jsonrpc":"2.0","id":1,"method":"tools/list"\n',
    'no message': b'42\n"x"\nnull\n[]\n{}\n',
    'no UTF-8': b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}\n',
    'deep': b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'[' * 100000 + b'\n',
    'zeros': b'\0' * 4096 + b'\n',
    'wrong version': b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n',
    'params no object': b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}\n',
    'answers to nothing': b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":"mcpd-1","error":{"code":1,"message":"x"}}\n',
    'unknown notifications': b'{"jsonrpc":"2.0","method":"notifications/nothing"}\n{"jsonrpc":"2.0","method":"tools/call"}\n',
    'null id': b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n',
}
# What is no request gets no answer.
SILENT = {'answers to nothing', 'unknown notifications'}


@pytest.mark.parametrize('what', RUBBISH)
@pytest.mark.parametrize('first', ['rubbish', 'handshake'])
def test_an_agent_that_sends_rubbish(world, what, first):
    """It gets an error, or nothing, and its connection goes on; the other one notices nothing."""
    with Agent(world, 'legacy') as bad, Agent(world, 'legacy') as other:
        other.initialize()
        bad.strays, bad.next_id = [], 1000
        if first == 'handshake':
            bad.initialize()
        for _ in range(3):
            bad.send_bytes(RUBBISH[what])
        if first == 'rubbish':
            bad.initialize()
        assert bad.call('ping') == {}
        # An error is told under the id, where one can be made out, or under none.
        for message in bad.strays + bad.orphans:
            code = message['error']['code']
            if code == -32603:
                assert message['error']['data']['mcpd']['limit'] == 'maxNesting' and what == 'deep', message
            else:
                assert message['id'] in (1, None) and code in (-32700, -32600, -32601, -32602), message
        told = len(bad.strays + bad.orphans)
        assert told == 0 if what in SILENT else told >= 3, (bad.strays, bad.orphans)
        assert bad.text('tool0') == 'tool0 was called'
        witness(other, 3)
        # The bridge does not judge bytes: it may still wait for the answer to what was none.
        bad.close(0, 6)


def test_an_agent_whose_line_is_too_long(make_daemon, agents):
    d = ready(make_daemon, {'s': fake()}, mcpd={'limits': {'maxMessageBytes': 1 << 20}})
    other, = agents(d, 's', 1)
    bad = Agent(d, 's')
    bad.initialize()
    bad.strays = []
    try:
        bad.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"x":"' +
                       b'y' * (2 << 20) + b'"}}}\n')
    except (BrokenPipeError, ConnectionResetError):
        pass
    # The daemon refuses, and closes; the bridge says what that means for the request.
    bad.wait_until(lambda: bad.orphans, what='the refusal')
    assert bad.orphans[0]['error']['code'] == -32600, bad.orphans
    bad.wait_until(lambda: bad.strays, what='the end of the request')
    assert [(m['id'], m['error']['code']) for m in bad.strays] == [(1, -32603)]
    bad.kill()
    witness(other)


def test_nothing_is_left_of_many_agents(make_daemon, agents):
    d = ready(make_daemon, {'s': fake(), 'own': fake(server={'sharing': 'per-client', 'stopGrace': 100})})
    with d.client() as control:
        before = None
        for round in range(3):
            some = [Agent(d, modern=i % 2 == 1, name='a%d' % i) for i in range(16)]
            for i, a in enumerate(some):
                if not a.modern:
                    a.initialize()
                a.tool('own__count', id='count')
            for i, a in enumerate(some):
                a.kill() if i % 3 else a.close()
            wait_for(lambda: len(d.servers('fake.py')) == 1, what='the end of their own servers')
            wait_for(lambda: control.call('daemon/status')['clients'] == 1)
            # The first round is the daemon's own warming up.
            before = before or d.descriptors()
        wait_for(lambda: len(d.descriptors()) == len(before), what='%s again, not %s,' % (before, d.descriptors()))
        assert bridges_of(d) == []

"""Logging levels that several clients set at one server (PITFALLS "Relaying"): the most verbose wins upstream, each client
gets what it asked for."""

import random

import pytest
from harness import fake, wait_for
from servers.fake import META

LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']


def set_level(c, level, server='s'):
    return c.request('mcp/request', {'server': server, 'method': 'logging/setLevel', 'params': {'level': level}}).wait()


def upstream(c, server='s'):
    """The levels that the server was told, in order."""
    return c.tool(server, 'report').wait().result['structuredContent']['levels']


def say(c, *levels, server='s'):
    for level in levels:
        c.tool(server, 'notify', {'params': {'level': level, 'data': {}}}).wait()
    c.tool(server, 'notify', {'method': 'notifications/marker'}).wait()


def heard(c):
    levels = []
    while True:
        event = c.wait_event('events/notification')
        if event['method'] == 'notifications/marker':
            return levels
        levels.append(event['params']['level'])


def start(make_daemon, **options):
    daemon = make_daemon({'s': fake(**options)})
    with daemon.client() as c:
        if 'sharing' not in options.get('server', {}):
            c.wait_state('s', 'connected')
    return daemon


def test_the_server_hears_only_changes_of_the_most_verbose(make_daemon):
    daemon = start(make_daemon)
    with daemon.client() as a, daemon.client() as b, daemon.client() as c:
        for client, level, told in ((a, 'error', 'error'), (b, 'debug', 'debug'), (a, 'warning', None), (c, 'info', None),
                                    (b, 'notice', 'info'), (b, 'notice', None), (c, 'alert', 'notice')):
            before = upstream(a)
            assert set_level(client, level).result == {}
            assert upstream(a) == before + ([told] if told else [])
        b.close()
        wait_for(lambda: upstream(a)[-1] == 'warning')
        assert upstream(a) == ['error', 'debug', 'info', 'notice', 'warning']


def test_each_gets_what_it_asked_for_whatever_the_others_do(make_daemon):
    daemon = start(make_daemon)
    chance = random.Random(1)
    clients = [daemon.client() for _ in range(5)]
    wishes = [None] * len(clients)
    silent = daemon.client()
    for c in clients + [silent]:
        c.subscribe('notifications')
    for _ in range(60):
        i = chance.randrange(len(clients))
        wishes[i] = chance.randrange(len(LEVELS))
        assert set_level(clients[i], LEVELS[wishes[i]]).result == {}
        said = [chance.randrange(len(LEVELS)) for _ in range(3)]
        say(silent, *(LEVELS[n] for n in said))
        for c, wish in zip(clients + [silent], wishes + [None]):
            least = LEVELS.index('info') if wish is None else wish
            assert heard(c) == [LEVELS[n] for n in said if n >= least], (wish, said)
        assert upstream(silent)[-1] == LEVELS[min(w for w in wishes if w is not None)]


def test_until_somebody_asks_all_get_what_the_server_sends(make_daemon):
    daemon = start(make_daemon)
    with daemon.client() as a, daemon.client() as b:
        a.subscribe('notifications'), b.subscribe('notifications')
        say(a, 'debug', 'error')
        assert heard(a) == heard(b) == ['debug', 'error']
        set_level(b, 'debug')
        say(a, 'debug', 'error')
        assert heard(a) == ['error'] and heard(b) == ['debug', 'error']


def test_a_level_that_the_server_refuses_changes_nothing(make_daemon):
    daemon = start(make_daemon)
    with daemon.client() as a, daemon.client() as b:
        a.subscribe('notifications')
        set_level(a, 'warning')
        set_level(b, 'no such level')       # passed on as it is; this server takes anything
        assert upstream(a) == ['warning', 'no such level']
        say(b, 'notice', 'warning')
        assert heard(a) == ['warning']
    refusing = make_daemon({'s': fake(answers={'logging/setLevel': {'error': {'code': -32602, 'message': 'Not that one'}}})})
    with refusing.client() as a:
        refusing.client().wait_state('s', 'connected')
        a.subscribe('notifications')
        for _ in range(2):                  # and it is asked again: nothing is remembered of it
            assert set_level(a, 'emergency').error['data']['error'] == {'code': -32602, 'message': 'Not that one'}
        say(a, 'debug', 'error')
        assert heard(a) == ['debug', 'error']


def test_one_that_gives_up_does_not_leave_the_others_without_their_level(make_daemon):
    daemon = start(make_daemon, answers={'logging/setLevel': {'delayMs': 600000}})
    with daemon.client() as a, daemon.client() as b:
        def told():
            return a.tool('s', 'report').wait().result['structuredContent']['methods'].get('logging/setLevel', 0)
        params = {'server': 's', 'method': 'logging/setLevel', 'params': {'level': 'debug'}}
        asked = a.request('mcp/request', params)
        wait_for(lambda: told() == 1)
        assert b.call('mcp/request', params) == {}      # it is on its way already
        a.notify('notifications/cancelled', {'requestId': asked.id})
        assert asked.wait().error['code'] == -32005
        wait_for(lambda: told() == 2)


@pytest.mark.parametrize('sharing', ['per-client', 'exclusive'])
def test_a_level_is_that_of_its_client_alone(make_daemon, sharing):
    daemon = start(make_daemon, server={'sharing': sharing})
    with daemon.client() as a, daemon.client() as b:
        # The first request waits for the process, which is also told what is wished: it may hear it twice.
        set_level(a, 'debug')
        assert set(upstream(a)) == {'debug'}
        if sharing == 'exclusive':
            a.call('servers/release', {'server': 's'})
        assert upstream(b) == []
        set_level(b, 'error')
        assert upstream(b) == ['error']
        if sharing == 'per-client':
            assert set(upstream(a)) == {'debug'}


def test_a_modern_server_hears_the_level_with_each_request(make_daemon):
    daemon = start(make_daemon, era='modern')

    def level(c):
        return c.tool('s', 'report').wait().result['structuredContent']['lastCallMeta'].get(META + 'logLevel')
    with daemon.client() as a, daemon.client() as b:
        assert set_level(a, 'debug').result == {} and set_level(b, 'error').result == {}
        assert (level(a), level(b), level(daemon.client())) == ('debug', 'error', None)
        assert 'logging/setLevel' not in a.tool('s', 'report').wait().result['structuredContent']['methods']


def test_a_modern_server_whose_era_is_not_known_yet_hears_no_setLevel(make_daemon):
    """The daemon does not know yet what it is going to be connected to; the answer is the same."""
    daemon = start(make_daemon, era='modern', server={'lazy': True, 'sharing': 'exclusive'})
    with daemon.client() as c:
        assert set_level(c, 'debug').result == {}
        report = c.tool('s', 'report').wait().result['structuredContent']
        assert 'logging/setLevel' not in report['methods']
        assert report['lastCallMeta'][META + 'logLevel'] == 'debug'
        # What is no level is the server's to refuse.
        assert set_level(c, 'no such level').error['data']['error']['code'] == -32601


def test_when_nobody_asks_any_more_the_level_is_info(make_daemon):
    daemon = start(make_daemon)
    with daemon.client() as c:
        with daemon.client() as leaving:
            set_level(leaving, 'alert')
        wait_for(lambda: upstream(c) == ['alert', 'info'])
        c.subscribe('notifications')
        say(c, 'debug', 'info')
        assert heard(c) == ['info']

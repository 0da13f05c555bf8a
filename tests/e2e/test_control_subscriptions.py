"""Resource subscriptions of clients, at servers of either era (PROTOCOL "mcp/request")."""

import pytest

import harness
from harness import fake, node, npm_server, wait_for
from test_http_servers import MODERN, http_server   # noqa: F401 (a fixture)

META = 'io.modelcontextprotocol/'


def subscribe(c, uri, server='s', method='resources/subscribe', **more):
    return c.request('mcp/request', {'server': server, 'method': method, 'params': {'uri': uri}, **more})


def unsubscribe(c, uri, server='s'):
    return subscribe(c, uri, server, 'resources/unsubscribe').wait()


def report(c, server='s'):
    return c.tool(server, 'report').wait().result['structuredContent']


def updates(c, marker='end'):
    """The URIs that the client is told of, up to the marker's notification."""
    uris = []
    while True:
        params = c.wait_event('events/notification')
        if params['method'] == 'notifications/' + marker:
            return uris
        if params['method'] == 'notifications/resources/updated':
            uris.append(params['params']['uri'])


def start(make_daemon, **options):
    daemon = make_daemon({'s': fake(era='modern', resources=3, **options)})
    daemon.client().wait_state('s', 'connected')
    return daemon


def test_a_modern_server_hears_one_set_of_all_clients(make_daemon):
    daemon = start(make_daemon)
    with daemon.client() as a, daemon.client() as b:
        assert subscribe(a, 'fake://r0').wait().result == {}
        assert subscribe(b, 'fake://r0').wait().result == {}
        assert subscribe(b, 'fake://r1').wait().result == {}
        assert set(report(a)['listening'][-1]['resourceSubscriptions']) == {'fake://r0', 'fake://r1'}
        for c in (a, b):
            c.subscribe('notifications')
        for uri in ('fake://r0', 'fake://r1', 'fake://r2'):
            a.tool('s', 'updated', {'uri': uri, 'everywhere': True}).wait()
        a.tool('s', 'notify', {'method': 'notifications/end'}).wait()
        assert updates(a) == ['fake://r0']
        assert updates(b) == ['fake://r0', 'fake://r1']
        # The last one that wants it leaves it.
        assert unsubscribe(b, 'fake://r0').result == {}
        assert unsubscribe(a, 'fake://r0').result == {}
        wait_for(lambda: report(a)['listening'] ==
                 [{'toolsListChanged': True, 'resourcesListChanged': True, 'resourceSubscriptions': ['fake://r1']}])
        b.close()
        wait_for(lambda: report(a)['listening'] == [{'toolsListChanged': True, 'resourcesListChanged': True}])
        methods = report(a)['methods']
        assert 'resources/subscribe' not in methods and 'resources/unsubscribe' not in methods


def test_the_daemons_subscription_id_is_nobody_elses(make_daemon):
    daemon = start(make_daemon)
    with daemon.client() as c:
        c.subscribe('notifications')
        subscribe(c, 'fake://r0').wait()
        c.tool('s', 'updated', {'uri': 'fake://r0', 'meta': {'own': 1.5}, 'more': {'extra': [1]}}).wait()
        event = c.wait_event('events/notification')
        assert event['params'] == {'uri': 'fake://r0', 'extra': [1], '_meta': {'own': 1.5}}


def test_a_burst_is_one_stream_more(make_daemon):
    daemon = start(make_daemon, server={'sharing': 'shared'})
    with daemon.client() as c:
        uris = ['fake://r%d' % i for i in range(200)]
        for pending in [subscribe(c, uri) for uri in uris]:
            assert pending.wait().result == {}
        seen = report(c)
        assert set(seen['listening'][-1]['resourceSubscriptions']) == set(uris)
        # How many there are depends on how the daemon gets to read them; not one for each.
        assert len(seen['listened']) < 50
        for pending in [subscribe(c, uri, method='resources/unsubscribe') for uri in uris]:
            assert pending.wait().result == {}
        wait_for(lambda: 'resourceSubscriptions' not in report(c)['listening'][0])


def test_M4_after_a_reconnect_the_first_stream_has_them_all(make_daemon):
    daemon = start(make_daemon)
    with daemon.client() as a, daemon.client() as b:
        for c, uri in ((a, 'fake://r0'), (b, 'fake://r1')):
            subscribe(c, uri).wait()
            c.subscribe('notifications')
        a.tool('s', 'crash').wait()
        a.wait_state('s', 'connected')
        listened = report(a)['listened']
        assert set(listened[0]['resourceSubscriptions']) == {'fake://r0', 'fake://r1'}
        a.tool('s', 'updated', {'uri': 'fake://r0'}).wait()
        assert a.wait_event('events/notification')['params']['uri'] == 'fake://r0'


def test_what_a_modern_server_does_not_take(make_daemon):
    daemon = make_daemon({'s': fake(era='modern', resources=3, listen={'refused': ['fake://r1']}),
                          'refusing': fake(era='modern', listen={'error': {'code': -32000, 'message': 'Full', 'data': 1}}),
                          'silent': fake(era='modern', listen={'silent': True})})
    with daemon.client() as c:
        for name in ('s', 'refusing', 'silent'):
            c.wait_state(name, 'connected')
        first, second = subscribe(c, 'fake://r0'), subscribe(c, 'fake://r1')
        assert first.wait().result == {}
        assert second.wait().error['code'] == -32602 and 'fake://r1' in second.error['message']
        error = subscribe(c, 'fake://r0', 'refusing').wait().error
        assert error['code'] == -32006 and error['data']['error'] == {'code': -32000, 'message': 'Full', 'data': 1}
        assert report(c, 'refusing')['listening'] == [{'toolsListChanged': True}]
        error = subscribe(c, 'fake://r0', 'silent', timeoutMs=200).wait().error
        assert error['code'] == -32004 and error['message'] == 'Request timeout after 200ms'
        # Nobody has it: a client that unsubscribes all the same is answered.
        assert unsubscribe(c, 'fake://r1').result == {}


@pytest.mark.parametrize('sharing', ['per-client', 'exclusive'])
def test_subscriptions_of_own_processes(make_daemon, sharing):
    daemon = make_daemon({'s': fake(era='modern', resources=3, server={'sharing': sharing})})
    with daemon.client() as a, daemon.client() as b:
        assert subscribe(a, 'fake://r0').wait().result == {}
        assert report(a)['listening'][-1]['resourceSubscriptions'] == ['fake://r0']
        a.subscribe('notifications'), b.subscribe('notifications')
        a.tool('s', 'updated', {'uri': 'fake://r0'}).wait()
        assert a.wait_event('events/notification')['params']['uri'] == 'fake://r0'
        if sharing == 'exclusive':
            a.call('servers/release', {'server': 's'})
        assert 'resourceSubscriptions' not in report(b)['listening'][-1]
        assert not b.take_events('events/notification')


def test_a_lazy_server_is_started_by_a_subscription_and_kept(make_daemon):
    daemon = make_daemon({'s': fake(era='modern', resources=1, server={'lazy': True, 'idleTimeout': 300})})
    with daemon.client() as c:
        assert subscribe(c, 'fake://r0').wait().result == {}
        watcher = daemon.client()
        watcher.subscribe('servers', server='s')
        with pytest.raises(TimeoutError):
            watcher.wait_event('events/server', lambda p: p['server'].get('state') == 'idle', timeout=1)
        unsubscribe(c, 'fake://r0')
        watcher.wait_event('events/server', lambda p: p['server'].get('state') == 'idle')


@pytest.mark.parametrize('how', ['http', 'stdio'])
def test_the_official_sdks_modern_server(npm, http_server, make_daemon, how):
    if how == 'http':
        definition = {'type': 'http', 'url': http_server(MODERN, LEGACY='reject').url()}
    else:
        definition = {'command': node(), 'args': [str(MODERN)], 'env': {'LEGACY': 'reject'}}
    daemon = make_daemon({'sdk': definition})
    with daemon.client() as a, daemon.client() as b:
        assert a.wait_state('sdk', 'connected')['era'] == 'modern'
        for c in (a, b):
            c.subscribe('notifications', server='sdk')
        assert subscribe(a, 'note://one', 'sdk').wait().result == {}
        assert subscribe(b, 'note://two', 'sdk').wait().result == {}
        for uri in ('note://two', 'note://three', 'note://one'):
            a.text('sdk', 'touch', {'uri': uri})
        for c, uri in ((a, 'note://one'), (b, 'note://two')):
            event = c.wait_event('events/notification')
            assert event['method'] == 'notifications/resources/updated' and event['params']['uri'] == uri
            assert META + 'subscriptionId' not in event['params'].get('_meta', {})
        # The list changes go on on the stream that took the first one's place.
        b.subscribe('tools', server='sdk')
        assert unsubscribe(a, 'note://one', 'sdk').result == {}
        if how == 'http':
            a.text('sdk', 'set-extra', {'name': 'more'})
            b.wait_event('events/tools')
            assert 'more' in [t['name'] for t in b.call('tools/list', {'server': 'sdk'})['servers'][0]['tools']]
        assert not [e for e in a.take_events('events/notification') + b.take_events('events/notification')
                    if e['method'] == 'notifications/resources/updated']


def test_M4_a_subscription_outlives_the_restart_of_an_http_server(npm, http_server, make_daemon):
    server = http_server(MODERN, LEGACY='reject')
    daemon = make_daemon({'sdk': {'type': 'http', 'url': server.url()}})
    with daemon.client() as c:
        c.wait_state('sdk', 'connected')
        c.subscribe('notifications', server='sdk')
        assert subscribe(c, 'note://one', 'sdk').wait().result == {}
        server.stop()
        server.start()

        def told():
            c.tool('sdk', 'touch', {'uri': 'note://one'}).wait()      # which may meet nobody, or come too early
            return c.take_events('events/notification')
        event = wait_for(told)[0]
        assert event['method'] == 'notifications/resources/updated' and event['params']['uri'] == 'note://one'


def test_server_everything_of_the_legacy_era(npm, make_daemon):
    daemon = make_daemon({'everything': npm_server('@modelcontextprotocol/server-everything')})
    uri = 'demo://resource/static/document/features.md'
    with daemon.client() as a, daemon.client() as b:
        a.wait_state('everything', 'connected')
        for c in (a, b):
            c.subscribe('notifications')
        assert subscribe(a, uri, 'everything').wait().result == {}
        a.text('everything', 'toggle-subscriber-updates', {})
        event = a.wait_event('events/notification', lambda p: p['method'] == 'notifications/resources/updated')
        assert event['params']['uri'] == uri
        assert not [e for e in b.take_events('events/notification') if e['method'] == 'notifications/resources/updated']

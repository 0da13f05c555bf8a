"""Fair turns (house rule 5): whoever floods the daemon or a server delays the others by a few calls' time. Counted in calls
where that can be: the server's own counter says which call was served when."""

import json
import os
import threading

import pytest
from harness import PYTHON, fake, wait_for
from mcpd_client import Client

# What is told of the others: raised so far that one client may queue all of this.
WIDE = {'maxRequestsPerClient': 20000, 'maxRequestsPerServer': 40000}
# The default of fairWindow, and what is on its way besides: a call that is just being answered, one that is just asked.
FEW = 8 + 4


class Flood:
    """A client that sends a request many times over without waiting, and reads its answers, in a thread of its own."""

    def __init__(self, daemon, method, params, n=10000):
        self.client, self.done, self.failed = Client(daemon.socket), 0, 0
        self.client._line = self._line
        self.n, self.stopped = n, False
        self.data = b''.join(json.dumps({'jsonrpc': '2.0', 'id': i, 'method': method, 'params': params}).encode() + b'\n'
                             for i in range(n))
        self.threads = [threading.Thread(target=target, daemon=True) for target in (self._send, self._read)]

    def _send(self):
        try:
            self.client.send_bytes(self.data)
        except OSError:
            pass        # closed by the test

    def _line(self, line):
        self.done += 1
        self.failed += b'"error"' in line[:400]

    def _read(self):
        while not self.stopped and not self.client.eof:
            self.client.pump(0.05)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exc):
        self.stopped = True
        self.client.sock.shutdown(2)
        for t in self.threads:
            t.join()
        self.client.close()


def place(client, server, ms=0):
    """Calls the counting tool; which of all calls to it this one was."""
    return int(client.text(server, 'count', {'ms': ms}, timeoutMs=0).split()[0])


def count(ms, server='fake'):
    return {'server': server, 'name': 'count', 'arguments': {'ms': ms}, 'timeoutMs': 0}


def in_flight(client, at_least):
    wait_for(lambda: client.call('daemon/status')['inFlight'] >= at_least, what='the flood')


@pytest.mark.parametrize('n_flooding', [1, 3])
def test_ten_thousand_queued_calls_delay_another_clients_by_a_few(make_daemon, n_flooding):
    daemon = make_daemon({'fake': fake(serial=True)}, mcpd={'limits': WIDE})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        floods = [Flood(daemon, 'tools/call', count(5), 10000 // n_flooding) for _ in range(n_flooding)]
        for flood in floods:
            flood.__enter__()
        try:
            in_flight(c, 9000 // n_flooding * n_flooding)
            for _ in range(20):
                first = place(c, 'fake')
                assert place(c, 'fake') - first <= FEW
            assert sum(f.failed for f in floods) == 0
            assert c.call('daemon/status')['inFlight'] > 1000, 'there was no queue'
        finally:
            for flood in floods:
                flood.__exit__()
        # Ten thousand calls of clients that have gone are not left to be served, but for those that were sent.
        first = place(c, 'fake')
        assert place(c, 'fake') - first <= FEW
        assert place(c, 'fake') < 9000


def test_clients_that_flood_are_served_alike(make_daemon):
    daemon = make_daemon({'fake': fake(serial=True)}, mcpd={'limits': WIDE})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        with Flood(daemon, 'tools/call', count(1), 5000) as first:
            in_flight(c, 4000)
            with Flood(daemon, 'tools/call', count(1), 1000) as second:
                wait_for(lambda: second.done > 0)
                before = first.done, second.done
                wait_for(lambda: second.done >= before[1] + 300)
                ahead = first.done - before[0]
    assert 200 <= ahead <= 450, 'the first one had %d calls served in the time of 300 of the second' % ahead


def test_a_quick_servers_queue_is_no_matter(make_daemon):
    """What a server answers in two milliseconds may be with it at once, for the sake of speed."""
    daemon = make_daemon({'fake': fake(serial=True)}, mcpd={'limits': WIDE})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        with Flood(daemon, 'tools/call', count(0)):
            in_flight(c, 1000)
            places = [place(c, 'fake') for _ in range(10)]
        assert sorted(b - a for a, b in zip(places, places[1:]))[4] < 500


def test_given_up_calls_are_no_way_around_the_turns(make_daemon):
    """A call that timed out is still in the server's pipe: sending one after the other and giving each up is a flood too."""
    daemon = make_daemon({'fake': fake(serial=True)}, mcpd={'limits': WIDE})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        with Flood(daemon, 'tools/call', {**count(20), 'timeoutMs': 1}, 5000) as flood:
            wait_for(lambda: flood.done >= 2000)
            first = place(c, 'fake')
            assert place(c, 'fake') - first <= FEW


def test_calls_that_never_end_do_not_keep_out_the_clients_own(make_daemon):
    """More of them than the window holds: the others get there, and show that the server works on many."""
    daemon = make_daemon({'fake': fake()})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        hanging = [c.tool('fake', 'hang', timeoutMs=0) for _ in range(12)]
        assert c.text('fake', 'text', {'text': 'after'}) == 'after'
        # Known by now: the next twenty are there at once.
        hanging += [c.tool('fake', 'hang', timeoutMs=0) for _ in range(20)]
        report = c.tool('fake', 'report').wait().result['structuredContent']
        assert report['methods']['tools/call'] == len(hanging) + 2
        for call in hanging:
            c.notify('notifications/cancelled', {'requestId': call.id})
        for call in hanging:
            assert call.wait().error['code'] == -32005


@pytest.mark.parametrize('method, params', [('daemon/status', {}), ('tools/list', {}), ('no/such', {}),
                                            ('servers/list', {}), ('events/subscribe', {'topics': ['tools']})])
def test_a_flood_of_small_requests_leaves_the_daemon_to_others(make_daemon, method, params):
    """The daemon's own time is shared too: while one client's requests are read without end, another's answers come
    between a few hundreds of its answers, not behind all of them."""
    daemon = make_daemon({'fake': fake(tools=50)})
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        with Flood(daemon, method, params, 20000) as flood:
            wait_for(lambda: flood.done > 100)
            between = []
            while flood.done < flood.n - 2000 and len(between) < 20:
                before = flood.done
                c.call('daemon/hello')
                between.append(flood.done - before)
        # The flood's reader is a thread of this test, which sees its answers late or in one lump: the middle one counts.
        assert len(between) >= 5 and sorted(between)[len(between) // 2] < 1000, between

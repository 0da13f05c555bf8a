"""Clients in two languages, and mcpctl, at once on server-everything in all three sharing modes: a thousand calls that make
the server ask, report progress, log and tell of resource updates, with random timing. What comes back is the asker's own
or a refusal that says why; never another client's."""

import json
import random
import re
import subprocess
import threading

from harness import npm_server, program
from mcpd_client import TIMEOUT

EVERYTHING = '@modelcontextprotocol/server-everything'
PYTHON_CLIENTS, PYTHON_CALLS, C_CALLS, MCPCTL_CALLS = 4, 190, 200, 40
CAPABILITIES = {'sampling': {}, 'elicitation': {'form': {}}, 'roots': {}}
LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']


class Asker:
    """The same as programs/asker.c, over the bare socket."""

    def __init__(self, daemon, number):
        self.name, self.mine = 'python%d' % number, 'I-am-python%d-' % number
        self.random = random.Random(number)
        self.client = daemon.client(name=self.name, capabilities=CAPABILITIES)
        self.client.on_request = self.answer
        self.uri = 'demo://resource/dynamic/text/%d' % (number + 1)
        self.level = LEVELS[2 * number]
        self.counts, self.in_flight = {}, []
        self.failure = None

    def answer(self, client, question):
        client.respond(question, {
            'roots/list': {'roots': [{'uri': 'file:///' + self.mine, 'name': self.mine}]},
            'elicitation/create': {'action': 'accept', 'content': {'name': self.mine}},
            'sampling/createMessage': {'role': 'assistant', 'model': 'm', 'content': {'type': 'text', 'text': self.mine}},
        }[question['method']])

    def listen(self):
        for method, params in (('resources/subscribe', {'uri': self.uri}), ('logging/setLevel', {'level': self.level})):
            self.client.call('mcp/request', {'server': 'shared', 'method': method, 'params': params})
        self.client.subscribe('notifications', server='shared')

    def call(self):
        # Each turn at the exclusive one is a new process: few are enough.
        server, = self.random.choices(['shared', 'own', 'alone'], [57, 37, 6])
        tool, arguments = self.random.choice([('trigger-sampling-request', {'prompt': 'who'}),
                                              ('trigger-elicitation-request', {}),
                                              ('trigger-long-running-operation', {'duration': 0.05, 'steps': 2}),
                                              ('get-roots-list', {}) if server == 'own' else ('echo', {'message': self.mine})])
        token = '%s-%d' % (self.name, self.random.randrange(10**9))
        more = {'_meta': {'progressToken': token}} if tool == 'trigger-long-running-operation' else {}
        return server, tool, token, self.client.tool(server, tool, arguments, timeoutMs=60000, **more)

    def check(self, server, tool, token, pending):
        text = json.dumps(pending.wait().result)
        assert set(re.findall(r'I-am-\w+-', text)) <= {self.mine}, text
        told = self.client.take_events('notifications/progress')
        assert all(p['progressToken'].startswith(self.name + '-') for p in told), told
        # Releasing ends the process, and with it what is in flight there: so only when nothing of ours is.
        if server == 'alone' and not any(other[0] == 'alone' for other in self.in_flight):
            answer = self.client.request('servers/release', {'server': 'alone'}).wait()
            assert answer.error is None, answer.error
        if tool == 'trigger-long-running-operation':
            return
        if self.mine in text:
            self.count(server, 'answered')
        else:
            # A refusal, with the reason that the server was given; on servers of one's own there is none.
            assert server == 'shared' and 'isError' in text and re.search('per-client|exclusive', text), (server, tool, text)
            self.count(server, 'refused')

    def count(self, server, what):
        self.counts[server, what] = self.counts.get((server, what), 0) + 1

    def run(self):
        try:
            left, in_flight = PYTHON_CALLS, self.in_flight
            while left or in_flight:
                if left and len(in_flight) < 4 and self.random.random() < 0.7:
                    in_flight.append(self.call())
                    left -= 1
                elif in_flight:
                    self.check(*in_flight.pop(self.random.randrange(len(in_flight))))
            self.client.request('servers/release', {'server': 'alone'}).wait()
            self.client.wait_event('events/notification', lambda p: p['method'] == 'notifications/resources/updated')
        except BaseException as e:      # told by the main thread
            self.failure = (self.name, e)


def mcpctl_calls(daemon, failures):
    for i in range(MCPCTL_CALLS):
        text = 'I-am-mcpctl%d-' % i
        done = daemon.mcpctl('call', 'shared' if i % 4 else 'own', 'echo', 'message=' + text)
        if done.returncode or done.stdout != 'Echo: %s\n' % text:
            failures.append(done)
    # It declared nothing: it is not asked, and the tool says so.
    done = daemon.mcpctl('--json', 'call', 'own', 'trigger-sampling-request', 'prompt=who')
    if 'I-am-' in done.stdout or done.returncode == 0:
        failures.append(done)


def test_a_thousand_calls_never_one_to_the_wrong_client(npm, make_daemon):
    d = make_daemon({'shared': npm_server(EVERYTHING, timeout=60000),
                     'own': npm_server(EVERYTHING, sharing='per-client', timeout=60000),
                     'alone': npm_server(EVERYTHING, sharing='exclusive', timeout=60000, stopGrace=50)})
    askers = [Asker(d, n) for n in range(PYTHON_CLIENTS)]
    askers[0].client.wait_state('shared', 'connected')
    for asker in askers:
        asker.listen()
    askers[0].client.text('shared', 'toggle-subscriber-updates')
    askers[0].client.text('shared', 'toggle-simulated-logging')
    failures = []
    threads = [threading.Thread(target=a.run) for a in askers] + [threading.Thread(target=mcpctl_calls, args=(d, failures))]
    in_c = subprocess.Popen([program('asker'), 'c', '1', str(C_CALLS), 'shared', 'own'], env=d.environ,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    out, err = in_c.communicate(timeout=TIMEOUT)
    assert in_c.returncode == 0, err
    assert not failures
    assert [a.failure for a in askers if a.failure] == []
    seen = json.loads(out)
    assert seen['answered'] > 0 and seen['progress'] > 0
    for asker in askers:
        assert asker.counts.get(('own', 'answered'), 0) > 0 and ('own', 'refused') not in asker.counts
        assert ('alone', 'refused') not in asker.counts
        events = asker.client.take_events('events/notification')
        uris = {e['params']['uri'] for e in events if e['method'] == 'notifications/resources/updated'}
        assert uris <= {asker.uri}, (asker.name, uris)
        levels = {e['params']['level'] for e in events if e['method'] == 'notifications/message'}
        assert all(LEVELS.index(level) >= LEVELS.index(asker.level) for level in levels), (asker.level, levels)
    assert sum(a.counts.get(('alone', 'answered'), 0) for a in askers) > 0
    # What was refused on the shared server is advice to whoever looks at it.
    if sum(a.counts.get(('shared', 'refused'), 0) for a in askers):
        assert 'per-client' in json.dumps(askers[0].client.server('shared'))

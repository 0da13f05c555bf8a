"""Twenty agents behind bridges on five servers of both eras, while servers, bridges and the daemon are killed at random: no wrong answer
(each carries the token that was asked for), none lost without an error or the end of the connection, and nothing left at the end.

MCPD_CHAOS_SECONDS: how long (default 20; 10 with sanitizers). MCPD_CHAOS_SEED: which chances; a failure names it.
"""

import json
import os
import random
import signal
import threading
import time
from collections import Counter

import harness
from bridge_client import Agent, bridges_of
from harness import fake, wait_for
from mcpd_client import Closed
from servers.fake_http import FakeHttp

AGENTS = 20
SECONDS = float(os.environ.get('MCPD_CHAOS_SECONDS') or (10 if 'asan' in harness.BUILD.name else 20))
SEED = int(os.environ.get('MCPD_CHAOS_SEED') or random.randrange(10**6))
LOST = 40       # seconds after which a request is lost; the servers' timeout is 30
# Errors that a call may end with when something was killed: the daemon's own, by their code in data.mcpd.
EXPECTED = {-32002, -32003, -32008}

# server -> (tool, the member of its arguments that it gives back)
ECHOES = {'old': ('text', 'text'), 'new': ('text', 'text'), 'own': ('text', 'text'), 'web': ('echo', 'text'), 'real': ('echo', 'text')}


def servers(web):
    quick = {'stopGrace': 100}
    reference = harness.HERE.parent / 'npm' / 'reference_server.mjs'
    return {'old': fake(server=quick), 'new': fake(era='modern', server=quick),
            'own': fake(server={**quick, 'sharing': 'per-client'}), 'web': web.definition(),
            'real': {'command': harness.node(), 'args': [str(reference), 'both'], **quick}}


class Life:
    """One agent: it calls and calls, starts its bridge again whenever that has ended, and keeps account of every call."""

    def __init__(self, daemon, number, stop):
        self.daemon, self.number, self.stop = daemon, number, stop
        self.name = 'agent%d' % number
        self.random = random.Random('%d-%d' % (SEED, number))
        self.server = list(ECHOES)[number % len(ECHOES)] if number % 4 < 2 else None
        self.agent, self.count, self.in_flight = None, 0, {}
        self.outcomes, self.failure = Counter(), None
        self.last_right = 0
        self.thread = threading.Thread(target=self.live, name=self.name)
        self.thread.start()

    def live(self):
        try:
            while not self.stop.is_set():
                self.connection()
        except BaseException as e:      # told by the main thread
            self.failure = e

    def connection(self):
        modern = self.random.random() < 0.5
        self.agent = agent = Agent(self.daemon, self.server, modern=modern, name=self.name)
        agent.may_cross = True
        try:
            if not modern:
                agent.initialize()
            while not (self.stop.is_set() and not self.in_flight):
                if len(self.in_flight) < 4 and not self.stop.is_set() and self.random.random() < 0.8:
                    self.ask()
                agent.pump(self.random.choice([0, 0.01, 0.05]))
                self.collect()
                if agent.eof:
                    raise ConnectionError
            agent.close()
            self.outcomes['connections'] += 1
        except (OSError, Closed):
            # Killed, or its daemon was: whatever was in flight has its end with that. What came before counts.
            self.collect()
            self.outcomes['ended with the bridge'] += len(self.in_flight)
            self.outcomes['bridges lost'] += 1
            self.in_flight = {}
            agent.kill()

    def ask(self):
        server = self.server or self.random.choice(list(ECHOES))
        tool, member = ECHOES[server]
        self.count += 1
        token = '%s says %d to %s' % (self.name, self.count, server)
        name = tool if self.server else '%s__%s' % (server, tool)
        # Ids and tokens as the other agents have them, too.
        pending = self.agent.tool(name, {member: token}, id=self.count, token=self.count)
        if self.random.random() < 0.05:
            self.agent.cancel(pending)
            self.outcomes['cancelled'] += 1
        else:
            self.in_flight[self.count] = (token, pending)

    def collect(self):
        for key, (token, pending) in list(self.in_flight.items()):
            if pending.done:
                del self.in_flight[key]
                self.judge(token, pending)
            elif time.monotonic() > pending.sent_at + LOST:
                raise AssertionError('%r has no answer: %s' % (token, pending.id))
        assert not self.agent.questions, self.agent.questions
        assert not self.agent.orphans, self.agent.orphans

    def judge(self, token, pending):
        if pending.error is None:
            assert token in json.dumps(pending.result, ensure_ascii=False), 'asked %r, got %s' % (token, pending.raw[:400])
            self.outcomes['right'] += 1
            self.last_right = time.monotonic()
            return
        error = pending.error
        code = ((error.get('data') or {}).get('mcpd') or {}).get('code')
        assert error['code'] == -32603 and code in EXPECTED, 'asked %r, got %s' % (token, pending.raw[:400])
        self.outcomes[code] += 1


def kill_one(rng, processes):
    victims = list(processes)
    if not victims:
        return 0
    try:
        os.kill(rng.choice(victims).pid, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def restart(daemon):
    """SIGKILL of the daemon, and another one in its place."""
    daemon.proc.kill()
    daemon.proc.wait()
    daemon.notify.close()
    daemon.stderr.thread.join(5)
    daemon.stderr.file.close()
    daemon.proc = None
    daemon.start()


def test_chaos(npm, make_daemon):
    rng, kills = random.Random(SEED), Counter()
    print('MCPD_CHAOS_SEED=%d' % SEED)
    with FakeHttp() as web:
        daemon = make_daemon(servers(web))
        with daemon.client() as control:
            for name in ('old', 'new', 'web', 'real'):
                control.wait_state(name, 'connected')
        stop = threading.Event()
        lives = [Life(daemon, n, stop) for n in range(AGENTS)]
        started = time.monotonic()
        restarts = [started + SECONDS * part for part in (0.35, 0.7)]
        try:
            while time.monotonic() < started + SECONDS and not any(life.failure for life in lives):
                time.sleep(rng.uniform(0.05, 0.25))
                if restarts and time.monotonic() > restarts[0]:
                    restarts.pop(0)
                    restart(daemon)
                    kills['daemon'] += 1
                elif rng.random() < 0.5:
                    kills['server'] += kill_one(rng, daemon.servers('fake.py') + daemon.servers('reference_server.mjs'))
                else:
                    kills['bridge'] += kill_one(rng, bridges_of(daemon))
            calm = time.monotonic()
            # Once nothing is killed any more, all of them are served again.
            wait_for(lambda: any(life.failure for life in lives) or all(life.last_right > calm for life in lives),
                     what='an answer for everybody after the last kill')
        finally:
            stop.set()
            for life in lives:
                life.thread.join(120)
        for life in lives:
            if life.failure:
                raise AssertionError('%s (MCPD_CHAOS_SEED=%d), after %s' % (life.name, SEED, dict(life.outcomes))) from life.failure
            assert not life.thread.is_alive(), '%s does not end (MCPD_CHAOS_SEED=%d)' % (life.name, SEED)
        outcomes = sum((life.outcomes for life in lives), Counter())
        print(dict(kills), dict(outcomes))
        assert kills['server'] and kills['bridge'] and kills['daemon'] == 2
        assert all(life.outcomes['right'] >= 5 for life in lives), [dict(life.outcomes) for life in lives]
        assert bridges_of(daemon) == []
        with daemon.client() as control:
            wait_for(lambda: control.call('daemon/status')['inFlight'] == 0)
            status = control.call('daemon/status')
            assert status['clients'] == 1
            assert not control.server('own').get('instances')
        assert daemon.zombies() == []

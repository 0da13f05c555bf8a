"""Official clients as they are, over their own stdio transport, to mcpd-bridge: what they get is what they get from the same server
directly, in the same run - tools, prompts, resources, templates, completion, progress, cancellation, sampling, elicitation, roots,
subscriptions, list changes, logging, tasks.

Clients: SDK 1.x, SDK 2.x in its legacy and in its modern era. Servers: the everything server (legacy) and the reference server in its
modern era. The bridge attached to one server, and to all. Where both ends are of one era, what the server says itself has to be the
same byte for byte; where they are not, a direct connection is impossible, and what the client observes has to be the same as from the
server that its own era has: the reference server speaks both, and a modern client of the everything server is held against a legacy one.

The clients and what they do are in tests/npm/client_*.mjs and client_plans.py. Every wire is recorded (programs/tap.py).
"""

import json
import os
import subprocess
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import pytest

import client_plans as plans
import harness
from client_plans import Run
from wire import Transcript

NPM = harness.HERE.parent / 'npm'
TAP = harness.HERE / 'programs' / 'tap.py'
SERVERS = {'everything': plans.EVERYTHING, 'reference': plans.REFERENCE}

Client = namedtuple('Client', 'driver era')
CLIENTS = {'sdk1': Client('client_sdk1.mjs', 'legacy'), 'sdk2-legacy': Client('client_sdk2.mjs', 'legacy'),
           'sdk2-modern': Client('client_sdk2.mjs', 'modern')}
# The era of each server behind mcpd, and the client whose direct connection to it is the yardstick for each client.
ERA = {'everything': 'legacy', 'reference': 'modern'}
YARDSTICK = {(client, server): client for client in CLIENTS for server in SERVERS}
YARDSTICK['sdk2-modern', 'everything'] = 'sdk2-legacy'


def reference(era):
    return {'command': harness.node(), 'args': [str(NPM / 'reference_server.mjs'), era]}


def everything():
    return harness.npm_server('@modelcontextprotocol/server-everything')


def steps_for(client, server, era):
    steps = list(SERVERS[server])
    if client == 'sdk1' and server == 'everything':
        steps += plans.TASKS            # SDK 2.x has no tasks
    return steps + ([{'op': 'ping'}] if era == 'legacy' else [])


class Bench:
    """Runs the clients, several at a time; what they do with one daemon one after the other, as its servers are shared."""

    def __init__(self, folder):
        self.folder = folder
        self.daemons = {}
        self.pool = ThreadPoolExecutor(4)
        self.directly = {}
        self.bridged = {}
        for client, (_, era) in CLIENTS.items():
            self.daemons[client] = harness.Daemon(
                {'everything': {**everything(), 'roots': plans.ROOTS}, 'reference': reference('modern')}, env=harness.NODE_CACHE,
                start=False)
            self.bridged[client] = self.pool.submit(self.through_bridge, client)
        for client, server in sorted(set((YARDSTICK[key], key[1]) for key in YARDSTICK)):
            self.directly[client, server] = self.pool.submit(self.direct, client, server)

    def run(self, client, command, env, steps, name, era=None):
        driver, era = CLIENTS[client].driver, era or CLIENTS[client].era
        tap = self.folder / (name + '.wire')
        order = {'command': harness.PYTHON, 'args': [str(TAP), str(tap), *command], 'env': env, 'era': era,
                 'capabilities': plans.CAPABILITIES, 'roots': plans.ROOTS, 'steps': steps}
        done = subprocess.run([harness.node(), str(NPM / driver)], env={**os.environ, **harness.NODE_CACHE}, input=json.dumps(order),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding='utf-8', timeout=200)
        data = tap.read_bytes() if tap.exists() else b''
        assert done.returncode == 0, '%s\n%s\n%s' % (done.stderr[-4000:], done.stdout[-2000:], data[-4000:].decode(errors='replace'))
        return [json.loads(line) for line in done.stdout.split('\n') if line], Transcript(data)

    def direct(self, client, server):
        era = CLIENTS[client].era
        definition = reference(era) if server == 'reference' else everything()
        command = [definition['command'], *definition['args']]
        return Run(*self.run(client, command, {}, steps_for(client, server, era), 'direct-%s-%s' % (client, server)))

    def through_bridge(self, client):
        """{(server, mode): Run} for one client and its daemon: attached to each server, then to all of them."""
        daemon, era, runs = self.daemons[client], CLIENTS[client].era, {}
        daemon.start()
        bridge = harness.program('mcpd-bridge')
        with daemon.client() as control:
            for server in SERVERS:
                steps = steps_for(client, server, era)
                runs[server, 'single'] = Run(*self.run(client, [bridge, server], daemon.environ, steps, '%s-%s' % (client, server)))
            for server in SERVERS:
                # Servers remember what was toggled and registered in them.
                control.call('servers/reconnect', {'server': server})
                steps = plans.prefixed(steps_for(client, server, era), server)
                runs[server, 'aggregate'] = Run(*self.run(client, [bridge], daemon.environ, steps, '%s-all-%s' % (client, server)),
                                                prefix=server + '__')
        if client == 'sdk2-modern':
            for mode, arguments in [(server, [server]) for server in SERVERS] + [('all', [])]:
                runs['auto', mode] = Run(*self.run(client, [bridge, *arguments], daemon.environ, [{'op': 'info'}, *plans.LISTS],
                                                   'auto-' + mode, era='auto'))
        return runs

    def close(self, failed):
        self.pool.shutdown(cancel_futures=True)
        for daemon in self.daemons.values():
            daemon.finish(failed=failed)


@pytest.fixture(scope='module')
def bench(npm, tmp_path_factory, request):
    failed = request.session.testsfailed
    bench = Bench(tmp_path_factory.mktemp('clients'))
    yield bench
    bench.close(failed=request.session.testsfailed > failed)


COMBINATIONS = [(c, s, m) for c in CLIENTS for s in SERVERS for m in ('single', 'aggregate')]


@pytest.fixture
def pair(bench, request):
    """(the run through the bridge, the yardstick's run) of the parameters of the test."""
    client, server, mode = (request.node.callspec.params[name] for name in ('client', 'server', 'mode'))
    direct = bench.directly[YARDSTICK[client, server], server].result()
    return bench.bridged[client].result()[server, mode], direct


def same_era(client, server):
    return CLIENTS[client].era == ERA[server]


combinations = pytest.mark.parametrize('client, server, mode', COMBINATIONS)


@combinations
def test_every_step(pair, client, server, mode):
    """Each step ends as it does directly, and asks the client the same questions."""
    bridged, direct = pair
    different = [(got, wanted) for got, wanted in zip(bridged.steps(), direct.steps()) if got != wanted]
    assert not different, '\n\n'.join('through the bridge %s\ndirectly %s' % pair for pair in different)[:20000]
    assert len(bridged.steps()) == len(direct.steps())


@combinations
def test_introduction(pair, client, server, mode):
    """Who the server says it is, what it can, and its instructions."""
    bridged, direct = (run.one('info')['result'] for run in pair)
    assert bridged['era'] == CLIENTS[client].era
    if mode == 'single':
        assert bridged['version'] == direct['version'] and bridged['instructions'] == direct['instructions']
        # mcpd adds nothing, and takes nothing away but what the client's era has no words for.
        wanted = {k: v for k, v in direct['capabilities'].items() if k != 'tasks' or same_era(client, server)}
        assert bridged['capabilities'] == wanted
    else:
        assert bridged['version']['name'] == 'mcpd' and direct['instructions'] in bridged['instructions']
        missing = set(direct['capabilities']) - set(bridged['capabilities'])
        assert not missing - {'tasks'} and (client == 'sdk2-modern' or not missing), missing


@pytest.mark.parametrize('what', [*SERVERS, 'all'])
def test_a_client_that_looks_for_the_newest_finds_it(bench, what):
    """Whatever the server behind: mcpd speaks the modern era to who can."""
    run = bench.bridged['sdk2-modern'].result()['auto', what]
    assert run.one('info')['result']['era'] == 'modern'
    assert run.one('list')['result']['tools'] and not run.transcript.broken_laws() and not run.one('end')['unexpected']


@combinations
def test_lists(pair, client, server, mode):
    """Every tool, prompt, resource and template, with all that the server says of it, before and after the lists have changed."""
    bridged, direct = pair
    for what in plans.LIST_OF:
        for nth in range(2 if server == 'reference' else 1):
            got, wanted = bridged.list(what, nth), direct.list(what, nth)
            for item in [] if same_era(client, server) else [*got.values(), *wanted.values()]:
                item.pop('execution', None)         # SDK 2.x shows it in one of its eras only
            assert got == wanted


@combinations
def test_notifications(pair, client, server, mode):
    """Log messages in their order, list changes and resource updates."""
    bridged, direct = pair
    awaited = {step['method'] for step in SERVERS[server] if step['op'] == 'await'}
    # What a legacy server says of a subscription belongs to no request of a modern client.
    without = None if same_era(client, server) else 'Received '
    assert bridged.notes(awaited, without) == direct.notes(awaited, without)


@combinations
def test_progress(pair, client, server, mode):
    """All that the server reports, in its order, with the client's own token."""
    bridged, direct = pair
    got, wanted = bridged.transcript.progress(bridged.short), direct.transcript.progress(direct.short)
    abandoned = 'trigger-long-running-operation'
    if abandoned in wanted:         # how much of the one that was given up still came is chance; the other call comes first
        got[abandoned], wanted[abandoned] = got[abandoned][:4], wanted[abandoned][:4]
    assert got == wanted and wanted


@pytest.mark.parametrize('client, server, mode', [c for c in COMBINATIONS if same_era(*c[:2])])
def test_byte_for_byte(pair, client, server, mode):
    """What the server says itself arrives as it was sent."""
    bridged, direct = pair
    got = dict_of_lists(bridged.transcript.raw_results(bridged.short))
    wanted = dict_of_lists(direct.transcript.raw_results(direct.short))
    assert got.keys() == wanted.keys()
    for key in wanted:
        others_words = mode == 'aggregate' and key[1] in plans.NOWHERE
        if not others_words and key[1] not in plans.CHANGING and not any(b'created at' in raw for raw in wanted[key]):
            assert got[key] == wanted[key], key


@pytest.mark.parametrize('client, server', [(c, s) for c in CLIENTS for s in SERVERS if same_era(c, s)])
def test_lists_byte_for_byte(bench, client, server):
    """Each item of each list arrives as the server wrote it."""
    bridged, direct = bench.bridged[client].result()[server, 'single'], bench.directly[client, server].result()
    assert bridged.transcript.raw_items() == direct.transcript.raw_items()


def dict_of_lists(pairs):
    found = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


@combinations
def test_laws_of_the_wire(pair, client, server, mode):
    """One answer to each request and none to a cancelled one, progress only for what is in flight (R26), no complaint of the SDK's."""
    bridged, _ = pair
    assert bridged.transcript.broken_laws() == []
    complaints = [c for c in bridged.one('end')['unexpected'] if 'progress notification for an unknown token' not in c]
    assert complaints == []

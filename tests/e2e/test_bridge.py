"""mcpd-bridge with the daemon itself: what an agent sees, also across restarts of the daemon. Faults to order are in test_bridge_faults.py."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from harness import BUILD, StdioServer, fake, program, time_server, wait_for
from mcp_session import META, MODERN
from mcpd_client import TIMEOUT


class Agent(StdioServer):
    """A client that has started the bridge as its server."""

    def __init__(self, d, server=None, *args, env=None):
        super().__init__({'command': program('mcpd-bridge'), 'args': [*args, *([server] if server else [])]},
                         env={'MCPD_SOCKET': str(d.socket), 'MCPD_PROGRAM': '/no/such/mcpd', **(env or {})})

    def tool(self, name, arguments=None, id=None):
        answer = self.request('tools/call', {'name': name, 'arguments': arguments or {}}, id=id)
        return answer['error'] if 'error' in answer else answer['result']['content'][0]['text']

    def names(self, method='tools/list', member='tools'):
        return [item['name'] for item in self.request(method)['result'][member]]

    def until(self, method):
        """The next notification of that method, past others and answers."""
        while True:
            message = self.read()
            assert message is not None, self.stderr.text
            if message.get('method') == method:
                return message


@pytest.fixture
def agent():
    made = []

    def start(*args, **kwargs):
        made.append(Agent(*args, **kwargs))
        return made[-1]

    yield start
    for a in made:
        if not a.proc.stdout.closed:
            a.close()


def modern(params=None):
    return {**(params or {}), '_meta': {META + 'protocolVersion': MODERN, META + 'clientCapabilities': {}}}


# -- an ordinary server

def test_one_server_as_it_is(make_daemon, agent, run_server):
    definition = fake(name='the fake', version='7', tools=3, prompts=2, instructions='be nice')
    d = make_daemon({'f': definition})
    a = agent(d, 'f')
    answer, direct = a.initialize(), run_server(definition)
    result = direct.initialize()['result']
    for member in ['protocolVersion', 'serverInfo', 'instructions']:
        assert answer['result'][member] == result[member]
    assert a.request('tools/list')['result'] == direct.request('tools/list')['result']
    assert a.tool('text', {'text': 'hello'}) == 'hello'
    assert a.close() == 0
    assert a.stderr.text == ''


def test_all_servers_together(make_daemon, agent):
    d = make_daemon({'f': fake(tools=1), 'time': time_server()})
    with d.client() as c:
        c.wait_state('f', 'connected')
        c.wait_state('time', 'connected')
    a = agent(d)
    a.initialize()
    assert set(a.names()) == {'f__tool0', 'time__get_current_time', 'time__convert_time'}
    assert 'UTC' in a.tool('time__get_current_time', {'timezone': 'UTC'})


def test_R1_ten_agents_share_one_server(make_daemon, agent):
    d = make_daemon({'f': fake()})
    agents = [agent(d, 'f') for _ in range(10)]
    for a in agents:
        a.initialize()
        assert a.tool('text', {'text': 'x'}) == 'x'
    assert len(d.servers('fake.py')) == 1


def test_a_modern_client(make_daemon, agent):
    d = make_daemon({'f': fake(tools=2)})
    a = agent(d, 'f')
    assert MODERN in a.request('server/discover', modern())['result']['supportedVersions']
    assert a.request('tools/call', modern({'name': 'text', 'arguments': {'text': 'm'}}))['result']['content'][0]['text'] == 'm'


def test_exit_statuses(make_daemon, agent):
    d = make_daemon({'f': fake(), 'off': fake(server={'disabled': True})})
    a = agent(d, 'g')
    assert a.proc.wait(TIMEOUT) == 3
    a.stderr.wait('no server "g"; it has: f, off')
    a = agent(d, 'off')
    assert a.proc.wait(TIMEOUT) == 5
    a.stderr.wait('"off" is switched off')
    assert agent(d, 'f').close() == 0
    d.stop()
    a = agent(d, 'f', '--no-start')
    assert a.proc.wait(TIMEOUT) == 4
    a.stderr.wait('no daemon listens on .*mcpd.sock')


def test_the_last_answers_come_after_the_end_of_input(make_daemon, agent):
    d = make_daemon({'f': fake()})
    a = agent(d, 'f')
    a.initialize()
    a.send({'jsonrpc': '2.0', 'id': 'last', 'method': 'tools/call',
            'params': {'name': 'sleep', 'arguments': {'ms': 300, 'text': 'slept'}}})
    a.proc.stdin.close()
    assert a.answer('last')['result']['content'][0]['text'] == 'slept'
    assert a.close() == 0


def test_an_open_subscription_does_not_hold_the_end_up(make_daemon, agent):
    d = make_daemon({'f': fake()})
    a = agent(d, 'f')
    a.send({'jsonrpc': '2.0', 'id': 1, 'method': 'subscriptions/listen',
            'params': modern({'notifications': {'toolsListChanged': True}})})
    a.until('notifications/subscriptions/acknowledged')
    assert a.close() == 0


def test_R16_R19_big_payloads_byte_for_byte(make_daemon, agent):
    d = make_daemon({'f': fake(server={'timeout': 120000})})
    a = agent(d, 'f')
    a.initialize()
    # As the official clients write it: the id at the end.
    arguments = '{"n":[12345678901234567890,1.0,-0,1e400],"d":1,"d":2,"s":"%s"}' % ('\\ud800x' * (2 << 20))
    line = '{"method":"tools/call","params":{"name":"echo","arguments":%s},"jsonrpc":"2.0","id":"big"}\n' % arguments
    writer = threading.Thread(target=a.send_bytes, args=(line.encode(),))
    writer.start()
    answer = a.read_line(TIMEOUT).decode()
    writer.join()
    assert '"structuredContent":' + arguments in answer.replace('"structuredContent": ', '"structuredContent":')


# -- the restart of the daemon

@pytest.mark.parametrize('end', ['stop', 'kill'])
@pytest.mark.parametrize('server', ['f', None])
def test_a_restart_of_the_daemon(make_daemon, agent, end, server):
    d = make_daemon({'f': fake(tools=1)})
    with d.client() as c:
        c.wait_state('f', 'connected')
    a = agent(d, server, '--no-start')
    prefix = '' if server else 'f__'
    a.initialize()
    assert a.names() == [prefix + 'tool0']
    a.send({'jsonrpc': '2.0', 'id': 'hangs', 'method': 'tools/call', 'params': {'name': prefix + 'hang', 'arguments': {}}})
    with d.client() as c:
        wait_for(lambda: c.call('daemon/status')['inFlight'] == 1)
    started = time.monotonic()
    getattr(d, end)()
    error = a.answer('hangs')['error']
    assert error['code'] == -32603 and error['message'] == 'Transport closed'
    assert error['data']['mcpd']['code'] == -32003 and error['data']['mcpd']['maybeExecuted'] is True
    if end == 'kill':
        assert time.monotonic() - started < 30
    # The next one has other tools, and the agent hears that it should look.
    d.write_config({'f': fake(tools=2)})
    d.start()
    a.until('notifications/tools/list_changed')
    with d.client() as c:
        c.wait_state('f', 'connected')
    assert a.names() == [prefix + 'tool0', prefix + 'tool1']
    assert a.tool(prefix + 'text', {'text': 'still here'}) == 'still here'
    assert a.close() == 0


def test_a_request_during_the_restart_waits(make_daemon, agent):
    d = make_daemon({'f': fake()})
    a = agent(d, 'f', '--no-start')
    a.initialize()
    d.kill()
    a.stderr.wait('no daemon listens')
    a.send({'jsonrpc': '2.0', 'id': 'waits', 'method': 'tools/call', 'params': {'name': 'text', 'arguments': {'text': 'w'}}})
    d.start()
    assert a.answer('waits')['result']['content'][0]['text'] == 'w'


def test_resource_subscriptions_and_the_level_outlive_the_daemon(make_daemon, agent):
    d = make_daemon({'f': fake(resources=2, capabilities={'tools': {}, 'logging': {}, 'resources': {'subscribe': True,
                                                                                                 'listChanged': True}})})
    a = agent(d, 'f', '--no-start')
    a.initialize()
    uri = a.request('resources/list')['result']['resources'][0]['uri']
    assert a.request('resources/subscribe', {'uri': uri})['result'] == {}
    assert a.request('logging/setLevel', {'level': 'error'})['result'] == {}
    d.kill()
    d.start()
    a.until('notifications/resources/list_changed')

    def told():
        # The subscription is made anew behind the handshake, which nobody tells: ask until it is there.
        a.tool('updated', {'uri': uri})
        return any(m.get('method') == 'notifications/resources/updated' and m['params']['uri'] == uri for m in a.skipped)
    wait_for(told, what='a resource update')
    a.skipped.clear()
    for level in ['info', 'error']:
        a.tool('notify', {'method': 'notifications/message', 'params': {'level': level, 'data': level}})
    assert [m['params']['data'] for m in a.skipped if m.get('method') == 'notifications/message'] == ['error']


@pytest.mark.parametrize('end', ['stop', 'kill'])
def test_a_modern_clients_subscription_outlives_the_daemon(make_daemon, agent, end):
    d = make_daemon({'f': fake(tools=1)})
    with d.client() as c:
        c.wait_state('f', 'connected')
    a = agent(d, 'f', '--no-start')
    a.request('tools/list', modern())
    a.send({'jsonrpc': '2.0', 'id': 'stream', 'method': 'subscriptions/listen',
            'params': modern({'notifications': {'toolsListChanged': True}})})
    tag = {META + 'subscriptionId': 'stream'}
    assert a.until('notifications/subscriptions/acknowledged')['params']['_meta'] == tag
    getattr(d, end)()
    d.start()
    changed = a.read()
    assert changed['method'] == 'notifications/tools/list_changed' and changed['params']['_meta'] == tag
    # And it is open: what changes from here on is told, too.
    assert a.request('tools/list', modern())['result']['tools']
    a.request('tools/call', modern({'name': 'setTools', 'arguments': {'tools': 3}}))
    changed = next((m for m in a.skipped if 'method' in m), None) or a.read()
    assert changed['method'] == 'notifications/tools/list_changed' and changed['params']['_meta'] == tag


# -- the daemon is started

def starting(d):
    return {**d.environ, 'MCPD_PROGRAM': program('mcpd')}


def test_the_daemon_is_started_and_started_again(make_daemon, agent):
    d = make_daemon({'f': fake(tools=1)}, start=False)
    a = agent(d, 'f', env=starting(d))
    a.initialize()
    assert a.names() == ['tool0']
    first = daemons(d)
    assert len(first) == 1
    d.mcpctl('shutdown')
    a.until('notifications/tools/list_changed')
    assert a.tool('text', {'text': 'again'}) == 'again'
    wait_for(lambda: len(daemons(d)) == 1 and daemons(d) != first)
    assert a.close() == 0
    assert d.mcpctl('shutdown').returncode == 0
    wait_for(lambda: not d.processes())


def daemons(d):
    return [p.pid for p in d.processes() if p.command[:2] == ['mcpd', '--background']]


def test_systemd_starts_it_and_starts_it_again(user_manager, agent):
    m = user_manager({'f': fake(tools=1)})
    m.install()
    m.systemctl('start', 'mcpd.socket')
    a = agent(m, 'f', '--no-start')
    a.initialize()
    assert a.names() == ['tool0']
    first = int(m.show('MainPID'))
    for end in [lambda: os.kill(first, signal.SIGKILL), lambda: m.systemctl('stop', 'mcpd.service')]:
        end()
        a.until('notifications/tools/list_changed')
        assert a.tool('text', {'text': 'again'}) == 'again'
    assert int(m.show('MainPID')) not in (0, first)
    assert a.close() == 0


def test_a_daemon_that_cannot_be_started_again(make_daemon, agent):
    d = make_daemon({'f': fake()})
    a = agent(d, 'f', '--wait', '1', env={'MCPD_PROGRAM': '/bin/false'})
    a.initialize()
    d.kill()
    assert a.proc.wait(TIMEOUT) == 6
    a.stderr.wait('does not listen')


def test_R11_agents_that_lose_their_daemon_at_once_start_one(make_daemon, agent):
    d = make_daemon({'f': fake()}, start=False)
    agents = [agent(d, 'f', env=starting(d)) for _ in range(8)]
    for a in agents:
        a.initialize()
    assert d.mcpctl('shutdown').returncode == 0
    for a in agents:
        a.until('notifications/tools/list_changed')
        assert a.tool('text', {'text': 'x'}) == 'x'
    wait_for(lambda: len(daemons(d)) == 1)
    for a in agents:
        assert a.close() == 0
    assert d.mcpctl('shutdown').returncode == 0
    wait_for(lambda: not d.processes())


# -- memory

def private_bytes(pid):
    rollup = Path('/proc/%d/smaps_rollup' % pid).read_text()
    return sum(int(line.split()[1]) << 10 for line in rollup.splitlines()
               if line.split(':')[0] in ('Private_Clean', 'Private_Dirty'))


@pytest.mark.skipif('asan' in BUILD.name, reason='the sanitizers need more')
def test_private_memory_is_below_one_mebibyte(make_daemon, agent):
    """Also after 20 MiB have passed, with hundreds of requests in flight."""
    d = make_daemon({'f': fake(server={'timeout': 120000})})
    a = agent(d, 'f')
    a.initialize()
    idle = private_bytes(a.proc.pid)
    assert len(a.tool('bytes', {'size': 20 << 20, 'char': 'x'})) == 20 << 20
    for number in range(800):
        a.send({'jsonrpc': '2.0', 'id': 'in-flight-%d' % number, 'method': 'tools/call',
                'params': {'name': 'hang', 'arguments': {}}})
    with d.client() as c:
        wait_for(lambda: c.call('daemon/status')['inFlight'] == 800)
    busy = private_bytes(a.proc.pid)
    print('private memory: %d KiB idle, %d KiB after' % (idle >> 10, busy >> 10))
    assert idle < 1 << 20 and busy < 1 << 20
    a.proc.terminate()
    a.proc.wait(TIMEOUT)

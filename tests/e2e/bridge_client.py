"""An agent: an MCP client over the stdio of mcpd-bridge, with all that mcpd_client.Client watches for.

    with Agent(daemon, 'fake') as agent:                       # or Agent(daemon): all servers
        agent.initialize(capabilities={'roots': {}})           # not for modern=True, which speaks 2026-07-28
        agent.call('tools/call', {'name': 'echo'}); agent.text('echo', {..})
        pending = agent.tool('sleep', {'ms': 9}, id=1, token='t'); agent.cancel(pending)
        agent.question('roots/list') ... agent.respond(question, {..})

Leaving the block ends the bridge's input, and checks that it ends with status 0 and without a sanitizer's word. kill() is an agent that
dies with its bridge.
"""

import json
import socket
import subprocess

from harness import Output, program
from mcpd_client import TIMEOUT, Client

MODERN = '2026-07-28'
META = 'io.modelcontextprotocol/'


class Agent(Client):
    def __init__(self, daemon, server=None, *, modern=False, capabilities=None, name='agent', args=(), env=None):
        self.modern, self.capabilities, self.name = modern, capabilities or {}, name
        ours, theirs = socket.socketpair()
        with theirs:
            self.proc = subprocess.Popen([program('mcpd-bridge'), *args, *([server] if server else [])], stdin=theirs, stdout=theirs,
                                         stderr=subprocess.PIPE, env={**daemon.environ, **(env or {})}, start_new_session=True)
        self.stderr = Output(self.proc.stderr)
        super().__init__(None, sock=ours)
        self.attached = True
        self.given_up = set()       # ids, as JSON text, that are not to be answered any more
        self.may_cross = False      # True: an answer may be on its way while its request is given up
        self.strays = None          # a list: there answers to nothing go, for tests that provoke them

    # -- life

    def __exit__(self, *exc):
        if exc[0] is not None:
            self.kill()
        else:
            self.close()

    def close(self, *statuses):
        """Ends its input, reads what is still due, and waits for its end, with one of the statuses (default: 0)."""
        if self.proc.returncode is not None:
            return
        try:
            self.shut_writing()
        except OSError:
            pass
        try:
            self.wait_eof()
            self.proc.wait(TIMEOUT)
        finally:
            self._reap()
        assert self.proc.returncode in (statuses or (0,)), 'mcpd-bridge ended with %s: %s' % (self.proc.returncode, self.stderr.text[-4000:])

    def kill(self):
        """The agent and its bridge at once, in the middle of whatever it does."""
        self.proc.kill()
        self._reap()

    def _reap(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        self.sock.close()
        self.stderr.thread.join(5)
        if not self.proc.stderr.closed:
            self.proc.stderr.close()

    # -- MCP

    def initialize(self, version='2025-11-25', capabilities=None):
        self.capabilities = capabilities if capabilities is not None else self.capabilities
        result = self.call('initialize', {'protocolVersion': version, 'capabilities': self.capabilities,
                                          'clientInfo': {'name': self.name, 'version': '1'}})
        self.notify('notifications/initialized')
        return result

    def meta(self):
        return {META + 'protocolVersion': MODERN, META + 'clientCapabilities': self.capabilities,
                META + 'clientInfo': {'name': self.name, 'version': '1'}}

    def request(self, method, params=None, id=None):
        if self.modern:
            params = {**(params or {}), '_meta': {**self.meta(), **((params or {}).get('_meta') or {})}}
        return super().request(method, params, id)

    def tool(self, name, arguments=None, *, id=None, token=None, **params):
        """Starts a tools/call."""
        if arguments is not None:
            params['arguments'] = arguments
        if token is not None:
            params['_meta'] = {**params.get('_meta', {}), 'progressToken': token}
        return self.request('tools/call', {'name': name, **params}, id=id)

    def text(self, name, arguments=None, timeout=TIMEOUT, **more):
        """Calls a tool and returns the text of its first content block."""
        return self.tool(name, arguments, **more).wait(timeout).result['content'][0]['text']

    def report(self, prefix=''):
        return self.tool(prefix + 'report').wait().result['structuredContent']

    def cancel(self, pending, reason=None):
        """Gives a request up: from now on there is no answer to it."""
        self.given_up.add(json.dumps(pending.id))
        self.in_flight.pop(json.dumps(pending.id), None)
        self.notify('notifications/cancelled', {'requestId': pending.id, **({'reason': reason} if reason else {})})

    def _answer(self, line, message):
        if self.may_cross and json.dumps(message.get('id')) in self.given_up - self.in_flight.keys():
            self.given_up.discard(json.dumps(message['id']))
        elif self.strays is not None and message.get('id') is not None and json.dumps(message['id']) not in self.in_flight:
            self.strays.append(message)
        else:
            super()._answer(line, message)

    def question(self, method, timeout=TIMEOUT):
        """The next request of the server, which has to be of that method."""
        question = self.wait_question(timeout)
        assert question['method'] == method, question
        return question

    def progress(self):
        """[(token, progress, message)] of what has been reported."""
        return [(p['progressToken'], p['progress'], p.get('message')) for p in self.take_events('notifications/progress')]


def bridges_of(daemon):
    """The bridges that run beside a daemon."""
    return [p for p in daemon.processes() if p.command[:1] == [program('mcpd-bridge')]]

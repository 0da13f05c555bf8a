"""A client of the socket protocol (PROTOCOL.md, control dialect) over the bare socket, independent of libmcpd-client.

One thread, no magic: `send*` writes, and whoever waits for something reads the socket until it is there. Many requests
can be in flight; not waiting means not reading, which is how a slow client is played.

    with Client(path) as c:
        c.hello()
        tools = c.call('tools/list')                      # the result, or RpcError
        a = c.request('tools/call', {'server': 's', 'name': 'sleep', 'arguments': {'ms': 100}})
        b = c.request('tools/call', {...}, id='x')        # ids: own integers, or any JSON value
        a.wait().result; b.wait().raw                     # .result, .error (dicts), .raw (the answer's line, bytes)
        c.notify('notifications/cancelled', {'requestId': a.id})
        c.wait_event('events/server', lambda p: p['server']['state'] == 'connected')

Notifications from the daemon land in `c.events` (in order) until they are waited for. A request from the daemon is given
to `c.on_request(client, message)`, if set, else it lands in `c.questions`; answer with `c.respond()`. An answer that
belongs to no request in flight, a second answer to one request, a line that is no JSON-RPC: each raises ProtocolBroken,
so that every test watches for them; a test that provokes errors without an id finds them in `c.orphans`. So does an
answer that is not as rpc.discover describes it (openrpc.py), wherever conftest.py has made daemons.

`mcp_attach()` turns the connection into an MCP session: afterwards request, wait and notify speak MCP.
"""

import json
import select
import socket
import time

import rawjson

TIMEOUT = 60    # seconds; generous, since sanitizers and a loaded machine are slow


class RpcError(Exception):
    def __init__(self, error):
        super().__init__('%s: %s %s' % (error.get('code'), error.get('message'), error.get('data', '')))
        self.error = error
        self.code = error.get('code')
        self.message = error.get('message')
        self.data = error.get('data') or {}


class ProtocolBroken(AssertionError):
    pass


class Closed(Exception):
    """The daemon has closed the connection while something was waited for."""


class Pending:
    """A request in flight, or its answer."""

    def __init__(self, client, id, method):
        self.client, self.id, self.method = client, id, method
        self.raw = None             # the answer's line, without its newline
        self.message = None
        self.sent_at = time.monotonic()
        self.answered_at = None

    @property
    def done(self):
        return self.raw is not None

    def wait(self, timeout=TIMEOUT):
        self.client.wait_until(lambda: self.done, timeout, 'the answer to request %r' % (self.id,))
        return self

    @property
    def error(self):
        return self.message.get('error')

    @property
    def result(self):
        """The result of the finished request; raises RpcError if it failed."""
        if self.error is not None:
            raise RpcError(self.error)
        return self.message['result']

    def raw_result(self, *path):
        """The bytes of the result, or of a value in it."""
        return rawjson.raw(self.raw, 'result', *path)

    @property
    def seconds(self):
        return self.answered_at - self.sent_at


class Client:
    described = None                # openrpc.Described of the daemon under test

    def __init__(self, path, timeout=TIMEOUT, sock=None):
        """sock: a connection that there is already."""
        self.path = path
        self.sock = sock or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if sock is None:
            self.sock.connect(str(path))    # without a timeout it waits where the backlog is full
        self.sock.settimeout(timeout)
        self.unfinished = []        # pieces of a line whose newline has not come
        self.eof = False
        self.in_flight = {}         # the id as JSON text -> Pending
        self.events = []
        self.questions = []
        self.orphans = []           # error answers with "id": null
        self.on_request = None
        self.attached = False       # it speaks MCP, which rpc.discover does not describe
        self.next_id = 1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.sock.close()

    # -- writing

    def send_bytes(self, data):
        self.sock.sendall(data)

    def send_json(self, message):
        self.send_bytes(json.dumps(message).encode() + b'\n')

    def expect(self, id, method=None):
        """Registers a request that the test writes itself with send_bytes(); the answer is checked where the method is given."""
        pending = Pending(self, id, method)
        key = json.dumps(id)
        assert key not in self.in_flight, 'the test uses id %s twice' % key
        self.in_flight[key] = pending
        return pending

    def _id(self, id):
        if id is None:
            id, self.next_id = self.next_id, self.next_id + 1
        return id

    def request(self, method, params=None, id=None):
        id = self._id(id)
        pending = self.expect(id, method)
        message = {'jsonrpc': '2.0', 'id': id, 'method': method}
        if params is not None:
            message['params'] = params
        self.send_json(message)
        return pending

    def request_raw(self, method, params, id=None):
        """Like request(), with params as bytes that are sent as they are."""
        id = self._id(id)
        pending = self.expect(id, method)
        self.send_bytes(b'{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}\n'
                        % (json.dumps(id).encode(), json.dumps(method).encode(), params))
        return pending

    def call(self, method, params=None, timeout=TIMEOUT):
        return self.request(method, params).wait(timeout).result

    def fails(self, method, params=None, timeout=TIMEOUT):
        """Calls and returns the RpcError; a success is an AssertionError."""
        answer = self.request(method, params).wait(timeout)
        assert answer.error is not None, '%s succeeded: %s' % (method, answer.raw[:400])
        return RpcError(answer.error)

    def notify(self, method, params=None):
        message = {'jsonrpc': '2.0', 'method': method}
        if params is not None:
            message['params'] = params
        self.send_json(message)

    def respond(self, question, result=None, error=None):
        message = {'jsonrpc': '2.0', 'id': question['id']}
        message['error' if error else 'result'] = error if error else ({} if result is None else result)
        self.send_json(message)

    def shut_writing(self):
        self.sock.shutdown(socket.SHUT_WR)

    # -- reading

    def wait_until(self, done, timeout=TIMEOUT, what='a message'):
        """Reads until done() is true. Raises TimeoutError, or Closed when the daemon closes before that."""
        deadline = time.monotonic() + timeout
        while not done():
            if self.eof:
                raise Closed('the daemon closed the connection while %s was waited for' % what)
            if not self.pump(deadline - time.monotonic()):
                raise TimeoutError('%s did not come within %s s' % (what, timeout))

    def pump(self, timeout):
        """Reads once, if something comes within timeout; False if nothing came."""
        if timeout < 0 or not select.select([self.sock], [], [], timeout)[0]:
            return False
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionResetError:
            data = b''
        if not data:
            self.eof = True
            return True
        if b'\n' not in data:
            self.unfinished.append(data)
            return True
        *lines, rest = b''.join(self.unfinished + [data]).split(b'\n')
        self.unfinished = [rest]
        for line in lines:
            self._line(line)
        return True

    def _line(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            raise ProtocolBroken('not JSON: %r' % line[:400])
        if not isinstance(message, dict) or message.get('jsonrpc') != '2.0':
            raise ProtocolBroken('not JSON-RPC 2.0: %r' % line[:400])
        if 'method' in message and 'id' in message:
            if self.on_request:
                self.on_request(self, message)
            else:
                self.questions.append(message)
        elif 'method' in message:
            self.events.append(message)
        else:
            self._answer(line, message)

    def _answer(self, line, message):
        if ('result' in message) == ('error' in message):
            raise ProtocolBroken('neither or both of result and error: %r' % line[:400])
        if message.get('id', 0) is None:
            self.orphans.append(message)
            return
        pending = self.in_flight.pop(json.dumps(message.get('id')), None)
        if pending is None:
            raise ProtocolBroken('an answer to nothing in flight: %r' % line[:400])
        pending.answered_at = time.monotonic()
        pending.message, pending.raw = message, line
        if self.described and pending.method and not self.attached:
            problem = self.described.problem(pending.method, message)
            if problem:
                raise ProtocolBroken(problem)

    def wait_eof(self, timeout=TIMEOUT):
        self.wait_until(lambda: self.eof, timeout, 'the end of the connection')

    def wait_orphan(self, timeout=TIMEOUT):
        self.wait_until(lambda: self.orphans, timeout, 'an error without an id')
        return self.orphans.pop(0)['error']

    def wait_question(self, timeout=TIMEOUT):
        self.wait_until(lambda: self.questions, timeout, 'a request from the daemon')
        return self.questions.pop(0)

    def wait_event(self, method=None, where=lambda params: True, timeout=TIMEOUT):
        """The params of the first event that fits; it is taken out of `events`, earlier ones stay."""
        def find():
            for event in self.events:
                if method in (None, event['method']) and where(event.get('params', {})):
                    return event
            return None
        self.wait_until(find, timeout, 'the event %s (there are %s)' % (method, self.events[-8:]))
        event = find()
        self.events.remove(event)
        return event.get('params', {})

    def take_events(self, method=None):
        """All events of a method that have come so far; they are taken out of `events`."""
        while self.pump(0):
            if self.eof:
                break
        taken = [e.get('params', {}) for e in self.events if method in (None, e['method'])]
        self.events = [e for e in self.events if method not in (None, e['method'])]
        return taken

    # -- what most tests want

    def hello(self, name='test', capabilities=None, **more):
        params = {'protocol': 1, 'client': {'name': name, 'version': '1'}, **more}
        if capabilities is not None:
            params['capabilities'] = capabilities
        return self.call('daemon/hello', params)

    def server(self, name):
        return self.call('servers/get', {'server': name})

    def subscribe(self, *topics, **more):
        return self.call('events/subscribe', {'topics': list(topics), **more})

    def tool(self, server, name, arguments=None, timeout=TIMEOUT, **more):
        """Starts a tools/call; more: timeoutMs, _meta, id."""
        id = more.pop('id', None)
        params = {'server': server, 'name': name, **more}
        if arguments is not None:
            params['arguments'] = arguments
        return self.request('tools/call', params, id=id)

    def text(self, server, name, arguments=None, **more):
        """Calls a tool and returns the text of its first content block."""
        return self.tool(server, name, arguments, **more).wait().result['content'][0]['text']

    def wait_state(self, server, *states, timeout=TIMEOUT):
        """Waits until the server is in one of the states; returns it as servers/get tells it. Uses its own connection,
        so that this one's subscriptions and events stay as they are."""
        with Client(self.path) as watcher:
            watcher.subscribe('servers', server=server)
            watcher.wait_event('events/server', lambda p: p['server']['name'] == server and
                               p['server'].get('state') in states, timeout)
            return watcher.server(server)

    def mcp_attach(self, server=None, **more):
        params = dict(more)
        if server is not None:
            params['server'] = server
        result = self.call('mcp/attach', params)
        self.attached = True
        return result

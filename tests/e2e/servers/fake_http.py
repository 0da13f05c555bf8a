"""An HTTP MCP server that misbehaves to order, in the test's own process (threads), so that a test can change it and
look into it at any time.

    with FakeHttp(session=True) as server:
        d = make_daemon({'web': server.definition()})
        server.faults['tools/call'] = refuse(503, 'overloaded')    # for every such request, until taken back
        server.once('tools/call', close())                          # for the next one only

Options (all can be changed later: they are attributes)
  era           'legacy' (default), 'modern' (2026-07-28 only), 'both'
  session       legacy: answers initialize with an Mcp-Session-Id and wants it afterwards
  stream        True: answers come as event streams; False (default): as JSON
  listener      True (default): GET opens a stream for what push() sends; or a status such as 405
  old           True: HTTP+SSE of 2024-11-05 alone: GET opens the stream with its `endpoint` event, POST only there
  tools         number of tools tool0.. besides those below
  line_end      of event streams: '\\n' (default), '\\r\\n', '\\r'
  piece         bytes sent at a time (default: all), each in a chunk of its own
  tls           (certificate file, key file)
  port          0: any

Tools (tools/call by name; arguments in brackets)
  tool<N>            text "<name> was called"
  echo {..}          structuredContent: the arguments
  count              counts; text is the number
  sleep {ms}         answers later
  hang               never answers
  progress {steps, ms}   that many progress notifications, on the answer's stream
  ask {method, params}   a request to the client on the answer's stream; the answer's text is what came back

What it has seen: `requests`, a list of Seen, oldest first; `calls(method)`: those of one MCP method; `counter`;
`hangups`: streams that the client closed before they ended.

Faults are functions of an Exchange (below) that write whatever response they like: refuse(), close(), reset(), stall(),
answer_with(), stream_of(), dribble(), endless(), flood(), compressed(), resumable().
"""

import gzip
import itertools
import json
import queue
import socket
import ssl
import threading
import time
import uuid

HTTP_REASONS = {200: 'OK', 202: 'Accepted', 307: 'Temporary Redirect', 400: 'Bad Request', 401: 'Unauthorized',
                403: 'Forbidden', 404: 'Not Found', 405: 'Method Not Allowed', 409: 'Conflict',
                500: 'Internal Server Error', 503: 'Service Unavailable'}
MODERN = '2026-07-28'


class Seen:
    """One request as it came."""

    def __init__(self, verb, target, headers, body):
        self.verb, self.target, self.headers, self.body = verb, target, headers, body
        try:
            self.message = json.loads(body) if body else None
        except ValueError:
            self.message = None
        self.time = time.monotonic()

    @property
    def method(self):
        return (self.message or {}).get('method') if isinstance(self.message, dict) else None

    @property
    def id(self):
        return (self.message or {}).get('id')

    @property
    def is_answer(self):
        return self.method is None and isinstance(self.message, dict) and {'result', 'error'} & set(self.message)

    @property
    def params(self):
        return (self.message or {}).get('params') or {}

    def __repr__(self):
        return '<%s %s %s>' % (self.verb, self.target, self.method)


class Gone(Exception):
    """The client has closed the connection."""


class Exchange:
    """A request and the way to answer it."""

    def __init__(self, server, connection, seen):
        self.server, self.connection, self.seen = server, connection, seen
        self.keep = True        # the connection may serve another request
        self.chunked = False

    def send(self, data):
        try:
            self.connection.sendall(data)
        except OSError:
            raise Gone()

    def head(self, status, headers=(), length=None):
        lines = ['HTTP/1.1 %d %s' % (status, HTTP_REASONS.get(status, 'Status'))]
        lines += ['%s: %s' % h for h in headers]
        if length is None:
            lines.append('Transfer-Encoding: chunked')
            self.chunked = True
        else:
            lines.append('Content-Length: %d' % length)
        self.send(('\r\n'.join(lines) + '\r\n\r\n').encode())

    def write(self, data):
        """Part of a chunked body, in pieces as the server is told."""
        piece = self.server.piece or len(data) or 1
        for i in range(0, len(data), piece):
            part = data[i:i + piece]
            self.send(b'%x\r\n%s\r\n' % (len(part), part))

    def end(self):
        if self.chunked:
            self.send(b'0\r\n\r\n')

    def respond(self, status, body=b'', headers=()):
        if isinstance(body, str):
            body = body.encode()
        self.head(status, headers, len(body))
        self.send(body)

    def json(self, message, headers=(), status=200):
        self.respond(status, json.dumps(message), [('Content-Type', 'application/json'), *headers])

    def result(self, result, headers=()):
        self.json({'jsonrpc': '2.0', 'id': self.seen.id, 'result': result}, headers)

    def error(self, code, message, data=None, status=200):
        error = {'code': code, 'message': message}
        if data is not None:
            error['data'] = data
        self.json({'jsonrpc': '2.0', 'id': self.seen.id, 'error': error}, status=status)

    def open_stream(self, headers=()):
        self.head(200, [('Content-Type', 'text/event-stream'), ('Cache-Control', 'no-cache'), *headers])

    def event(self, data=None, **fields):
        """One event; data that is no text is written as JSON."""
        nl = self.server.line_end
        text = ''.join('%s: %s%s' % (name, value, nl) for name, value in fields.items())
        if data is not None:
            if not isinstance(data, str):
                data = json.dumps(data)
            text += ''.join('data: %s%s' % (line, nl) for line in data.split('\n'))
        self.write((text + nl).encode())

    def answer_event(self, result, **fields):
        self.event({'jsonrpc': '2.0', 'id': self.seen.id, 'result': result}, **fields)

    def wait_hangup(self, timeout=60):
        """Waits until the client closes the connection."""
        self.keep = False
        self.connection.settimeout(timeout)
        try:
            while self.connection.recv(4096):
                pass
        except OSError:
            pass
        self.server.hangups += 1


# -- faults

def refuse(status, body='', headers=()):
    return lambda x: x.respond(status, body if isinstance(body, (str, bytes)) else json.dumps(body), headers)


def close():
    """Takes the request and closes the connection."""
    def fault(x):
        x.keep = False
    return fault


def reset():
    def fault(x):
        x.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\x01\0\0\0\0\0\0\0')
        x.keep = False
    return fault


def stall():
    """Never answers."""
    return lambda x: x.wait_hangup()


def answer_with(body, content_type='application/json', headers=()):
    """Any bytes as the answer; $ID in them is the request's id."""
    def fault(x):
        text = body.replace('$ID', json.dumps(x.seen.id)) if isinstance(body, str) else body
        x.respond(200, text, [('Content-Type', content_type), *headers])
    return fault


def stream_of(*events, finish=True):
    """A stream of these (dicts, or text as it is), which then ends, or just breaks off."""
    def fault(x):
        x.open_stream()
        for event in events:
            if isinstance(event, str):
                x.write(event.replace('$ID', json.dumps(x.seen.id)).encode())
            else:
                x.event(event)
        if finish:
            x.end()
        else:
            x.keep = False
    return fault


def dribble(delay, n=10 ** 9, stream=False):
    """A byte now and then, and never an end."""
    def fault(x):
        x.keep = False
        x.head(200, [('Content-Type', 'text/event-stream' if stream else 'application/json')])
        for _ in range(n):
            x.send(b'1\r\n:\r\n' if stream else b'1\r\n \r\n')
            time.sleep(delay)
    return fault


def endless(start=b'{"x":"', stream=False):
    """A body that does not end, as fast as it goes."""
    def fault(x):
        x.keep = False
        x.head(200, [('Content-Type', 'text/event-stream' if stream else 'application/json')])
        filler = b'%x\r\n%s\r\n' % (65536, b'x' * 65536)
        x.send(b'%x\r\n%s\r\n' % (len(start), start))
        while True:
            x.send(filler)
    return fault


def flood(n, params=None):
    """Very many notifications before the answer."""
    def fault(x):
        note = {'jsonrpc': '2.0', 'method': 'notifications/message',
                'params': params or {'level': 'debug', 'data': 'x'}}
        many = ('data: %s\n\n' % json.dumps(note)).encode() * 1000
        x.open_stream()
        for _ in range(n // 1000):
            x.send(b'%x\r\n%s\r\n' % (len(many), many))
        x.answer_event({'content': [{'type': 'text', 'text': 'flooded'}]})
        x.end()
    return fault


def compressed(size=100 << 20):
    """A gzip bomb that nobody asked for."""
    def fault(x):
        bomb = gzip.compress(b' ' * size)
        x.respond(200, bomb, [('Content-Type', 'application/json'), ('Content-Encoding', 'gzip')])
    return fault


def resumable(server, retry=100, breaks=1):
    """The answer's stream is cut after an event id; GET with Last-Event-ID goes on with it."""
    token = uuid.uuid4().hex[:8]

    def fault(x):
        server.resumed[token] = {'seen': x.seen, 'breaks': breaks, 'retry': retry}
        x.open_stream()
        x.event('', id=token + '-1', retry=retry)
        x.end()
    return fault


class FakeHttp:
    def __init__(self, **options):
        self.era, self.session, self.stream, self.listener, self.old = 'legacy', False, False, True, False
        self.tools, self.line_end, self.piece, self.tls, self.port = 0, '\n', 0, None, 0
        self.name = 'fake-http'
        for name, value in options.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        self.requests, self.faults, self.turns, self.resumed = [], {}, {}, {}
        self.counter, self.hangups, self.connections = 0, 0, 0
        self.sessions, self.listeners, self.answers = set(), [], {}
        self.ids = itertools.count(1)
        self.lock = threading.Lock()
        self.socket, self.open = None, set()

    # -- life

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stop()

    def start(self):
        self.socket = socket.create_server(('127.0.0.1', self.port), backlog=512, reuse_port=False)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.socket,), daemon=True).start()

    def stop(self):
        """Closes the port and every connection, as when the server's process ends; start() begins anew on the same
        port, sessions forgotten."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        with self.lock:
            connections, self.open = self.open, set()
            self.sessions.clear()
            self.listeners.clear()
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def restart(self):
        self.stop()
        self.start()

    @property
    def url(self):
        return '%s://127.0.0.1:%d/mcp' % ('https' if self.tls else 'http', self.port)

    def definition(self, **members):
        return {'type': 'http', 'url': self.url, **members}

    # -- for tests

    def once(self, method, *faults):
        """Each of the next requests of that method gets one of the faults; None: the usual answer."""
        self.turns.setdefault(method, []).extend(faults)

    def calls(self, method):
        return [r for r in self.requests if r.method == method]

    def gets(self):
        return [r for r in self.requests if r.verb == 'GET']

    def push(self, message):
        """A message on every open background stream; how many there were."""
        with self.lock:
            for q in self.listeners:
                q.put(message)
            return len(self.listeners)

    def cut_listeners(self):
        with self.lock:
            for q in self.listeners:
                q.put(None)

    # -- connections

    def _accept(self, listening):
        context = None
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection, context), daemon=True).start()

    def _serve(self, connection, context):
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context:
                connection = context.wrap_socket(connection, server_side=True)
            with self.lock:
                self.open.add(connection)
            reader = connection.makefile('rb')
            while self._one(connection, reader):
                pass
        except (OSError, Gone, ValueError):
            pass
        finally:
            with self.lock:
                self.open.discard(connection)
            try:
                connection.close()
            except OSError:
                pass

    def _one(self, connection, reader):
        line = reader.readline()
        if not line:
            return False
        verb, target, _ = line.decode().split()
        headers = {}
        for line in iter(reader.readline, b'\r\n'):
            name, _, value = line.decode('latin-1').partition(':')
            headers[name.strip().lower()] = value.strip()
        body = reader.read(int(headers.get('content-length', 0)))
        seen = Seen(verb, target, headers, body)
        x = Exchange(self, connection, seen)
        with self.lock:
            self.requests.append(seen)
        try:
            self._answer(x)
        except Gone:
            self.hangups += 1
            return False
        if not x.keep:
            reader.close()
        return x.keep

    # -- protocol

    def _answer(self, x):
        seen = x.seen
        key = seen.method or ('response' if seen.message else seen.verb)
        with self.lock:
            turn = self.turns.get(key)
            fault = turn.pop(0) if turn else self.faults.get(key)
        if fault:
            fault(x)
        elif seen.verb == 'GET':
            self._get(x)
        elif seen.verb == 'DELETE':
            self.sessions.discard(seen.headers.get('mcp-session-id'))
            x.respond(200)
        elif self.old and not seen.target.startswith('/messages'):
            x.respond(404, 'Cannot POST %s' % seen.target)
        elif seen.is_answer:
            self.answers.setdefault(seen.id, queue.Queue()).put(seen.message)
            x.respond(202)
        elif not self._allowed(x):
            pass
        elif seen.id is None:
            x.respond(202)
        else:
            self._request(x)

    def _allowed(self, x):
        """A session, where one is wanted."""
        if not self.session or x.seen.method in ('initialize', 'server/discover') or self.old:
            return True
        if x.seen.headers.get('mcp-session-id') in self.sessions:
            return True
        x.respond(404, '{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}',
                  [('Content-Type', 'application/json')])
        return False

    def _get(self, x):
        last = x.seen.headers.get('last-event-id', '')
        if last.split('-')[0] in self.resumed:
            self._resume(x, self.resumed[last.split('-')[0]])
            return
        if self.old:
            self._old_stream(x)
            return
        if self.listener is not True or self.era == 'modern':
            x.respond(405 if self.listener is True else self.listener, 'no stream here')
            return
        if self.session and x.seen.headers.get('mcp-session-id') not in self.sessions:
            x.respond(404, 'Session not found')
            return
        x.open_stream()
        self._listen(x)

    def _listen(self, x, first=lambda: None):
        q = queue.Queue()
        with self.lock:
            self.listeners.append(q)
        try:
            first()     # what is pushed meanwhile is not lost
            while True:
                try:
                    message = q.get(timeout=0.2)
                except queue.Empty:
                    x.write(b': still here\n\n')       # notices that the client has gone
                    continue
                if message is None:
                    break
                x.event(message)
            x.end()
            x.keep = False
        finally:
            with self.lock:
                if q in self.listeners:
                    self.listeners.remove(q)

    def _old_stream(self, x):
        x.open_stream()
        self._listen(x, lambda: x.event('/messages?session=1', event='endpoint'))

    def _resume(self, x, state):
        x.open_stream()
        if state['breaks'] > 1:
            state['breaks'] -= 1
            x.end()
            return
        result = self._call(x, state['seen'])
        x.event({'jsonrpc': '2.0', 'id': state['seen'].id, 'result': result})
        x.end()

    def _request(self, x):
        seen = x.seen
        modern = '_meta' in seen.params and 'io.modelcontextprotocol/protocolVersion' in seen.params['_meta']
        if modern and self.era == 'legacy':
            x.error(-32601, 'Method not found', status=400 if self.session else 200)
        elif not modern and self.era == 'modern':
            x.error(-32022, 'Unsupported protocol version', {'supported': [MODERN], 'requested': '?'}, status=400)
        elif seen.method == 'tools/call':
            self._tool(x)
        elif modern and seen.method == 'subscriptions/listen':
            self._subscribe(x)
        else:
            result, headers = self._plain(seen, modern)
            if result is None:
                x.error(-32601, 'Method not found', status=404 if modern else 200)
            else:
                self._give(x, result, headers)

    def _give(self, x, result, headers=()):
        if self.era == 'modern':
            result = {'resultType': 'complete', **result}
        if self.old:
            x.respond(202, 'Accepted')
            self.push({'jsonrpc': '2.0', 'id': x.seen.id, 'result': result})
        elif self.stream:
            x.open_stream(headers)
            x.answer_event(result)
            x.end()
        else:
            x.result(result, headers)

    def _plain(self, seen, modern):
        """The result of a method that only tells something, or None; and headers."""
        capabilities = {'tools': {'listChanged': True}}
        if seen.method == 'initialize':
            headers = []
            if self.session:
                session = uuid.uuid4().hex
                self.sessions.add(session)
                headers.append(('Mcp-Session-Id', session))
            return {'protocolVersion': '2024-11-05' if self.old else seen.params.get('protocolVersion', '2025-11-25'),
                    'capabilities': capabilities, 'serverInfo': {'name': self.name, 'version': '1'}}, headers
        if seen.method == 'server/discover' and modern:
            return {'supportedVersions': [MODERN], 'capabilities': capabilities, 'ttlMs': 0, 'cacheScope': 'private',
                    'serverInfo': {'name': self.name, 'version': '1'}}, []
        if seen.method == 'tools/list':
            names = ['tool%d' % i for i in range(self.tools)] + ['echo', 'count', 'sleep', 'hang', 'progress', 'ask']
            tools = [{'name': name, 'inputSchema': {'type': 'object'}} for name in names]
            return {'tools': tools, **({'ttlMs': 0, 'cacheScope': 'private'} if modern else {})}, []
        if seen.method == 'ping':
            return {}, []
        return None, []

    def _subscribe(self, x):
        meta = {'io.modelcontextprotocol/subscriptionId': x.seen.id}
        x.open_stream()
        x.event({'jsonrpc': '2.0', 'method': 'notifications/subscriptions/acknowledged',
                 'params': {'_meta': meta, 'notifications': x.seen.params.get('notifications', {})}})
        self._listen(x)

    def _tool(self, x):
        name, arguments = x.seen.params.get('name'), x.seen.params.get('arguments') or {}
        if name == 'hang':
            x.wait_hangup()
        elif name in ('progress', 'ask') and not self.old:
            x.open_stream()
            x.answer_event(self._call(x, x.seen))
            x.end()
        else:
            if name == 'sleep':
                time.sleep(arguments.get('ms', 0) / 1000)
            self._give(x, self._call(x, x.seen))

    def _call(self, x, seen):
        name, arguments = seen.params.get('name'), seen.params.get('arguments') or {}
        text = '%s was called' % name
        if name == 'echo':
            return {'content': [], 'structuredContent': arguments}
        if name == 'count':
            with self.lock:
                self.counter += 1
                text = str(self.counter)
        elif name == 'progress':
            token = (seen.params.get('_meta') or {}).get('progressToken')
            for i in range(arguments.get('steps', 3)):
                time.sleep(arguments.get('ms', 0) / 1000)
                if token is not None:
                    x.event({'jsonrpc': '2.0', 'method': 'notifications/progress',
                             'params': {'progressToken': token, 'progress': i + 1}})
        elif name == 'ask':
            id = 'q%d' % next(self.ids)
            self.answers[id] = queue.Queue()
            x.event({'jsonrpc': '2.0', 'id': id, 'method': arguments['method'], 'params': arguments.get('params', {})})
            text = json.dumps(self.answers[id].get(timeout=30))
        return {'content': [{'type': 'text', 'text': text}]}

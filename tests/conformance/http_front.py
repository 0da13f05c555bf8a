"""A Streamable HTTP endpoint in front of programs that speak MCP over stdio, for suites that test servers over HTTP only.

    with HttpFront(['mcpd-bridge', 'reference'], env=...) as front:
        ... front.url ...

It interprets no more than it must: messages pass as they are, and only `id` and `method` of each are looked at, to tell which
HTTP response it belongs to.

- Before 2026-07-28 (a session): `initialize` starts a process, which lives until the DELETE of its session. An answer goes to the POST
  with its id; what the server says by itself goes to the newest POST that still waits, else to the GET stream, else it is
  kept for one.
- From 2026-07-28 on (no session): one process for each POST, ended with its response; or, with together=True, one for all of them, as of a
  client on stdio, where a response that the client leaves is a request cancelled. Where the answer is an error and comes first, the
  response has the HTTP status of its code (STATUS), as that revision wants it.

Of what is HTTP's alone, and never seen behind stdio, there is: only requests to this machine by name are served, and the version
in the header has to be that of the body. The other headers that mirror a body (Mcp-Method, Mcp-Name, Mcp-Param-*) are not looked at.

Whatever a program does that no server may, is remembered in `problems`: lines that are no JSON, an end before the answer, no end after
that of its input, an exit status.
"""

import json
import os
import select
import subprocess
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATUS = {-32700: 400, -32600: 400, -32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400}
MODERN = '2026-07-28'
LOCAL = ('localhost', '127.0.0.1', '[::1]')
END_SECONDS = 10        # a program has this long to end after its input


class Program:
    """One process behind the front, and the HTTP responses that wait for what it says."""

    def __init__(self, front):
        self.front = front
        self.lock = threading.Lock()
        self.waiting = {}           # id as JSON text -> Response, the newest last
        self.forgotten = set()      # ids whose clients have gone
        self.listener = None        # the GET stream
        self.kept = []
        self.proc = subprocess.Popen(front.command, env=front.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=front.stderr, start_new_session=True)
        self.ending = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def send(self, message):
        try:
            with self.lock:
                self.proc.stdin.write(message.replace(b'\n', b' ') + b'\n')
                self.proc.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass            # it has ended: its responses are told so by _read

    def request(self, key, response, message):
        with self.lock:
            self.waiting[key] = response
        self.send(message)

    def forget(self, response):
        """True: it has not been answered."""
        with self.lock:
            keys = [k for k, r in self.waiting.items() if r is response]
            for key in keys:
                del self.waiting[key]
                self.forgotten.add(json.loads(key))
            if self.listener is response:
                self.listener = None
            return bool(keys)

    def listen(self, response):
        with self.lock:
            self.listener = response
            kept, self.kept = self.kept, []
            response.open()
            for line in kept:
                response.event(line)

    def _read(self):
        for line in self.proc.stdout:
            line = line.rstrip(b'\r\n')
            try:
                message = json.loads(line)
                self._route(line, message)
            except (ValueError, AttributeError):
                self.front.problems.append('no message: %r' % line[:400])
        with self.lock:
            left = list(self.waiting.values()) + ([self.listener] if self.listener else [])
            if self.waiting and not self.ending:
                self.front.problems.append('ended with requests unanswered: %s' % list(self.waiting))
        for response in left:
            response.end()

    def _route(self, line, message):
        with self.lock:
            if 'method' not in message:
                response = self.waiting.pop(json.dumps(message.get('id')), None)
                if response is None and message.get('id') not in self.forgotten:
                    self.front.problems.append('an answer to nothing: %r' % line[:400])
                elif response:
                    response.answer(line, message)
            elif response := self._listening(message) or next(reversed(self.waiting.values()), None):
                response.event(line)
            elif self.listener:
                self.listener.event(line)
            else:
                self.kept.append(line)

    def _listening(self, message):
        """The response to the subscriptions/listen that a notification belongs to."""
        id = ((message.get('params') or {}).get('_meta') or {}).get('io.modelcontextprotocol/subscriptionId')
        return self.waiting.get(json.dumps(id))

    def close(self):
        """Ends its input, and waits for its end."""
        self.ending = True
        try:
            self.proc.stdin.close()
        except BrokenPipeError:
            pass
        try:
            status = self.proc.wait(END_SECONDS)
            if status != 0:
                self.front.problems.append('exit status %d' % status)
        except subprocess.TimeoutExpired:
            self.front.problems.append('still there %d s after the end of its input' % END_SECONDS)
            self.proc.kill()
            self.proc.wait()
        self.thread.join(END_SECONDS)
        self.proc.stdout.close()


class Response:
    """One HTTP response, written by the program's reader while the HTTP thread waits for its end."""

    def __init__(self, http, headers=(), errors_have_status=False):
        self.http, self.headers, self.errors_have_status = http, list(headers), errors_have_status
        self.opened = False
        self.lock = threading.Lock()
        self.over = os.eventfd(0)

    def open(self):
        if not self.opened:
            self.opened = True
            self.http.head(200, [('Content-Type', 'text/event-stream'), ('Cache-Control', 'no-cache'), *self.headers])

    def event(self, line):
        self.open()
        self.http.write(b'event: message\ndata: ' + line + b'\n\n')

    def answer(self, line, message):
        status = STATUS.get((message.get('error') or {}).get('code'))
        if self.errors_have_status and status and not self.opened:
            self.opened = True
            self.http.reply(status, line, self.headers)
        else:
            self.event(line)
        self.end()

    def end(self):
        with self.lock:
            if not self.opened:
                self.opened = True
                self.http.reply(502, b'', self.headers)
            if self.over is not None:
                os.eventfd_write(self.over, 1)

    def wait(self):
        """Until it has been written, or the client has gone."""
        select.select([self.over, self.http.connection], [], [])
        with self.lock:
            os.close(self.over)
            self.over = None


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *args):
        pass

    # -- writing; every response ends its connection, so that its end is the client's and the other way round

    def head(self, status, headers):
        try:
            self.send_response(status)
            for name, value in [*headers, ('Connection', 'close')]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.flush()
        except (OSError, ValueError):
            pass            # the client has gone
        self.close_connection = True

    def write(self, data):
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except (OSError, ValueError):
            pass

    def reply(self, status, body=b'', headers=()):
        self.head(status, [('Content-Type', 'application/json'), ('Content-Length', str(len(body))), *headers])
        self.write(body)

    def refuse(self, status, message, code=-32000, id=None):
        self.reply(status, json.dumps({'jsonrpc': '2.0', 'id': id, 'error': {'code': code, 'message': message}}).encode())

    # -- requests

    def allowed(self):
        host = self.headers.get('Host', '').rsplit(':', 1)[0]
        origin = self.headers.get('Origin')
        origin = origin and origin.split('//')[-1].rsplit(':', 1)[0]
        if host in LOCAL and origin in (None, *LOCAL):
            return True
        self.refuse(403, 'only for this machine')
        return False

    def session(self):
        """The session that the request names, and its program; answers 404 if there is none."""
        name = self.headers.get('Mcp-Session-Id')
        program = self.server.front.sessions.get(name)
        if program is None:
            self.refuse(404 if name else 400, 'no such session')
        return name, program

    def version_differs(self, message):
        said = (message.get('params', {}).get('_meta') or {}).get('io.modelcontextprotocol/protocolVersion')
        if said is None or said == self.headers.get('MCP-Protocol-Version'):
            return False
        self.refuse(400, 'the header says another version', -32020, message.get('id'))
        return True

    def do_DELETE(self):
        name, program = self.session() if self.allowed() else (None, None)
        if program:
            del self.server.front.sessions[name]
            program.close()
            self.reply(200)

    def do_GET(self):
        name, program = self.session() if self.allowed() else (None, None)
        if program:
            response = Response(self, [('Mcp-Session-Id', name)])
            program.listen(response)
            response.wait()
            program.forget(response)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        if not self.allowed():
            return
        try:
            message = json.loads(body)
        except ValueError:
            self.refuse(400, 'no JSON', -32700)
            return
        name, program = self.program_for(message)
        if program is None:
            return
        headers = [('Mcp-Session-Id', name)] if name else []
        together = program is self.server.front.everybodys
        if 'method' in message and 'id' in message:
            response = Response(self, headers, errors_have_status=name is None)
            program.request(json.dumps(message['id']), response, body)
            response.wait()
            if program.forget(response) and together:
                program.send(json.dumps({'jsonrpc': '2.0', 'method': 'notifications/cancelled',
                                         'params': {'requestId': message['id']}}).encode())
        else:
            program.send(body)
            self.reply(202, headers=headers)
        if name is None and not together:
            program.close()

    def program_for(self, message):
        """The session that a message is of, if any, and its program; (None, None) where it has been refused."""
        modern = self.headers.get('MCP-Protocol-Version') == MODERN or 'Mcp-Method' in self.headers
        if 'Mcp-Session-Id' in self.headers:
            return self.session()
        if message.get('method') == 'initialize' and not modern:
            name, program = uuid.uuid4().hex, Program(self.server.front)
            self.server.front.sessions[name] = program
            return name, program
        if self.version_differs(message):
            return None, None
        return None, self.server.front.everybodys or Program(self.server.front)


class HttpFront(ThreadingHTTPServer):
    daemon_threads = False          # server_close() waits for what is still being answered

    def __init__(self, command, env=None, stderr=subprocess.DEVNULL, together=False):
        super().__init__(('127.0.0.1', 0), Handler)
        self.command, self.env, self.stderr = command, env, stderr
        self.front = self
        self.sessions, self.problems = {}, []
        self.everybodys = Program(self) if together else None
        self.url = 'http://127.0.0.1:%d/mcp' % self.server_port
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.shutdown()
        for program in [*self.sessions.values(), *([self.everybodys] if self.everybodys else [])]:
            program.close()
        self.server_close()

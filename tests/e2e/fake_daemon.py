"""A daemon to order, for what the real one does not do on purpose: a socket whose other side is the test itself.

    daemon = FakeDaemon(path)                 # listens
    conn = daemon.accept()                    # the next connection
    conn.attach()                             # takes mcp/attach, answers it; its params
    conn.expect('tools/call')                 # the next line, a request of that method
    conn.answer(request, {...}); conn.send({...}); conn.send_bytes(b'..')
    conn.close()                              # as a daemon that has gone
"""

import json
import os
import select
import socket
import time

from mcpd_client import TIMEOUT


class FakeConnection:
    def __init__(self, sock):
        self.sock, self.rest = sock, b''

    def read_line(self, timeout=TIMEOUT):
        """The next line without its newline; None at the end of the stream."""
        deadline = time.monotonic() + timeout
        while b'\n' not in self.rest:
            if not select.select([self.sock], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError('no line within %s s; there is %r' % (timeout, self.rest[:200]))
            try:
                data = self.sock.recv(1 << 20)
            except ConnectionResetError:
                data = b''
            if not data:
                return None
            self.rest += data
        line, self.rest = self.rest.split(b'\n', 1)
        return line

    def read(self, timeout=TIMEOUT):
        line = self.read_line(timeout)
        return None if line is None else json.loads(line)

    def expect(self, method, timeout=TIMEOUT):
        message = self.read(timeout)
        assert message is not None, 'the connection was closed'
        assert message.get('method') == method, message
        return message

    def send_bytes(self, data):
        self.sock.sendall(data)

    def send(self, message):
        self.send_bytes(json.dumps({'jsonrpc': '2.0', **message}).encode() + b'\n')

    def answer(self, request, result):
        self.send({'id': request['id'], 'result': result})

    def error(self, request, code, message, data=None):
        self.send({'id': request['id'], 'error': {'code': code, 'message': message,
                                                  **({} if data is None else {'data': data})}})

    def attach(self):
        request = self.expect('mcp/attach')
        params = request['params']
        self.answer(request, {'server': params['server']} if 'server' in params else {'aggregate': True})
        return params

    def is_silent(self, seconds):
        """Whether nothing comes for so long."""
        return b'\n' not in self.rest and not select.select([self.sock], [], [], seconds)[0]

    def close(self):
        self.sock.close()


class FakeDaemon:
    def __init__(self, path):
        self.path, self.connections = str(path), []
        self.listen()

    def listen(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.bind(self.path)
        self.sock.listen(16)

    def accept(self, timeout=TIMEOUT):
        if not select.select([self.sock], [], [], timeout)[0]:
            raise TimeoutError('nobody connected within %s s' % timeout)
        self.connections.append(FakeConnection(self.sock.accept()[0]))
        return self.connections[-1]

    def stop(self):
        """Nobody listens any more."""
        self.sock.close()
        os.unlink(self.path)

    def finish(self):
        for conn in self.connections:
            conn.close()
        self.sock.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

"""The daemon's own log (contract S13: a server's stderr goes there too)."""

import os
import subprocess

from harness import fake, program, wait_for


def test_nobody_reading_the_log_stops_nothing(make_daemon):
    """A pipe that is full and never read: calls go on; once it is read, the number of dropped lines is told."""
    d = make_daemon({'fake': fake()}, start=False)
    read, write = os.pipe()
    d.proc = None
    proc = subprocess.Popen([program('mcpd')], cwd=d.dir, env=d.environ, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=write)
    os.close(write)
    try:
        wait_for(d.socket.exists)
        with d.client() as c:
            for i in range(20):
                c.text('fake', 'stderr', {'bytes': 20000, 'text': 'flood\n' * 3000})
            assert c.text('fake', 'text', {'text': 'alive'}) == 'alive'
            os.set_blocking(read, False)
            said = b''

            def told():
                # Each further line is an occasion to tell; what the server wrote before may still be on its way.
                nonlocal said
                c.text('fake', 'stderr', {'text': 'heard again\n'})
                try:
                    said = said[-200:] + os.read(read, 1 << 20)
                except BlockingIOError:
                    pass
                return b'log lines were dropped' in said

            wait_for(told, what='the number of dropped lines')
            os.set_blocking(read, True)
            c.call('daemon/shutdown')
        while os.read(read, 65536):
            pass
        assert proc.wait(60) == 0
    finally:
        proc.kill()
        proc.wait()
        os.close(read)

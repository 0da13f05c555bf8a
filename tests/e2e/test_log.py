"""The daemon's own log (contract S13: a server's stderr goes there too)."""

import os
import re
import subprocess

import pytest
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


def said(d, level):
    return bool(re.search(r'(?m)^mcpd: %s: ' % level, d.stderr.text))


def test_lines_have_their_level_and_fields(make_daemon):
    d = make_daemon({'fake': fake()}, args=['--log-level', 'debug'])
    with d.client(name='an agent') as c:
        c.text('fake', 'text', {'text': 'secret-text'})
        c.text('fake', 'stderr', {'text': 'x\rmcpd: error: forged server=other\n'})
        d.stderr.wait(r'(?m)^mcpd: info: server fake: connected \(2025-11-25, 1 tools\) server=fake state=connected$')
        d.stderr.wait(r'(?m)^mcpd: debug: server fake: tools/call text for an agent#1: ok server=fake '
                      r'client="an agent#1" method=tools/call tool=text outcome=ok durationMs=\d+$')
        d.stderr.wait(r'(?m)^mcpd: info: \[fake\] x mcpd: error: forged server=other server=fake$')
    d.stderr.wait(r'(?m)^mcpd: debug: client an agent#1: gone client="an agent#1"$')
    assert not said(d, 'error') and 'secret-text' not in d.stderr.text


def test_failed_calls_are_told_at_info_and_do_not_flood(make_daemon):
    """A client that does nothing but make calls that fail leaves room for other lines, and the number is told."""
    d = make_daemon({'fake': fake()})
    with d.client(name='agent') as c:
        assert c.text('fake', 'text', {'text': 'on'}) == 'on'
        for _ in range(10):
            for call in [c.tool('fake', 'error') for _ in range(100)]:
                call.wait()
        # The next one of a later second brings the number.
        wait_for(lambda: c.tool('fake', 'error').wait() and 'more failed calls were not logged' in d.stderr.text)
    lines = re.findall(r'(?m)^mcpd: info: server fake: tools/call error for agent#1: error server=fake '
                       r'client=agent#1 method=tools/call tool=error outcome=error durationMs=\d+$', d.stderr.text)
    assert 20 <= len(lines) < 1000
    assert 'outcome=ok' not in d.stderr.text


@pytest.mark.parametrize('option, variable, member, expected', [
    (None, None, None, 'info'),
    (None, None, 'debug', 'debug'),
    (None, 'debug', 'error', 'debug'),
    (None, 'warning', 'debug', 'warning'),
    ('debug', 'error', 'error', 'debug'),
    ('error', 'debug', 'debug', 'error'),
    (None, '', 'debug', 'debug'),
    (None, 'LOUD', 'debug', 'debug'),       # told, and left out of account
])
def test_which_level_counts(make_daemon, option, variable, member, expected):
    """--log-level, else MCPD_LOG, else the configuration's logLevel, else info; also after a reload."""
    d = make_daemon({}, args=['--log-level', option] if option else [], env={'MCPD_LOG': variable},
                    mcpd={'logLevel': member} if member else {'logLevl': 'x'})
    with d.client() as c:
        c.hello()
        d.write_config_text('{ broken')
        c.call('daemon/reload')
    d.stop()
    assert said(d, 'debug') == (expected == 'debug')
    assert said(d, 'info') == (expected in ('debug', 'info'))
    assert said(d, 'error')
    warned = 'mcpd: warning: MCPD_LOG is error, warning, info or debug, not "LOUD": ignored' in d.stderr.text
    assert warned == (variable == 'LOUD')


def test_a_reload_changes_the_level_where_only_the_file_says_it(make_daemon):
    d = make_daemon({}, mcpd={'logLevel': 'error'})
    with d.client() as c:
        d.write_config({}, mcpd={'logLevel': 'debug'})
        c.call('daemon/reload')
        c.hello()
        d.stderr.wait('(?m)^mcpd: debug: ')

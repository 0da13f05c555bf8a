"""The log under systemd: entries with fields by the journal's native protocol, read by a journal of the test's own and by a
real systemd-journald, in a mount namespace where the daemon finds them at the place that systemd gives them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading

import pytest
from harness import TIMEOUT, fake, wait_for
from mcpd_client import RpcError

JOURNALD = '/lib/systemd/systemd-journald'
# stderr is what JOURNAL_STREAM says, as for a service whose StandardError= is the journal.
WRAPPER = '''
set -eu
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal
mount --bind "$0" /run/systemd/journal
JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2)
export JOURNAL_STREAM
exec "$@"
'''
SECRET = 'payload-f1a9c2'


def namespaces():
    return os.getuid() == 0 and shutil.which('unshare') and \
        subprocess.run(['unshare', '-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/run'], stderr=subprocess.DEVNULL).returncode == 0


pytestmark = pytest.mark.skipif(not namespaces(), reason='needs root and mount namespaces')


def parse(datagram):
    """The fields of an entry: NAME=value lines, or NAME, a line end, 8 bytes of length, value, a line end."""
    fields = {}
    while datagram:
        line, rest = datagram.split(b'\n', 1)
        if b'=' in line:
            name, value = line.split(b'=', 1)
        else:
            name, size = line, int.from_bytes(rest[:8], 'little')
            value, rest = rest[8:8 + size], rest[8 + size:]
            assert rest[:1] == b'\n'
            rest = rest[1:]
        assert name.decode().replace('_', 'A').isalnum() and name.decode().isupper()
        assert name.decode() not in fields, 'a field is said twice'
        fields[name.decode()] = value.decode()
        datagram = rest
    return fields


class Journal:
    """Takes entries, or leaves them lying."""

    def __init__(self, folder, read=True):
        folder.mkdir(exist_ok=True)
        self.entries, self.changed = [], threading.Condition()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(folder / 'socket'))
        if read:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            data = self.sock.recv(1 << 16)
            if not data:
                return
            with self.changed:
                self.entries.append(parse(data))
                self.changed.notify_all()

    def wait(self, **fields):
        """The first entry with these fields; a value may be a function. Others may have come before."""
        def found():
            return next((e for e in self.entries if all(
                name in e and (value(e[name]) if callable(value) else e[name] == value)
                for name, value in fields.items())), None)
        with self.changed:
            assert self.changed.wait_for(found, TIMEOUT), '%r is not among %s' % (
                fields, json.dumps(self.entries, indent=1)[-8000:])
            return found()

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def journal_daemon(make_daemon):
    """make(servers, ...) -> a daemon, not started yet, and the folder where it looks for the journal's socket."""
    def make(*args, **kwargs):
        d = make_daemon(*args, start=False, **kwargs)
        folder = d.path('journal')
        folder.mkdir()
        d.wrapper = ['unshare', '-m', 'sh', '-c', WRAPPER, str(folder)]
        return d, folder
    return make


def test_entries_have_fields_and_no_payload(journal_daemon):
    d, folder = journal_daemon({'fake': fake(), 'other': fake(server={'timeout': 200})}, args=['--log-level', 'debug'])
    journal = Journal(folder)
    d.start()
    with d.client(name='agent') as c:
        label = 'agent#1'
        c.call('servers/connect', {'server': 'fake'})
        state = journal.wait(MCPD_SERVER='fake', MCPD_STATE='connected')
        assert state['PRIORITY'] == '6' and state['MESSAGE'].startswith('server fake: connected')

        assert c.text('fake', 'text', {'text': SECRET}) == SECRET
        call = journal.wait(MCPD_OUTCOME='ok', MCPD_TOOL='text')
        assert call['MCPD_SERVER'] == 'fake' and call['MCPD_CLIENT'] == label
        assert call['MCPD_METHOD'] == 'tools/call' and call['PRIORITY'] == '7'
        assert 0 <= int(call['MCPD_DURATION_MS']) < 60000

        with pytest.raises(RpcError):
            c.tool('fake', 'error', {'code': -5, 'message': SECRET, 'data': SECRET}).wait().result
        assert journal.wait(MCPD_TOOL='error')['MCPD_OUTCOME'] == 'error'
        with pytest.raises(RpcError):
            c.tool('other', 'hang').wait().result
        failed = journal.wait(MCPD_OUTCOME='timeout')
        assert failed['MCPD_SERVER'] == 'other' and failed['PRIORITY'] == '6' and int(failed['MCPD_DURATION_MS']) >= 200
        with pytest.raises(RpcError):
            c.call('mcp/request', {'server': 'fake', 'method': 'no/such', 'params': {'x': SECRET}})
        assert 'MCPD_TOOL' not in journal.wait(MCPD_METHOD='no/such')

        # A server's words are one entry a line, whatever is in them.
        c.text('fake', 'stderr', {'text': 'PRIORITY=0\r\x1b[2Jforged\u2028line\nnext\n'})
        said = journal.wait(MESSAGE='[fake] PRIORITY=0  [2Jforged line')
        assert said['PRIORITY'] == '6' and said['MCPD_SERVER'] == 'fake'
        journal.wait(MESSAGE='[fake] next')

        c.text('fake', 'text', {'text': 'on'})
        c.tool('fake', 'crash').wait()
        journal.wait(MCPD_SERVER='fake', MCPD_STATE='reconnecting')
        assert journal.wait(MCPD_SERVER='fake', PRIORITY='4')['MESSAGE'].startswith('server fake: ')
        d.write_config({'fake': fake(), 'bad': {'type': 'carrier pigeon'}})
        c.call('daemon/reload')
        assert journal.wait(MCPD_SERVER='bad', PRIORITY='3')['MESSAGE'].count('carrier pigeon') == 1
        journal.wait(MESSAGE=lambda m: m.startswith('the configuration was reloaded: 1 servers added, 1 removed'))
    journal.wait(MCPD_CLIENT=label, MESSAGE='client agent#1: gone')
    journal.wait(MCPD_CLIENT=label, MESSAGE='client agent#1: said who it is')
    journal.wait(MCPD_CLIENT='#1', MESSAGE='client #1: connected')
    assert all(e['SYSLOG_IDENTIFIER'] == 'mcpd' and e['PRIORITY'] in '3467' and e['MESSAGE'] for e in journal.entries)
    assert not any(SECRET in value for e in journal.entries for value in e.values())
    assert d.stderr.text == ''
    d.stop()
    assert d.stderr.text == ''
    journal.close()


def test_a_journal_that_does_not_read_stops_nothing(journal_daemon):
    """sd_journal_sendv() would wait here for ever."""
    d, folder = journal_daemon({'fake': fake()})
    journal = Journal(folder, read=False)
    d.start()
    with d.client() as c:
        for _ in range(20):
            c.text('fake', 'stderr', {'bytes': 20000, 'text': 'flood\n' * 3000})
        assert c.text('fake', 'text', {'text': 'alive'}) == 'alive'
        # What it does not take goes the other way, with the priority that a stream of the journal understands.
        d.stderr.wait(r'<6>\[fake\] flood server=fake\n')
        # Once it reads it gets entries again.
        threading.Thread(target=journal._read, daemon=True).start()

        def heard():
            c.text('fake', 'stderr', {'text': 'heard again\n'})
            with journal.changed:
                return any(e['MESSAGE'] == '[fake] heard again' and e['MCPD_SERVER'] == 'fake' for e in journal.entries)

        wait_for(heard, what='an entry in the journal')
    journal.close()


def test_without_a_journal_lines_go_to_stderr(journal_daemon):
    d, folder = journal_daemon({'fake': fake()})
    d.start()
    d.stderr.wait(r'<6>mcpd \S+ is listening on .*\n')
    with d.client() as c:
        c.call('servers/connect', {'server': 'fake'})
        d.stderr.wait(r'<6>server fake: connected \(.*\) server=fake state=connected\n')
        journal = Journal(folder)               # one that starts later is found
        c.call('servers/disconnect', {'server': 'fake'})
        journal.wait(MCPD_SERVER='fake', MCPD_STATE='idle')
        assert 'state=idle' not in d.stderr.text
        journal.close()


class RealJournal:
    """A systemd-journald whose /run is a folder of the test's, and what it has stored."""

    def __init__(self, run):
        self.run = run
        run.mkdir()
        self.journald = subprocess.Popen(
            ['unshare', '-m', 'sh', '-c', 'mount --bind "$0" /run && mount -t tmpfs tmpfs /var/log && exec ' + JOURNALD,
             str(run)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env={'PATH': os.environ['PATH']})

    def __enter__(self):
        wait_for(lambda: self.socket.exists() or self.journald.poll() is not None, what='the journal')
        if self.journald.poll() is not None:
            pytest.skip('systemd-journald does not run here: %s' % self.journald.stderr.read(2000))
        return self

    def __exit__(self, *exc):
        self.journald.send_signal(signal.SIGTERM)
        self.journald.wait(TIMEOUT)
        self.journald.stderr.close()

    @property
    def socket(self):
        return self.run / 'systemd' / 'journal' / 'socket'

    def find(self, *matches):
        out = subprocess.run(['journalctl', '-D', str(self.run / 'log' / 'journal'), '-o', 'json', '-q', *matches],
                             stdout=subprocess.PIPE, check=True).stdout
        return [json.loads(line) for line in out.splitlines()]


needs_journald = pytest.mark.skipif(not os.path.exists(JOURNALD) or not shutil.which('journalctl'),
                                    reason='needs systemd-journald')


@needs_journald
def test_a_real_journal_finds_entries_by_their_fields(journal_daemon):
    d, folder = journal_daemon({'fake': fake(), 'other': fake()}, args=['--log-level', 'debug'])
    with RealJournal(d.path('run-of-journald')) as journal:
        d.wrapper[-1] = str(journal.socket.parent)
        d.start()
        with d.client(name='agent') as c:
            c.text('fake', 'text', {'text': SECRET})
            c.text('other', 'stderr', {'text': 'caf\u00e9\n'})
        calls = wait_for(lambda: journal.find('MCPD_CLIENT=agent#1', 'MCPD_TOOL=text', 'MCPD_OUTCOME=ok'), what='the entry')
        assert len(calls) == 1 and calls[0]['MCPD_SERVER'] == 'fake' and calls[0]['_PID'] == str(d.pid)

        def said():
            return journal.find('MCPD_SERVER=other', 'SYSLOG_IDENTIFIER=mcpd', '_PID=%d' % d.pid, 'PRIORITY=6')
        wait_for(lambda: '[other] caf\u00e9' in [e['MESSAGE'] for e in said()], what='a line of the other server')
        assert all(e['MCPD_SERVER'] == 'other' for e in said())
        assert d.stderr.text == ''
        d.stop()


@needs_journald
def test_in_the_background_the_journal_is_found_by_itself(journal_daemon):
    """--background lets go of stderr; without a service manager nobody has said where the journal is."""
    d, folder = journal_daemon({'fake': fake()}, args=['--background'])
    with RealJournal(d.path('run-of-journald')) as journal:
        d.wrapper[-2:] = [WRAPPER.replace('export JOURNAL_STREAM', 'unset JOURNAL_STREAM'), str(journal.socket.parent)]
        d.start()
        with d.client() as c:
            c.text('fake', 'text', {'text': 'x'})
        found = wait_for(lambda: journal.find('MCPD_STATE=connected', '_PID=%d' % d.pid), what='the entry')
        assert found[0]['MCPD_SERVER'] == 'fake' and found[0]['PRIORITY'] == '6'
        assert d.stderr.text.startswith('mcpd: info: mcpd ') and 'connected' not in d.stderr.text
        with d.client() as c:
            c.call('daemon/reload')
        wait_for(lambda: [e for e in journal.find('_PID=%d' % d.pid) if 'was reloaded' in e['MESSAGE']], what='the reload')
        d.stop()

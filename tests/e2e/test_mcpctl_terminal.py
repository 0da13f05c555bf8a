"""mcpctl where it draws: in a real terminal (tmux), whose screen is read back."""

import re
import shlex
import shutil
import subprocess

import pytest

from harness import fake, program, wait_for


class Terminal:
    """A tmux window of its own server. Screens are read with their escape sequences where colour matters."""

    def __init__(self, daemon, columns=70, env=None):
        self.socket = str(daemon.path('tmux.sock'))
        self.env = {**daemon.environ, 'TERM': 'screen-256color', **(env or {})}
        self.tmux('-f', '/dev/null', 'new-session', '-d', '-x', str(columns), '-y', '30',
                  'env PS1="ready> " bash --norc --noprofile')
        self.shows('ready>')

    def tmux(self, *args):
        return subprocess.run(['tmux', '-S', self.socket, *args], env=self.env, stdout=subprocess.PIPE, check=True,
                              text=True, timeout=60).stdout

    def type(self, *args, enter=True):
        self.tmux('send-keys', '-l', shlex.join([program('mcpctl'), *args]))
        if enter:
            self.tmux('send-keys', 'Enter')

    def key(self, name):
        self.tmux('send-keys', name)

    def screen(self, colour=False):
        return self.tmux('capture-pane', '-p', *(['-e'] if colour else []))

    def shows(self, text):
        """Waits until the screen has the text; returns the screen."""
        wait_for(lambda: re.search(text, self.screen()), what='%r on the screen:\n%s' % (text, self.screen()))
        return self.screen()

    def run(self, *args, colour=False):
        """Runs a command to its end; returns what it drew."""
        self.tmux('send-keys', '-l', 'clear; %s; echo status $?.' % shlex.join([program('mcpctl'), *args]))
        self.tmux('send-keys', 'Enter')
        self.shows(r'status \d+\.')
        return self.screen(colour)

    def close(self):
        subprocess.run(['tmux', '-S', self.socket, 'kill-server'], env=self.env, timeout=60, stderr=subprocess.DEVNULL)


@pytest.fixture
def terminal(make_daemon):
    assert shutil.which('tmux'), 'tmux is missing; contrib/install-deps tests'
    made = []

    def make(servers, **kwargs):
        d = make_daemon(servers)
        made.append(Terminal(d, **kwargs))
        return d, made[-1]

    yield make
    for t in made:
        t.close()


LONG = 'A description that is far too long for a terminal of seventy columns, to say the least of it; 終わり'


def test_tables_fit_the_terminal(terminal):
    d, t = terminal({'fake': fake(tools=[{'name': 'long', 'description': LONG, 'inputSchema': {'type': 'object'}}])})
    with d.client() as c:
        c.wait_state('fake', 'connected')
    lines = [line for line in t.run('tools').splitlines() if line.startswith('fake')]
    assert len(lines) == 1 and lines[0].endswith('…') and len(lines[0]) <= 70
    # The same in a pipe is whole.
    assert LONG in d.mcpctl('tools').stdout


def test_wide_characters_are_measured(terminal):
    tools = [{'name': n, 'description': 'x', 'inputSchema': {'type': 'object'}} for n in ('日本語', 'abc')]
    d, t = terminal({'fake': fake(tools=tools)})
    with d.client() as c:
        c.wait_state('fake', 'connected')
    lines = [line for line in t.run('tools').splitlines() if line.startswith('fake')]
    # Three wide characters take six columns: the next column begins in the same one.
    assert [line.rstrip().endswith(' x') for line in lines] == [True, True]
    assert lines[0] == 'fake    日本語  x' and lines[1] == 'fake    abc     x'


def test_colour_is_for_terminals_and_not_with_no_color(terminal):
    servers = {'fake': fake(), 'broken': {'command': 'no-such-program'}}
    d, t = terminal(servers)
    with d.client() as c:
        c.wait_state('fake', 'connected')
    assert re.search('\033\\[[0-9;]*32m *connected', t.run('servers', colour=True))
    assert '\033' not in d.mcpctl('servers').stdout
    d, t = terminal(servers, env={'NO_COLOR': '1'})
    with d.client() as c:
        c.wait_state('fake', 'connected')
    assert '\033' not in t.run('servers', colour=True)


def test_a_servers_escape_sequences_are_shown_not_obeyed(terminal):
    d, t = terminal({'fake': fake()})
    with d.client() as c:
        c.wait_state('fake', 'connected')
    screen = t.run('call', 'fake', 'text', '{"text":"before\\u001b[2J\\u001b]0;title\\u0007\\u009b31mafter"}')
    assert 'before^[[2J^[]0;title^G\\x9b31mafter' in screen


def test_progress_is_drawn_and_wiped(terminal):
    d, t = terminal({'fake': fake()})
    with d.client() as c:
        c.wait_state('fake', 'connected')
        t.type('call', 'fake', 'progress', 'steps:=1000', 'ms:=100', 'message=copying', 'total:=1000')
        t.shows(r'\d+/1000 copying')
        t.key('C-c')
        screen = t.shows('mcpctl: cancelled')
        assert 'copying' not in screen.split('message=copying')[-1]
        wait_for(lambda: c.server('fake')['inFlight'] == 0)


def test_failures_are_readable(terminal):
    d, t = terminal({'broken': {'command': 'no-such-program'}})
    with d.client() as c:
        c.wait_state('broken', 'failed')
    screen = t.run('call', 'broken', 'x').replace('\n', '')     # it wraps
    assert 'mcpctl: ' in screen and 'no-such-program' in screen and 'status 1.' in screen

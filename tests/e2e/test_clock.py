"""Somebody sets the clock: durations are of the monotonic clock, and the wall clock is in texts alone."""

import struct
import sys
import time
from pathlib import Path

import pytest
from harness import BUILD, fake, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent / 'servers'))
from fake_http import FakeHttp  # noqa: E402

DAY, YEAR = 86400, 365 * 86400
JUMPS = [DAY, -DAY, 20 * YEAR, -20 * YEAR]
OWN_CLOCK = {'env': {'LD_PRELOAD': ''}}     # servers are not what is tested


class Clock:
    """The wall clock of a daemon that was made with env=clock.env."""

    def __init__(self, path):
        self.path = path
        self.set(0)
        self.env = {'LD_PRELOAD': str(BUILD / 'lib' / 'walltime.so'), 'MCPD_TEST_WALLTIME': str(path)}

    def set(self, seconds):
        # In place: the daemon has it mapped.
        with open(self.path, 'r+b' if self.path.exists() else 'wb') as f:
            f.write(struct.pack('=q', seconds))


@pytest.fixture
def clock(tmp_path, monkeypatch):
    # A sanitizer's runtime likes to be the first library.
    monkeypatch.setenv('ASAN_OPTIONS', 'verify_asan_link_order=0')
    return Clock(tmp_path / 'walltime')


def year_of(client, server='fake'):
    return int(client.call('servers/get', {'server': server})['history'][-1]['at'][:4])


def test_the_tests_clock_moves_what_the_daemon_writes(make_daemon, clock):
    """So the tests below do jump."""
    daemon = make_daemon({'fake': fake(server=OWN_CLOCK)}, env=clock.env)
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        now = time.gmtime().tm_year
        assert year_of(c) == now
        clock.set(20 * YEAR)
        c.call('servers/reconnect', {'server': 'fake'})
        assert year_of(c) in (now + 19, now + 20)
        clock.set(-20 * YEAR)
        c.call('servers/reconnect', {'server': 'fake'})
        assert year_of(c) in (now - 19, now - 20, now - 21)


@pytest.mark.parametrize('jump', JUMPS)
def test_a_call_takes_the_time_it_was_given(make_daemon, clock, jump):
    daemon = make_daemon({'fake': fake(server=OWN_CLOCK)}, env=clock.env)
    with daemon.client() as c:
        c.wait_state('fake', 'connected')
        short = c.tool('fake', 'hang', timeoutMs=1500)
        long = c.tool('fake', 'sleep', {'ms': 2500, 'text': 'done'}, timeoutMs=60000)
        c.call('daemon/status')
        clock.set(jump)
        error = short.wait(30).error
        assert error['code'] == -32004 and 1.4 < short.seconds < 20
        assert long.wait(30).result['content'][0]['text'] == 'done'
        assert 0 < c.call('daemon/status')['uptimeMs'] < 60000


@pytest.mark.parametrize('jump', JUMPS)
def test_an_HTTP_call_takes_the_time_it_was_given(make_daemon, clock, jump):
    with FakeHttp(stream=True) as web:
        daemon = make_daemon({'web': web.definition()}, env=clock.env)
        with daemon.client() as c:
            c.wait_state('web', 'connected')
            short = c.tool('web', 'hang', timeoutMs=1500)
            long = c.tool('web', 'sleep', {'ms': 2500}, timeoutMs=60000)
            c.call('daemon/status')
            clock.set(jump)
            error = short.wait(30).error
            assert error['code'] == -32004 and 1.4 < short.seconds < 20
            assert long.wait(30).result
            # A connection that was kept is used again, or a new one is made: nothing is too old by a jump.
            assert c.tool('web', 'tool0').wait(30).result
        daemon.stop()


@pytest.mark.parametrize('jump', JUMPS)
def test_what_waits_for_a_time_waits_as_long_as_it_should(make_daemon, clock, jump):
    """Idle stop, reconnection, the watchdog, and idleExit."""
    daemon = make_daemon({'fake': fake(server={**OWN_CLOCK, 'lazy': True, 'idleTimeout': 1500}),
                          'gone': {'type': 'http', 'url': 'http://127.0.0.1:9/mcp', 'lazy': True}},
                         mcpd={'idleExit': 1500}, env={**clock.env, 'WATCHDOG_USEC': '1000000'})
    with daemon.client() as c:
        c.tool('fake', 'echo', {}).wait()
        called = time.monotonic()
        clock.set(jump)
        c.wait_state('fake', 'idle', 30)
        assert 1.4 < time.monotonic() - called < 20
        before = sum('WATCHDOG=1' in m for m in daemon.notify.messages)
        wait_for(lambda: sum('WATCHDOG=1' in m for m in daemon.notify.messages) >= before + 2, 30, 'the watchdog')
        reconnect = c.tool('gone', 'x', timeoutMs=1500)
        clock.set(-jump)
        assert reconnect.wait(30).error and reconnect.seconds < 20
        c.call('servers/disconnect', {'server': 'gone'})
    left = time.monotonic()
    clock.set(jump)
    daemon.wait_exit(0, 30)
    assert time.monotonic() - left > 1.4


def test_cached_tools_outlive_a_jump(make_daemon, clock):
    daemon = make_daemon({'fake': fake(tools=3, server={**OWN_CLOCK, 'lazy': True})}, env=clock.env)
    with daemon.client() as c:
        assert len(c.call('tools/list', {'server': 'fake', 'waitMs': 30000})['servers'][0]['tools']) == 3
    daemon.stop()
    for jump in JUMPS:
        clock.set(jump)
        daemon.start()
        with daemon.client() as c:
            listed = c.call('tools/list', {'server': 'fake', 'waitMs': 0})['servers'][0]
            assert len(listed['tools']) == 3 and listed['deferred']
        daemon.stop()

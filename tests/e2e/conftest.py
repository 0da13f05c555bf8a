"""Fixtures of the end-to-end tests. What they are made of, and how to use it, stands at the head of harness.py
(daemon, server definitions, processes), mcpd_client.py (the socket) and servers/fake.py (a server to order)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness  # noqa: E402
import mcpd_client  # noqa: E402
import openrpc  # noqa: E402
import service_manager  # noqa: E402


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == 'call':
        item.call_failed = outcome.get_result().failed


@pytest.fixture(scope='session')
def described():
    """rpc.discover of the daemon under test; from then on every answer to a Client is held against it."""
    daemon = harness.Daemon()
    try:
        with mcpd_client.Client(daemon.socket) as c:
            document = openrpc.Described(c.call('rpc.discover'))
        mcpd_client.Client.described = document
    finally:
        daemon.finish()
    return document


@pytest.fixture
def make_daemon(request, described):
    """A function that makes daemons: make_daemon(servers, args=..., env=..., mcpd=..., start=True) -> harness.Daemon.
    All of them are stopped and checked at the end of the test."""
    made = []

    def make(*args, **kwargs):
        # Known to the fixture before it starts, so that one that fails to start is cleaned up too.
        start = kwargs.pop('start', True)
        daemon = harness.Daemon(*args, start=False, **kwargs)
        made.append(daemon)
        if start:
            daemon.start()
        return daemon

    yield make
    errors = []
    for daemon in made:
        try:
            daemon.finish(failed=getattr(request.node, 'call_failed', True))
        except AssertionError as e:
            errors.append(e)
    if errors:
        raise errors[0]


@pytest.fixture
def user_manager(request, make_daemon):
    """A function that starts a real `systemd --user`: user_manager(servers, mcpd=...) ->
    service_manager.UserManager, with the configuration that make_daemon would write. Skips where there can be none."""
    made = []

    def make(*args, **kwargs):
        manager = service_manager.UserManager(make_daemon(*args, start=False, **kwargs))
        made.append(manager)
        manager.start()
        return manager

    yield make
    for manager in made:
        manager.close(failed=getattr(request.node, 'call_failed', True))


@pytest.fixture
def run_server():
    """A function that runs a server alone: run_server(fake(...)) -> harness.StdioServer, closed at the end."""
    made = []

    def make(definition, **kwargs):
        server = harness.StdioServer(definition, **kwargs)
        made.append(server)
        return server

    yield make
    for server in made:
        if server.proc.stdout.closed:
            continue        # the test has closed it and looked at its status
        if server.proc.poll() is None:
            server.proc.stdin.close() if not server.proc.stdin.closed else None
        server.close()


@pytest.fixture(scope='session')
def npm():
    """Tests that need the packages of tests/npm ask for this. tests/run installs them; without them the test is
    skipped, but only where nobody asked for all (MCPD_TEST_ALL, which tests/run sets)."""
    import os
    if harness.node() is None:
        if os.environ.get('MCPD_TEST_ALL'):
            pytest.fail('tests/npm is not installed; run tests/run npm')
        pytest.skip('tests/npm is not installed; run tests/run npm')
    return harness.NODE_MODULES

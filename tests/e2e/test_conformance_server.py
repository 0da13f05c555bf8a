"""The official conformance suite in server mode: mcpd as an MCP server, with the official SDK's reference server behind it.

    suite -- HTTP --> tests/conformance/http_front.py -- stdio --> mcpd-bridge -- socket --> mcpd -- stdio --> reference server

Both wire versions of the suite against the reference server in both of its eras: what passes straight between equals has to pass
through mcpd, and between unequals, where no direct connection is possible, too. All scenarios run, one after the other, once for each
pair; each is a test, and passes only if something was checked and succeeded. What is known not to pass is listed check by check in
KNOWN, with the reason, and has to stay exactly that.

MCPD_CONFORMANCE_DIRECT=1 leaves out bridge and daemon: the control, which says what the suite finds in this set-up by itself.
"""

import json
import os
import re
import subprocess
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import pytest

import harness

sys.path.insert(0, str(harness.HERE.parent / 'conformance'))
from http_front import HttpFront  # noqa: E402

SUITE = harness.NODE_MODULES / '@modelcontextprotocol' / 'conformance' / 'dist' / 'index.js'
REFERENCE = harness.HERE.parent / 'npm' / 'reference_server.mjs'
DIRECT = bool(os.environ.get('MCPD_CONFORMANCE_DIRECT'))
OLD, NEW = '2025-11-25', '2026-07-28'

BOTH = ['completion-complete', 'dns-rebinding-protection', 'json-schema-2020-12', 'prompts-get-embedded-resource',
        'prompts-get-simple', 'prompts-get-with-args', 'prompts-get-with-image', 'prompts-list', 'resources-list',
        'resources-read-binary', 'resources-read-text', 'resources-templates-read', 'server-sse-multiple-streams', 'tools-call-audio',
        'tools-call-embedded-resource', 'tools-call-error', 'tools-call-image', 'tools-call-mixed-content', 'tools-call-simple-text',
        'tools-call-with-progress', 'tools-list']
SCENARIOS = {
    OLD: [*BOTH, 'elicitation-sep1034-defaults', 'elicitation-sep1330-enums', 'logging-set-level', 'ping', 'resources-subscribe',
          'resources-unsubscribe', 'server-initialize', 'server-session-lifecycle', 'server-sse-polling', 'tools-call-elicitation',
          'tools-call-sampling', 'tools-call-with-logging'],
    NEW: [*BOTH, 'caching', 'http-custom-header-server-validation', 'http-header-validation', 'sep-2164-resource-not-found',
          'server-stateless', *('input-required-result-' + name for name in (
              'basic-elicitation', 'basic-list-roots', 'basic-sampling', 'capability-check', 'ignore-extra-params',
              'missing-input-response', 'multi-round', 'multiple-input-requests', 'non-tool-request', 'request-state', 'result-type',
              'tampered-state', 'unsupported-methods', 'validate-input'))],
}
PAIRS = [(OLD, 'legacy'), (OLD, 'modern'), (NEW, 'modern'), (NEW, 'legacy')]

HEADERS = 'HTTP headers that mirror the body are not seen behind stdio'
STREAMS = 'there are no event streams to take up again behind stdio'
OPENING = 'the official SDK looks at the version of the first message on stdio only, and refuses that in other words'
KEYS = 'a legacy server asks without names: the keys of the questions are mcpd\'s'
ONE_BY_ONE = 'a legacy server asks one question at a time'
TOLD_ALL = 'a legacy server was told once what clients can: it asks, is refused, and answers as it likes'

# (scenario, check) -> reason, by pair or for a wire version; what only the control does not pass is in CONTROL.
KNOWN = {
    OLD: {('server-sse-polling', check): STREAMS for check in ('server-sse-priming-event', 'server-sse-retry-field')},
    NEW: {
        ('http-header-validation', 'sep-2243-server-reject-invalid-headers'): HEADERS,
        ('http-header-validation', 'sep-2243-server-reject-error-code'): HEADERS,
        **{('http-custom-header-server-validation', 'sep-2243-server-' + check): HEADERS for check in (
            'no-xmcp-tool', 'decode-base64', 'validate-param-match', 'reject-invalid-param-chars', 'reject-param-mismatch')},
    },
    (NEW, 'legacy'): {
        ('input-required-result-basic-elicitation', 'sep-2322-elicitation-incomplete'): KEYS,
        ('input-required-result-ignore-extra-params', 'sep-2322-ignore-unexpected-params'): KEYS,
        ('input-required-result-multiple-input-requests', 'sep-2322-multiple-inputs-incomplete'): ONE_BY_ONE,
        ('server-stateless', 'sep-2575-server-rejects-undeclared-capability'): TOLD_ALL,
        ('server-stateless', 'sep-2575-missing-capability-http-400'): TOLD_ALL,
    },
}
CONTROL = {
    (NEW, 'modern'): {
        ('server-stateless', 'sep-2575-' + check): OPENING for check in (
            'request-meta-invalid-missing-meta', 'request-meta-invalid-missing-protocol-version',
            'server-unsupported-version-error', 'http-server-unsupported-version-400')
    },
}
Outcome = namedtuple('Outcome', 'checks problems output')


def suite(*args, timeout=200):
    env = {**os.environ, **harness.NODE_CACHE}
    return subprocess.run([harness.node(), str(SUITE), *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout)


@pytest.fixture(scope='module')
def daemon(npm):
    if DIRECT:
        yield None
        return
    # A server for each pair: they run two at a time, and a legacy server's questions to several clients are not told apart.
    daemon = harness.Daemon({'%s-%s' % pair: {'command': harness.node(), 'args': [str(REFERENCE), pair[1]]} for pair in PAIRS},
                            env=harness.NODE_CACHE)
    try:
        yield daemon
    finally:
        daemon.finish()


@pytest.fixture(scope='module')
def outcome(daemon, tmp_path_factory, request):
    """outcome(wire, era): what the suite found of that pair. again: of one scenario, anew."""

    def run(wire, era, *which):
        if DIRECT:
            command, env = [harness.node(), str(REFERENCE), era], None
        else:
            command, env = [harness.program('mcpd-bridge'), '%s-%s' % (wire, era)], daemon.environ
        folder = tmp_path_factory.mktemp('%s-%s' % (wire, era))
        # A legacy server's question waits on the connection of the call that it belongs to. In the control a process for each
        # request would be a server for each request.
        with HttpFront(command, env=env, together=DIRECT or (wire, era) == (NEW, 'legacy')) as front:
            done = suite('server', '--url', front.url, *(which or ('--suite', 'all')), '--spec-version', wire,
                         '--output-dir', str(folder))
        checks = {}
        for file in folder.rglob('checks.json'):
            name = re.fullmatch(r'server-(.+?)-\d{4}-\d\d-\d\dT.*', file.parent.name).group(1)
            checks[name] = json.loads(file.read_text())
        return Outcome(checks, front.problems, done.stdout)

    params = [item.callspec.params for item in request.session.items if item.fspath == request.fspath and hasattr(item, 'callspec')]
    wanted = [pair for pair in PAIRS if any((p.get('wire'), p.get('era')) == pair for p in params) and not impossible(*pair)]
    with ThreadPoolExecutor(2) as pool:
        runs = {pair: pool.submit(run, *pair) for pair in wanted}
        yield lambda wire, era, again=None: run(wire, era, '--scenario', again) if again else runs[wire, era].result()
        pool.shutdown(cancel_futures=True)


def known(wire, era):
    return {**KNOWN.get(wire, {}), **KNOWN.get((wire, era), {}), **(CONTROL.get((wire, era), {}) if DIRECT else {})}


def impossible(wire, era):
    return DIRECT and (wire == OLD) != (era == 'legacy')


@pytest.mark.parametrize('wire, era, scenario', [(w, e, s) for w, e in PAIRS for s in SCENARIOS[w]])
def test_scenario(outcome, wire, era, scenario):
    if impossible(wire, era):
        pytest.skip('not possible without mcpd')
    expected = {check for name, check in known(wire, era) if name == scenario}
    # The suite gives half a second to some things, which is little on a busy machine: hence more than one chance.
    for chance in range(3):
        found = outcome(wire, era, again=scenario if chance else None)
        checks = found.checks.get(scenario)
        assert checks, found.output[-8000:]
        bad = {c['id'] for c in checks if c['status'] not in ('SUCCESS', 'INFO', 'SKIPPED')}
        if bad == expected:
            break
    assert bad == expected, json.dumps([c for c in checks if c['id'] in bad ^ expected], indent=1)[:8000]
    # A scenario that finds nothing to check has not passed; that all messages were of the right shape is a check of every one.
    good = [c['id'] for c in checks if c['status'] == 'SUCCESS' and c['id'] != 'wire-schema-valid']
    assert good or expected, checks


@pytest.mark.parametrize('wire, era', PAIRS)
def test_nothing_strange_on_stdio(outcome, wire, era):
    """Only messages come out, every request is answered, and the end of input is the end, with status 0."""
    if impossible(wire, era):
        pytest.skip('not possible without mcpd')
    assert outcome(wire, era).problems == []


@pytest.mark.parametrize('wire', SCENARIOS)
def test_all_scenarios_are_here(npm, wire):
    """What the suite has for servers in this version is what is tested above, all that the version requires among it."""
    def listed(*args):
        lines = suite('list', *args).stdout.split('Client scenarios')[0].splitlines()
        return {line.split()[1] for line in lines if line.startswith('  - ')}
    assert listed('--server', '--spec-version', wire) == set(SCENARIOS[wire])
    required = suite('list', '--requirements', wire).stdout
    required = required[required.index('Server scenarios'):].split('\n\n')[0]
    assert {line.split()[1] for line in required.splitlines() if line.startswith('  - ')} <= set(SCENARIOS[wire])

"""The official conformance suite in client mode, against tests/conformance/adapter.py: all core scenarios, in every version they
cover, one at a time. A scenario passes only if something was checked and succeeded: a client that does nothing must not."""

import json
import os
import subprocess

import pytest

import harness

SUITE = harness.NODE_MODULES / '@modelcontextprotocol' / 'conformance' / 'dist' / 'index.js'
ADAPTER = harness.HERE.parent / 'conformance' / 'adapter.py'

CORE = [
    ('initialize', ['2025-06-18', '2025-11-25']),
    ('tools_call', ['2025-06-18', '2025-11-25', '2026-07-28']),
    ('elicitation-sep1034-client-defaults', ['2025-11-25']),
    ('sse-retry', ['2025-11-25']),
    ('request-metadata', ['2026-07-28']),
    ('sep-2322-client-request-state', ['2026-07-28']),
    ('http-standard-headers', ['2026-07-28']),
    ('http-custom-headers', ['2026-07-28']),
    ('http-invalid-tool-headers', ['2026-07-28']),
    ('json-schema-ref-no-deref', ['2026-07-28']),
    ('json-schema-2020-12-preservation', ['2025-11-25', '2026-07-28']),
]


@pytest.mark.parametrize('scenario, version', [(s, v) for s, versions in CORE for v in versions])
def test_client_scenario(npm, tmp_path, scenario, version):
    env = {**os.environ, 'MCPD_BUILD_DIR': str(harness.BUILD)}
    done = subprocess.run(
        [harness.node(), str(SUITE), 'client', '--command', '%s %s' % (harness.PYTHON, ADAPTER), '--scenario', scenario,
         '--spec-version', version, '--output-dir', str(tmp_path), '--timeout', '100000', '--verbose'],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    checks = [check for file in tmp_path.rglob('checks.json') for check in json.loads(file.read_text())]
    statuses = [check['status'] for check in checks]
    assert done.returncode == 0 and 'FAILURE' not in statuses and 'WARNING' not in statuses, done.stdout[-8000:]
    assert 'SUCCESS' in statuses, done.stdout[-4000:]


def test_all_core_scenarios_are_here(npm):
    """What the suite lists as core for clients (not auth/) is what is tested above."""
    listed = subprocess.run([harness.node(), str(SUITE), 'list'], stdout=subprocess.PIPE, text=True, timeout=60,
                            check=True).stdout
    clients = listed[listed.index('Client scenarios'):].split('\n\n')[0]
    named = {line.split()[1]: line for line in clients.splitlines() if line.startswith('  - ')}
    core = {name for name, line in named.items() if '/' not in name and '[extension' not in line}
    assert core == {scenario for scenario, _ in CORE}

"""What the README tells users to write for their agents: each snippet is read as the agent reads it, and the program that
it names is run as the agent runs it."""

import json
import re
import subprocess
import tomllib

import pytest
from harness import ROOT, program, time_server

SECTION = re.search(r'^## From an agent\n(.*?)^## ', (ROOT / 'README.md').read_text(), re.DOTALL | re.MULTILINE).group(1)
BLOCKS = re.findall(r'^(\w[\w ]*)(?:,|\.| of)[^\n]*\n(?:[^\n]+\n)*\n```(\w+)\n(.*?)^```', SECTION, re.DOTALL | re.MULTILINE)
# Where the agent looks for its servers, and what each must have beside a command (their documentation).
PLACES = {'Claude Code': ('mcpServers', {'type': 'stdio'}), 'Codex': ('mcp_servers', {}), 'Cursor': ('mcpServers', {}),
          'VS Code': ('servers', {'type': 'stdio'}), 'Gemini CLI': ('mcpServers', {})}


def test_each_agent_is_there():
    assert [b[0] for b in BLOCKS] == [*PLACES, 'An agent of your own']


def talk(daemon, command, args):
    assert command == 'mcpd-bridge'
    bridge = subprocess.Popen([program(command), *args], env=daemon.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    request = {'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': {
        'protocolVersion': '2025-06-18', 'capabilities': {}, 'clientInfo': {'name': 'agent', 'version': '1'}}}
    bridge.stdin.write(json.dumps(request).encode() + b'\n')
    bridge.stdin.flush()
    answer = json.loads(bridge.stdout.readline())
    bridge.stdin.close()
    assert bridge.wait(30) == 0
    bridge.stdout.close()
    return answer['result']


@pytest.mark.parametrize('agent, kind, text', [b for b in BLOCKS if b[0] in PLACES], ids=lambda v: v if v in PLACES else '')
def test_a_snippet_is_what_its_agent_reads_and_works(make_daemon, agent, kind, text):
    document = tomllib.loads(text) if kind == 'toml' else json.loads(text)
    member, wanted = PLACES[agent]
    assert list(document) == [member]
    ((name, server),) = document[member].items()
    assert re.fullmatch(r'[a-zA-Z0-9-]+', name)
    assert {k: server.get(k) for k in wanted} == wanted
    assert set(server) <= {'type', 'command', 'args', 'env_vars'} and isinstance(server['args'], list)
    daemon = make_daemon({'time': time_server()})
    told = talk(daemon, server['command'], server['args'])
    assert told['protocolVersion'] == '2025-06-18'
    assert told['serverInfo']['name'] == ('mcpd-time-server' if server['args'] else 'mcpd')


def test_the_home_made_agent_is_python_and_names_a_real_tool(make_daemon):
    (text,) = (b[2] for b in BLOCKS if b[0] == 'An agent of your own')
    compile(text, 'README.md', 'exec', flags=0x2000)       # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    args = json.loads(re.search(r'args=(\[.*?\])', text).group(1))
    tool, arguments = re.search(r'call_tool\("(\w+)", (\{.*?\})\)', text).groups()
    daemon = make_daemon({'time': time_server()})
    assert talk(daemon, re.search(r'command="([\w-]+)"', text).group(1), args)['serverInfo']['name'] == 'mcpd-time-server'
    with daemon.client() as c:
        assert 'Europe/Berlin' in c.text(args[0], tool, json.loads(arguments))

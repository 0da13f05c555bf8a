"""mcpctl, each command: what a person reads, what a program reads (--json), and how it fails. The parts that draw are in
test_mcpctl_terminal.py."""

import base64
import json
import os
import re
import select
import signal
import subprocess

import pytest

from harness import fake, program, time_server, wait_for
from mcpd_client import TIMEOUT


@pytest.fixture
def d(make_daemon):
    return make_daemon({'fake': fake(tools=['echo', 'text', 'sleep', 'toolError', 'error', 'progress', 'stderr'],
                                     resources=2, prompts=1),
                        'time': time_server(),
                        'broken': {'command': 'no-such-program'},
                        'lazy': fake(server={'lazy': True})})


def ready(d):
    with d.client() as c:
        for name in ('fake', 'time'):
            c.wait_state(name, 'connected')
        c.wait_state('broken', 'failed')
    return d


def said(done, status=0):
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def complained(done, status=1):
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith('mcpctl: ')
    return done.stderr


def rows(text):
    """A table as a list of rows of cells."""
    return [re.split(r'  +', line.rstrip()) for line in text.splitlines()]


def table_fits(text):
    """Every cell begins where its heading does."""
    lines = text.splitlines()
    starts = [m.start() for m in re.finditer(r'(?:^|(?<=  ))\S', lines[0])]
    for line in lines[1:]:
        for start in starts[1:]:
            assert line[start - 1:start] in ('', ' '), (line, start)
    return True


# -- the daemon

def test_status(d):
    text = said(ready(d).mcpctl('status'))
    assert re.search(r'^mcpd \d+\.\d+\.\d+, pid %d, up \d' % d.pid, text)
    assert str(d.socket) in text and str(d.config_path) in text
    assert 'servers   4, idle 1, connected 2, failed 1' in text
    result = json.loads(said(d.mcpctl('--json', 'status')))
    assert result['pid'] == d.pid and result['servers']['total'] == 4


def test_status_shows_what_is_wrong_with_the_configuration(make_daemon):
    d = make_daemon({'odd': {'command': 5}})
    assert re.search(r'problem +%s: odd: .*command' % d.config_path, said(d.mcpctl('status')))


def test_status_and_shutdown_start_no_daemon(d):
    env = {'MCPD_SOCKET': str(d.path('nobody.sock'))}
    for command in ('status', 'shutdown', 'reload'):
        assert 'no daemon listens on %s' % d.path('nobody.sock') in complained(d.mcpctl(command, env=env), 4)
        failure = json.loads(said(d.mcpctl('--json', command, env=env), 4))
        assert 'no daemon listens' in failure['error']['message']


def test_reload(d):
    ready(d)
    d.write_config({'fake': fake(tools=1), 'new': time_server()})
    text = said(d.mcpctl('reload'))
    assert 'added     new' in text and 'changed   fake' in text and 'removed   time' in text
    d.write_config_text('{ no json')
    text = said(d.mcpctl('reload'), 1)
    assert str(d.config_path) in text and 'unchanged' in text
    assert json.loads(said(d.mcpctl('--json', 'reload'), 1))['errors']


def test_shutdown(d):
    assert said(ready(d).mcpctl('shutdown')) == 'the daemon is stopping\n'
    d.wait_exit()


# -- servers

def test_servers(d):
    text = said(ready(d).mcpctl('servers'))
    table = {row[0]: row for row in rows(text)}
    assert table['NAME'] == ['NAME', 'STATE', 'TRANSPORT', 'SHARING', 'PID', 'MEMORY', 'CPU', 'TOOLS', 'SERVER']
    assert table['time'][1] == 'connected' and table['time'][4] == str(d.servers('mcpd-time-server')[0].pid)
    assert table['lazy'][1] == 'idle'
    assert 'no-such-program' in table['broken'][8]
    assert '\033' not in text and table_fits(text)
    assert [s['name'] for s in json.loads(said(d.mcpctl('servers', '--json')))['servers']] == ['fake', 'time', 'broken',
                                                                                               'lazy']


def test_connect_disconnect_reconnect(d):
    ready(d)
    first = d.servers('mcpd-time-server')[0].pid
    assert rows(said(d.mcpctl('disconnect', 'time')))[1][1] == 'idle'
    assert d.servers('mcpd-time-server') == []
    assert rows(said(d.mcpctl('connect', 'time')))[1][1] == 'connected'
    second = d.servers('mcpd-time-server')[0].pid
    assert json.loads(said(d.mcpctl('--json', 'reconnect', 'time')))['pid'] not in (first, second)
    text = complained(d.mcpctl('connect', 'broken'))
    assert 'no-such-program' in text and 'mcpctl logs' in text
    assert 'mcpctl servers' in complained(d.mcpctl('disconnect', 'nobody'))


def test_logs(d):
    ready(d)
    for i in range(3):
        said(d.mcpctl('call', 'fake', 'stderr', 'text=line %d' % i))
    with d.client() as c:
        wait_for(lambda: 'line 2' in c.call('servers/logs', {'server': 'fake'})['lines'][-1]['text'])
    lines = said(d.mcpctl('logs', 'fake', '-n', '2')).splitlines()
    assert [line.split('Z  ')[1] for line in lines] == ['line 1', 'line 2']
    assert len(json.loads(said(d.mcpctl('--json', 'logs', 'fake')))['lines']) >= 3
    assert 'Unknown server' in complained(d.mcpctl('logs', 'nobody'))
    assert complained(d.mcpctl('logs', 'fake', '-n', '0'), 2)


def start(d, *args, **popen):
    return subprocess.Popen([program('mcpctl'), *args], env=d.environ, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen)


def read_line(stream):
    """A line, past any buffer of Python's, so that waiting for it can end."""
    line = b''
    while not line.endswith(b'\n'):
        assert select.select([stream], [], [], TIMEOUT)[0], 'no line came, only %r' % line
        byte = os.read(stream.fileno(), 1)
        assert byte, 'the output ended with %r' % line
        line += byte
    return line.decode()


def test_logs_follow(d):
    ready(d)
    said(d.mcpctl('call', 'fake', 'stderr', 'text=before'))
    with d.client() as c:
        wait_for(lambda: c.call('servers/logs', {'server': 'fake'})['lines'])
    p = start(d, 'logs', '-f', 'fake')
    assert read_line(p.stdout).endswith('before\n')
    said(d.mcpctl('call', 'fake', 'stderr', 'text=after'))
    assert read_line(p.stdout).endswith('after\n')
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=TIMEOUT)
    assert (p.returncode, out, err) == (0, '', '')


def test_events(d):
    ready(d)
    p = start(d, 'events', '--json', 'calls', 'servers')
    seen = [json.loads(read_line(p.stdout)) for _ in range(4)]
    assert {e['params']['server']['name'] for e in seen} == {'fake', 'time', 'broken', 'lazy'}
    said(d.mcpctl('call', 'fake', 'text', 'text=x'))
    event = json.loads(read_line(p.stdout))
    while event['method'] != 'events/call':
        event = json.loads(read_line(p.stdout))
    assert event['params']['name'] == 'text' and event['params']['outcome'] == 'ok'
    d.stop()
    assert p.wait(TIMEOUT) == 4
    assert 'lost' in p.stderr.read()
    p.stdout.close(), p.stderr.close()


def test_events_for_people(d):
    ready(d)
    p = start(d, 'events', 'calls')
    wait_for(lambda: json.loads(said(d.mcpctl('--json', 'status')))['clients'] >= 2)
    said(d.mcpctl('call', 'fake', 'text', 'text=x'))
    assert re.match(r'\d\d:\d\d:\d\d\.\d{3}  call +fake  tools/call  text  mcpctl#\d+  \d+  ok\n', read_line(p.stdout))
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=TIMEOUT)
    assert 'servers, tools, logs' in complained(d.mcpctl('events', 'weather'), 2)


# -- tools

def test_tools(d):
    text = said(ready(d).mcpctl('tools', 'time'))
    assert [row[:2] for row in rows(text)] == [['SERVER', 'TOOL'], ['time', 'get_current_time'], ['time', 'convert_time']]
    assert table_fits(text)
    done = d.mcpctl('tools')
    assert 'no-such-program' in done.stderr and 'get_current_time' in said(done)
    assert '"timezone"' in said(d.mcpctl('tools', '--schema', 'time'))
    listed = json.loads(said(d.mcpctl('--json', 'tools', 'time')))
    assert listed['servers'][0]['tools'][1]['name'] == 'convert_time'
    assert 'Unknown server' in complained(d.mcpctl('tools', 'nobody'))


SCHEMA = {'type': 'object', 'additionalProperties': False, 'required': ['n'], 'properties': {
    'n': {'type': 'integer'}, 'f': {'type': 'number'}, 's': {'type': 'string'}, 'b': {'type': 'boolean'},
    'list': {'type': 'array', 'items': {'type': 'string'}}, 'numbers': {'type': 'array', 'items': {'type': 'number'}},
    'object': {'type': 'object'}, 'either': {'type': ['string', 'null']}, 'any': {},
    'one': {'anyOf': [{'type': 'boolean'}, {'type': 'string'}]}, 'choice': {'enum': ['1', '2']}}}


@pytest.fixture
def typed(make_daemon):
    d = make_daemon({'fake': fake(tools=[{'name': 'echo', 'inputSchema': SCHEMA}])})
    with d.client() as c:
        c.wait_state('fake', 'connected')
    return d


@pytest.mark.parametrize('given, wanted', [
    (['n=5'], '{"n":5}'),
    (['n=123456789012345678901234567890'], '{"n":123456789012345678901234567890}'),
    (['f=1.10', 's=1.10'], '{"f":1.10,"s":"1.10"}'),
    (['b=true', 's=true'], '{"b":true,"s":"true"}'),
    (['s='], '{"s":""}'),
    (['s=a=b "c" \\'], '{"s":"a=b \\"c\\" \\\\"}'),
    (['list=a', 'list=b'], '{"list":["a","b"]}'),
    (['list=a'], '{"list":["a"]}'),
    (['list=["x"]'], '{"list":["x"]}'),
    (['numbers=1', 'numbers=2.5'], '{"numbers":[1,2.5]}'),
    (['object={"a": [1]}'], '{"object":{"a": [1]}}'),
    (['either=null'], '{"either":null}'),
    (['either=x'], '{"either":"x"}'),
    (['one=true'], '{"one":true}'),
    (['one=maybe'], '{"one":"maybe"}'),
    (['choice=1'], '{"choice":"1"}'),
    (['any=1'], '{"any":"1"}'),
    (['any:=1'], '{"any":1}'),
    (['s:="\\ud800"'], '{"s":"\\ud800"}'),
    (['{"n": 1.0, "n": 2}'], '{"n": 1.0, "n": 2}'),
])
def test_call_types_arguments_by_the_schema(typed, given, wanted):
    result = said(typed.mcpctl('--json', 'call', 'fake', 'echo', *given))
    assert '"structuredContent":%s' % wanted in result or '"structuredContent": %s' % wanted in result, result


@pytest.mark.parametrize('given, words', [
    (['n=five'], 'n: "five" is not an integer'),
    (['n=1.5'], 'is not an integer'),
    (['b=yes'], 'true or false'),
    (['numbers=x'], 'is not a number'),
    (['object=x'], 'a JSON object'),
    (['s=a', 's=b'], 'given twice'),
    (['typo=1'], 'it takes: n, f, s'),
    (['s:=nope'], 'not JSON at byte'),
    (['plain'], 'key=value'),
    (['=x'], 'key=value'),
    (['{"n":'], 'no JSON'),
])
def test_call_refuses_wrong_arguments(typed, given, words):
    assert words in complained(typed.mcpctl('call', 'fake', 'echo', *given), 2)


def test_call_reads_standard_input(typed):
    assert '"n":7' in said(typed.mcpctl('--json', 'call', 'fake', 'echo', '-', input='{\n"n":7\n}'))
    assert 'standard input' in complained(typed.mcpctl('call', 'fake', 'echo', '-', input='[1]'), 2)


def test_call_results_and_failures(d):
    ready(d)
    assert said(d.mcpctl('call', 'fake', 'text', 'text=two\nlines')) == 'two\nlines\n'
    assert said(d.mcpctl('call', 'fake', 'toolError', 'text=went wrong'), 3) == 'went wrong\n'
    assert json.loads(said(d.mcpctl('--json', 'call', 'fake', 'toolError', 'text=x'), 3))['isError'] is True
    assert 'MCP error -5: no' in complained(d.mcpctl('call', 'fake', 'error', 'code:=-5', 'message=no'))
    failure = json.loads(said(d.mcpctl('--json', 'call', 'fake', 'error', 'code:=-5', 'message=no'), 1))
    assert failure['error']['code'] == -32006 and failure['error']['data']['error']['code'] == -5
    text = complained(d.mcpctl('--timeout', '0.2', 'call', 'fake', 'sleep', 'ms:=60000'))
    assert 'Request timeout after 200ms' in text and '--timeout' in text and 'may have run' in text
    text = complained(d.mcpctl('call', 'broken', 'x'))
    assert 'no-such-program' in text
    assert 'usage: mcpctl call' in complained(d.mcpctl('call', 'fake'), 2)


def test_call_of_a_tool_that_only_has_structured_content(d):
    assert json.loads(said(ready(d).mcpctl('call', 'fake', 'echo', 'a=1'))) == {'a': '1'}


def test_ctrl_c_cancels_the_call_at_the_server(d):
    ready(d)
    p = start(d, 'call', 'fake', 'sleep', 'ms:=60000')
    with d.client() as c:
        wait_for(lambda: c.server('fake')['inFlight'] == 1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=TIMEOUT)
        assert (p.returncode, out, err) == (130, '', 'mcpctl: cancelled\n')
        report = c.tool('fake', 'report').wait().result['structuredContent']
        assert len(report['cancelled']) == 1


BINARY = bytes(range(256))


@pytest.fixture
def binary(make_daemon):
    block = {'type': 'image', 'mimeType': 'image/png', 'data': base64.b64encode(BINARY).decode()}
    resource = {'type': 'resource', 'resource': {'uri': 'x:y', 'mimeType': 'application/x', 'blob': 'aGVsbG8='}}
    link = {'type': 'resource_link', 'uri': 'demo://link', 'name': 'link'}
    future = {'type': 'hologram', 'data': 1}
    broken = {'type': 'audio', 'mimeType': 'audio/wav', 'data': '*'}
    answers = {'tools/call': {'result': {'content': [block, resource, link, future]}},
               'resources/read': {'result': {'contents': [{'uri': 'x:y', 'blob': 'aGVsbG8='}, {'uri': 'x:z', 'text': 'tail'}]}},
               'prompts/get': {'result': {'messages': [{'role': 'user', 'content': broken}]}}}
    d = make_daemon({'fake': fake(answers=answers, resources=1, prompts=1)})
    with d.client() as c:
        c.wait_state('fake', 'connected')
    return d


def test_binary_is_described_or_saved(binary):
    text = said(binary.mcpctl('call', 'fake', 'tool0'))
    assert '[image image/png, 256 bytes; save it with -o FILE]' in text
    assert '[resource application/x, 5 bytes; save it with -o FILE]' in text
    assert '[resource demo://link; ' in text and '"hologram"' in text
    target = binary.path('saved')
    said(binary.mcpctl('call', '-o', target, 'fake', 'tool0'))
    assert target.read_bytes() == BINARY and binary.path('saved.2').read_bytes() == b'hello'
    out = subprocess.run([program('mcpctl'), 'read', '-o', '-', 'fake', 'x:y'], env=binary.environ,
                         stdout=subprocess.PIPE, check=True, timeout=TIMEOUT).stdout
    assert out == b'hellotail\n'
    assert 'cannot write /nowhere/x' in complained(binary.mcpctl('read', '-o', '/nowhere/x', 'fake', 'x:y'))
    assert 'not valid base64' in said(binary.mcpctl('prompt', 'fake', 'prompt0'), 1)


# -- the rest of MCP

def test_resources_and_prompts(d):
    ready(d)
    table = rows(said(d.mcpctl('resources')))
    assert table[0] == ['SERVER', 'URI', 'NAME'] and len(table) == 3 and {r[0] for r in table[1:]} == {'fake'}
    listed = json.loads(said(d.mcpctl('--json', 'resources', 'fake')))['servers'][0]
    assert listed['name'] == 'fake' and len(listed['resources']) == 2
    uri = listed['resources'][0]['uri']
    assert said(d.mcpctl('read', 'fake', uri)).strip()
    assert 'contents' in json.loads(said(d.mcpctl('--json', 'read', 'fake', uri)))
    table = rows(said(d.mcpctl('prompts')))
    assert table[0] == ['SERVER', 'PROMPT', 'DESCRIPTION'] and len(table) == 2
    assert said(d.mcpctl('prompt', 'fake', table[1][1])).startswith('user:\n')
    assert 'messages' in json.loads(said(d.mcpctl('--json', 'prompt', 'fake', table[1][1])))
    assert 'MCP error' in complained(d.mcpctl('resources', 'time'))


def test_lists_of_many_pages_and_a_cursor_that_repeats(make_daemon):
    page = {'result': {'resources': [{'uri': 'a:1', 'name': 'one'}], 'nextCursor': 'again'}}
    d = make_daemon({'fake': fake(resources=1, answers={'resources/list': page})})
    with d.client() as c:
        c.wait_state('fake', 'connected')
    assert len(rows(said(d.mcpctl('resources', 'fake')))) == 3      # heading, page 1, and the one that told


def test_complete_and_request(make_daemon):
    completion = {'result': {'completion': {'values': ['Engineering', 'Ethics'], 'hasMore': False}}}
    d = make_daemon({'fake': fake(answers={'completion/complete': completion},
                                  capabilities={'completions': {}, 'tools': {}})})
    with d.client() as c:
        c.wait_state('fake', 'connected')
    assert said(d.mcpctl('complete', 'fake', 'prompt', 'department', 'E')) == 'Engineering\nEthics\n'
    assert json.loads(said(d.mcpctl('--json', 'complete', 'fake', 'demo://{x}', 'x')))['completion']['values']
    assert json.loads(said(d.mcpctl('request', 'fake', 'tools/list')))['tools'][0]['name'] == 'tool0'
    assert 'MCP error -32601' in complained(d.mcpctl('request', 'fake', 'no/such'))
    assert 'no JSON' in complained(d.mcpctl('request', 'fake', 'tools/list', '{'), 2)
    assert complained(d.mcpctl('request', 'fake', 'initialize'))


# -- the command line, and output

@pytest.mark.parametrize('args', [[], ['frobnicate'], ['--no-such-option', 'status'], ['--timeout', 'x', 'status'],
                                  ['--timeout', '-1', 'status'], ['servers', 'extra'], ['logs'], ['complete', 'a', 'b']])
def test_wrong_usage(d, args):
    done = d.mcpctl(*args)
    assert done.returncode == 2 and 'mcpctl' in done.stderr and done.stdout == ''


def test_help_names_every_command(d):
    text = said(d.mcpctl('--help'))
    for command in ('status servers tools call resources read prompts prompt complete request logs events connect '
                    'disconnect reconnect reload shutdown rpc').split():
        assert re.search(r'^  %s ' % command, text, re.M)
    assert said(d.mcpctl('--version')).startswith('mcpctl ')


def test_output_into_a_full_device_fails_and_says_so(d):
    ready(d)
    with open('/dev/full', 'w') as full:
        done = subprocess.run([program('mcpctl'), 'servers'], env=d.environ, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=TIMEOUT)
    assert done.returncode == 1 and 'No space left' in done.stderr


def test_output_into_a_closed_pipe_ends_quietly(d):
    ready(d)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([program('mcpctl'), 'servers'], env=d.environ, stdout=write, stderr=subprocess.PIPE,
                          text=True, timeout=TIMEOUT)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, '')


def test_output_into_a_slow_pipe_is_whole(make_daemon):
    """More than a pipe holds, into one that is also non-blocking: nothing is dropped, however late it is read."""
    d = make_daemon({'fake': fake(tools=['bytes'])})
    read, write = os.pipe()
    os.set_blocking(write, False)
    p = subprocess.Popen([program('mcpctl'), 'call', 'fake', 'bytes', 'size:=3000000', 'char=x'], env=d.environ,
                         stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    got = b''
    while True:
        part = os.read(read, 65536)
        if not part:
            break
        got += part
    os.close(read)
    assert p.wait(TIMEOUT) == 0 and p.stderr.read() == b''
    p.stderr.close()
    assert got == b'x' * 3000000 + b'\n'


def test_the_daemon_is_started_on_demand(d, make_daemon):
    other = make_daemon({'time': time_server()}, start=False)
    done = other.mcpctl('--no-start', 'servers')
    assert done.returncode == 4
    text = said(other.mcpctl('tools', '--timeout', '20', 'time', env={'MCPD_PROGRAM': program('mcpd')}))
    assert 'get_current_time' in text
    said(other.mcpctl('shutdown'))
    wait_for(lambda: not other.processes())
    assert 'was not found along PATH' in complained(other.mcpctl('servers', env={'MCPD_PROGRAM': 'no-such-mcpd'}), 4)
    other.write_config_text('{')
    text = complained(other.mcpctl('servers', env={'MCPD_PROGRAM': program('mcpd')}), 4)
    assert 'did not start' in text and str(other.config_path) in text

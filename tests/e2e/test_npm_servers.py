"""Real servers from npm through the daemon: what arrives is what the official SDK's client gets from the same server
directly - tools, text, images, embedded resources, structured content, resources, prompts, errors."""

import base64
import json
import os
import re
import subprocess
import threading

import harness
from harness import npm_server, node

EVERYTHING = '@modelcontextprotocol/server-everything'
FILESYSTEM = '@modelcontextprotocol/server-filesystem'
MEMORY = '@modelcontextprotocol/server-memory'


def directly(definition, requests):
    """The answers of the server to the official SDK's client."""
    order = {'command': definition['command'], 'args': definition['args'], 'env': definition.get('env', {}),
             'requests': [{'method': m, 'params': p} for m, p in requests]}
    script = harness.HERE.parent / 'npm' / 'sdk_client.mjs'
    out = subprocess.run([node(), str(script)], input=json.dumps(order), stdout=subprocess.PIPE, text=True, timeout=60,
                         check=True).stdout
    return json.loads(out)


def through_socket(client, server, requests):
    """The same requests over the bare socket."""
    answers = []
    for method, params in requests:
        if method == 'tools/call':
            pending = client.request('tools/call', {'server': server, **params})
        else:
            pending = client.request('mcp/request', {'server': server, 'method': method, 'params': params})
        pending.wait()
        if pending.error is None:
            answers.append({'result': pending.result})
        else:
            assert pending.error['code'] == -32006, pending.error
            answers.append({'error': pending.error['data']['error']})
    return answers


def through_mcpctl(daemon, server, requests):
    answers = []
    for method, params in requests:
        done = daemon.mcpctl('--json', 'request', server, method, json.dumps(params))
        answer = json.loads(done.stdout)
        answers.append(answer if 'error' in answer else {'result': answer})
        if 'error' in answer:
            answers[-1] = {'error': answer['error']['data']['error']}
    return answers


def same(got, wanted):
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted):
        if 'error' in other:
            # The SDK puts its own words before the server's message.
            assert one['error']['code'] == other['error']['code']
            assert one['error']['message'] in other['error']['message']
        else:
            assert one == other


def call(name, **arguments):
    return 'tools/call', {'name': name, 'arguments': arguments}


EVERYTHING_REQUESTS = [
    call('echo', message='\u2028 \U0001f600 "quoted" \\ \u0000'),
    call('get-sum', a=1.5, b=-2),
    call('get-tiny-image'),
    call('get-annotated-message', messageType='error', includeImage=True),
    call('get-resource-reference', resourceType='Text', resourceId=1),
    call('get-resource-reference', resourceType='Blob', resourceId=2),
    call('get-resource-links', count=3),
    call('get-structured-content', location='New York'),
    call('get-sum', a='no number', b=1),
    call('no-such-tool'),
    ('resources/list', {}),
    ('resources/templates/list', {}),
    ('resources/read', {'uri': 'demo://resource/static/document/features.md'}),
    ('resources/read', {'uri': 'demo://nothing/here'}),
    ('prompts/list', {}),
    ('prompts/get', {'name': 'args-prompt', 'arguments': {'city': 'Lisboa', 'state': ''}}),
    ('prompts/get', {'name': 'resource-prompt', 'arguments': {'resourceType': 'Text', 'resourceId': '1'}}),
    ('completion/complete', {'ref': {'type': 'ref/prompt', 'name': 'completable-prompt'},
                             'argument': {'name': 'department', 'value': 'S'}}),
    ('no/such-method', {}),
]


def without_times(value, key=None):
    """The demo's own resources carry the time at which they were made, as text and in base64."""
    if isinstance(value, dict):
        return {k: without_times(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [without_times(v) for v in value]
    if key == 'blob':
        value = base64.b64decode(value, validate=True).decode()
    return re.sub(r'\d{1,2}:\d{2}:\d{2} (AM|PM)|\d{4}-\d\d-\d\dT[\d:.]+Z', 'TIME', value) if isinstance(value, str) else value


def test_everything_through_socket_and_mcpctl(npm, make_daemon):
    definition = npm_server(EVERYTHING)
    wanted = without_times(directly(definition, EVERYTHING_REQUESTS))
    d = make_daemon({'everything': definition})
    with d.client() as c:
        c.wait_state('everything', 'connected')
        got = without_times(through_socket(c, 'everything', EVERYTHING_REQUESTS))
        same(got, wanted)
        same(without_times(through_mcpctl(d, 'everything', EVERYTHING_REQUESTS)), wanted)
        # The list is the server's own, whole and in its order.
        tools = directly(definition, [('tools/list', {})])[0]['result']['tools']
        assert c.call('tools/list')['servers'][0]['tools'] == tools
    assert len(d.servers('server-everything')) == 1


def test_filesystem_works_on_its_files(npm, make_daemon):
    d = make_daemon({}, start=False)
    root = d.path('files')
    root.mkdir()
    (root / 'a.txt').write_text('first line\nzweite Zeile äöü\n')
    (root / 'pixel.png').write_bytes(bytes.fromhex('89504e470d0a1a0a'))
    definition = npm_server(FILESYSTEM, str(root))
    d.write_config({'files': definition})
    requests = [call('read_text_file', path=str(root / 'a.txt')),
                call('read_media_file', path=str(root / 'pixel.png')),
                call('list_directory', path=str(root)),
                call('read_text_file', path='/etc/passwd')]
    wanted = directly(definition, requests)
    assert wanted[3]['result']['isError']
    d.start()
    with d.client() as c:
        c.wait_state('files', 'connected')
        same(through_socket(c, 'files', requests), wanted)
        c.text('files', 'write_file', {'path': str(root / 'b.txt'), 'content': 'written through mcpd'})
    assert (root / 'b.txt').read_text() == 'written through mcpd'
    same(through_mcpctl(d, 'files', requests[:2]), wanted[:2])


def test_memory_is_one_for_all_clients(npm, make_daemon):
    d = make_daemon({}, start=False)
    definition = npm_server(MEMORY, env={'MEMORY_FILE_PATH': str(d.path('memory.jsonl'))})
    d.write_config({'memory': definition})
    d.start()
    with d.client() as a, d.client() as b:
        a.text('memory', 'create_entities', {'entities': [{'name': 'mcpd', 'entityType': 'daemon',
                                                           'observations': ['shares servers']}]})
        seen = json.loads(b.text('memory', 'search_nodes', {'query': 'shares'}))
    assert [e['name'] for e in seen['entities']] == ['mcpd']
    done = d.mcpctl('call', 'memory', 'open_nodes', 'names=mcpd')
    assert done.returncode == 0 and 'shares servers' in done.stdout
    assert len(d.servers('server-memory')) == 1


def test_sixteen_clients_three_servers_three_trees(npm, make_daemon):
    """R1 on real servers: 16 clients, each using all three: three server processes, and no answer astray."""
    d = make_daemon({}, start=False)
    root = d.path('files')
    root.mkdir()
    d.write_config({'everything': npm_server(EVERYTHING), 'files': npm_server(FILESYSTEM, str(root)),
                    'memory': npm_server(MEMORY, env={'MEMORY_FILE_PATH': str(d.path('memory.jsonl'))})})
    d.start()
    failures = []

    def one(number):
        try:
            with d.client() as c:
                pending = []
                for i in range(10):
                    text = 'client %d call %d' % (number, i)
                    pending.append((text, c.tool('everything', 'echo', {'message': text}, timeoutMs=60000)))
                path = str(root / ('%d.txt' % number))
                c.text('files', 'write_file', {'path': path, 'content': 'of %d' % number}, timeoutMs=60000)
                assert 'of %d' % number in c.text('files', 'read_text_file', {'path': path}, timeoutMs=60000)
                c.text('memory', 'read_graph', {}, timeoutMs=60000)
                for text, p in pending:
                    assert p.wait().result['content'][0]['text'] == 'Echo: ' + text
        except BaseException as e:      # told by the main thread
            failures.append((number, e))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    for word in ('server-everything', 'server-filesystem', 'server-memory'):
        assert len(d.servers(word)) == 1, d.servers(word)


def test_node_is_the_pinned_one(npm):
    version = subprocess.run([node(), '--version'], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert version.startswith('v22.'), version
    assert os.access(node(), os.X_OK)

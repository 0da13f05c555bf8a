"""proto/PROTOCOL.md and rpc.discover, checked against what the daemon does."""

import json
import re

import jsonschema
import pytest
from harness import ROOT, fake, time_server, wait_for

DOCUMENT = ROOT / 'proto' / 'PROTOCOL.md'
# Values that differ from run to run: only their type is compared.
VOLATILE = {'pid', 'version', 'uptimeMs', 'socket', 'files', 'source', 'rssBytes', 'revision', 'at', 'connectedAt', 'command', 'memoryBytes', 'cpuMs'}
LEFT_OUT = '\u2026'


def transcripts():
    """(name, lines) of each transcript, after the heading it stands under."""
    found, heading, lines = [], '', None
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith('#'):
            heading = line.lstrip('# ')
        if line == '```transcript':
            lines = []
        elif line == '```' and lines is not None:
            found.append((heading, lines))
            lines = None
        elif lines is not None:
            lines.append(line)
    return found


def same(wanted, got, key=None, where='$'):
    """Whether got is what the document says; a text that says where it is not."""
    if wanted == LEFT_OUT:
        return None
    if isinstance(wanted, str) and isinstance(got, str):
        if key in VOLATILE:
            return None
        pattern = '.*'.join(re.escape(part) for part in wanted.split(LEFT_OUT))
        return None if re.fullmatch(pattern, got, re.DOTALL) else '%s: %r is not %r' % (where, got, wanted)
    if type(wanted) is not type(got):
        return '%s: %r is not %r' % (where, got, wanted)
    if isinstance(wanted, dict):
        open_ended = LEFT_OUT in wanted
        missing = [k for k in wanted if k not in got and k != LEFT_OUT]
        extra = [k for k in got if k not in wanted]
        if missing or (extra and not open_ended):
            return '%s: missing %s, more than said %s' % (where, missing, extra)
        return next(filter(None, (same(wanted[k], got[k], k, where + '.' + k) for k in wanted if k != LEFT_OUT)), None)
    if isinstance(wanted, list):
        open_ended = wanted and wanted[-1] == LEFT_OUT
        items = wanted[:-1] if open_ended else wanted
        if len(got) < len(items) or (len(got) > len(items) and not open_ended):
            return '%s: %d elements, not %d' % (where, len(got), len(items))
        return next(filter(None, (same(w, g, key, '%s[%d]' % (where, i)) for i, (w, g) in enumerate(zip(items, got)))), None)
    return None if wanted == got or key in VOLATILE else '%s: %r is not %r' % (where, got, wanted)


def test_the_document_has_a_transcript_for_every_method(make_daemon):
    text = '\n'.join(line for _, lines in transcripts() for line in lines)
    with make_daemon().client() as c:
        for method in c.hello()['methods']:
            assert '"method":"%s"' % method in text, method


@pytest.mark.parametrize('heading, lines', [t for t in transcripts() if t[0] != 'Questions from servers'],
                         ids=lambda v: v if isinstance(v, str) else '')
def test_transcripts_are_true(make_daemon, heading, lines):
    slow = heading == 'Cancelling and progress'
    desk = fake(initializeDelayMs=20000, server={'lazy': True}) if slow else time_server(lazy=True, sharing='exclusive')
    daemon = make_daemon({'time': time_server(), 'desk': desk})
    with daemon.client() as c:
        c.wait_state('time', 'connected')
        wait_for(lambda: c.call('daemon/status')['clients'] == 1)
        received = []
        c._line = received.append
        for line in lines:
            arrow, text = line.split(' ', 1)
            if arrow == '-->':
                c.send_bytes(text.encode() + b'\n')
                continue
            assert arrow == '<--'
            c.wait_until(lambda: received, what=line)
            got = received.pop(0)
            problem = same(json.loads(text), json.loads(got))
            assert problem is None, '%s\n%s' % (problem, got.decode())
        assert not received
    if heading == 'daemon/shutdown':
        daemon.wait_exit(0)


def test_the_transcript_of_a_question_is_true(make_daemon):
    heading, lines = next(t for t in transcripts() if t[0] == 'Questions from servers')
    daemon = make_daemon({'bank': fake()})
    with daemon.client(capabilities={'elicitation': {}}) as c:
        wanted, answer = (json.loads(line.split(' ', 1)[1]) for line in lines)
        call = c.tool('bank', 'ask', {'method': 'elicitation/create', 'params': {
            'message': 'Which account?', 'requestedSchema': {'type': 'object', 'properties': {}}}})
        question = c.wait_question()
        assert re.fullmatch(r'mcpd-\d+', question['id'])
        assert same({**wanted, 'id': question['id']}, question) is None
        c.respond(question, answer['result'])
        assert call.wait().result['structuredContent'] == {'result': answer['result']}


def test_the_documents_tables_are_complete():
    text = DOCUMENT.read_text()
    for line in (ROOT / 'proto' / 'errors.h').read_text().splitlines():
        match = re.match(r'\s*X\(\w+, (-\d+),', line)
        if match:
            assert match.group(1) in text, 'error %s' % match.group(1)


# -- rpc.discover

@pytest.fixture
def discovered(make_daemon):
    """(daemon, client, document, check): check(method, params) calls and holds parameters and result against the document."""
    daemon = make_daemon({'fake': fake(tools=2, resources=1, instructions='x'), 'time': time_server(),
                          'own': fake(server={'sharing': 'per-client'}), 'turns': fake(server={'sharing': 'exclusive'}),
                          'bad': {'command': 'no-such-program'}, 'off': fake(server={'enabled': False}),
                          'down': fake(exitAt={'when': 'start', 'status': 1})})
    with daemon.client() as c:
        for name in ('fake', 'time'):
            c.wait_state(name, 'connected')
        document = c.call('rpc.discover')
        methods = {m['name']: m for m in document['methods']}

        def schema(s):
            return {'$ref': '#/s', 's': s, 'components': document['components']}

        def check(method, params=None):
            described = methods[method]
            known = {p['name']: p for p in described['params']}
            for name, value in (params or {}).items():
                jsonschema.validate(value, schema(known[name]['schema']))
            assert all(p['name'] in (params or {}) for p in described['params'] if p['required'])
            result = c.call(method, params)
            jsonschema.validate(result, schema(described['result']['schema']), cls=jsonschema.Draft202012Validator)
            return result

        yield daemon, c, document, check


def test_every_answer_is_as_described(discovered):
    daemon, c, document, check = discovered
    c.text('own', 'count'), c.text('turns', 'count')
    c.wait_state('down', 'reconnecting', 'failed')
    checked = set()

    def run(method, params=None):
        checked.add(method)
        return check(method, params)
    run('daemon/hello', {'protocol': 1, 'client': {'name': 'x'}, 'capabilities': {}, 'cwd': '/'})
    assert run('rpc.discover') == document
    for name in ('fake', 'time', 'own', 'turns', 'bad', 'off', 'down'):
        run('servers/get', {'server': name})
    run('daemon/status')
    for params in (None, {'format': 'json'}, {'format': 'prometheus'}):
        run('daemon/metrics', params)
    run('servers/list')
    for method in ('servers/reconnect', 'servers/disconnect', 'servers/connect'):
        run(method, {'server': 'fake', 'timeoutMs': 60000})
    run('servers/release', {'server': 'turns'})
    c.tool('fake', 'stderr', {'text': 'x'}).wait()
    wait_for(lambda: run('servers/logs', {'server': 'fake', 'lines': 5})['lines'])
    run('tools/list', {'waitMs': 1000})
    run('tools/list', {'server': 'fake', 'ifRevision': 'x'})
    assert run('tools/list', {'ifRevision': run('tools/list')['revision']})['notModified'] is True
    run('tools/call', {'server': 'fake', 'name': 'tool0', 'arguments': {}, 'timeoutMs': 5000, '_meta': {}})
    run('mcp/request', {'server': 'fake', 'method': 'ping', 'params': {}, 'timeoutMs': 5000})
    run('mcp/notify', {'server': 'fake', 'method': 'notifications/x', 'params': {}})
    run('events/subscribe', {'topics': ['servers', 'tools', 'logs', 'notifications', 'calls'], 'server': 'fake'})
    run('events/unsubscribe', {'topics': ['servers']})
    daemon.write_config_text('{broken')
    assert run('daemon/reload')['errors']
    run('daemon/status')
    daemon.write_config({'fake': fake(unknown=1, server={'surprise': 1}), 'bad': {'command': 5}})
    assert run('daemon/reload')['warnings']
    with daemon.client() as attached:
        assert attached.mcp_attach('fake') == {'server': 'fake'}      # checked by the client, as all answers are
        checked.add('mcp/attach')
    run('daemon/shutdown')
    assert checked == {m['name'] for m in document['methods']}
    daemon.wait_exit(0)


def test_the_document_is_openrpc(discovered):
    _, c, document, _ = discovered
    assert re.fullmatch(r'1\.\d+\.\d+', document['openrpc'])
    assert document['info']['title'] == 'mcpd' and document['info']['version'] == c.hello()['daemon']['version']
    assert [m['name'] for m in document['methods']] == c.hello()['methods']
    references = set(re.findall(r'"#/components/(\w+)/(\w+)"', json.dumps(document)))
    for kind, name in references:
        assert name in document['components'][kind], name
    for method in document['methods']:
        assert method['paramStructure'] == 'by-name' and method['summary'] and method['result']['name']
        for param in method['params']:
            jsonschema.Draft202012Validator.check_schema(param['schema'])
        jsonschema.Draft202012Validator.check_schema(
            method['result']['schema'] if isinstance(method['result']['schema'], dict) else {})


def test_what_the_document_forbids_is_refused(discovered):
    """The dispatcher and the document have one table: a parameter of the wrong type is refused, a required one is missed."""
    _, c, document, _ = discovered
    for method in document['methods']:
        if method['name'] == 'mcp/attach':
            continue        # what is refused ends the connection: test_attach.py
        good = {p['name']: {'server': 'fake', 'topics': ['logs'], 'name': 'tool0', 'method': 'ping'}.get(p['name'])
                for p in method['params'] if p['required']}
        for p in method['params']:
            error = c.fails(method['name'], {**good, p['name']: False})
            assert error.code == -32602 and p['name'] in error.message, (method['name'], p['name'])
            if p['required']:
                without = {k: v for k, v in good.items() if k != p['name']}
                assert c.fails(method['name'], without).code == -32602

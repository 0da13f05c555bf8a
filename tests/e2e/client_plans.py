"""What test_bridge_clients.py has the official clients do (the steps of tests/npm/client_plan.mjs), and how two runs are compared."""

import base64
import re

WATCHED = 'test://watched-resource'
DYNAMIC = 'demo://resource/dynamic/text/1'
ROOTS = [{'uri': 'file:///home/me/project', 'name': 'project'}, {'uri': 'file:///srv/data', 'name': 'data'}]
CAPABILITIES = {'sampling': {}, 'elicitation': {'form': {}, 'url': {}}, 'roots': {'listChanged': True}}
LISTS = [{'op': 'list', 'what': what} for what in ('tools', 'prompts', 'resources', 'templates')]


def call(name, /, **arguments):
    return {'op': 'call', 'name': name, 'arguments': arguments}


def prompt(name, /, **arguments):
    return {'op': 'prompt', 'name': name, 'arguments': arguments}


def read(uri):
    return {'op': 'read', 'uri': uri}


def complete(ref, name, value, **context):
    ref = {'type': 'ref/resource', 'uri': ref} if '://' in ref else {'type': 'ref/prompt', 'name': ref}
    return {'op': 'complete', 'ref': ref, 'argument': {'name': name, 'value': value},
            **({'context': {'arguments': context}} if context else {})}


def listening(filter, *steps):
    return [{'op': 'listen', 'filter': filter}, *steps, {'op': 'unlisten', 'filter': filter}]


def awaiting(method, **params):
    return {'op': 'await', 'method': 'notifications/' + method, 'params': params}


def level(name):
    return {'op': 'level', 'level': name}


EVERYTHING = [
    {'op': 'info'}, *LISTS,
    call('echo', message='\u2028 \U0001f600 "quoted" \\ \u0000'),
    call('get-sum', a=1.5, b=-2), call('get-sum', a='no number', b=1), call('no-such-tool'),
    call('get-tiny-image'), call('get-annotated-message', messageType='error', includeImage=True),
    call('get-resource-reference', resourceType='Text', resourceId=1),
    call('get-resource-reference', resourceType='Blob', resourceId=2),
    call('get-resource-links', count=3), call('get-structured-content', location='New York'), call('get-env'),
    *listening({'resourcesListChanged': True},
               call('gzip-file-as-resource', name='a.gz', data='data:text/plain,some%20text', outputType='resource'),
               awaiting('resources/list_changed')),
    read('demo://resource/session/a.gz'),
    {**call('trigger-long-running-operation', duration=0.2, steps=4), 'progress': True},
    {**call('trigger-long-running-operation', duration=5, steps=50), 'op': 'abandon'},
    call('trigger-sampling-request', prompt='What is this?', maxTokens=10),
    call('trigger-elicitation-request'), call('trigger-url-elicitation', url='https://example.org/form', elicitationId='e-1'),
    call('get-roots-list'),
    level('debug'), {**call('toggle-simulated-logging'), 'logs': 1}, call('toggle-simulated-logging'),
    *listening({'resourceSubscriptions': [DYNAMIC]},
               call('toggle-subscriber-updates'), awaiting('resources/updated', uri=DYNAMIC), call('toggle-subscriber-updates')),
    prompt('simple-prompt'), prompt('args-prompt', city='Lisboa', state='Alfama'), prompt('args-prompt'), prompt('no-such-prompt'),
    prompt('completable-prompt', department='Sales', name='Eve'), prompt('resource-prompt', resourceType='Text', resourceId='1'),
    read('demo://resource/static/document/features.md'), read(DYNAMIC), read('demo://resource/dynamic/blob/2'),
    read('demo://nothing/here'),
    complete('completable-prompt', 'department', 'S'), complete('completable-prompt', 'name', '', department='Sales'),
    complete('demo://resource/dynamic/text/{resourceId}', 'resourceId', '7'),
]
TASKS = [{'op': 'task', 'name': 'simulate-research-query', 'arguments': {'topic': 'python', 'ambiguous': True}}]

REFERENCE = [
    {'op': 'info'}, *LISTS,
    *(call('test_' + name) for name in ('simple_text', 'image_content', 'audio_content', 'embedded_resource',
                                        'multiple_content_types', 'error_handling')),
    call('json_schema_2020_12_tool', email='a@b'), call('json_schema_2020_12_tool', unknown=1), call('no-such-tool'),
    call('echo', text='1e400 \ud800 \u2028'),
    {**call('test_tool_with_progress'), 'progress': True},
    level('debug'), {**call('test_tool_with_logging'), 'logs': 3}, {**call('log_all'), 'logs': 8},
    level('error'), {**call('log_all'), 'logs': 4},
    {'op': 'cancel', 'name': 'wait', 'waits': 'waits'},
    call('test_sampling', prompt='Who?'), call('test_elicitation', message='Tell me'),
    call('test_elicitation_sep1034_defaults'), call('test_elicitation_sep1330_enums'),
    *(call('test_input_required_result_' + name) for name in (
        'elicitation', 'sampling', 'list_roots', 'capabilities', 'request_state', 'multiple_inputs', 'multi_round')),
    prompt('test_input_required_result_prompt'),
    prompt('test_simple_prompt'), prompt('test_prompt_with_arguments', arg1='one', arg2='two'), prompt('test_prompt_with_arguments'),
    prompt('test_prompt_with_embedded_resource', resourceUri='test://x'), prompt('test_prompt_with_image'),
    read('test://static-text'), read('test://static-binary'), read('test://template/a%20b/data'), read('test://nothing'),
    complete('test_prompt_with_arguments', 'arg1', 'par'), complete('test://template/{id}/data', 'id', '1'),
    *listening({'toolsListChanged': True, 'promptsListChanged': True, 'resourcesListChanged': True,
                'resourceSubscriptions': [WATCHED]},
               *(step for name in ('tool', 'prompt', 'resource') for step in (
                   call('test_trigger_%s_change' % name), awaiting('%ss/list_changed' % name))),
               call('touch', uri=WATCHED), awaiting('resources/updated', uri=WATCHED)),
    *LISTS,
]


def prefixed(steps, server):
    """The same steps for a client that sees the server's tools and prompts among those of others."""
    def one(step):
        step = dict(step)
        for member in ('name', 'waits'):
            if member in step:
                step[member] = '%s__%s' % (server, step[member])
        if 'ref' in step and 'name' in step['ref']:
            step['ref'] = {**step['ref'], 'name': '%s__%s' % (server, step['ref']['name'])}
        return step
    return [one(step) for step in steps]


# -- comparing

TIME = re.compile(r'created at [0-9: APM]+')
TASK = re.compile(r'^[0-9a-f]{32}$')


def masked(value):
    """The value without what differs from run to run: times of day, ids of tasks, the environment."""
    if isinstance(value, dict):
        value = {k: masked(v) for k, v in value.items()}
        if isinstance(value.get('blob'), str) and b'created at' in base64.b64decode(value['blob']):
            value['blob'] = masked(base64.b64decode(value['blob']).decode())
        return value
    if isinstance(value, list):
        return [masked(v) for v in value]
    return TASK.sub('<task>', TIME.sub('created at <time>', value)) if isinstance(value, str) else value


MODERN_ONLY = ('resultType', 'ttlMs', 'cacheScope')
SERVER_INFO = 'io.modelcontextprotocol/serverInfo'
SCHEMES = {'everything__': 'demo://', 'reference__': 'test://'}
LIST_OF = {'tools': 'tools', 'prompts': 'prompts', 'resources': 'resources', 'templates': 'resourceTemplates'}
# Answers that differ from process to process.
ANY_RESULT = {'get-env'}
EVERYTHINGS_OWN = {step.get('name', step.get('uri', step.get('method'))) for step in EVERYTHING}
NOWHERE = {'demo://nothing/here', 'test://nothing'}
# Answers that differ from run to run: `waits` is polled, and how often depends on time.
CHANGING = {'get-env', 'waits', 'demo://resource/dynamic/blob/2', 'simulate-research-query'}


def plain(result):
    """A result without what only the modern era has."""
    if not isinstance(result, dict):
        return result
    result = {k: v for k, v in result.items() if k not in MODERN_ONLY}
    meta = {k: v for k, v in result.pop('_meta', {}).items() if k != SERVER_INFO}
    return {**result, '_meta': meta} if meta else result


def question(q):
    """What was asked, without what the SDKs and mcpd add to tell whose question it is."""
    params = {k: v for k, v in (q.get('params') or {}).items() if k != '_meta'}
    if q['method'] == 'elicitation/create':
        params.setdefault('mode', 'form')
        params.pop('elicitationId', None)
    return q['method'], params


class Run:
    """What a client observed, step by step (lines), and what went over its wire (transcript: b'> ..' and b'< ..')."""

    def __init__(self, lines, transcript, prefix=''):
        self.lines, self.transcript, self.prefix = lines, transcript, prefix

    def short(self, name):
        return name[len(self.prefix):] if self.prefix and isinstance(name, str) and name.startswith(self.prefix) else name

    def steps(self):
        """[(label, outcome, questions)] of all steps but lists and info, names without prefix."""
        found = []
        for line in self.lines:
            if line['step'] in ('info', 'list', 'end', 'ping'):
                continue
            of = self.short(line.get('of'))
            # The everything server asks for roots by itself, a while after the handshake.
            questions = [question(q) for q in line['questions'] if q['method'] != 'roots/list' or of not in EVERYTHINGS_OWN]
            found.append(('%s %s' % (line['step'], of), self.outcome(line, of), questions))
        return found

    def outcome(self, line, of):
        if of in NOWHERE:
            # Among all servers these are no server's words: nobody has it.
            return 'error', line['error']['code'] in (-32002, -32602)
        if 'error' in line:
            return 'error', {k: v for k, v in line['error'].items() if v is not None}
        result = masked(plain(line['result']))
        if of in ANY_RESULT:
            return 'result', sorted(result)
        if isinstance(result, dict):
            # Which of them an SDK still reports when the answer is right behind is its own affair: see progress().
            result.pop('reports', None)
            if self.prefix and 'listed' in result:
                raise AssertionError('the union of all servers has no list of tasks')
            if result.pop('listed', True) is not True:
                raise AssertionError('a task of its own is not in its list')
        return 'result', result

    def list(self, what, nth=0):
        """The nth list of a kind, of one server: its items by name, without prefix."""
        line = [l for l in self.lines if l['step'] == 'list' and l['of'] == what][nth]
        items = [dict(item) for item in line['result'][LIST_OF[what]]]
        if self.prefix and what in ('tools', 'prompts'):
            items = [item for item in items if item['name'].startswith(self.prefix)]
            for item in items:
                item['name'] = self.short(item['name'])
        elif self.prefix:
            scheme = SCHEMES[self.prefix]
            items = [item for item in items if item.get('uri', item.get('uriTemplate')).startswith(scheme)]
        return {item['name']: item for item in items}

    def one(self, step):
        return next(line for line in self.lines if line['step'] == step)

    def notes(self, awaited, without=None):
        """What was notified: log messages in order, but those that begin with `without`; and of what the plan waits for the set,
        as a burst may be told once or more often."""
        logs, changes, seen = [], set(), []
        for line in self.lines:
            fresh = line.get('notes') or []
            if line['step'] == 'await':         # it has those of the step before, too
                fresh = fresh[len(seen):]
            seen = line.get('notes') or []
            for note in fresh:
                params = {k: v for k, v in (note.get('params') or {}).items() if k != '_meta'}
                if note['method'] == 'notifications/message':
                    text = re.sub(r'^.*[- ]level[- ]message$', '<any>', str(params['data']))
                    if params.get('logger') != 'everything-server' and not (without and text.startswith(without)):
                        logs.append(text)
                elif note['method'] in awaited:
                    changes.add((note['method'], params.get('uri')))
        return logs, changes

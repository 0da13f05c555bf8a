#!/usr/bin/python3
"""An MCP server over stdio that misbehaves to order. Run as `fake.py '{"option": value, ...}'`; in tests,
harness.fake(option=value, ...) makes the server definition. Everything is off by default: a well-behaved legacy server
with one tool.

Identity
  name, version, instructions, capabilities   what the handshake tells (default capabilities: tools, and what is below)
  era             "legacy" (default), "modern" (2026-07-28 only), "both"
  protocolVersion the version that `initialize` is answered with (default: the one asked for, or 2025-11-25)
  supportedVersions what `server/discover` says (default ["2026-07-28"])
  ttlMs           of modern list results (default 0)

Start and handshake
  startDelayMs    waits before it reads anything
  initializeDelayMs, discoverDelayMs, listDelayMs   waits before those answers, while other requests go on
  probe           what a legacy server does with `server/discover`: "error" (default: -32601), "ignore",
                  "exit" (status 1), "empty" (result {}), or a whole error object
  initialize      "answer" (default), "ignore", "exit" (status 1), or a whole error object
  exitAt          {"when": "start" | a method, "status": 3, "stderr": "last words", "signal": 9}: ends when that comes
  exitTimes       how often exitAt, probe "exit" and initialize "exit" happen at all, counted over processes in `state`
                  (default: always)
  onInitialized   list of messages (requests or notifications) to send after `notifications/initialized`

Tools and lists
  tools           a number (tool0..), or a list of names, or of tool objects (default 1); the acting tools below can
                  always be called
  toolsFile       a JSON file with such a value, read at each listing: tools that change across a restart
  pageSize        tools per page
  cursors         "normal" (default), "repeat" (the same cursor for ever), "empty" (the cursor of page 2 is "")
  resources, prompts   numbers; they also announce the capability
  listChanged     false: not announced (default true)
  tasks           true: a call that asks for a task (a modern server: whose client declares the extension) becomes one, with
                  ids that every process counts from task-1. {"status": false}: says nothing of them unasked;
                  "ttl": ms
  listen          how a modern server takes subscriptions/listen with resources: {"refused": [uris], "silent": true (no
                  acknowledgment), "error": {..}}
  answers         {method: {"result": ..} | {"error": ..} | {"raw": "bytes of result"}, with "delayMs"}: overrides

Streams
  noise           list of texts written (each with \\n) before every answer; noiseAtStart: once
  byteAtATime     true: output leaves in one-byte writes
  crlf            true: lines end in \\r\\n
  stderrAtStart   text; stderrFlood: bytes of stderr before every answer
  record          file to which every line received is appended, with its newline, as it came
  pids            file to which each process appends "pid\\n" at its start

Life
  ignoreEof, ignoreTerm    true; the process then ends by SIGKILL alone
  exitStatus      at EOF (default 0)
  serial          true: one request at a time, in the order of their coming (what is cancelled or asks must not be)
  ownSession      true: calls setsid() at the start
  grandchild      {"ignoreTerm": true, "setsid": true, "holdStdout": true}: starts a sleeping process; pid in `report`
  state           file with counters that outlive the process (JSON, replaced atomically)

Acting tools (tools/call by name; `arguments` in brackets)
  tool<N>, others that are listed    text "<name> was called"
  echo {..}       structuredContent: the arguments' bytes as they came
  text {text}, bytes {size, char}    text as asked for; size bytes of it
  sleep {ms, text}    answers later; others go on meanwhile. Ends unanswered when cancelled (legacy and modern)
  hang            never answers
  count {key, ms}     after that time counts in memory and in `state`; text "<this process> <all processes>"
  progress {steps, ms, late, token, total, message}   that many notifications; late: one more right after the answer, in
                  the same write; token: a token that nobody gave
  crash {signal, status, countFirst, partial}   ends at once, by default with SIGKILL; partial: after half an answer
  error {code, message, data}, toolError {text}   JSON-RPC error; result with isError
  raw {lines}     writes the lines as they are; $ID in them is the id of this request
  ask {method, params, id, wait}   sends a request to the client, answers with the answer that came; wait false: answers
                  at once; id: one of its own choice, or "same" for the id of this call
  needs {rounds}  a modern server's way of asking: an input-required result for each round, which is {key: {method,
                  params}}; then structuredContent: what came back, round by round
  notify {method, params, times}   sends notifications first
  updated {uri, more, meta}   sends resources/updated: a legacy server to all, a modern one on the streams that want the URI
  setTools {tools, times}   changes the list and sends list_changed that often
  env {names}     structuredContent: environment values
  where           structuredContent: cwd, pid, session, group, terminal, signals, descriptors
  report          structuredContent: what the server has seen (methods, cancelled, initialize params, last _meta, ...)
  stderr {text, bytes}      writes to stderr
  close           closes its stdout without ending
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import rawjson  # noqa: E402

MODERN = '2026-07-28'
META = 'io.modelcontextprotocol/'
TASKS, RELATED = META + 'tasks', META + 'related-task'


class Error(Exception):
    def __init__(self, code, message, data=None):
        self.error = {'code': code, 'message': message}
        if data is not None:
            self.error['data'] = data


class Fake:
    def __init__(self, options):
        self.options = options
        self.tools = self.make_tools(options.get('tools', 1))
        self.lock = threading.Lock()
        self.memory = {}
        self.asked = {}             # our request's id -> [event, answer]
        self.cancelled = {}         # request id as JSON -> event
        self.next_ask = 1
        self.listens = {}           # id as JSON -> filter
        self.seen = {'methods': {}, 'cancelled': [], 'responses': [], 'batches': 0, 'notifications': [], 'levels': [],
                     'listened': [], 'listening': []}
        self.grandchild_pid = None
        # One table for methods and one for tools, so that both lists have a single place.
        self.methods = {
            'ping': lambda m: {},
            'tools/list': self.list_tools,
            'tools/call': self.call_tool,
            'resources/list': self.list_resources,
            'resources/read': self.read_resource,
            'resources/templates/list': lambda m: self.cached({'resourceTemplates': []}),
            'resources/subscribe': lambda m: {},
            'resources/unsubscribe': lambda m: {},
            'prompts/list': self.list_prompts,
            'prompts/get': self.get_prompt,
            'completion/complete': lambda m: self.complete({'completion': {'values': ['alpha', 'beta']}}),
            'logging/setLevel': self.set_level,
        }
        self.tasks = {}             # id -> {"task": as it is told, "result" or "error", "over": event}
        if options.get('tasks'):
            self.methods.update({'tasks/get': self.get_task, 'tasks/result': self.task_result, 'tasks/cancel': self.cancel_task,
                                 'tasks/list': self.list_tasks, 'tasks/update': lambda m: self.complete({}, True)})
        self.acts = {name[4:]: getattr(self, name) for name in dir(self) if name.startswith('act_')}

    # -- output

    def write(self, data):
        with self.lock:
            if self.options.get('byteAtATime'):
                for i in range(len(data)):
                    os.write(1, data[i:i + 1])
            else:
                view = memoryview(data)
                while view:
                    view = view[os.write(1, view):]

    def line(self, message):
        data = message
        if not isinstance(message, bytes):
            data = json.dumps(message, ensure_ascii=False).encode('utf-8', 'surrogatepass')
        return data + (b'\r\n' if self.options.get('crlf') else b'\n')

    def send(self, message):
        self.write(self.line(message))

    def noise(self):
        flood = self.options.get('stderrFlood', 0)
        if flood:
            os.write(2, (b'x' * 99 + b'\n') * (flood // 100 + 1))
        return b''.join(n.encode('utf-8', 'surrogateescape') + b'\n' for n in self.options.get('noise', []))

    def answer(self, raw_id, result=None, error=None, behind=b''):
        """result: an object, or bytes of one. behind: goes out in the same write."""
        body = b'"error":' + json.dumps(error).encode() if error else \
            b'"result":' + (result if isinstance(result, bytes) else json.dumps(result, ensure_ascii=False).encode())
        self.write(self.noise() + self.line(b'{"jsonrpc":"2.0","id":' + raw_id + b',' + body + b'}') + behind)

    # -- life

    def persist(self, key):
        """Adds one to a counter in the state file; returns it. Safe between processes."""
        path = self.options.get('state')
        if not path:
            return None
        with open(path + '.lock', 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                counters = json.loads(Path(path).read_text())
            except FileNotFoundError:
                counters = {}
            counters[key] = counters.get(key, 0) + 1
            Path(path + '.new').write_text(json.dumps(counters))
            os.rename(path + '.new', path)
            return counters[key]

    def may_exit(self):
        times = self.options.get('exitTimes')
        return times is None or self.persist('exits') <= times

    def die(self, how):
        if how.get('stderr'):
            os.write(2, how['stderr'].encode() + b'\n')
        if how.get('signal'):
            os.kill(os.getpid(), how['signal'])
        os._exit(how.get('status', 1))

    def start(self):
        options = self.options
        if options.get('ownSession') and os.getpid() != os.getsid(0):
            os.setsid()
        if options.get('ignoreTerm'):
            for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(signo, signal.SIG_IGN)
        if options.get('pids'):
            with open(options['pids'], 'a') as f:
                f.write('%d\n' % os.getpid())
        if options.get('grandchild') is not None:
            self.start_grandchild(options['grandchild'])
        if options.get('stderrAtStart'):
            os.write(2, options['stderrAtStart'].encode() + b'\n')
        time.sleep(options.get('startDelayMs', 0) / 1000)
        for text in options.get('noiseAtStart', []):
            self.write(text.encode('utf-8', 'surrogateescape') + b'\n')
        self.exit_at('start')

    def exit_at(self, when):
        how = self.options.get('exitAt')
        if how and how.get('when') == when and self.may_exit():
            self.die(how)

    def start_grandchild(self, how):
        code = 'import signal, time\n'
        if how.get('ignoreTerm'):
            code += 'for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n'
        code += 'print("up", flush=True)\n' if how.get('holdStdout') else ''
        code += 'time.sleep(600)'
        child = subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.DEVNULL,
                                 stdout=None if how.get('holdStdout') else subprocess.DEVNULL,
                                 start_new_session=bool(how.get('setsid')))
        self.grandchild_pid = child.pid

    # -- input

    def run(self):
        self.start()
        record = self.options.get('record')
        record = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if record else None
        for line in sys.stdin.buffer:
            if record is not None:
                os.write(record, line)
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, list):
                self.seen['batches'] += 1
                continue
            self.message(line, message)
        while self.options.get('ignoreEof'):
            signal.pause()
        os._exit(self.options.get('exitStatus', 0))

    def message(self, line, message):
        method = message.get('method')
        if method is None:
            self.response(message)
            return
        self.seen['methods'][method] = self.seen['methods'].get(method, 0) + 1
        self.exit_at(method)
        if 'id' not in message:
            self.notification(method, message.get('params') or {})
            return
        raw_id = rawjson.raw(line, 'id')
        self.cancelled[raw_id] = threading.Event()
        if self.options.get('serial'):
            self.request(line, raw_id, method, message)
        else:
            threading.Thread(target=self.request, args=(line, raw_id, method, message), daemon=True).start()

    def response(self, message):
        self.seen['responses'].append(message)
        waiting = self.asked.pop(json.dumps(message.get('id')), None)
        if waiting:
            waiting[1] = message
            waiting[0].set()

    def notification(self, method, params):
        self.seen['notifications'].append(method)
        if method == 'notifications/cancelled':
            self.seen['cancelled'].append(params)
            event = self.cancelled.get(json.dumps(params.get('requestId')).encode())
            if event:
                event.set()
        elif method == 'notifications/initialized':
            for message in self.options.get('onInitialized', []):
                self.send(message)

    def request(self, line, raw_id, method, message):
        try:
            message['_line'], message['_id'] = line, raw_id
            message['params'] = message.get('params') or {}
            result = self.dispatch(method, message)
        except Error as e:
            self.answer(raw_id, error=e.error)
        else:
            if result is not None:
                self.answer(raw_id, result)
        self.cancelled.pop(raw_id, None)

    def dispatch(self, method, message):
        override = self.options.get('answers', {}).get(method)
        if override:
            time.sleep(override.get('delayMs', 0) / 1000)
            if 'error' in override:
                raise self.error_of(override['error'])
            if 'raw' in override:
                return override['raw'].encode('utf-8', 'surrogateescape')
            if 'result' in override:
                return override['result']
        if method == 'initialize':
            return self.initialize(message)
        if method == 'server/discover':
            return self.discover(message)
        if self.is_modern(message):
            self.check_meta(message)
            if method == 'subscriptions/listen':
                return self.listen(message)
            if method in ('ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'):
                raise Error(-32601, 'Method not found')
        if method not in self.methods:
            raise Error(-32601, 'Method not found')
        return self.methods[method](message)

    @staticmethod
    def error_of(error):
        e = Error(error.get('code', -32603), error.get('message', 'error'), error.get('data'))
        e.error = error
        return e

    # -- handshake

    @property
    def era(self):
        return self.options.get('era', 'legacy')

    def is_modern(self, message):
        if self.era == 'both':
            return META + 'protocolVersion' in (message['params'].get('_meta') or {})
        return self.era == 'modern'

    def check_meta(self, message):
        meta = message['params'].get('_meta') or {}
        self.seen['lastMeta'] = meta
        version = meta.get(META + 'protocolVersion')
        if version is None or META + 'clientCapabilities' not in meta:
            raise Error(-32602, '_meta lacks protocolVersion or clientCapabilities')
        supported = self.options.get('supportedVersions', [MODERN])
        if version not in supported:
            raise Error(-32022, 'Unsupported protocol version', {'requested': version, 'supported': supported})

    def info(self):
        return {'name': self.options.get('name', 'fake'), 'version': self.options.get('version', '1.0')}

    def capabilities(self):
        if 'capabilities' in self.options:
            return self.options['capabilities']
        changed = self.options.get('listChanged', True)
        capabilities = {'tools': {'listChanged': changed}, 'logging': {}, 'completions': {}}
        if self.options.get('tasks') and self.era == 'legacy':
            capabilities['tasks'] = {'list': {}, 'cancel': {}, 'requests': {'tools': {'call': {}}}}
        elif self.options.get('tasks'):
            capabilities['extensions'] = {TASKS: {}}
        if self.options.get('resources'):
            capabilities['resources'] = {'listChanged': changed, 'subscribe': True}
        if self.options.get('prompts'):
            capabilities['prompts'] = {'listChanged': changed}
        return capabilities

    def with_instructions(self, result):
        if 'instructions' in self.options:
            result['instructions'] = self.options['instructions']
        return result

    def initialize(self, message):
        how = self.options.get('initialize', 'answer')
        self.seen['initialize'] = message['params']
        if self.era == 'modern':
            raise Error(-32601, 'Method not found')
        time.sleep(self.options.get('initializeDelayMs', 0) / 1000)
        if how == 'ignore':
            return None
        if how == 'exit' and self.may_exit():
            self.die({'status': 1})
        if isinstance(how, dict):
            raise self.error_of(how)
        asked = message['params'].get('protocolVersion')
        version = self.options.get('protocolVersion', asked if asked != MODERN else '2025-11-25')
        return self.with_instructions({'protocolVersion': version, 'capabilities': self.capabilities(),
                                       'serverInfo': self.info()})

    def discover(self, message):
        time.sleep(self.options.get('discoverDelayMs', 0) / 1000)
        if self.era != 'legacy':
            self.check_meta(message)
            versions = self.options.get('supportedVersions', [MODERN])
            return self.with_instructions(self.cached({'supportedVersions': versions,
                                                       'capabilities': self.capabilities()}, modern=True))
        how = self.options.get('probe', 'error')
        if how == 'ignore':
            return None
        if how == 'exit' and self.may_exit():
            self.die({'status': 1})
        if how == 'empty':
            return {}
        if isinstance(how, dict):
            raise self.error_of(how)
        raise Error(-32601, 'Method not found')

    def complete(self, result, modern=None):
        if self.era == 'modern' if modern is None else modern:
            result['resultType'] = 'complete'
            result['_meta'] = {META + 'serverInfo': self.info()}
        return result

    def cached(self, result, modern=None):
        if self.era == 'modern' if modern is None else modern:
            result.update(ttlMs=self.options.get('ttlMs', 0), cacheScope='private')
        return self.complete(result, modern)

    def listen(self, message):
        how = self.options.get('listen', {})
        wanted = message['params'].get('notifications') or {}
        known = ('toolsListChanged', 'resourcesListChanged', 'promptsListChanged', 'resourceSubscriptions')
        honoured = {k: v for k, v in wanted.items() if k in known}
        uris = honoured.pop('resourceSubscriptions', [])
        self.seen['listened'].append(wanted)
        if uris and 'error' in how:
            raise self.error_of(how['error'])
        uris = [u for u in uris if u not in how.get('refused', [])]
        if uris:
            honoured['resourceSubscriptions'] = uris
        id = json.loads(message['_id'])
        self.listens[message['_id']] = (id, honoured)
        self.seen['listening'] = [filter for _, filter in self.listens.values()]
        if not (uris and how.get('silent')):
            self.send({'jsonrpc': '2.0', 'method': 'notifications/subscriptions/acknowledged',
                       'params': {'notifications': honoured, '_meta': {META + 'subscriptionId': id}}})
        self.cancelled[message['_id']].wait()
        del self.listens[message['_id']]
        self.seen['listening'] = [filter for _, filter in self.listens.values()]
        return None

    # -- lists

    @staticmethod
    def make_tools(spec):
        names = ['tool%d' % i for i in range(spec)] if isinstance(spec, int) else spec
        return [t if isinstance(t, dict) else
                {'name': t, 'description': 'The tool %s' % t, 'inputSchema': {'type': 'object'}} for t in names]

    def current_tools(self):
        if self.options.get('toolsFile'):
            return self.make_tools(json.loads(Path(self.options['toolsFile']).read_text()))
        return self.tools

    def list_tools(self, message):
        time.sleep(self.options.get('listDelayMs', 0) / 1000)
        modern = self.is_modern(message)
        tools, size = self.current_tools(), self.options.get('pageSize')
        if not size:
            return self.cached({'tools': tools}, modern)
        cursors = self.options.get('cursors', 'normal')
        cursor = message['params'].get('cursor')
        page = 0 if cursor is None else 1 if cursors == 'empty' and cursor == '' else int(cursor.split('-')[1])
        result = {'tools': tools[page * size:(page + 1) * size]}
        if cursors == 'repeat':
            result['nextCursor'] = 'page-1'
        elif (page + 1) * size < len(tools):
            result['nextCursor'] = '' if cursors == 'empty' and page == 0 else 'page-%d' % (page + 1)
        return self.cached(result, modern)

    def list_resources(self, message):
        return self.cached({'resources': [{'uri': 'fake://r%d' % i, 'name': 'r%d' % i}
                                          for i in range(self.options.get('resources', 0))]}, self.is_modern(message))

    def read_resource(self, message):
        uri = message['params'].get('uri', '')
        if not uri.startswith('fake://r'):
            raise Error(-32602 if self.is_modern(message) else -32002, 'Resource not found', {'uri': uri})
        return self.cached({'contents': [{'uri': uri, 'text': 'contents of ' + uri}]}, self.is_modern(message))

    def list_prompts(self, message):
        return self.cached({'prompts': [{'name': 'p%d' % i} for i in range(self.options.get('prompts', 0))]},
                           self.is_modern(message))

    def get_prompt(self, message):
        return self.complete({'messages': [{'role': 'user', 'content': {
            'type': 'text', 'text': 'prompt ' + str(message['params'].get('name'))}}]}, self.is_modern(message))

    def set_level(self, message):
        self.seen['levels'].append(message['params'].get('level'))
        return {}

    # -- tasks

    def wants_task(self, message):
        if not self.options.get('tasks') or '_task' in message:
            return False
        if not self.is_modern(message):
            return 'task' in message['params']
        capabilities = (message['params'].get('_meta') or {}).get(META + 'clientCapabilities') or {}
        return TASKS in capabilities.get('extensions', {})

    def make_task(self, message):
        with self.lock:
            id = 'task-%d' % (len(self.tasks) + 1)
            ttl = 'ttlMs' if self.is_modern(message) else 'ttl'
            self.tasks[id] = {'task': {'taskId': id, 'status': 'working', 'createdAt': '2026-01-01T00:00:00Z',
                                       'lastUpdatedAt': '2026-01-01T00:00:00Z', ttl: self.task_options().get('ttl')},
                              'over': threading.Event(), 'modern': self.is_modern(message)}
        message = {**message, '_task': id}
        # The request's end must not end what goes on.
        message['_id'] = b'"of %s"' % id.encode()
        self.cancelled[message['_id']] = threading.Event()
        threading.Thread(target=self.run_task, args=(message, id), daemon=True).start()
        told = dict(self.tasks[id]['task'])
        return json.dumps({'resultType': 'task', **told} if self.is_modern(message) else {'task': told}).encode()

    def task_options(self):
        options = self.options['tasks']
        return options if isinstance(options, dict) else {}

    def run_task(self, message, id):
        try:
            result = self.call_tool(message)
            if result is None:
                return          # it never ends by itself
            end = {'result': json.loads(result) if isinstance(result, bytes) else result}
        except Error as e:
            end = {'error': e.error}
        self.end_task(id, 'failed' if 'error' in end else 'completed', end)

    def end_task(self, id, status, end):
        task = self.tasks[id]
        with self.lock:
            if task['over'].is_set():
                return
            task.update(end)
            task['task']['status'] = status
            task['over'].set()
        if self.task_options().get('status', True) and not task['modern']:
            self.send({'jsonrpc': '2.0', 'method': 'notifications/tasks/status', 'params': task['task']})

    def find_task(self, message):
        task = self.tasks.get(message['params'].get('taskId'))
        if not task:
            raise Error(-32602, 'Unknown task')
        return task

    def get_task(self, message):
        task = self.find_task(message)
        ends = {k: task[k] for k in ('result', 'error') if k in task and task['modern']}
        return self.complete({**task['task'], **ends}, task['modern'])

    def task_result(self, message):
        task = self.find_task(message)
        task['over'].wait()
        if 'error' in task:
            raise self.error_of(task['error'])
        return task.get('result', {'content': []})

    def cancel_task(self, message):
        task = self.find_task(message)
        id = task['task']['taskId']
        if task['over'].is_set():
            raise Error(-32602, 'It has ended')
        self.seen['cancelledTasks'] = self.seen.get('cancelledTasks', []) + [id]
        self.cancelled[b'"of %s"' % id.encode()].set()
        self.end_task(id, 'cancelled', {})
        return self.complete({} if task['modern'] else dict(task['task']), task['modern'])

    def list_tasks(self, message):
        return {'tasks': [t['task'] for t in self.tasks.values()], 'nextCursor': 'more'}

    # -- tools

    def call_tool(self, message):
        params = message['params']
        name = params.get('name')
        if self.wants_task(message):
            return self.make_task(message)
        self.seen['lastCallMeta'] = params.get('_meta')
        if name in self.acts:
            result = self.acts[name](message, params.get('arguments') or {})
        elif any(t['name'] == name for t in self.current_tools()):
            result = '%s was called' % name
        else:
            raise Error(-32602, 'Unknown tool: %s' % name)
        if isinstance(result, str):
            result = {'content': [{'type': 'text', 'text': result}]}
        return self.complete(result, self.is_modern(message)) if isinstance(result, dict) else result

    @staticmethod
    def structured(value):
        return {'content': [{'type': 'text', 'text': json.dumps(value)}], 'structuredContent': value}

    def act_echo(self, message, arguments):
        raw = rawjson.raw(message['_line'], 'params', 'arguments') or b'{}'
        extra = b',"resultType":"complete"' if self.is_modern(message) else b''
        return b'{"content":[],"structuredContent":' + raw + extra + b'}'

    def act_text(self, message, arguments):
        return arguments.get('text', '')

    def act_bytes(self, message, arguments):
        size, char = arguments.get('size', 0), arguments.get('char', 'x')
        return char * (size // len(char.encode()))

    def act_sleep(self, message, arguments):
        if self.cancelled[message['_id']].wait(arguments.get('ms', 0) / 1000):
            return None
        return arguments.get('text', 'slept')

    def act_hang(self, message, arguments):
        return None

    def act_count(self, message, arguments):
        key = arguments.get('key', 'count')
        time.sleep(arguments.get('ms', 0) / 1000)
        with self.lock:
            self.memory[key] = self.memory.get(key, 0) + 1
        return '%d %s' % (self.memory[key], self.persist(key))

    def act_progress(self, message, arguments):
        token = (message['params'].get('_meta') or {}).get('progressToken')
        steps = arguments.get('steps', 3)

        def note(n, token):
            params = {'progressToken': token, 'progress': n}
            params.update({k: arguments[k] for k in ('total', 'message') if k in arguments})
            return {'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': params}

        for n in range(1, steps + 1):
            if 'token' in arguments:
                self.send(note(n, arguments['token']))
            if token is not None:
                self.send(note(n, token))
            if self.cancelled[message['_id']].wait(arguments.get('ms', 0) / 1000):
                return None
        result = self.complete({'content': [{'type': 'text', 'text': 'done'}]}, self.is_modern(message))
        if arguments.get('late') and token is not None:
            self.answer(message['_id'], result, behind=self.line(note(steps + 1, token)))
            return None
        return result

    def act_crash(self, message, arguments):
        if arguments.get('countFirst'):
            self.persist(arguments['countFirst'])
        if arguments.get('partial'):
            self.write(b'{"jsonrpc":"2.0","id":' + message['_id'] + b',"result":{"content":[{"type":"te')
        if 'status' in arguments:
            os._exit(arguments['status'])
        os.kill(os.getpid(), arguments.get('signal', signal.SIGKILL))
        time.sleep(60)

    def act_error(self, message, arguments):
        raise Error(arguments.get('code', -32000), arguments.get('message', 'failed'), arguments.get('data'))

    def act_toolError(self, message, arguments):
        return {'content': [{'type': 'text', 'text': arguments.get('text', 'failed')}], 'isError': True}

    def act_raw(self, message, arguments):
        for line in arguments.get('lines', []):
            self.write(line.encode('utf-8', 'surrogateescape').replace(b'$ID', message['_id']) + b'\n')
        return None

    def act_ask(self, message, arguments):
        id = arguments.get('id')
        if id is None:
            with self.lock:
                id, self.next_ask = 'ask-%d' % self.next_ask, self.next_ask + 1
        elif id == 'same':
            id = json.loads(message['_id'])
        waiting = self.asked[json.dumps(id)] = [threading.Event(), None]
        request = {'jsonrpc': '2.0', 'id': id, 'method': arguments.get('method', 'roots/list')}
        if 'params' in arguments:
            request['params'] = arguments['params']
        if '_task' in message and arguments.get('related', True):
            request['params'] = {**request.get('params', {}), '_meta': {RELATED: {'taskId': message['_task']}}}
        self.send(request)
        if not arguments.get('wait', True):
            return 'asked'
        if not waiting[0].wait(arguments.get('timeout', 60)):
            return 'no answer'
        return self.structured({k: waiting[1][k] for k in ('result', 'error') if k in waiting[1]})

    def act_needs(self, message, arguments):
        # It keeps nothing itself: all that is known of earlier rounds is in the state that comes back.
        params = message['params']
        done = json.loads(params['requestState']) if 'requestState' in params else []
        if 'inputResponses' in params:
            done.append(params['inputResponses'])
        if len(done) == len(arguments['rounds']):
            return self.structured({'answers': done})
        return json.dumps({'resultType': 'input_required', 'inputRequests': arguments['rounds'][len(done)],
                           'requestState': json.dumps(done)}).encode()

    def act_notify(self, message, arguments):
        note = {'jsonrpc': '2.0', 'method': arguments.get('method', 'notifications/message')}
        if 'params' in arguments:
            note['params'] = arguments['params']
        for _ in range(arguments.get('times', 1)):
            self.send(note)
        return 'notified'

    def act_updated(self, message, arguments):
        note = {'jsonrpc': '2.0', 'method': 'notifications/resources/updated'}
        params = {'uri': arguments['uri'], **arguments.get('more', {})}
        if not self.is_modern(message):
            self.send({**note, 'params': params})
        for id, honoured in list(self.listens.values()):
            if arguments.get('everywhere') or arguments['uri'] in honoured.get('resourceSubscriptions', []):
                self.send({**note, 'params': {**params, '_meta': {META + 'subscriptionId': id, **arguments.get('meta', {})}}})
        return 'updated'

    def act_setTools(self, message, arguments):
        if 'tools' in arguments:
            self.tools = self.make_tools(arguments['tools'])
        note = {'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed'}
        for _ in range(arguments.get('times', 1)):
            if not self.is_modern(message):
                self.send(note)
            for id, honoured in list(self.listens.values()):
                if honoured.get('toolsListChanged'):
                    self.send({**note, 'params': {'_meta': {META + 'subscriptionId': id}}})
        return 'set'

    def act_env(self, message, arguments):
        return self.structured({name: os.environ.get(name) for name in arguments.get('names', [])})

    def act_where(self, message, arguments):
        try:
            os.close(os.open('/dev/tty', os.O_RDWR))
            terminal = True
        except OSError:
            terminal = False
        lines = Path('/proc/self/status').read_text().splitlines()
        status = dict(line.split(':\t', 1) for line in lines if ':\t' in line)
        descriptors = {}
        for fd in os.listdir('/proc/self/fd'):
            try:
                descriptors[fd] = os.readlink('/proc/self/fd/' + fd)
            except OSError:
                pass        # the one that listed them
        return self.structured({
            'cwd': os.getcwd(), 'pid': os.getpid(), 'ppid': os.getppid(), 'pgid': os.getpgid(0), 'sid': os.getsid(0),
            'terminal': terminal, 'ignored': status['SigIgn'].strip(), 'blocked': status['SigBlk'].strip(),
            'descriptors': descriptors, 'cgroup': Path('/proc/self/cgroup').read_text(), 'argv': sys.argv})

    def act_report(self, message, arguments):
        return self.structured({**self.seen, 'pid': os.getpid(), 'grandchild': self.grandchild_pid})

    def act_stderr(self, message, arguments):
        os.write(2, arguments['text'].encode() + b'\n') if 'text' in arguments else None
        left = arguments.get('bytes', 0)
        while left > 0:
            left -= os.write(2, b'x' * 99 + b'\n')
        return 'written'

    def act_close(self, message, arguments):
        os.close(1)
        return None


if __name__ == '__main__':
    # SIGINT must not make a traceback, and EOF not a wait for threads that sleep.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Fake(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}).run()

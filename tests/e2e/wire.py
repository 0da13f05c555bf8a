"""What went over one stdio connection (programs/tap.py), and the laws that every MCP connection keeps, whoever is at its ends."""

import json

import rawjson

# Requests whose results are the server's own bytes.
SERVERS_OWN = {'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri', 'completion/complete': None}
LISTS = {'tools/list': 'tools', 'prompts/list': 'prompts', 'resources/list': 'resources',
         'resources/templates/list': 'resourceTemplates'}


class Transcript:
    def __init__(self, data):
        self.messages = []              # (direction, line, message)
        for line in data.split(b'\n'):
            if line:
                assert line[:2] in (b'> ', b'< '), line[:200]
                self.messages.append((chr(line[0]), line[2:], json.loads(line[2:])))

    def __str__(self):
        return '\n'.join('%s %s' % (d, line[:600].decode(errors='replace')) for d, line, _ in self.messages)

    def exchanges(self):
        """[(request, its answer's line or None)] of what the client asked, in order."""
        answers = {json.dumps(m['id']): line for d, line, m in self.messages if d == '<' and 'method' not in m}
        return [(m, answers.get(json.dumps(m['id']))) for d, _, m in self.messages if d == '>' and 'method' in m and 'id' in m]

    def raw_results(self, short):
        """[(what was asked, raw bytes of the result or error)] of what servers answer themselves; names go through `short`. Questions
        asked by an input-required result are left out: the state that they carry is another one each time."""
        found = []
        for request, line in self.exchanges():
            method = request['method']
            if line is None or method not in SERVERS_OWN:
                continue
            answer = json.loads(line)
            member = 'result' if 'result' in answer else 'error'
            if member == 'result' and answer['result'].get('resultType') == 'input_required':
                continue
            name = request['params'].get(SERVERS_OWN[method])
            found.append(((method, short(name)), rawjson.raw(line, member)))
        return found

    def raw_items(self):
        """[(the list's method, raw bytes of its items)] of all lists that the client asked for."""
        return [(request['method'], rawjson.elements(rawjson.raw(line, 'result', LISTS[request['method']])))
                for request, line in self.exchanges() if request['method'] in LISTS]

    def progress(self, short):
        """{tool: [params without the token]} of what was reported for each call that wanted it."""
        names, found = {}, {}
        for d, _, m in self.messages:
            if d == '>' and m.get('method') == 'tools/call':
                token = (m['params'].get('_meta') or {}).get('progressToken')
                if token is not None:
                    names[json.dumps(token)] = short(m['params']['name'])
            elif d == '<' and m.get('method') == 'notifications/progress':
                params = dict(m['params'])
                name = names[json.dumps(params.pop('progressToken'))]
                params.pop('_meta', None)
                found.setdefault(name, []).append(params)
        return found

    def broken_laws(self):
        """What no server may do: answer twice, answer nothing, answer what was cancelled, report progress for what is not in flight."""
        problems, in_flight, tokens, cancelled = [], {}, {}, set()
        for d, line, m in self.messages:
            id = json.dumps(m.get('id'))
            if d == '>' and 'method' in m and 'id' in m:
                in_flight[id] = m
                token = ((m.get('params') or {}).get('_meta') or {}).get('progressToken')
                if token is not None:
                    tokens[json.dumps(token)] = id
            elif d == '>' and m.get('method') == 'notifications/cancelled':
                cancelled.add(json.dumps(m['params']['requestId']))
            elif d == '<' and 'method' not in m:
                if in_flight.pop(id, None) is None:
                    problems.append('an answer to nothing in flight: %r' % line[:300])
            elif d == '<' and m['method'] == 'notifications/progress':
                owner = tokens.get(json.dumps(m['params']['progressToken']))
                if owner not in in_flight:
                    problems.append('progress for nothing in flight: %r' % line[:300])
        problems += ['never answered: %s' % request for id, request in in_flight.items() if id not in cancelled]
        return problems

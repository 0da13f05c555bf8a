#!/usr/bin/python3
"""mcpd as the client under test of the official conformance suite: run by it with the server's URL as last argument, once for
each scenario (MCP_CONFORMANCE_SCENARIO). Starts a daemon of its own with that URL as its one HTTP server, and does over
the daemon's socket what the scenario wants a client to do (STEPS).

Everything the suite checks is therefore done by the daemon: this file only lists, calls and answers questions. It exits 0 when
its steps went as the scenario expects; the verdict is the suite's.
"""

import json
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'e2e'))
import harness  # noqa: E402

MRTR = ['test_mrtr_echo_state', 'test_mrtr_unrelated', 'test_mrtr_no_state', 'test_mrtr_no_result_type']

# What each scenario wants called: (tool, arguments) pairs, or one of the words that run() knows.
STEPS = {
    'initialize': [],
    'tools_call': [('add_numbers', {'a': 5, 'b': 3})],
    'elicitation-sep1034-client-defaults': [('test_client_elicitation_defaults', {})],
    'sse-retry': [('test_reconnection', {})],
    'request-metadata': [],
    'sep-2322-client-request-state': [(name, {}) for name in MRTR],
    'http-standard-headers': [('test_headers', {}), 'read first', 'first prompt'],
    'http-custom-headers': ['calls of the context'],
    'http-invalid-tool-headers': ['call each'],
    'json-schema-ref-no-deref': [],
    'json-schema-2020-12-preservation': ['echo the schema'],
}
# Calls that the scenario's server is free to refuse.
MAY_FAIL = {'sep-2322-client-request-state', 'http-invalid-tool-headers'}


def defaults_of(schema):
    return {name: p['default'] for name, p in schema.get('properties', {}).items() if 'default' in p}


def answer(client, question):
    """A person who accepts everything, with the form's defaults."""
    if question['method'] == 'elicitation/create':
        content = defaults_of(question['params'].get('requestedSchema', {}))
        if not content:
            content = {name: True for name, p in question['params'].get('requestedSchema', {}).get('properties', {}).items()
                       if p.get('type') == 'boolean'}
        client.respond(question, {'action': 'accept', 'content': content})
    elif question['method'] == 'roots/list':
        client.respond(question, {'roots': []})
    else:
        client.respond(question, {'role': 'assistant', 'model': 'none', 'stopReason': 'endTurn',
                                  'content': {'type': 'text', 'text': 'answered'}})


class Run:
    def __init__(self, daemon, scenario):
        self.scenario = scenario
        self.client = daemon.client(hello=True, capabilities={'elicitation': {'form': {}}, 'sampling': {}, 'roots': {}})
        self.client.on_request = answer

    def list(self):
        listed = self.client.call('tools/list', {'server': 'under-test', 'waitMs': 20000})['servers'][0]
        if listed.get('error'):
            sys.exit('no tools: %s' % listed['error'])
        return listed['tools']

    def call(self, name, arguments):
        answer = self.client.tool('under-test', name, arguments).wait()
        if answer.error is not None:
            print('%s: %s' % (name, answer.error), file=sys.stderr)
            if self.scenario not in MAY_FAIL:
                sys.exit(1)
        return answer

    def request(self, method, params=None):
        return self.client.call('mcp/request', {'server': 'under-test', 'method': method, 'params': params or {}})

    def step(self, step, tools):
        if isinstance(step, tuple):
            self.call(*step)
        elif step == 'read first':
            self.request('resources/read', {'uri': self.request('resources/list')['resources'][0]['uri']})
        elif step == 'first prompt':
            self.request('prompts/get', {'name': self.request('prompts/list')['prompts'][0]['name'], 'arguments': {}})
        elif step == 'calls of the context':
            for call in json.loads(os.environ['MCP_CONFORMANCE_CONTEXT'])['toolCalls']:
                self.call(call['name'], call['arguments'])
        elif step == 'call each':
            for tool in tools:
                self.call(tool['name'], {'region': 'us-west1'})
        elif step == 'echo the schema':
            self.echo_schema(tools)

    def echo_schema(self, tools):
        for tool in tools:
            if 'echo' in tool['name'].lower():
                continue
            for echo in (t for t in tools if 'echo' in t['name'].lower()):
                self.call(echo['name'], {'schema': tool['inputSchema']})


def main():
    scenario = os.environ['MCP_CONFORMANCE_SCENARIO']
    # The suite runs until everybody has closed its output: the daemon and its guards must not hold it.
    daemon = harness.Daemon({'under-test': {'type': 'http', 'url': sys.argv[-1]}}, start=False)
    try:
        daemon.start()
        run = Run(daemon, scenario)
        tools = run.list()
        for step in STEPS[scenario]:
            run.step(step, tools)
    finally:
        daemon.finish()


if __name__ == '__main__':
    main()

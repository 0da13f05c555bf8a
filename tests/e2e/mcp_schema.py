"""Validates messages against the JSON schemas of the MCP revisions, of which tests/schema/ has copies.

    check('2026-07-28', 'ListToolsResult', result)
"""

import functools
import json

import jsonschema

from harness import ROOT

LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']
MODERN = '2026-07-28'


@functools.lru_cache(maxsize=None)
def _document(version):
    with open(ROOT / 'tests' / 'schema' / (version + '.json')) as f:
        return json.load(f)


@functools.lru_cache(maxsize=None)
def validator(version, definition):
    document = _document(version)
    defs = '$defs' if '$defs' in document else 'definitions'
    if definition not in document[defs]:
        raise KeyError('%s has no %s' % (version, definition))
    return jsonschema.validators.validator_for(document)({**document, '$ref': '#/%s/%s' % (defs, definition)})


def check(version, definition, instance):
    error = jsonschema.exceptions.best_match(validator(version, definition).iter_errors(instance))
    assert error is None, '%s %s: %s in %s' % (version, definition, error.message, json.dumps(instance)[:500])
    return instance


def error_definition(version):
    return 'JSONRPCError' if version < '2025-11-25' else 'JSONRPCErrorResponse'


def result_definition(version):
    return 'JSONRPCResponse' if version < '2025-11-25' else 'JSONRPCResultResponse'

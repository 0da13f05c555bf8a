"""What rpc.discover says about answers, to hold every answer in the tests against it.

The schemas are taken more strictly than they are meant for clients: a member that an object's schema does not name is
a fault of the document, so it is reported. Errors must be among those that the method's description lists.
"""

import json

import jsonschema

# What any request may be answered, whatever its method: it never got as far as the method.
GENERAL_ERRORS = {-32700, -32600, -32601}


def closed(schema):
    """The schema with every object closed to members that it does not name."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get('properties'), dict) and 'type' in schema:
        strict.setdefault('additionalProperties', False)
    return strict


class Described:
    def __init__(self, document):
        self.document = document
        components = {'schemas': {name: closed(s) for name, s in document['components']['schemas'].items()}}
        self.results, self.errors = {}, {}
        for method in document['methods']:
            schema = closed(method['result']['schema'])
            if isinstance(schema, dict):    # true: whatever the server says
                schema = {**schema, 'components': components}
            self.results[method['name']] = jsonschema.Draft202012Validator(schema)
            names = [e['$ref'].rsplit('/', 1)[1] for e in method['errors']]
            self.errors[method['name']] = {document['components']['errors'][n]['code'] for n in names} | GENERAL_ERRORS

    def problem(self, method, answer):
        """What is wrong with an answer to a method, or None. Methods that are not described can only be refused."""
        error = answer.get('error')
        if error is not None:
            if error.get('code') not in self.errors.get(method, GENERAL_ERRORS) or not isinstance(error.get('message'), str):
                return '%s is not described as an error of %s' % (json.dumps(error)[:400], method)
            return None
        if method not in self.results:
            return 'the document does not describe %s, which was answered' % method
        fault = jsonschema.exceptions.best_match(self.results[method].iter_errors(answer['result']))
        return fault and '%s: %s at %s' % (method, fault.message[:400], '.'.join(map(str, fault.absolute_path)) or 'the top')

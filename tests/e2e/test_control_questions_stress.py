"""Many questions to many clients at once, with random timing: never one to the wrong client (R20, R24)."""

import random
import threading
import time

import pytest
from harness import fake

CLIENTS = 6
ROUNDS = {'shared': 40, 'per-client': 40, 'exclusive': 12}      # each turn at an exclusive server is a new process


@pytest.mark.parametrize('sharing', ['shared', 'per-client', 'exclusive'])
def test_every_question_reaches_its_own_client_or_none(make_daemon, sharing):
    daemon = make_daemon({'s': fake(server={'sharing': sharing})})
    failures, counts = [], {'asked': 0, 'refused': 0}
    lock = threading.Lock()

    def agent(number):
        chance = random.Random(number)
        with daemon.client(capabilities={'sampling': {}}) as c:
            for i in range(ROUNDS[sharing]):
                mine = 'c%d-%d' % (number, i)
                call = c.tool('s', 'ask', {'method': 'sampling/createMessage', 'params': {'messages': [], 'mine': mine}}, id=i)
                if chance.random() < 0.3:
                    c.tool('s', 'sleep', {'ms': chance.randrange(5)}, id='s%d' % i)
                c.wait_until(lambda: call.done or c.questions)
                if c.questions:
                    question = c.wait_question()
                    assert question['params']['mine'] == mine, (question, mine)
                    c.respond(question, {'to': mine})
                    assert call.wait().result['structuredContent'] == {'result': {'to': mine}}
                else:
                    error = call.result['structuredContent']['error']
                    assert sharing == 'shared' and 'per-client' in error['message'], error
                with lock:
                    counts['refused' if 'error' in call.result['structuredContent'] else 'asked'] += 1
                time.sleep(chance.random() * 0.03)
                if sharing == 'exclusive':
                    # All of its calls must have ended: what is in flight keeps the next from being asked.
                    for pending in list(c.in_flight.values()):
                        pending.wait()
                    c.call('servers/release', {'server': 's'})
            for pending in list(c.in_flight.values()):
                pending.wait()
            assert not c.questions

    def guarded(number):
        try:
            agent(number)
        except BaseException as e:     # told by the main thread
            failures.append((number, e))

    rounds = range(CLIENTS)
    threads = [threading.Thread(target=guarded, args=(n,)) for n in rounds]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]
    assert counts['asked'] + counts['refused'] == CLIENTS * ROUNDS[sharing]
    assert counts['asked'] > 0 and (sharing == 'shared' or counts['refused'] == 0)

#include "manager/turns.h"

#include <stdlib.h>

#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "xalloc.h"

/* Window for each call that is worked on at once. */
#define WINDOW_FACTOR 4
/* The window is thought over anew after so many answers, or after as many as it holds. */
#define EPOCH_ANSWERS 64
/* Older calls that are looked at to find out how many an answer has overtaken. */
#define OVERTAKEN_MAX 1024

/* One client at one server; there is one as long as it has calls there. */
struct turn {
	struct server *server;
	uint64_t client;
	unsigned n_calls;
	unsigned n_sent; /* those given up included */
	unsigned n_given_up;
	size_t bytes;
	struct server_call_list waiting; /* all in one lane; by turn_link */
	bool active;
	TAILQ_ENTRY(turn) link; /* while calls wait: in that lane's hungry */
};

/* A call that the server may be at although nobody waits for it. */
struct given_up {
	struct turn *turn;
	uint64_t sent_as;
	TAILQ_ENTRY(given_up) link;
};

void turns_init(struct turns *turns)
{
	*turns = (struct turns){ .stall_ms = TURNS_STALL_MS };
	TAILQ_INIT(&turns->hungry);
	TAILQ_INIT(&turns->given_up);
}

static struct turn *find(const struct server *server, uint64_t client)
{
	/* 0, the daemon itself, is no key of the map. */
	return idmap_get(&server->askers.turns, client + 1);
}

static void update(struct turn *turn)
{
	struct askers *askers = &turn->server->askers;
	bool active = turn->client && (turn->n_sent || !TAILQ_EMPTY(&turn->waiting));
	if (active != turn->active)
		askers->n_active += active ? 1 : -1;
	turn->active = active;
	if (turn->n_calls || turn->n_given_up)
		return;
	idmap_remove(&askers->turns, turn->client + 1);
	if (askers->turns.count == 0)
		idmap_done(&askers->turns);
	free(turn);
}

/* ---- what is kept ---- */

/* Whether `more` may be added to what the client holds of `total`. */
static bool may_hold(uint64_t own, uint64_t total, uint64_t more, uint64_t max)
{
	return more <= max && total <= max - more && own / TURNS_HOLD <= max - more - total;
}

bool turns_admit_call(const struct server *server, uint64_t client, char **ret_why)
{
	const struct turn *turn = client ? find(server, client) : NULL;
	unsigned own = turn ? turn->n_calls : 0, total = server->askers.n_calls;
	unsigned max = (unsigned)server->m->limits.value[LIMIT_REQUESTS_PER_SERVER];
	const char *key = limit_table[LIMIT_REQUESTS_PER_SERVER].key;
	if (may_hold(own, total, 1, max))
		return true;
	if (total >= max)
		*ret_why = xasprintf("%u requests to server \"%s\" are waiting or in flight already (%s)", total,
				     server->name, key);
	else
		*ret_why =
			xasprintf("%u requests of this client to server \"%s\" are waiting or in flight already, and "
				  "the last places of %u (%s) are for others",
				  own, server->name, max, key);
	return false;
}

bool turns_admit_bytes(const struct server_call *call, size_t bytes, char **ret_why)
{
	const struct turn *turn = call->turn;
	size_t total = turn->server->askers.bytes, own = turn->client ? turn->bytes : 0;
	size_t max = (size_t)turn->server->m->limits.value[LIMIT_SERVER_QUEUE];
	/* One message is always taken, whatever its size. */
	if (total == 0 || may_hold(own, total, bytes, max))
		return true;
	*ret_why = xasprintf("%zu bytes are waiting for server \"%s\" already, %zu of them this client's (%s)", total,
			     turn->server->name, own, limit_table[LIMIT_SERVER_QUEUE].key);
	return false;
}

void turns_join(struct server *server, struct server_call *call)
{
	struct turn *turn = find(server, call->client);
	if (!turn) {
		turn = xnew(struct turn);
		turn->server = server;
		turn->client = call->client;
		TAILQ_INIT(&turn->waiting);
		idmap_put(&server->askers.turns, call->client + 1, turn);
	}
	call->turn = turn;
	turn->n_calls++;
	server->askers.n_calls++;
}

void turns_hold(struct server_call *call, size_t bytes)
{
	call->waiting_bytes = bytes;
	call->turn->bytes += bytes;
	call->turn->server->askers.bytes += bytes;
}

static void let_go(struct server_call *call)
{
	call->turn->bytes -= call->waiting_bytes;
	call->turn->server->askers.bytes -= call->waiting_bytes;
	call->waiting_bytes = 0;
}

void turns_part(struct server_call *call)
{
	struct turn *turn = call->turn;
	if (!turn)
		return;
	let_go(call);
	call->turn = NULL;
	turn->n_calls--;
	turn->server->askers.n_calls--;
	update(turn);
}

/* ---- the queue ---- */

void turns_enqueue(struct lane *lane, struct server_call *call)
{
	struct turn *turn = call->turn;
	if (TAILQ_EMPTY(&turn->waiting))
		TAILQ_INSERT_TAIL(&lane->turns.hungry, turn, link);
	TAILQ_INSERT_TAIL(&turn->waiting, call, turn_link);
	update(turn);
}

void turns_dequeue(struct lane *lane, struct server_call *call)
{
	struct turn *turn = call->turn;
	TAILQ_REMOVE(&turn->waiting, call, turn_link);
	if (TAILQ_EMPTY(&turn->waiting))
		TAILQ_REMOVE(&lane->turns.hungry, turn, link);
	update(turn);
}

void turns_sent(struct lane *lane, struct server_call *call)
{
	let_go(call);
	call->sent_as = ++lane->turns.last_sent;
	call->turn->n_sent++;
	update(call->turn);
}

void turns_returned(struct server_call *call)
{
	call->turn->n_sent--;
	update(call->turn);
}

/* ---- calls that were given up ---- */

static void let_rest(struct turns *turns, struct given_up *g)
{
	struct turn *turn = g->turn;
	TAILQ_REMOVE(&turns->given_up, g, link);
	free(g);
	turn->n_sent--;
	turn->n_given_up--;
	update(turn);
}

void turns_give_up(struct lane *lane, struct server_call *call)
{
	if (lane->server->cfg->sharing != CONFIG_SHARED || !call->client)
		return;
	struct given_up *g = xnew(struct given_up);
	g->turn = call->turn;
	g->sent_as = call->sent_as;
	TAILQ_INSERT_TAIL(&lane->turns.given_up, g, link);
	g->turn->n_sent++;
	g->turn->n_given_up++;
}

void turns_forget(struct lane *lane)
{
	while (!TAILQ_EMPTY(&lane->turns.given_up))
		let_rest(&lane->turns, TAILQ_FIRST(&lane->turns.given_up));
}

/* ---- the window ---- */

static unsigned window_of(const struct lane *lane)
{
	const struct limits *limits = &lane->server->m->limits;
	unsigned least = (unsigned)limits->value[LIMIT_FAIR_WINDOW];
	unsigned most = (unsigned)limits->value[LIMIT_REQUESTS_PER_SERVER];
	unsigned window = lane->turns.window > least ? lane->turns.window : least;
	return window < most ? window : most;
}

static bool may_send(const struct lane *lane, const struct turn *turn)
{
	if (lane->server->cfg->sharing != CONFIG_SHARED || turn->client == 0)
		return true;
	unsigned window = window_of(lane), n = lane->server->askers.n_active;
	unsigned share = n > 1 ? window / n : window;
	unsigned least = window < TURNS_SHARE_MIN ? window : TURNS_SHARE_MIN;
	return turn->n_sent < (share > least ? share : least) + lane->turns.extra;
}

bool turns_may_pass(const struct lane *lane, const struct server_call *call)
{
	const struct turn *turn = call->turn;
	bool waits_behind = turn->client && !TAILQ_EMPTY(&turn->waiting);
	return lane->restoring || (!waits_behind && may_send(lane, turn));
}

struct server_call *turns_next(struct lane *lane)
{
	struct turn_list *hungry = &lane->turns.hungry;
	struct turn *turn;
	TAILQ_FOREACH(turn, hungry, link)
	if (may_send(lane, turn))
		break;
	if (!turn)
		return NULL;
	TAILQ_REMOVE(hungry, turn, link);
	TAILQ_INSERT_TAIL(hungry, turn, link);
	return TAILQ_FIRST(&turn->waiting);
}

int64_t turns_stall_ms(const struct lane *lane)
{
	const struct turns *turns = &lane->turns;
	return turns->in_order || turns->extra >= TURNS_TRY ? turns->stall_ms : TURNS_TRY_MS;
}

void turns_stalled(struct lane *lane)
{
	struct turns *turns = &lane->turns;
	if (turns->in_order || turns->extra >= TURNS_TRY)
		turns->stall_ms *= turns->stall_ms < TURNS_STALL_MAX_MS ? 2 : 1;
	turns->extra++;
}

/* How many calls of the same kind the server has had longer than this one, which it has answered. */
static unsigned count_overtaken(const struct server_call *call)
{
	unsigned n = 0, looked_at = 0;
	const struct server_call *older = call;
	while ((older = TAILQ_PREV(older, server_call_list, link)) && ++looked_at < OVERTAKEN_MAX)
		n += older->client && older->mcp_call && older->instance == call->instance &&
		     older->is_tool_call == call->is_tool_call;
	return n;
}

static unsigned window_for(unsigned at_once)
{
	return at_once > 1 ? at_once * WINDOW_FACTOR : 0;
}

/* What the answers since the last look say of the window. */
static unsigned window_found(const struct turns *turns)
{
	int64_t us = loop_now_us() - turns->since_us;
	unsigned by_overtaking = window_for(turns->at_once);
	int64_t by_speed = TURNS_QUICK_US * (int64_t)turns->n_answers / (us > 0 ? us : 1);
	return by_speed > by_overtaking ? (unsigned)by_speed : by_overtaking;
}

/* The server has been at so many calls at once. */
static void note_at_once(struct turns *turns, unsigned at_once)
{
	if (at_once > turns->at_once)
		turns->at_once = at_once;
	if (window_for(at_once) > turns->window)
		turns->window = window_for(at_once);
	if (at_once > 1)
		turns->in_order = false;
}

static void count_answer(struct turns *turns, unsigned window, bool others_waited)
{
	turns->n_answers++;
	turns->n_others_waited += others_waited;
	if (turns->n_answers < EPOCH_ANSWERS || turns->n_answers < window)
		return;
	turns->window = window_found(turns);
	if (turns->n_others_waited >= EPOCH_ANSWERS / 4)
		turns->in_order = turns->at_once <= 1;
	turns->at_once = turns->n_answers = turns->n_others_waited = 0;
	turns->since_us = loop_now_us();
}

void turns_heard(struct lane *lane, const struct server_call *call)
{
	if (call->client && lane->server->cfg->sharing == CONFIG_SHARED)
		note_at_once(&lane->turns, count_overtaken(call) + 1);
}

void turns_answered(struct lane *lane, const struct server_call *call)
{
	struct turns *turns = &lane->turns;
	turns->extra = 0;
	turns->stall_ms = TURNS_STALL_MS;
	for (struct given_up *g = TAILQ_FIRST(&turns->given_up), *next; g; g = next) {
		next = TAILQ_NEXT(g, link);
		if (g->sent_as < call->sent_as)
			let_rest(turns, g);
	}
	turns_heard(lane, call);
	count_answer(turns, window_of(lane), lane->n_sent > 1);
}

/* What the modules of this folder share of the manager. Nobody outside includes this. */
#pragma once

#include <sys/queue.h>

#include "idmap.h"
#include "manager/manager.h"
#include "manager/outbox.h"
#include "manager/tool_cache.h"

struct instance;
struct question;
TAILQ_HEAD(instance_list, instance);
TAILQ_HEAD(question_list, question);

enum manager_phase {
	MANAGER_RUNNING,
	MANAGER_DRAINING, /* no new calls; those in flight may end */
	MANAGER_CLOSING,  /* everything is being ended; nothing starts */
	MANAGER_CLOSED,
};

struct manager {
	struct loop *loop;
	struct process_host *host;
	struct curl_loop *curl;
	struct tool_cache *cache;
	struct manager_callbacks callbacks;
	void *arg;
	manager_capabilities_fn *capabilities;
	void *capabilities_arg;

	struct config *config;
	struct limits limits;    /* those in force; its place never changes, since transports point to it */
	struct server **servers; /* in the configuration's order */
	size_t n_servers;
	uint64_t last_id; /* of servers, lanes, calls, questions and instances: never used twice */

	struct instance_list instances; /* every one whose transport has not closed yet */
	unsigned n_instances;
	struct question_list questions;
	unsigned n_calls;   /* whose done has not been called yet */
	struct idmap calls; /* those that have not ended */
	struct outbox outbox;

	enum manager_phase phase;
	struct timer *drain_timer;
	loop_fn *shutdown_done;
	void *shutdown_arg;
};

uint64_t manager_next_id(struct manager *m);
/* From the outbox's task, as its last statement: the next step of a shutdown, if one is due. May free the manager. */
void manager_shutdown_step(struct manager *m);

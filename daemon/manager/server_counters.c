/* A server's numbers. */
#include "manager/instance.h"
#include "manager/server_private.h"

void server_add_traffic(struct server *server, const struct transport_traffic *traffic)
{
	server->counters.received_bytes += traffic->received;
	server->counters.sent_bytes += traffic->sent;
}

void server_get_counters(const struct server *server, struct server_counters *ret, uint64_t *ret_unsent,
			 unsigned *ret_connections)
{
	const struct instance *inst;
	*ret = server->counters;
	*ret_unsent = 0;
	*ret_connections = server->n_instances;
	TAILQ_FOREACH(inst, &server->m->instances, link)
	{
		struct transport_traffic traffic;
		if (inst->server_id != server->id)
			continue;
		transport_get_traffic(inst->transport, &traffic);
		ret->received_bytes += traffic.received;
		ret->sent_bytes += traffic.sent;
		*ret_unsent += traffic.unsent;
	}
}

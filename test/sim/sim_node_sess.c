/* sim_node_sess - the sessions that a node opens. Part of sim_node.h. Layer: test/sim. */
#include <string.h>

#include "sim/sim_node.h"

bool sim_node_session(struct sim *sim, uint32_t node, uint32_t to, uint64_t *session)
{
	struct sim_node *n = &sim->node[node];
	struct lend_core_identity self = {.key_id = sim_is_keyed(sim, node) ? SIM_KEY : 0};
	int rc;

	if (!n->link[to].session) {
		memcpy(self.incarnation, n->cfg.incarnation, sizeof(self.incarnation));
		rc = lend_core_connect(n->core, sim->now, LEND_PEER(0, to), to + 1, &self,
				       &n->link[to].session);
		SIM_CHECK(sim, rc == 0 || rc == -28, "connect returns %d", rc);
		if (rc < 0) {
			SIM_MARK(sim, connect_refused);
			n->link[to].session = 0;
			return false;
		}
		lend_core_set_server(n->core, n->link[to].session, to + 1);
		sim_trace_add(&sim->trace, sim->now, "connects", node, to, 0, 0);
		sim_node_kick(sim, node);
	}
	*session = n->link[to].session;
	return true;
}

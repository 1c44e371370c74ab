/* lend_end - see lend_end.h. */
#include "apps/peers/lend_end.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/options.h"

enum { HEAD_MAX = 64, BUDGET = 64 << 20, MESSAGE_MAX = 16 << 20, WAIT_NS = 50000000 };

struct lend_ep *peer_end_open(const struct peer_job *job, const char *listen)
{
	struct lend_config config = LEND_CONFIG_INIT;
	uint64_t all = 2 * job->request * job->window;
	struct lend_ep *ep;

	config.listen = listen;
	config.sessions = job->sessions > 16 ? 2 * job->sessions : 0;
	config.message_max = job->request + HEAD_MAX > MESSAGE_MAX ? job->request + HEAD_MAX : 0;
	config.receive_budget = all > BUDGET ? all : 0;
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	return ep;
}

const char *peer_end_listen(const char *carrier)
{
	static char shm[32];

	if (!strcmp(carrier, "udp"))
		return "udp:127.0.0.1:0";
	if (!strcmp(carrier, "memif"))
		return "dpdk:memif@127.0.0.1:0";
	if (!strcmp(carrier, "ring"))
		return "dpdk:ring@127.0.0.1:0";
	snprintf(shm, sizeof(shm), "shm:peer-%d", (int)getpid());
	return shm;
}

void peer_end_turn(const struct peer_job *job, struct lend_ep *ep)
{
	int rc = job->sleep ? lend_wait(ep, lend_now(ep) + WAIT_NS) : lend_poll(ep);

	if (rc < 0)
		app_die("%s", lend_why());
}

void peer_end_announce(struct lend_ep *ep, struct peer_pipe *channel)
{
	char address[128];

	if (lend_address(ep, address, sizeof(address)) < 0)
		app_die("%s", lend_why());
	peer_send_text(channel, address, strlen(address) + 1);
}

void peer_end_connect(struct lend_ep *ep, const char *address, lend_session *session)
{
	if (lend_connect(ep, address, session) < 0)
		app_die("%s", lend_why());
}

/* memnode - see memnode.h. */
#include "apps/common/memnode.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "apps/common/options.h"
#include "apps/common/report.h"

static char before[512]; /* lend_why() before the client was opened: not a reason of its failures */

struct lend_mem *app_node_open(struct lend_ep *ep, const char *address)
{
	struct lend_mem *mem;

	(void)snprintf(before, sizeof(before), "%s", lend_why());
	if (lend_mem_open(ep, address, &mem) < 0)
		app_die("%s", lend_why());
	return mem;
}

static const char *suggest_fix(enum lend_status status)
{
	switch (status) {
	case LEND_UNAUTHENTICATED:
	case LEND_UNAVAILABLE:
		if (strncmp(before, lend_why(), sizeof(before) - 1) != 0)
			return lend_why();
		/* fallthrough */
	case LEND_DEADLINE_EXCEEDED:
		return "no memory node answers there; start one with lend-mn --listen ADDR --size "
		       "1G";
	case LEND_RESOURCE_EXHAUSTED:
		return "the node is full; give lend-mn a larger --size or more --clients, or wait "
		       "until references expire";
	case LEND_NOT_FOUND:
		return "the node no longer has it; its ttl ended, it was released, or the node "
		       "restarted";
	case LEND_PERMISSION_DENIED:
		return "the reference is not genuine or lacks that right; copy it whole";
	default:
		return "look at lend mem stat --node ADDR";
	}
}

void app_node_wait(struct lend_mem *mem, struct lend_op *op, int rc, const char *what)
{
	if (rc == 0)
		rc = lend_op_wait(mem, op);
	if (rc < 0)
		app_die("%s: %s", what, lend_why());
	if (op->status != LEND_OK)
		app_die("%s: %s: %s", what, app_status_name(op->status), suggest_fix(op->status));
}

void app_node_stat(struct lend_mem *mem, struct lend_mem_stat *stat)
{
	struct lend_op op = {.done = NULL};

	memset(stat, 0, sizeof(*stat));
	app_node_wait(mem, &op, lend_mem_stat_get(mem, 0, stat, &op), "stat");
}

enum lend_status app_node_try(struct lend_mem *mem)
{
	struct lend_mem_stat stat;
	struct lend_op op = {.timeout = UINT64_C(1000000000)};

	if (lend_mem_stat_get(mem, 0, &stat, &op) < 0 || lend_op_wait(mem, &op) < 0)
		return LEND_UNAVAILABLE;
	return op.status;
}

void app_node_stat_idle(struct lend_mem *mem, struct lend_mem_stat *stat)
{
	const struct timespec delay = {.tv_nsec = 10000000};

	for (int i = 0; i < 100; i++) {
		app_node_stat(mem, stat);
		if (!stat->pages_used)
			return;
		nanosleep(&delay, NULL);
	}
}

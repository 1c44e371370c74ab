/* top - the servers that lend top queries, and how their statistics are shown.
 * Layer: apps. Threads: one. */
#ifndef APPS_TOOLS_TOP_H
#define APPS_TOOLS_TOP_H

#include <stdbool.h>

#include "lend/stats.h"

enum { TOP_SERVERS = 64, TOP_SESSIONS = 4096 };

/* One reply. */
struct top_view {
	struct lend_stats_head head;        /* size 0: none */
	struct lend_session_stats *session; /* TOP_SESSIONS of room */
	uint32_t n;
};

struct top_server {
	char address[128];
	lend_session session;
	bool connected, failure_reported; /* session is open; its failure was already reported */
	struct top_view now, before;
};

struct top {
	struct lend_ep *ep;
	struct top_server server[TOP_SERVERS];
	unsigned n;
	bool named, once, json;
	lend_ns interval;
};

/* Queries all endpoints once; unless some are named, first finds those of this user. */
void top_query(struct top *top);
/* Gives the memory back. Returns whether any endpoint has answered. */
bool top_end(struct top *top);
/* Prints the rates between the last two replies of each server to stdout. */
void top_show(const struct top *top);

#endif

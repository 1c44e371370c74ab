/* node_process - lend-mn's own main in a fork of this process. The daemon's source is unchanged;
 * counts.h adds one method to its endpoint. Layer: test. */
#ifndef TEST_KILL_NODE_PROCESS_H
#define TEST_KILL_NODE_PROCESS_H

#include "kill/kill.h"
#include "kill/watch.h"

struct node {
	struct kill_page *page;
	const char *size;
	pid_t pid;
	char listen[104];
	unsigned lease_ms;
};

/* Starts it and waits until it serves; page->node is its address, the same after a restart. fuse:
 * number of stores, from its start, until it kills itself; 0: none. False: it died or printed
 * something else; it was waited for. */
bool node_start(struct node *node, int32_t fuse);
/* Sends SIGKILL and waits for its end. */
void node_kill(struct node *node);
/* Sends SIGTERM: it must exit with status 0. */
bool node_stop(struct node *node);
bool node_is_dead(struct node *node); /* True: it died, and was waited for. */

#endif

/* node_process - lend-mn's own main in a fork of this process. The daemon's source runs as it is;
 * sight.h adds one method to its endpoint. Layer: test. */
#ifndef TEST_KILL_NODE_PROCESS_H
#define TEST_KILL_NODE_PROCESS_H

#include "kill/kill.h"
#include "kill/sight.h"

struct node {
	struct kill_page *page;
	const char *size;
	pid_t pid;
	char listen[104];
	unsigned lease_ms;
};

/* Starts it and waits until it serves; page->node says where. Started anew it has the same address.
 * fuse: stores of its start and life until it kills itself; 0: none. False: it died, or said
 * something else; then it was waited for. */
bool node_start(struct node *node, int32_t fuse);
/* SIGKILL, and gone. */
void node_kill(struct node *node);
/* SIGTERM: it has to leave with status 0. */
bool node_stop(struct node *node);
bool node_is_dead(struct node *node); /* and then it was waited for */

#endif

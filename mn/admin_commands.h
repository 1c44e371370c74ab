/* admin_commands - the operator's commands: a line of JSON in, a line of JSON out, as in admin.h.
 * Layer: mn. Threads: admin's; each store is read by its worker's thread, between event-loop
 * iterations. */
#ifndef MN_ADMIN_COMMANDS_H
#define MN_ADMIN_COMMANDS_H

#include <stdint.h>

struct mn_worker;
struct mn_nodes {
	struct mn_worker *worker;
	uint32_t workers;
};

/* Returns the answer to a line; the caller frees it. NULL: no memory. */
char *mn_admin_answer(const struct mn_nodes *node, const char *line);

#endif

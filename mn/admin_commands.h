/* admin_commands - what a running node answers an operator: a line of JSON to a line of JSON, as
 * admin.h has them. Layer: mn. Threads: admin's; the stores are looked at in their workers' turns.
 */
#ifndef MN_ADMIN_COMMANDS_H
#define MN_ADMIN_COMMANDS_H

#include <stdint.h>

struct mn_worker;
struct mn_nodes {
	struct mn_worker *worker;
	uint32_t workers;
};

/* The caller frees it; NULL: no memory. */
char *mn_answer_to(const struct mn_nodes *node, const char *line);

#endif

/* admin - what an operator asks of a running node: JSON over a socket of its own.
 *
 * One object per line, one line as the answer: {"do":"stat"}, {"do":"ls","worker":0,"slot":0,
 * "limit":100}, {"do":"top"}, {"do":"evict","worker":0,"slot":7,"serial":12},
 * {"do":"evict","process":"HEX"}. An answer with "error" says what was wrong.
 * Layer: mn. Threads: one of its own. Owner: mnd. */
#ifndef MN_ADMIN_H
#define MN_ADMIN_H

#include <stdint.h>

struct mn_admin;
struct mn_worker;

/* Listens at a path (mode 0600; this user and root) for workers that outlive it. 0, or -errno with
 * lend_why(). */
int mn_admin_open(struct mn_worker *worker, uint32_t workers, const char *path,
		  struct mn_admin **out);
/* NULL is nothing. */
void mn_admin_close(struct mn_admin *admin);

#endif

/* admin - the operator interface of a running node: JSON over a socket of its own.
 *
 * Each request is one line with one object, and each answer one line: {"do":"stat"},
 * {"do":"ls","worker":0,"slot":0,"limit":100}, {"do":"top"},
 * {"do":"evict","worker":0,"slot":7,"serial":12}, {"do":"evict","process":"HEX"}. An answer with
 * "error" describes what was wrong.
 * Layer: mn. Threads: one of its own. Owner: lend_mn.c. */
#ifndef MN_ADMIN_H
#define MN_ADMIN_H

#include <stdint.h>

struct mn_admin;
struct mn_worker;

/* Listens at a path (mode 0600; this user and root), for workers that must outlive it. Returns 0,
 * or -errno with lend_why(). */
int mn_admin_open(struct mn_worker *worker, uint32_t workers, const char *path,
		  struct mn_admin **out);
/* Stops listening; NULL is ignored. */
void mn_admin_close(struct mn_admin *admin);

#endif

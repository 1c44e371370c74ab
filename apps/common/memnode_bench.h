/* memnode_bench - a memory node of a benchmark's own or of the user's, a client of it, and one
 * operation at a time.
 *
 * Layer: apps. Threads: the main one, but for app_memory_client(), whose result is its caller's.
 */
#ifndef APPS_COMMON_MEMNODE_BENCH_H
#define APPS_COMMON_MEMNODE_BENCH_H

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/spawn.h"
#include "lend/mem.h"

/* Bytes of a page, unless --page says otherwise; and at most. */
enum { APP_PAGE = 4096, APP_PAGE_MAX = 2 << 20 };

struct app_memory_args {
	struct app_load_args load;
	const char *node; /* as given; NULL: a node of our own */
	const char *plot; /* NULL: no picture */
	bool pool;        /* our node shares its pages */
	uint32_t page;    /* bytes of one of our node's; 0: as it is unless asked for */
};
/* --node, --pool, --page, --plot and those of app_load_some() that are named: APP_MEMORY_LOAD where
 * one operation is under way at a time. input: struct app_memory_args. */
#define APP_MEMORY_LOAD "carrier size seconds one-thread sleep json"
const struct argp *app_memory_some(const char *names);

struct app_memory {
	struct app_memory_args args;
	struct app_net net;
	unsigned me, node;
	struct app_child mn;       /* pid 0: none of ours */
	struct app_inside *inside; /* with one_thread: the node; else NULL */
	struct lend_ep *ep;
	struct lend_mem *mem;
};

/* Starts a node for so many bytes, and 64 pages if that is more, unless args name one, opens a
 * client of it for messages up to args' size, and pins the caller; app_die() when that fails. */
void app_memory_open(struct app_memory *m, const struct app_memory_args *args, uint64_t bytes);
/* A further endpoint with a client of that node, for another thread: window operations of size
 * bytes at once. */
void app_memory_client(const struct app_memory *m, uint64_t size, unsigned window,
		       struct lend_ep **ep, struct lend_mem **mem);
/* Closes such a client; a node in this thread answers it meanwhile. */
void app_memory_leave(const struct app_memory *m, struct lend_ep *ep, struct lend_mem *mem);
/* Ends our node, too. */
void app_memory_close(struct app_memory *m);
/* As app_node_stat() and app_node_stat_idle(), wherever the node is. */
void app_memory_stat(struct app_memory *m, struct lend_mem_stat *stat);
void app_memory_stat_idle(struct app_memory *m, struct lend_mem_stat *stat);

/* One operation that is waited for:
 *
 *	app_timed_end(m, &t, lend_get(m->mem, &ref, 0, &into, 1, app_timed_begin(&t)), "get");
 *
 * begin clears the operation and takes the time; end polls until it ended and returns its ticks, or
 * app_die() unless it went well. */
struct app_timed {
	struct lend_op op;
	uint64_t began;
	bool ended;
};
struct lend_op *app_timed_begin(struct app_timed *t);
uint64_t app_timed_end(struct app_memory *m, struct app_timed *t, int rc, const char *what);
/* The same, and its time in ns goes into a histogram. */
void app_timed_add(struct app_memory *m, struct app_timed *t, int rc, const char *what,
		   struct lend_hist *hist);

#endif

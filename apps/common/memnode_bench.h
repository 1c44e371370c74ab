/* memnode_bench - a memory node that the benchmark starts or that the user names, a client of it,
 * and one operation at a time.
 *
 * Layer: apps. Threads: the main one. A client of app_memory_client() belongs to the calling
 * thread. */
#ifndef APPS_COMMON_MEMNODE_BENCH_H
#define APPS_COMMON_MEMNODE_BENCH_H

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/spawn.h"
#include "lend/mem.h"

/* Bytes of a page of the started node: the default of --page, and its maximum. */
enum { APP_PAGE = 4096, APP_PAGE_MAX = 2 << 20 };

struct app_memory_args {
	struct app_load_args load;
	const char *node; /* address of the user's node; NULL: the benchmark starts one */
	const char *plot; /* NULL: no picture */
	bool pool;        /* the started node shares its pages with clients */
	uint32_t page;    /* page size of the started node in bytes; 0: its default */
};
/* --node, --pool, --page, --plot and options of app_load_syntax. APP_MEMORY_LOAD names those of
 * commands with one operation at a time. */
#define APP_MEMORY_LOAD "carrier size seconds one-thread sleep json"
extern const struct lend_syntax app_memory_syntax;

struct app_memory {
	struct app_memory_args args;
	struct app_net net;
	unsigned me, node;
	struct app_child mn;       /* pid 0: no node was started */
	struct app_inproc *inproc; /* with one_thread: the node; else NULL */
	struct lend_ep *ep;
	struct lend_mem *mem;
};

/* Starts a node with memory for bytes, at least 64 pages, unless args name a node. Opens a client
 * of it for messages up to args' size, and pins the caller. app_die() when that fails. */
void app_memory_open(struct app_memory *m, const struct app_memory_args *args, uint64_t bytes);
/* Opens another endpoint with a client of that node, for another thread: window concurrent
 * operations of size bytes each. */
void app_memory_client(const struct app_memory *m, uint64_t size, unsigned window,
		       struct lend_ep **ep, struct lend_mem **mem);
/* Closes such a client. A node in this process gets a thread of its own for that time, to answer
 * it. */
void app_memory_leave(const struct app_memory *m, struct lend_ep *ep, struct lend_mem *mem);
/* Closes the client and ends the node that was started. */
void app_memory_close(struct app_memory *m);
/* Like app_node_stat() and app_node_stat_idle(), for a node in this process too. */
void app_memory_stat(struct app_memory *m, struct lend_mem_stat *stat);
void app_memory_stat_idle(struct app_memory *m, struct lend_mem_stat *stat);

struct chart;
/* Writes the chart to args' file; app_die() when that fails. */
void app_memory_plot(const struct app_memory_args *args, const struct chart *chart);

/* One blocking operation:
 *
 *	app_timed_end(m, &t, lend_get(m->mem, &ref, 0, &into, 1, app_timed_begin(&t)), "get");
 *
 * begin clears the operation and reads the clock. end polls until the operation ends and returns
 * its ticks; app_die() unless it succeeds. */
struct app_timed {
	struct lend_op op;
	uint64_t began;
	bool ended;
};
struct lend_op *app_timed_begin(struct app_timed *t);
uint64_t app_timed_end(struct app_memory *m, struct app_timed *t, int rc, const char *what);
/* Like app_timed_end(), and adds the time in ns to a histogram. */
void app_timed_add(struct app_memory *m, struct app_timed *t, int rc, const char *what,
		   struct lend_hist *hist);

#endif

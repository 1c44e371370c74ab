/* mem_node - a lend-mn process and a client of it, for the tests of references. */
#ifndef TEST_E2E_MEM_NODE_H
#define TEST_E2E_MEM_NODE_H

#include <sys/types.h>

#include "lend/mem.h"

#define SECOND UINT64_C(1000000000)

struct mem_node {
	pid_t pid;
	int out;           /* its standard output, after the first line */
	char listen[64];   /* as given */
	char address[104]; /* as printed */
	struct lend_ep *ep;
	struct lend_mem *mem;
};

/* Like fork(); the child ends with this test. */
pid_t mem_fork(void);
/* Body of a child process: writes a byte to fd when it is ready, which start waits for; it never
 * returns. It ends by SIGKILL only. */
typedef void mem_child(const char *address, int fd);
pid_t mem_child_start(const struct mem_node *node, mem_child *run);
void mem_child_kill(pid_t pid);
/* carrier: "shm", "pool", "udp", "dpdk" (memif), "given": $LEND_TEST_LISTEN, where the node has EAL
 * arguments of its own, $LEND_TEST_EAL. Starts lend-mn with these extra arguments ("" or
 * "--lease 50 --id 7") and opens a client. */
void mem_node_start(struct mem_node *node, const char *carrier, const char *size, const char *more);
/* A child that runs this at a node of its own holds pages and is killed; within ms the node must
 * have none. */
void mem_child_killed(mem_child *run, const char *carrier, const char *more, unsigned ms);
/* Kills it and starts another one at the same shm name. */
void mem_node_restart(struct mem_node *node, const char *size);
/* Closes the client: pages in use become 0 within a second (replies may still pin some); then the
 * node stops. */
void mem_node_stop(struct mem_node *node);
/* Stops a node that may still hold pages; it must exit cleanly. */
void mem_node_kill(struct mem_node *node);
/* Like mem_node_stop(), of a node with --json. Returns a counter of its report. */
uint64_t mem_node_report(struct mem_node *node, const char *name);
void mem_client_open(struct mem_node *node, struct lend_ep **ep, struct lend_mem **mem);
void mem_client_close(struct lend_ep *ep, struct lend_mem *mem);

/* Waits for an operation that was started with result rc; its status. */
enum lend_status mem_end(struct lend_mem *mem, struct lend_op *op, int rc);
void mem_stat(struct lend_mem *mem, struct lend_mem_stat *stat);
/* Waits until a node has this many pages in use, and with 0 no reference and no space either;
 * false: not within ms. */
bool mem_pages_become(struct lend_ep *ep, struct lend_mem *mem, uint64_t pages, unsigned ms);
struct lend_ref mem_put(struct lend_mem *mem, const void *data, size_t len,
			const struct lend_terms *terms);
enum lend_status mem_get(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
			 void *into, size_t len);
enum lend_status mem_release(struct lend_mem *mem, const struct lend_ref *ref);
enum lend_status mem_adopt(struct lend_mem *mem, const struct lend_ref *ref);
lend_space mem_map(struct lend_mem *mem, const struct lend_ref *ref);
lend_space mem_alloc(struct lend_mem *mem, uint64_t len);
void mem_free_space(struct lend_mem *mem, lend_space space);
void mem_fill(void *data, size_t len, uint64_t seed);

/* Around a test on "dpdk": a runtime folder of its own, for memif's sockets. False: not
 * available. */
void memif_begin(void);
bool memif_is_here(void);
void memif_end(void);
/* Returns whether scripts/conform.py gave a carrier; else skips the test. */
bool given_is_here(void);

/* Defines a test per carrier: each calls run() with "shm", "udp" and so on. */
#define OVER_EACH(suite, run)                                                                      \
	Test(suite, run##_shm)                                                                     \
	{                                                                                          \
		run("shm");                                                                        \
	}                                                                                          \
	Test(suite, run##_udp)                                                                     \
	{                                                                                          \
		run("udp");                                                                        \
	}                                                                                          \
	Test(suite, run##_pool)                                                                    \
	{                                                                                          \
		run("pool");                                                                       \
	}                                                                                          \
	Test(suite, run##_memif, .init = memif_begin, .fini = memif_end)                           \
	{                                                                                          \
		if (memif_is_here())                                                               \
			run("dpdk");                                                               \
	}                                                                                          \
	Test(suite, run##_given)                                                                   \
	{                                                                                          \
		if (given_is_here())                                                               \
			run("given");                                                              \
	}

/* A test of SUITE on one carrier: name(&node) between the start and the stop of a node. */
#define ON(name, carrier)                                                                          \
	Test(SUITE, name##_##carrier)                                                              \
	{                                                                                          \
		struct mem_node node;                                                              \
		mem_node_start(&node, #carrier, "64M", "");                                        \
		name(&node);                                                                       \
		mem_node_stop(&node);                                                              \
	}
#define ON_DEVICE(name, row, is_here, carrier, ...)                                                \
	static void name(struct mem_node *node);                                                   \
	Test(SUITE, name##_##row, __VA_ARGS__)                                                     \
	{                                                                                          \
		struct mem_node node;                                                              \
		if (!is_here())                                                                    \
			return;                                                                    \
		mem_node_start(&node, carrier, "64M", "");                                         \
		name(&node);                                                                       \
		mem_node_stop(&node);                                                              \
	}
#define ON_DEVICES(name)                                                                           \
	ON_DEVICE(name, memif, memif_is_here, "dpdk", .init = memif_begin, .fini = memif_end)      \
	ON_DEVICE(name, given, given_is_here, "given", .timeout = 240)
#define ALL(name)                                                                                  \
	static void name(struct mem_node *node);                                                   \
	ON(name, shm)                                                                              \
	ON(name, udp)                                                                              \
	ON(name, pool)                                                                             \
	static void name(struct mem_node *node)

#endif

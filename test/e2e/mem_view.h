/* mem_view - spaces and their memory, for the tests of lend_space_pointer(). Each function ends the
 * test where it fails, except those that return a status. */
#ifndef TEST_E2E_MEM_VIEW_H
#define TEST_E2E_MEM_VIEW_H

#include "e2e/mem_node.h"

enum { PAGE = 4096 };

/* For tests of fetching: a pool fetches nothing. */
#define NET(name)                                                                                  \
	static void name(struct mem_node *node);                                                   \
	ON(name, shm)                                                                              \
	ON(name, udp)                                                                              \
	static void name(struct mem_node *node)

char *mem_pointer(struct mem_node *node, lend_space space);
enum lend_status mem_seal(struct mem_node *node, lend_space space, uint64_t at, uint64_t len,
			  struct lend_ref *ref);
enum lend_status mem_prefetch(struct mem_node *node, lend_space space, uint64_t at, uint64_t len);
struct lend_mem_cache_stat mem_cache(void);
uint64_t mem_sent(struct mem_node *node);
void mem_expect(struct mem_node *node, const struct lend_ref *ref, const char *want, size_t len);

#endif

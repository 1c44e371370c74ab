/* pool_client - a node with pages that this process maps: the file of the pages, the socket by
 * which the node sees that this process still lives, and views of spaces that are the node's own
 * frames. Layer: cn. Threads: the endpoint's; the memory of a view is touched by any. */
#ifndef LEND_CN_POOL_POOL_CLIENT_H
#define LEND_CN_POOL_POOL_CLIENT_H

#include "cn/space_view.h"
#include "cn/pool/dirty_pages.h"
#include "cn/pool/pool_window.h"

/* The whole file, mapped to read. Views of arguments keep it mapped when the node is gone. */
struct cn_pool_map {
	const char *at;
	uint64_t size;
	uint32_t page, refs;
};
void cn_pool_map_drop(struct cn_pool_map *map); /* drops a reference; NULL does nothing */

/* Exists for a node that was named "pool:NAME". Connects when it is first needed. Owned by its
 * cn_node. */
struct cn_pool {
	int sock, file; /* -1: not connected */
	uint64_t key;   /* identifies us to the node; never 0 while sock is open */
	uint64_t size;
	uint32_t page;
	int pagemap;                /* file /proc/self/pagemap; -1: not readable */
	int marks;                  /* lend_uffd_marks(); negative: not available */
	struct cn_window *window;   /* NULL: each space is mapped by itself */
	struct cn_pool_map *frames; /* NULL: gets are messages */
	bool doubt;    /* the session was lost since: check whether it is still the same node */
	char why[256]; /* the reason why it is not connected */
};

/* The frames of a space, as the node reported them for mapping. Owned by the space. */
struct cn_shown {
	struct lend_memspace pinned_map;
	uint64_t key; /* secret of the pool that reported them */
	uint64_t pages, received;
	uint32_t base; /* offset of the space in its first page */
	uint32_t n;
	struct lend_memextent extent[LEND_MEM_EXTENTS_MAX];
};

extern const struct cn_view_ops cn_pool_ops;

/* Prepares a node that the user names as a pool. Returns 0 or -ENOMEM. */
int cn_pool_join(struct cn_node *node);
/* Returns the pool's secret for POOL_ operations, after connecting if needed. 0: not a pool, or not
 * reachable as one; pool->why has the reason. */
uint64_t cn_pool_key(struct cn_node *node);
void cn_pool_leave(struct cn_node *node); /* all its views are closed before */
/* Adds the next part of a view; parts come in order. Returns false: invalid. */
bool cn_pool_take(struct cn_shown *shown, const struct lend_memview *view);
/* Stores the view of a space from a reply. Returns false: invalid. */
bool cn_pool_shown(struct cn_op *op, const uint8_t *body, size_t len);
/* Returns whether the space has frames that the pool has yet to report, and a view has room for. */
bool cn_pool_has_more(const struct cn_space *space);
/* Unpins the frames of the POOL_MAP with this id: FORGETs it. Its slot is freed once the node has
 * confirmed that. */
void cn_pool_forget(struct cn_node *node, uint64_t id);
/* Forgets the frames of a space that is about to be freed, and not mapped any more. forgotten: the
 * node ended our life, so it keeps the frames that we had mapped until it gets a POOL_DROP. */
void cn_pool_unshow(struct lend_mem *mem, struct cn_space *space, bool forgotten);

#endif

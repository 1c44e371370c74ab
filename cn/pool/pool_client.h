/* pool_client - a node whose pages this process maps: the file of them, the socket that tells the
 * node how long we live, and views of spaces that are the node's own frames. Layer: cn. Threads:
 * the endpoint's; the memory of a view is touched by any. */
#ifndef LEND_CN_POOL_POOL_CLIENT_H
#define LEND_CN_POOL_POOL_CLIENT_H

#include "cn/space_pointer.h"
#include "cn/pool/dirty_pages.h"
#include "cn/pool/pool_window.h"

/* Of a node that was named "pool:NAME"; made when it is first needed. Owned by its cn_node. */
struct cn_pool {
	int sock, file; /* -1: not there */
	uint64_t key;   /* what the node knows us by; never 0 while sock is there */
	uint64_t size;
	uint32_t page;
	int pagemap;              /* of this process; -1: not readable */
	int marks;                /* lend_uffd_marks(); negative: not here */
	struct cn_window *window; /* NULL: spaces are mapped one by one */
	bool doubt;               /* the session was lost since: is it still the same node? */
	char why[256];            /* why it is not there */
};

/* What the node told to map of a space. Owned by the space. */
struct cn_shown {
	struct lend_memspace lien;
	uint64_t key; /* of the pool that it was told to */
	uint64_t pages, told;
	uint32_t base; /* of the space in the first page */
	uint32_t n;
	struct lend_memextent extent[LEND_MEM_EXTENTS_MAX];
};

extern const struct cn_view_ops cn_pool_ops;

/* The node is named as a pool. -ENOMEM. */
int cn_pool_join(struct cn_node *node);
/* Its secret for POOL_ operations; 0: not a pool, or it cannot be reached as one (why says it). */
uint64_t cn_pool_key(struct cn_node *node);
void cn_pool_leave(struct cn_node *node); /* all views of it are closed */
/* More of a view, in order. False: garbage. */
bool cn_pool_take(struct cn_shown *shown, const struct lend_memview *view);
/* A reply's view of a space. False: garbage. What does not fit is asked for when it is needed. */
bool cn_pool_shown(struct cn_op *op, const uint8_t *body, size_t len);
/* The space goes, and nothing of it is mapped any more. forgotten: the node ended our life, so that
 * it keeps what we had mapped until it is told. */
void cn_pool_unshow(struct lend_mem *mem, struct cn_space *space, bool forgotten);

#endif

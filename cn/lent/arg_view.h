/* arg_view - the bytes of an argument as memory: in the message, in the caller's mapped memory, or
 * in memory of the heap that they were fetched to.
 * Layer: cn. Threads: the endpoint's; lend_arg_intact(): any. */
#ifndef LEND_CN_LENT_ARG_VIEW_H
#define LEND_CN_LENT_ARG_VIEW_H

#include "cn/client.h"
#include "wire/lent_table.h"

/* Sets the view of a GET to mapped bytes, which stay mapped. */
void cn_arg_view_set(struct cn_op *op, const struct lend_peer_memory *memory,
		     const struct lend_lent_entry *entry, uint64_t serial, const void *bytes);
/* Sets a view to the bytes of a pool's space, which it owns from now on. */
void cn_arg_view_space(struct lend_arg_view *view, const void *bytes, lend_space space);
/* Ends a view. Returns the space that it owned, which is the caller's now; id 0: none. */
lend_space cn_arg_view_drop(struct lend_mem *mem, struct lend_arg_view *view);
/* Lets a GET with a view read into memory of the heap. Returns false: there is none. */
bool cn_arg_view_alloc(struct cn_op *op);

#endif

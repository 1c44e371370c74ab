/* ref_ops - what the operations on references and on spaces share: arguments into an operation.
 * Layer: cn. Each: 0 or -errno with lend_why(). */
#ifndef LEND_CN_REF_OPS_H
#define LEND_CN_REF_OPS_H

#include "cn/client.h"

int cn_take_terms(struct cn_op *op, const struct lend_terms *terms);
int cn_take_iov(struct cn_op *op, const struct iovec *iov, int n);
int cn_pick_node(struct cn_op *op);
/* Finds the node of a reference. If no node that answered has its id, the nodes that did not answer
 * are asked again. */
int cn_find_node(struct cn_op *op, const struct lend_ref *ref);
int cn_begin_ref(struct lend_mem *mem, struct lend_op *op, uint8_t kind,
		 const struct lend_ref *ref);
/* As lend_put(). reserved, if not NULL, runs when op->ref can be passed on, before the bytes are at
 * the node: at most once, and not if the put fails before. */
int cn_put(struct lend_mem *mem, const struct iovec *data, int n, const struct lend_terms *terms,
	   void (*reserved)(struct lend_op *op), struct lend_op *op);
int cn_begin_space(struct lend_mem *mem, lend_space handle, uint8_t kind, struct lend_op *op);

#endif

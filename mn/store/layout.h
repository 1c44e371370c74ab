/* layout - sizes and offsets of a store's tables, and the number that identifies its format.
 * Layer: mn/store (pure). */
#ifndef MN_STORE_LAYOUT_H
#define MN_STORE_LAYOUT_H

#include "mn/store/store.h"

/* Computes the layout for a config: it sets only offsets and caps of s. */
void lend_store_lay_out(struct lend_store *s, const struct lend_store_config *config);
/* Returns the number that identifies the format: two programs that disagree about it cannot share
 * the memory of a store. */
uint64_t lend_store_layout(void);

#endif

/* secret_memory - memory for keys: zero in a fork's child, in no core dump, and not swapped out as
 * far as the limit of locked memory allows. Layer: sys. Threads: any. */
#ifndef LEND_SYS_SECRET_MEMORY_H
#define LEND_SYS_SECRET_MEMORY_H

#include "sys/mapped_memory.h"

/* Maps at least len (> 0) bytes of zeros. Returns 0, or -ENOMEM with lend_why(). */
int lend_secret_map(struct lend_mapping *memory, size_t len);
/* Wipes and unmaps it; an empty one is allowed. */
void lend_secret_unmap(struct lend_mapping *memory);

#endif

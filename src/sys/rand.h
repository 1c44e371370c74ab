/* rand - unpredictable bits from the kernel. Layer: sys. Any thread. */
#ifndef LEND_SYS_RAND_H
#define LEND_SYS_RAND_H

#include <stddef.h>

/* Fills len bytes. Waits only while the machine has not gathered any entropy since boot. */
void lend_random(void *bytes, size_t len);

#endif

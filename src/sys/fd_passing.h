/* fd_passing - how a process gets the file that a memory node's pages lie in: a socket beside the
 * node's name, one message with the file, and then silence until either end is gone.
 *
 *   client                                  node, at RUNTIME/lend/NAME.pool
 *     connect ------------------------------->
 *     <---- {magic, version, page, size, key} + file
 *     ... end of file: the other is gone ...
 *
 * The kernel ends the socket when a process dies, however it dies: until then what it has mapped
 * may still be read. Layer: sys. Any thread. */
#ifndef LEND_SYS_FD_PASSING_H
#define LEND_SYS_FD_PASSING_H

#include <stddef.h>
#include <stdint.h>

#include "sys/unix_listener.h"

enum { LEND_HANDOVER_VERSION = 1 };

/* As it travels. */
struct lend_handover {
	uint8_t magic[4]; /* "LPOL" */
	uint32_t version;
	uint32_t status; /* 0, or the errno of a refusal; then there is no file */
	uint32_t page;   /* bytes of a frame; frame i lies at i * page */
	uint64_t size;   /* bytes of the file that are pages */
	uint64_t key;    /* this process's, for POOL_ operations */
};
_Static_assert(sizeof(struct lend_handover) == 32, "no padding");

/* Listens; whoever has the node's own name has this one. 0 or -errno with lend_why(). */
int lend_handover_listen(const char *name, struct lend_door *door);
/* Sends the message; file -1: none. 0 or -errno. */
int lend_handover_tell(int sock, const struct lend_handover *msg, int file);
/* Connects and waits for the message, 2 s at most. 0: *sock and *file are the caller's, and the
 * file is as long as it should be. Else -errno with lend_why(), which names the pool and the mend.
 */
int lend_handover_take(const char *name, struct lend_handover *msg, int *sock, int *file);

#endif

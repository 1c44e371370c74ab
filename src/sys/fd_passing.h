/* fd_passing - how a process gets the file that holds a memory node's pages: by a socket next to
 * the node's own, which carries one message with the file. After that, each end only waits until
 * the other one closes.
 *
 *   client                                  node, at RUNTIME/lend/NAME.pool
 *     connect ------------------------------->
 *     <---- {magic, version, page, size, key} + file
 *     ... end of file: the other is gone ...
 *
 * The kernel closes the socket when a process ends, for whatever reason. Until then, the process
 * may still read the pages that it has mapped. Layer: sys. Any thread. */
#ifndef LEND_SYS_FD_PASSING_H
#define LEND_SYS_FD_PASSING_H

#include <stddef.h>
#include <stdint.h>

#include "sys/unix_listener.h"

enum { LEND_FD_PASSING_VERSION = 2 };

/* Of lend_fd_message.flags: each read must check a page's checksum, so the file is not read. */
enum { LEND_HANDOVER_CHECKSUM = 1 };

/* The message as it is sent. */
struct lend_fd_message {
	uint8_t magic[4]; /* "LPOL" */
	uint32_t version;
	uint16_t status; /* 0, or the errno of a refusal; then there is no file */
	uint16_t flags;
	uint32_t page; /* bytes of a frame; frame i begins at byte i * page */
	uint64_t size; /* bytes of the file that are pages */
	uint64_t key;  /* secret of the receiving process, for POOL_ operations */
};
_Static_assert(sizeof(struct lend_fd_message) == 32, "no padding");

/* Opens the listening socket of a name. The caller already owns the node's own name, and with it
 * this one. Returns 0, or -errno with lend_why(). */
int lend_fd_passing_listen(const char *name, struct lend_unix_listener *listener);
/* Sends the message; file -1: without one. Returns 0 or -errno. */
int lend_fd_passing_send(int sock, const struct lend_fd_message *msg, int file);
/* Connects and waits for the message, 2 s at most. Returns 0: the caller owns *sock and *file, and
 * the file has the full length. Else -errno with lend_why(), which names the pool and how to fix
 * it. */
int lend_fd_passing_receive(const char *name, struct lend_fd_message *msg, int *sock, int *file);

#endif

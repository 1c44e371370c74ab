/* rendezvous - how two processes of one host find each other by a name and set up shared memory.
 *
 *   client                                     server, at RUNTIME/lend/NAME
 *     connect --------------------------------->
 *     HELLO {version, bit} + its bell --------->  checks, makes the pair's memory
 *     <--------- WELCOME {version, status, bit} + that memory + the server's bell
 *     ... one byte either way: wake up ...       ... end of file: the other is gone ...
 *
 * One SOCK_SEQPACKET socket per pair serves as handshake, wake-up and liveness check. A wake-up is
 * a message on it rather than a write to a shared eventfd: a process with access to the eventfd can
 * make such a write block for ever, but not a send(MSG_DONTWAIT). Memory from the other side is
 * mapped only if it is sealed against shrinking and has the expected size, so touching it can never
 * raise SIGBUS. Either message may carry one file more: the sender's shared memory
 * (sys/shared_arena.h), in which the other side reads messages in place. Layer: io. No call here
 * waits, except for the lock that protects the creation of a name (bounded).
 */
#ifndef LEND_IO_SHM_RENDEZVOUS_H
#define LEND_IO_SHM_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/unix_listener.h"

enum { LEND_RENDEZVOUS_VERSION = 5, LEND_RENDEZVOUS_FDS = 3 };

/* Format of HELLO and WELCOME on the socket. */
struct lend_rendezvous_msg {
	uint8_t magic[4]; /* "LSHM" */
	uint32_t version;
	uint32_t status; /* WELCOME: 0, or the errno of a refusal */
	uint32_t bit;    /* the receiver's bit in the sender's bell */
	uint32_t pair;   /* bytes of the pair's memory: builds with another layout refuse at once */
	uint32_t shares; /* 1: the sender's shared memory follows the other files */
};
_Static_assert(sizeof(struct lend_rendezvous_msg) == 24, "no padding");

/* Starts to listen at a name. A name left by a killed process is free. 0, or -errno with
 * lend_why_text(): -EADDRINUSE, ... */
int lend_rendezvous_open(struct lend_unix_listener *listener, const char *name);
/* Accepts the next client's socket. -1: no client waits, or accept() failed (errno). */
int lend_rendezvous_accept(struct lend_unix_listener *listener);

/* Begins to connect to a name. 0 with *fd; -EAGAIN: the server's backlog is full, try later;
 * else -errno with lend_why_text(). */
int lend_rendezvous_connect(const char *name, int *fd);

void lend_rendezvous_fill(struct lend_rendezvous_msg *msg, uint32_t status, uint32_t bit,
			  uint32_t pair);
/* Sends one message with n fds (0 .. LEND_RENDEZVOUS_FDS). 0 or -errno. */
int lend_rendezvous_send(int sock, const struct lend_rendezvous_msg *msg, const int *fds,
			 unsigned n);
/* Receives one message. 0: msg and exactly n fds, and one more if msg->shares is set; the caller
 * owns them. -EAGAIN: nothing yet. -EPROTO: malformed, another version (in msg->version), a
 * refusal (msg->status), or a wrong number of fds. -EMFILE: no descriptor was free for them.
 * -ECONNRESET: the other side is gone. */
int lend_rendezvous_recv(int sock, struct lend_rendezvous_msg *msg, int *fds, unsigned n);
/* Wakes the other side. The byte is lost when its queue is full, which is harmless: earlier
 * wake-ups are queued then. */
void lend_rendezvous_wake(int sock);
/* Receives all pending wake-ups. False: the other side is gone. */
bool lend_rendezvous_drain(int sock);
/* Returns the user id of the other side. -1: unknown. */
int64_t lend_rendezvous_uid(int sock);

/* Makes shared memory of len bytes, sealed and zero: its fd and mapping. 0 or -errno. */
int lend_rendezvous_memory(size_t len, int *fd, void **base);
/* Maps memory that the other side made. -EPROTO: not sealed, or of another size. */
int lend_rendezvous_map(int fd, size_t len, void **base);
/* Maps such memory for reading only. */
int lend_rendezvous_map_to_read(int fd, size_t len, const void **base);

#endif

/* rendezvous - how two processes of one host find each other by a name and come to share memory.
 *
 *   client                                     server, at RUNTIME/lend/NAME
 *     connect --------------------------------->
 *     HELLO {version, bit} + its bell --------->  checks, makes the pair's memory
 *     <--------- WELCOME {version, status, bit} + that memory + the server's bell
 *     ... one byte either way: wake up ...       ... end of file: the other is gone ...
 *
 * One SOCK_SEQPACKET socket per pair is meeting, wake-up and proof of life. A wake-up is a message
 * on it rather than an eventfd handed over, because whoever shares an eventfd can make a write to
 * it wait for ever; send(MSG_DONTWAIT) cannot be made to. Memory that comes from the other side is
 * mapped only if it is sealed against shrinking and of the size we expect, so touching it can never
 * raise SIGBUS. Either message may bring one file more, the sender's shared memory
 * (sys/shared_arena.h), for the other to read messages where they lie. Layer: io. No call here
 * waits, but for the lock of a name's birth (bounded).
 */
#ifndef LEND_IO_SHM_RENDEZVOUS_H
#define LEND_IO_SHM_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/unix_listener.h"

enum { LEND_MEET_VERSION = 4, LEND_MEET_FDS = 3 };

/* HELLO and WELCOME alike, as they travel. */
struct lend_meet {
	uint8_t magic[4]; /* "LSHM" */
	uint32_t version;
	uint32_t status; /* WELCOME: 0, or the errno of a refusal */
	uint32_t bit;    /* which bit of the sender's bell is the receiver's */
	uint32_t pair;   /* bytes of the pair's memory, so that unlike builds part at once */
	uint32_t shares; /* 1: the sender's shared memory comes as well, behind the other files */
};
_Static_assert(sizeof(struct lend_meet) == 24, "no padding");

/* Takes the name; one left by a killed process is free. 0 or -errno with lend_why_text():
 * -EADDRINUSE, ... */
int lend_meet_open(struct lend_door *door, const char *name);
/* Next client's socket, or -1: nobody waits. */
int lend_meet_accept(struct lend_door *door);

/* Begins to call on a name. 0 with *fd; -EAGAIN: its queue is full, try later; else -errno with the
 * text. */
int lend_meet_dial(const char *name, int *fd);

void lend_meet_fill(struct lend_meet *msg, uint32_t status, uint32_t bit, uint32_t pair);
/* Sends one message with n fds (0 .. LEND_MEET_FDS). 0 or -errno. */
int lend_meet_send(int sock, const struct lend_meet *msg, const int *fds, unsigned n);
/* Takes one message. 0: msg and exactly n fds, and one more with shares, now ours. -EAGAIN: nothing
 * yet. -EPROTO: garbage, another version (msg->version tells which) or a refusal (msg->status), or
 * other fds than n; -ECONNRESET: gone. */
int lend_meet_recv(int sock, struct lend_meet *msg, int *fds, unsigned n);
/* Tells the other side to look; lost when its queue is full, since then it has been told. */
void lend_meet_wake(int sock);
/* Takes the wake-ups that came. False: the other side is gone. */
bool lend_meet_drain(int sock);
/* The user at the other end; -1: unknown. */
int64_t lend_meet_uid(int sock);

/* Shared memory of len bytes, sealed and zero: its fd and mapping. 0 or -errno. */
int lend_meet_memory(size_t len, int *fd, void **base);
/* Maps what the other side made. -EPROTO: not sealed, or of another size. */
int lend_meet_map(int fd, size_t len, void **base);
/* The same, to read only. */
int lend_meet_map_to_read(int fd, size_t len, const void **base);

#endif

/* udp - private header of the carrier over the kernel's UDP sockets.
 *
 * Layer: io. One carrier is one thread's. rx.c receives. urgent.c has a socket for urgent
 * datagrams. tx.c sends. connected.c has a socket that is connected to one peer, and single.c uses
 * it for one datagram at a time. epoll.c sleeps. carrier.c opens and closes.
 */
#ifndef LEND_IO_UDP_H
#define LEND_IO_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "io/io.h"
#include "io/peer_table.h"
#include "io/udp/sock.h"

enum {
	LEND_UDP_BURST = 64,
	LEND_UDP_URGENT = LEND_UDP_BURST, /* slot of an urgent message, behind the others */
	LEND_UDP_SLOTS,
	LEND_UDP_PIECES = 6, /* head, four pieces, tail */
	LEND_UDP_FLAT = 512, /* up to this length, copying is faster than gathering by the kernel */
};

/* Backlog of a socket: datagrams that were queued one behind the other. */
struct lend_udp_backlog {
	uint32_t queued; /* bytes received since the socket was last empty */
	uint32_t drops;  /* the socket's drop counter, as last queried */
};

/* Messages from the kernel, each of one datagram or of several that it joined. Those before at
 * are split into datagrams, those in [at, n) are not. None is overwritten before rx_done() finds
 * all of them split. */
struct lend_udp_rx {
	struct mmsghdr msg[LEND_UDP_SLOTS];
	struct iovec iov[LEND_UDP_SLOTS];
	struct sockaddr_storage from[LEND_UDP_SLOTS];
	struct lend_udp_key key[LEND_UDP_SLOTS];
	char control[LEND_UDP_SLOTS][LEND_UDP_CONTROL];
	char *memory;    /* a buffer for each message, first touched when used */
	uint32_t slot;   /* distance between two buffers in bytes */
	uint32_t n;      /* messages received and not released */
	uint32_t at;     /* the message that is being split; n: none */
	uint32_t offset; /* position in that message */
	uint32_t ask;    /* messages to ask for at the next receive */
	uint32_t full;   /* receives in a row that returned as many as asked for */
	struct lend_udp_backlog
	    backlog[3];      /* backlog of the own, the connected and the urgent socket */
	uint32_t room;       /* short datagrams that fit into the socket's receive buffer */
	uint32_t drops_from; /* queued bytes before drops are queried: an eighth of the buffer */
	int fd;              /* socket of the last receive */
};

/* One message to the kernel: datagrams for one peer, of one class and of one length, except that
 * the last may be shorter. They are linked by their index in the burst. */
struct lend_udp_run {
	uint32_t peer;
	uint32_t len;   /* bytes of each datagram */
	uint32_t bytes; /* bytes of all datagrams */
	uint8_t n;
	uint8_t tos;
	bool closed; /* the last one is shorter: none may follow */
	uint8_t first, last;
};

struct lend_udp_tx {
	struct mmsghdr msg[LEND_UDP_BURST];
	struct lend_udp_run run[LEND_UDP_BURST];
	struct iovec iov[LEND_UDP_BURST * LEND_UDP_PIECES];
	struct sockaddr_storage to[LEND_UDP_BURST];
	_Alignas(struct cmsghdr) char control[LEND_UDP_BURST][LEND_UDP_CONTROL];
	char flat[LEND_UDP_FLAT];     /* copy of a short datagram in one piece */
	uint8_t next[LEND_UDP_BURST]; /* index of the next datagram of the same run */
	uint32_t runs;
	bool joins;       /* this kernel splits joined datagrams (UDP_SEGMENT) */
	bool asked;       /* `prioritises` is known */
	bool prioritises; /* this kernel takes priorities of messages */
};

/* The connected socket: it has one peer, so the kernel does no route lookup for datagrams sent
 * there. It is in plain mode while datagrams come one at a time from a peer on this host. Such
 * datagrams have no ECN mark and are not joined, so they are received without control data. */
struct lend_udp_connected {
	int fd; /* client: its only socket; listener: a second one at the same port; -1: none */
	struct lend_udp_key address; /* address of the peer */
	int32_t index;               /* the peer's index, as last seen */
	bool near;                   /* the peer is on this host */
	bool plain;                  /* all datagrams queued here are the peer's, and not joined */
	bool drain;     /* listener: its own socket may hold older datagrams of the peer */
	bool busy;      /* listener: the last receive on its own socket found something */
	uint32_t turn;  /* receives, which alternate between the two sockets */
	uint32_t quiet; /* receives in a row that found nothing on the connected socket */
	int32_t from;   /* listener: sender of the last message at its own socket */
	uint32_t row;   /* listener: its messages in a row, each received alone; ROW (256) of them
			   connect this socket to it */
	uint32_t alone; /* messages in a row that were received one at a time */
	bool left;      /* the last lent datagram is still queued in the socket */
	uint32_t left_len; /* length of that datagram */
};

/* The socket for urgent datagrams, see urgent.c. */
struct lend_udp_urgent {
	int fd;            /* -1: not needed yet */
	uint32_t member;   /* its index in the group of sockets at this port */
	bool refused;      /* this kernel has no such groups, or refuses the filter */
	bool sorted;       /* the filter delivers urgent datagrams to it */
	bool lent;         /* its message is in use until rx_done() */
	uint32_t offset;   /* position up to which its message is split; 0: all of it */
	uint32_t urgent;   /* receives for which more urgent datagrams are expected */
	uint32_t lengthy;  /* receives for which more long datagrams are expected */
	uint32_t emptying; /* receives for which it is still polled, after the filter was reset */
	uint32_t turns;    /* calls of rx() */
};

struct io_udp {
	struct lend_io io;
	int fd;
	int family;
	bool may_connect; /* to the first peer that is resolved, as long as there is no second */
	bool listens;
	struct lend_udp_connected connected;
	struct lend_udp_urgent urgent;
	int epoll;     /* descriptor for the caller to sleep on, see epoll.c */
	bool watched;  /* the sockets are registered in it */
	uint32_t busy; /* receives that found something since the last arm() */
	struct lend_udp_peers peers;
	struct lend_udp_rx rx;
	struct lend_udp_tx tx;
};

static inline struct io_udp *lend_udp_self(struct lend_io *io)
{
	return (struct io_udp *)(void *)io;
}

/* Returns 0 or -ENOMEM. */
int lend_udp_rx_init(struct io_udp *u);
uint32_t lend_udp_rx(struct lend_io *io, struct lend_in *in, uint32_t cap);
void lend_udp_rx_done(struct lend_io *io);

/* Records that a receive asked for that many messages and found n of them. */
void lend_udp_rx_note(struct io_udp *u, uint32_t asked, uint32_t n, uint32_t bytes);

void lend_udp_tx_init(struct io_udp *u);
void lend_udp_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);

void lend_udp_connected_init(struct io_udp *u);
/* Connects a client's socket to the first peer that it resolves. A second peer disconnects it. */
void lend_udp_connected_resolved(struct io_udp *u, int32_t index,
				 const struct sockaddr_storage *to);
/* Returns the socket for the next receive. */
int lend_udp_connected_choose(struct io_udp *u);
/* Records that the receive found n messages there. False: the result does not show the current
 * load, because it is an empty receive on the quieter of two sockets. */
bool lend_udp_connected_note_receive(struct io_udp *u, uint32_t n);
/* Records that a message of that peer came to a listener's own socket. */
void lend_udp_connected_note_sender(struct io_udp *u, int32_t peer);
/* Returns the index of the connected socket's peer, which is now the newest of the unpinned. */
int32_t lend_udp_connected_peer(struct io_udp *u);
/* Returns whether a socket is connected to that peer. */
bool lend_udp_connected_has(const struct io_udp *u, const struct lend_udp_key *key);
/* Stops all use of connected sockets until a peer is given one again. */
void lend_udp_connected_stop(struct io_udp *u);
/* Ends plain mode after a long datagram: compared with its length, receiving its ECN mark costs
 * little. */
void lend_udp_connected_note_long(struct io_udp *u);
void lend_udp_connected_close(struct io_udp *u);

/* Returns whether the next receive may be of a single datagram, through the plain connected socket.
 */
bool lend_udp_single_may_rx(const struct io_udp *u, uint32_t cap);
uint32_t lend_udp_single_rx(struct io_udp *u, struct lend_in *in);
/* Removes the datagram that was lent from its socket. */
void lend_udp_single_done(struct io_udp *u);
/* Sends one short datagram through the connected socket. False: nothing was done, because the
 * datagram cannot go there. */
bool lend_udp_single_tx(struct io_udp *u, const struct lend_bufs *bufs, struct lend_out *out);

/* Records that a message came with that TOS or traffic class, of len bytes. */
void lend_udp_urgent_note(struct io_udp *u, uint8_t tos, uint32_t len);
/* Records that the urgent socket has a datagram, perhaps after it was last polled. */
void lend_udp_urgent_pending(struct io_udp *u);
/* Call before each receive. True: the urgent socket must be polled. */
bool lend_udp_urgent_must_poll(struct io_udp *u);

/* Returns 0 or -errno. */
int lend_udp_epoll_open(struct io_udp *u);
/* Records that a receive found something. */
void lend_udp_epoll_note_busy(struct io_udp *u);
/* Has the next arm() register all sockets again, because one was added. */
void lend_udp_epoll_reset(struct io_udp *u);
int lend_udp_fd(struct lend_io *io);
bool lend_udp_arm(struct lend_io *io);

#endif

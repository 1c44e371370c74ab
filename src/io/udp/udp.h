/* udp - inside of the carrier over the kernel's UDP sockets.
 *
 * Layer: io. One carrier is one thread's. udp_rx receives, udp_fast has a socket for what is
 * urgent, udp_tx sends, udp_line has one for the peer that one talks with, udp_alone goes by it one
 * at a time, udp_watch sleeps, io_udp opens and closes.
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
	LEND_UDP_FAST = LEND_UDP_BURST, /* the place of an urgent message behind those */
	LEND_UDP_SLOTS,
	LEND_UDP_PIECES = 6, /* head, four pieces, tail */
	LEND_UDP_FLAT = 512, /* bytes that are copied quicker than the kernel gathers them */
};

/* Datagrams that stood in a socket one behind the other. */
struct lend_udp_train {
	uint32_t queued; /* bytes received since the socket was last empty */
	uint32_t drops;  /* of the socket, when last asked */
};

/* Messages of the kernel's, each of one datagram or of several that it joined. Those before at are
 * split up, those from it to n are not; all lie still until rx_done() finds none left to split. */
struct lend_udp_rx {
	struct mmsghdr msg[LEND_UDP_SLOTS];
	struct iovec iov[LEND_UDP_SLOTS];
	struct sockaddr_storage from[LEND_UDP_SLOTS];
	struct lend_udp_key key[LEND_UDP_SLOTS];
	char control[LEND_UDP_SLOTS][LEND_UDP_CONTROL];
	char *memory;                   /* a buffer for each, touched as they are used */
	uint32_t slot;                  /* bytes from one to the next */
	uint32_t n;                     /* messages received and not given up */
	uint32_t at;                    /* the one being split up; n: none */
	uint32_t offset;                /* in it */
	uint32_t ask;                   /* messages asked for at the next receive */
	uint32_t full;                  /* receives in a row that brought as many */
	struct lend_udp_train train[3]; /* at the socket, the line, the urgent one */
	uint32_t room;                  /* short datagrams that the socket's buffer holds */
	uint32_t drops_from; /* asked once as many bytes were queued: an eighth of what fits */
	int fd;              /* where the last receive looked */
};

/* One message to the kernel: datagrams for one peer, of one class and of one length, but that the
 * last may be shorter. They are linked by their place in the burst. */
struct lend_udp_run {
	uint32_t peer;
	uint32_t len;   /* of each */
	uint32_t bytes; /* of all */
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
	char flat[LEND_UDP_FLAT];     /* a short datagram in one piece */
	uint8_t next[LEND_UDP_BURST]; /* the datagram behind this one in its run */
	uint32_t runs;
	bool joins; /* this kernel splits what was joined */
};

/* The line: a socket that is connected to one peer. The kernel looks up no way for what is sent
 * there. While datagrams come one at a time from a peer on this host it is plain: such are neither
 * joined nor marked, so they are received without what the kernel says of them. */
struct lend_udp_line {
	int fd; /* a client's own socket, a second one of a listener's at the same port; -1: none */
	struct lend_udp_key solo; /* the peer, */
	int32_t index;            /* its index as last seen, */
	bool near;                /* on this host */
	bool plain;               /* all that is queued here is the peer's, and not joined */
	bool drain;               /* a listener's: older ones of the peer may wait at its socket */
	bool busy;                /* a listener's socket had something when it was last looked at */
	uint32_t turn;            /* receives, which alternate between the two sockets */
	uint32_t quiet;           /* of them those in a row that found nothing here */
	int32_t from;             /* who sent what last came to the listener's socket, */
	uint32_t row;             /* and so many before it, each alone */
	uint32_t alone;           /* messages that came one at a time */
	bool left;                /* what was lent last still stands in the socket, */
	uint32_t left_len;        /* so long */
};

/* The socket of what is urgent, see urgent.c. */
struct lend_udp_fast {
	int fd;            /* -1: not needed yet */
	uint32_t member;   /* its index in the group of sockets at this port */
	bool refused;      /* this kernel has no such groups */
	bool sorted;       /* what is urgent goes there */
	bool lent;         /* its message is in use until rx_done(), */
	uint32_t offset;   /* and split up to here; 0: all of it */
	uint32_t urgent;   /* so many receives more something urgent is expected, */
	uint32_t lengthy;  /* and something long; */
	uint32_t emptying; /* and it is looked at, though nothing goes there any more */
	uint32_t turns;    /* of rx() */
};

struct io_udp {
	struct lend_io io;
	int fd;
	int family;
	bool may_connect; /* to the first that is resolved, as long as there is no second */
	bool listens;
	struct lend_udp_line line;
	struct lend_udp_fast fast;
	int epoll;     /* what others sleep on: it holds the socket while that is worth it */
	bool watched;  /* it does */
	uint32_t busy; /* receives that found something since somebody was about to sleep */
	struct lend_udp_peers peers;
	struct lend_udp_rx rx;
	struct lend_udp_tx tx;
};

static inline struct io_udp *lend_udp_self(struct lend_io *io)
{
	return (struct io_udp *)(void *)io;
}

/* Errors that an earlier datagram's ICMP answer left on the socket: they tell nothing about this
 * call. */
bool lend_udp_is_stale(int err);

/* -ENOMEM. */
int lend_udp_rx_init(struct io_udp *u);
uint32_t lend_udp_rx(struct lend_io *io, struct lend_in *in, uint32_t cap);
void lend_udp_rx_done(struct lend_io *io);

/* A receive that asked for so many messages found n of them. */
void lend_udp_rx_came(struct io_udp *u, uint32_t asked, uint32_t n, uint32_t bytes);

void lend_udp_tx_init(struct io_udp *u);
void lend_udp_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);

void lend_udp_line_init(struct io_udp *u);
/* A client's socket is connected to the first peer that it resolves; a second one ends that. */
void lend_udp_line_resolved(struct io_udp *u, int32_t index, const struct sockaddr_storage *to);
/* Where the next receive is to look. */
int lend_udp_line_choose(struct io_udp *u);
/* It found n messages there. False: that says nothing of how many come, for it was the silent one
 * of two sockets. */
bool lend_udp_line_looked(struct io_udp *u, uint32_t n);
/* A message of that peer came to a listener's own socket. */
void lend_udp_line_heard(struct io_udp *u, int32_t peer);
/* The peer of the line as an index, now the newest of the unpinned. */
int32_t lend_udp_line_peer(struct io_udp *u);
/* True where a socket is connected to that peer. */
bool lend_udp_line_reaches(const struct io_udp *u, const struct lend_udp_key *key);
/* Nobody's datagrams come by a connected socket until a peer is given one anew. */
void lend_udp_line_away(struct io_udp *u);
/* A datagram came that is long beside what it costs to be told its mark: it is told again. */
void lend_udp_line_long(struct io_udp *u);
void lend_udp_line_close(struct io_udp *u);

/* The next receive may be that of one datagram: it finds it, or nothing. */
bool lend_udp_alone_here(const struct io_udp *u, uint32_t cap);
uint32_t lend_udp_alone_rx(struct io_udp *u, struct lend_in *in);
/* Takes out of its socket what that has lent. */
void lend_udp_alone_done(struct io_udp *u);
/* Sends one short datagram by the line; false: nothing was done, for it does not go there. */
bool lend_udp_alone_tx(struct io_udp *u, const struct lend_bufs *bufs, struct lend_out *out);

/* A message came with that TOS or traffic class, of so many bytes. */
void lend_udp_fast_note(struct io_udp *u, uint8_t tos, uint32_t len);
/* The socket of what is urgent has something, perhaps when nothing was expected any more. */
void lend_udp_fast_late(struct io_udp *u);
/* Before each receive: is that socket to be looked at? */
bool lend_udp_fast_step(struct io_udp *u);

/* 0 or -errno. */
int lend_udp_watch_open(struct io_udp *u);
/* A receive found something. */
void lend_udp_watch_busy(struct io_udp *u);
/* There is one more socket. */
void lend_udp_watch_again(struct io_udp *u);
int lend_udp_fd(struct lend_io *io);
bool lend_udp_arm(struct lend_io *io);

#endif

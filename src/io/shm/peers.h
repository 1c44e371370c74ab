/* shm/peers - the table of processes this carrier shares rings with, and their life: handshake,
 * sleep, hang-up, release.
 *
 * How a receiver finds datagrams: it polls a "hot" ring at every rx(). The ring's polled field is
 * set then, and its sender does nothing more. For any other ring, the sender sets a bit in the
 * receiver's bell, which is shared memory that all its peers map; so idle peers cost nothing. A
 * receiver that sleeps sets a field in the bell; a sender that finds it set wakes the receiver
 * through the socket. Both sides publish first and check the other side's state second, with a full
 * fence between the two. The bell is only a hint: a faulty peer that clears bits delays datagrams
 * of other peers of the same user. So every ring is also polled now and then without its bit.
 * Layer: io. One thread's.
 */
#ifndef LEND_IO_SHM_PEERS_H
#define LEND_IO_SHM_PEERS_H

#include <stdatomic.h>

#include "io/addr.h"
#include "io/io.h"
#include "io/shm/rendezvous.h"
#include "io/shm/ring.h"

enum {
	LEND_SHM_PEERS = 1024,
	LEND_SHM_WORDS = LEND_SHM_PEERS / 64,
	LEND_SHM_HALF_OPEN_MAX = 32, /* sockets that have connected but not sent HELLO, at most */
};

struct lend_bell {
	alignas(64) _Atomic uint32_t asleep; /* number of the owner's sleep: wake it through the
						socket; 0: it is awake, or was woken */
	alignas(64) _Atomic uint64_t word[LEND_SHM_WORDS]; /* bit i: poll the ring of your peer i */
};
enum { LEND_BELL_LEN = 4096 };
_Static_assert(sizeof(struct lend_bell) <= LEND_BELL_LEN, "a page");

struct lend_shm_pair {
	struct lend_ring to_server, to_client;
};
/* Urgent datagrams have rings of their own, which are polled first. */
struct lend_shm_link {
	struct lend_shm_pair pair, fast;
};
#define LEND_SHM_PAIR_LEN ((sizeof(struct lend_shm_pair) + 4095) & ~(size_t)4095)
#define LEND_SHM_LINK_LEN ((sizeof(struct lend_shm_link) + 4095) & ~(size_t)4095)

enum lend_shm_state {
	LEND_SHM_FREE,
	LEND_SHM_ACCEPTED,   /* the peer connected; its HELLO is awaited */
	LEND_SHM_CONNECTING, /* we connected; WELCOME is awaited */
	LEND_SHM_FAILED,     /* our connect failed; the next resolve() returns err */
	LEND_SHM_UP,
	LEND_SHM_HUNG_UP, /* hung up; datagrams that it sent are still delivered */
	LEND_SHM_GONE,    /* its end was reported to the user; released when it is not lent and not
			     pinned */
};
/* FREE -> ACCEPTED -> UP -> HUNG_UP -> GONE -> FREE; FREE -> CONNECTING -> UP or FAILED -> FREE */

struct lend_shm_peer {
	enum lend_shm_state state;
	int sock;         /* -1: none */
	int err;          /* FAILED: errno of the failure */
	bool here;        /* FAILED: err is this process's own, not from the server's reply */
	uint32_t version; /* FAILED with EPROTO: the version of the other side */
	int64_t uid;      /* user of its process, if uid_known */
	bool uid_known;
	uint32_t bit;            /* number of our bit in the peer's bell */
	uint32_t pins;           /* how often the core pinned it */
	uint32_t blocked_len[2]; /* bytes of a datagram that its ring, or its fast ring, had no room
				for; or 0 */
	uint32_t full_in[2];     /* the burst in which that happened: its rest is refused */
	uint32_t idle;           /* polls since its ring last had a datagram */
	uint32_t left;           /* HUNG_UP: datagrams that are still delivered, at most */
	bool hot;                /* its ring is in hot[] */
	bool ahead;    /* CONNECTING: on a socket that was connected ahead of time; if it fails,
			  another is tried */
	lend_ns since; /* start of its state, while half open */
	struct lend_ring_rx rx;
	struct lend_ring_tx tx;
	struct lend_ring_rx fast_rx; /* no ring: all datagrams use rx */
	struct lend_ring_tx fast_tx;
	struct lend_shm_pair *pair;  /* NULL before UP */
	const uint8_t *memory;       /* its shared memory, mapped to read; NULL: none */
	struct lend_ring_lent *lent; /* for both tx rings; NULL: it does not read our memory */
	struct lend_bell *bell;      /* the bell of the peer */
	char name[LEND_ADDR_NAME_MAX +
		  1]; /* name that we connected to; "": the peer connected to us */
};

/* Parts of received messages that are lent at once; a burst ends before there are more. */
enum { LEND_SHM_PARTS = 16 * LEND_PARTS };

struct lend_shm {
	struct lend_io io;
	/* Handshake of this carrier: attend accepts new peers and detects those that ended; part
	 * frees the resources of a peer's connection. */
	void (*poll_sockets)(struct lend_shm *s);
	void (*free_connection)(struct lend_shm *s, struct lend_shm_peer *p);
	struct lend_unix_listener
	    listener; /* not watched while io.due is set: no descriptor was free */
	int epoll;
	bool shares; /* our user handles bodies, and we have shared memory to offer */
	bool makes;  /* rings for the next client are made before the next sleep */
	struct lend_shm_link *made; /* those rings, or NULL */
	int made_fd;                /* their file, if made is set */
	int bell_fd;
	struct lend_bell *bell; /* ours; written by all peers: a hint */
	bool armed;             /* the bell has us marked as asleep */
	uint32_t sleeps;        /* newest sleep number; never 0 after the first sleep */
	uint32_t polls;
	uint32_t bursts;       /* bursts that were not short datagrams for one peer */
	uint32_t lent;         /* datagrams that the caller has borrowed */
	uint32_t gone;         /* peers in state GONE */
	uint32_t half;         /* peers in state ACCEPTED, CONNECTING or FAILED */
	uint32_t top;          /* entries ever used: [0, top) */
	uint32_t hot_n;        /* entries of hot[] */
	uint32_t turn;         /* entry of hot[] that is polled first, for round robin */
	uint32_t socket_polls; /* number of polls of the sockets so far */
	uint64_t attended;     /* cycle counter at the last poll of the sockets */
	lend_ns soon; /* until then more datagrams are expected from a new peer: do not sleep */
	char name[LEND_ADDR_NAME_MAX + 1];
	/* A socket that is already connecting to ahead_name, for the first dial of that name;
	 * -1: none. */
	int ahead;
	char ahead_name[LEND_ADDR_NAME_MAX + 1];
	uint16_t hot[LEND_SHM_PEERS];
	struct lend_shm_peer peer[LEND_SHM_PEERS];
	uint32_t parts; /* entries of part[] that are lent */
	struct lend_part part[LEND_SHM_PARTS];
};

/* Handshake through sockets: accepts connections, handles replies, wake-ups and hang-ups. Never
 * waits. */
void lend_shm_poll_sockets(struct lend_shm *s);
/* Makes the rings of the next client, with their first pages, unless there are some. 0 or -errno.
 */
int lend_shm_make_rings(struct lend_shm *s);
void lend_shm_free_rings(struct lend_shm *s);
void lend_shm_free_connection(struct lend_shm *s, struct lend_shm_peer *p);
/* Wakes the listener at that address, if there is one, while we prepare our HELLO. */
void lend_shm_connect_ahead(struct lend_shm *s, const char *address);
/* Begins to connect to a name: -EINPROGRESS, or -errno with lend_why_text() set. */
int lend_shm_dial(struct lend_shm *s, const char *name);

/* Returns a free entry of the table, or NULL. */
struct lend_shm_peer *lend_shm_take_entry(struct lend_shm *s);
/* Changes the state of a peer and updates the counts. No other function changes it. */
void lend_shm_set_state(struct lend_shm *s, struct lend_shm_peer *p, enum lend_shm_state state);
/* Sets up the rings of a new pair for this side; fast may be NULL. */
void lend_shm_pair(struct lend_shm_peer *p, struct lend_shm_pair *pair, struct lend_shm_pair *fast,
		   bool server);
/* Returns whether the peer reads our shared memory. From the first true on, memory lent to it is
 * recorded. */
bool lend_shm_maps_memory(struct lend_shm *s, struct lend_shm_peer *p);
/* Marks a peer as hung up. Datagrams that it had sent are still delivered, then its end is
 * reported to the user. */
void lend_shm_hang_up(struct lend_shm *s, struct lend_shm_peer *p);
/* Marks our connect to it as failed; the next resolve() returns the error. */
void lend_shm_fail(struct lend_shm *s, struct lend_shm_peer *p, int err);
/* Ends connections that have been half open for too long. */
void lend_shm_expire(struct lend_shm *s);
/* Finds a connect to that name: in progress, up or failed; else NULL. */
struct lend_shm_peer *lend_shm_find(struct lend_shm *s, const char *name);
/* Returns the error of a failed connect, for resolve(), and frees the entry. */
int lend_shm_take_error(struct lend_shm *s, struct lend_shm_peer *p);
/* Releases peers that are gone and not pinned; only while nothing is lent. */
void lend_shm_release_gone(struct lend_shm *s);
/* Releases a peer at once. */
void lend_shm_release(struct lend_shm *s, struct lend_shm_peer *p);

static inline uint32_t lend_shm_index(const struct lend_shm *s, const struct lend_shm_peer *p)
{
	return (uint32_t)(p - s->peer);
}

/* Returns whether its ring may hold a datagram. */
static inline bool lend_shm_is_live(const struct lend_shm_peer *p)
{
	return p->state == LEND_SHM_UP || p->state == LEND_SHM_HUNG_UP;
}

/* Returns whether one of its rings holds a datagram. */
static inline bool lend_shm_is_ready(const struct lend_shm_peer *p)
{
	return lend_ring_ready(&p->rx) || (p->fast_rx.ring && lend_ring_ready(&p->fast_rx));
}

/* Makes the ring hot: it is polled at every rx() from now on. */
void lend_shm_make_hot(struct lend_shm *s, struct lend_shm_peer *p);
/* Removes the ring from hot[]; does not notify the peer. */
void lend_shm_unlist(struct lend_shm *s, struct lend_shm_peer *p);
/* Makes the ring cold: its sender uses the bell from now on. False: a datagram arrived meanwhile
 * and the ring stays hot. */
bool lend_shm_make_cold(struct lend_shm *s, struct lend_shm_peer *p);

#endif

/* shm/peers - the table of processes this carrier shares rings with: how each comes, sleeps and
 * goes.
 *
 * Who looks where. A ring that is "hot" is polled by its receiver at every rx(); its polled word
 * says so and its sender need do nothing. Any other ring is announced by a bit in the receiver's
 * bell, one word of memory that all its peers map, so idle peers cost nothing. A receiver that
 * sleeps says so in the bell; the sender that finds it asleep wakes it through the socket. Each "I
 * publish, then look whether you look" has a full fence in the middle, on both sides. The bell is a
 * hint: a bad peer that clears bits delays others of the same user, so every ring is looked at now
 * and then anyway. Layer: io. One thread's.
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
	LEND_SHM_HALF_OPEN_MAX = 32, /* strangers who have not said HELLO */
};

struct lend_bell {
	alignas(64) _Atomic uint32_t asleep; /* number of the owner's sleep: wake it by the socket;
						0: it is awake, or was woken */
	alignas(64) _Atomic uint64_t word[LEND_SHM_WORDS]; /* bit i: look at your peer i */
};
enum { LEND_BELL_LEN = 4096 };
_Static_assert(sizeof(struct lend_bell) <= LEND_BELL_LEN, "a page");

struct lend_shm_pair {
	struct lend_ring to_server, to_client;
};
/* What is urgent has rings of its own, which are looked at first. */
struct lend_shm_link {
	struct lend_shm_pair pair, fast;
};
#define LEND_SHM_PAIR_LEN ((sizeof(struct lend_shm_pair) + 4095) & ~(size_t)4095)
#define LEND_SHM_LINK_LEN ((sizeof(struct lend_shm_link) + 4095) & ~(size_t)4095)

enum lend_shm_state {
	LEND_SHM_FREE,
	LEND_SHM_STRANGER, /* it called; HELLO awaited */
	LEND_SHM_CALLING,  /* we called; WELCOME awaited */
	LEND_SHM_FAILED,   /* we called in vain; err awaits the next resolve() */
	LEND_SHM_UP,
	LEND_SHM_HUNG, /* hung up; what it sent is still delivered */
	LEND_SHM_GONE, /* and that was told; released when neither lent nor pinned */
};
/* FREE -> STRANGER -> UP -> HUNG -> GONE -> FREE;  FREE -> CALLING -> UP or FAILED -> FREE */

struct lend_shm_peer {
	enum lend_shm_state state;
	int sock;            /* -1: none */
	int err;             /* FAILED: why */
	bool here;           /* FAILED: err is this process's own, not from the server's reply */
	uint32_t version;    /* FAILED with EPROTO: what it speaks */
	uint32_t bit;        /* ours in its bell */
	uint32_t pins;       /* how often the core asked to keep it */
	uint32_t starved[2]; /* bytes of what its ring, or the fast one, had no room for; or 0 */
	uint32_t full_in[2]; /* the burst in which that was: no more of it is taken */
	uint32_t idle;       /* polls since its ring had anything */
	uint32_t left;       /* HUNG: datagrams that are still taken, at most */
	bool hot;            /* in hot[] */
	bool ahead;    /* CALLING: on a socket that called before; if it fails another may do */
	lend_ns since; /* of its state, while half open */
	struct lend_ring_rx rx;
	struct lend_ring_tx tx;
	struct lend_ring_rx fast_rx; /* no ring: all go one way */
	struct lend_ring_tx fast_tx;
	struct lend_shm_pair *pair;        /* NULL before UP */
	const uint8_t *memory;             /* its shared memory, mapped to read; NULL: none */
	struct lend_ring_lent *lent;       /* of both tx; NULL: it does not read our memory */
	struct lend_bell *bell;            /* its bell */
	char name[LEND_ADDR_NAME_MAX + 1]; /* where we called; "" when it called us */
};

struct lend_shm {
	struct lend_io io;
	/* How these processes meet: looks who came and went, and gives back what a peer's end
	 * took. */
	void (*attend)(struct lend_shm *s);
	void (*part)(struct lend_shm *s, struct lend_shm_peer *p);
	struct lend_door door; /* not watched while io.due is set: no descriptor was free */
	int epoll;
	bool shares; /* our user knows of bodies, and we have memory to show */
	int bell_fd;
	struct lend_bell *bell; /* ours; written by all peers: a hint */
	bool armed;             /* said asleep */
	uint32_t sleeps;        /* the newest number of one; never 0 then */
	uint32_t polls;
	uint32_t bursts;   /* that were not short and for one peer */
	uint32_t lent;     /* datagrams in the caller's hands */
	uint32_t gone;     /* peers in state GONE */
	uint32_t half;     /* peers in state STRANGER, CALLING or FAILED */
	uint32_t top;      /* entries ever used: [0, top) */
	uint32_t hots;     /* entries of hot[] */
	uint32_t turn;     /* whose turn it is to be first */
	uint32_t looks;    /* at the sockets */
	uint64_t attended; /* cycle counter at the last look at the sockets */
	lend_ns soon;      /* until then more is expected of a peer that is new */
	char name[LEND_ADDR_NAME_MAX + 1];
	/* A socket that calls this name already, for the first to be dialled; -1: none. */
	int ahead;
	char ahead_name[LEND_ADDR_NAME_MAX + 1];
	uint16_t hot[LEND_SHM_PEERS];
	struct lend_shm_peer peer[LEND_SHM_PEERS];
};

/* The meeting by sockets. Looks who calls, answers, wakes us or hung up; never waits. */
void lend_shm_attend(struct lend_shm *s);
void lend_shm_part(struct lend_shm *s, struct lend_shm_peer *p);
/* Has who listens at that address woken, if anybody does, while we make ready to say HELLO. */
void lend_shm_call_ahead(struct lend_shm *s, const char *address);
/* Begins to call on a name: -EINPROGRESS, or -errno with lend_why_text() set. */
int lend_shm_dial(struct lend_shm *s, const char *name);

/* The table. A free entry, or NULL. */
struct lend_shm_peer *lend_shm_take(struct lend_shm *s);
/* The only place where a state changes: counts follow. */
void lend_shm_enter(struct lend_shm *s, struct lend_shm_peer *p, enum lend_shm_state state);
/* The rings of a new pair, as this side uses them; fast: or NULL. */
void lend_shm_pair(struct lend_shm_peer *p, struct lend_shm_pair *pair, struct lend_shm_pair *fast,
		   bool server);
/* Whether it reads our memory; once it said so, what it is lent is noted. */
bool lend_shm_reads(struct lend_shm *s, struct lend_shm_peer *p);
/* It hung up: what it had sent is still delivered, and then told that it is gone. */
void lend_shm_hang_up(struct lend_shm *s, struct lend_shm_peer *p);
/* Our call on it ended in vain; the next resolve() says why. */
void lend_shm_fail(struct lend_shm *s, struct lend_shm_peer *p, int err);
/* Ends what is half open for too long. */
void lend_shm_expire(struct lend_shm *s);
/* A call on that name: under way, up or failed; else NULL. */
struct lend_shm_peer *lend_shm_find(struct lend_shm *s, const char *name);
/* What resolve() says of a call that failed; the entry is free then. */
int lend_shm_tell(struct lend_shm *s, struct lend_shm_peer *p);
/* Releases peers that are gone and that nobody holds; only while nothing is lent. */
void lend_shm_reap(struct lend_shm *s);
/* Ends a peer at once. */
void lend_shm_release(struct lend_shm *s, struct lend_shm_peer *p);

static inline uint32_t lend_shm_index(const struct lend_shm *s, const struct lend_shm_peer *p)
{
	return (uint32_t)(p - s->peer);
}

/* Its ring may hold something. */
static inline bool lend_shm_is_live(const struct lend_shm_peer *p)
{
	return p->state == LEND_SHM_UP || p->state == LEND_SHM_HUNG;
}

/* One of its rings holds something. */
static inline bool lend_shm_is_ready(const struct lend_shm_peer *p)
{
	return lend_ring_ready(&p->rx) || (p->fast_rx.ring && lend_ring_ready(&p->fast_rx));
}

/* Polls this ring from now on. */
void lend_shm_heat(struct lend_shm *s, struct lend_shm_peer *p);
/* Takes the ring out of hot[] without a word to anybody. */
void lend_shm_unlist(struct lend_shm *s, struct lend_shm_peer *p);
/* Leaves the ring to the bell; false: something came meanwhile and it stays hot. */
bool lend_shm_cool(struct lend_shm *s, struct lend_shm_peer *p);

#endif

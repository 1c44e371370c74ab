/* multihost_memory - the rendezvous of endpoints in memory that several hosts map: a DAX device, an
 * ivshmem BAR, or a file. There is no socket between hosts, so all of its state is in that memory:
 *
 *   head   8 bytes: magic, version, length. Zero memory becomes a pod by one compare-and-swap
 *   end    an endpoint: its owner's number, heartbeat, host and process, name, bell
 *   link   shared by a client and a server: 8 bytes {generation, both ends, bits}
 *   pair   the rings of the link with the same index
 *
 * There are no locks, so a process that dies blocks no other. Each change is one compare-and-swap
 * of 8 bytes that include the owner. The next endpoint that needs a dead endpoint's resources
 * reclaims them. An endpoint on this host is dead when its process is gone. An endpoint on another
 * host is dead when its heartbeat did not change for LEND_MULTIHOST_STALE_NS of our time, while we
 * polled it. An endpoint that was only stopped that long finds its end taken, and joins again.
 *
 * All hosts that map the memory can write all of it: one trust domain. Each field is read once and
 * checked. An endpoint keeps its own number, links, positions and addresses in private memory.
 * Layer: io. One thread's.
 */
#ifndef LEND_IO_SHM_MULTIHOST_MEMORY_H
#define LEND_IO_SHM_MULTIHOST_MEMORY_H

#include "io/shm/peers.h"

#define LEND_MULTIHOST_STALE_NS UINT64_C(5000000000)
#define LEND_MULTIHOST_NONE     UINT32_MAX

enum {
	LEND_MULTIHOST_VERSION = 2,
	LEND_MULTIHOST_ENDS = 256,
	LEND_MULTIHOST_LINKS = 1024,   /* limit; the actual number depends on the memory's length */
	LEND_MULTIHOST_UNIT = 2 << 20, /* divides all lengths: least mapping of a DAX device */
	LEND_MULTIHOST_PAIRS = 256 << 10, /* offset of the first pair */
};

struct lend_multihost_end {
	alignas(64) _Atomic uint64_t owner; /* the owner's number; 0: free */
	_Atomic uint64_t claims; /* == owner: its fields are ready, it requests the name */
	_Atomic uint64_t holds;  /* == owner: it has the name */
	uint64_t host, born;     /* identity of the process: its host, and its start time there */
	int64_t pid;
	_Atomic uint32_t knocks; /* links requested from it since the start */
	alignas(64) _Atomic uint64_t beat;
	char name[LEND_ADDR_NAME_MAX + 1]; /* "": a client without a name */
	struct lend_bell bell;
};
_Static_assert(sizeof(struct lend_multihost_end) == 384, "the same for all");

struct lend_multihost_link {
	alignas(64) _Atomic uint64_t word;       /* generation 32, client 12, server 12, bits 8 */
	_Atomic uint64_t want;                   /* number of the server that the client requests */
	_Atomic uint32_t client_bit, server_bit; /* in each side's bell, for the other to set */
};
_Static_assert(sizeof(struct lend_multihost_link) == 64, "a line");

enum {
	LEND_LINK_TAKEN = 1, /* taken by a client; a link without any bit is free */
	LEND_LINK_REQUESTED = 2,
	LEND_LINK_UP = 4,
	LEND_LINK_CLIENT_LEFT = 8,
	LEND_LINK_SERVER_LEFT = 16,
};

struct lend_multihost_memory {
	_Atomic uint64_t head; /* magic 16, version 16, length in units 32 */
	_Atomic uint32_t turn; /* where the next search for a free link begins: a hint */
	alignas(4096) struct lend_multihost_end end[LEND_MULTIHOST_ENDS];
	struct lend_multihost_link link[LEND_MULTIHOST_LINKS];
};
_Static_assert(sizeof(struct lend_multihost_memory) <= LEND_MULTIHOST_PAIRS,
	       "room before the pairs");

/* Last observed state of an endpoint. */
struct lend_multihost_seen {
	uint64_t owner, beat;
	lend_ns since; /* when the heartbeat last changed, or the first observation */
	bool lives;    /* the heartbeat has changed since the first observation */
};

enum lend_multihost_state {
	LEND_MULTIHOST_DEAD,
	LEND_MULTIHOST_LIVES,
	LEND_MULTIHOST_UNSURE /* not known yet: ask again later */
};

struct lend_multihost {
	struct lend_multihost_memory *at;
	size_t len;
	int fd;
	const char *path; /* borrowed from the caller, for error texts */
	uint32_t links;   /* number of links that have a pair */
	uint32_t me;      /* index of our end */
	uint64_t number;  /* our owner number in it; 0: none */
	uint64_t beat, host, born;
	int64_t pid;
	lend_ns looked; /* time when seen[] was last updated */
	struct lend_multihost_seen seen[LEND_MULTIHOST_ENDS];
};

/* Maps the memory, and makes it a pod if it is zero. Borrows path until unmap(). 0, or -errno
 * with lend_why_text(). */
int lend_multihost_map(struct lend_multihost *pod, const char *path);
/* Allocates the pages of a link's rings where the memory is a file with holes. 0, or -errno with
 * lend_why_text(): the rings must not be touched. */
int lend_multihost_allocate(const struct lend_multihost *pod, uint32_t link);
void lend_multihost_unmap(struct lend_multihost *pod);

/* Takes an end, and the name unless it is "". Waits up to patience (0, or a little more than
 * LEND_MULTIHOST_STALE_NS) to find out whether an owner without heartbeat is dead. 0, or
 * -EADDRINUSE or -ENOSPC with lend_why_text(). */
int lend_multihost_join(struct lend_multihost *pod, const char *name, lend_ns patience);
/* Frees our end and all links to it. */
void lend_multihost_leave(struct lend_multihost *pod);
/* Advances our heartbeat. False: another endpoint took our end. */
bool lend_multihost_heartbeat(struct lend_multihost *pod);
/* Finds the end that holds this name, and its owner. LEND_MULTIHOST_NONE: there is none. */
uint32_t lend_multihost_find(const struct lend_multihost *pod, const char *name, uint64_t *owner);
/* Returns whether the owner of an end is alive. */
enum lend_multihost_state lend_multihost_owner_state(struct lend_multihost *pod, uint32_t end,
						     uint64_t owner);
/* Takes an end away from a dead owner. Its peers see that. The next owner of the end leaves the
 * old owner's links. */
void lend_multihost_evict(struct lend_multihost *pod, uint32_t end, uint64_t owner);

/* A link as one side knows it. It is still the same link while its generation is unchanged. */
struct lend_multihost_link_id {
	uint32_t link; /* LEND_MULTIHOST_NONE: none */
	uint32_t generation;
	uint32_t end; /* the other side's end */
	uint64_t owner;
	bool server; /* we are the server */
};

/* Takes a free link and requests a connection to a server. 0; -EAGAIN: none is free, but an
 * owner without heartbeat may be dead: call again; -ENOSPC with lend_why_text(). */
int lend_multihost_link_request(struct lend_multihost *pod, uint32_t end, uint64_t owner,
				uint32_t bit, struct lend_multihost_link_id *tie);
/* Finds the next link at or after *link that requests a connection to us, and sets *link to the
 * index after it. Refuses requests that were meant for the previous owner of our end. */
bool lend_multihost_link_next(struct lend_multihost *pod, uint32_t *link,
			      struct lend_multihost_link_id *tie);
/* Accepts the request. False: the client has left. */
bool lend_multihost_link_accept(struct lend_multihost *pod,
				const struct lend_multihost_link_id *tie, uint32_t bit);
/* Leaves the link on our side. It becomes free when the other side has left, too. */
void lend_multihost_link_leave(struct lend_multihost *pod, struct lend_multihost_link_id *tie);
/* Leaves all links on each side that is this end. */
void lend_multihost_link_leave_all(struct lend_multihost *pod, uint32_t end);
/* Returns the bits of the link. SERVER_LEFT and CLIENT_LEFT are both set when the link was freed or
 * has another generation. */
uint32_t lend_multihost_link_bits(const struct lend_multihost *pod,
				  const struct lend_multihost_link_id *tie);
/* Returns our bit in the other side's bell. LEND_SHM_PEERS or more: invalid. */
uint32_t lend_multihost_link_bell_bit(const struct lend_multihost *pod,
				      const struct lend_multihost_link_id *tie);

static inline struct lend_shm_pair *lend_multihost_link_pair(const struct lend_multihost *pod,
							     uint32_t link)
{
	return (struct lend_shm_pair *)(void *)((char *)pod->at + LEND_MULTIHOST_PAIRS +
						link * LEND_SHM_PAIR_LEN);
}

#endif

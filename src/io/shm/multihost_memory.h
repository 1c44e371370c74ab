/* multihost_memory - the meeting of endpoints in memory that several hosts map: a DAX device, an
 * ivshmem BAR, or a file. There is no socket between hosts, so all of it lies in that memory:
 *
 *   head   one word: magic, version, length. Zero memory becomes a pod by one compare-and-swap
 *   end    an endpoint: its owner's number, heart beat, host and process, name, bell
 *   link   what a client and a server share: one word {generation, both ends, bits}
 *   pair   the rings of the link with the same index
 *
 * Nobody holds a lock, so nobody who dies in between holds up others: each change is one
 * compare-and-swap of a word that says whose it is. What a dead endpoint leaves is taken back by
 * whoever needs it. Dead is: its process is gone, when it ran on this host; else its heart has not
 * beaten for LEND_POD_STALE_NS of our time, while we looked. Who was only stopped that long finds
 * its end taken, and begins anew.
 *
 * All who map the memory can write all of it: one trust domain. Each word is read once and checked,
 * and what an endpoint goes by (its number, its links, positions, addresses) it keeps to itself.
 * Layer: io. One thread's.
 */
#ifndef LEND_IO_SHM_MULTIHOST_MEMORY_H
#define LEND_IO_SHM_MULTIHOST_MEMORY_H

#include "io/shm/peers.h"

#define LEND_POD_STALE_NS UINT64_C(5000000000)
#define LEND_POD_NONE     UINT32_MAX

enum {
	LEND_POD_VERSION = 2,
	LEND_POD_ENDS = 256,
	LEND_POD_LINKS = 1024,      /* at most; as many as there is room for */
	LEND_POD_UNIT = 2 << 20,    /* lengths are multiples of this: a DAX device maps no less */
	LEND_POD_PAIRS = 256 << 10, /* where they begin */
};

struct lend_pod_end {
	alignas(64) _Atomic uint64_t owner; /* number of who has it; 0: free */
	_Atomic uint64_t claims; /* == owner: what follows is its own, and it wants the name */
	_Atomic uint64_t holds;  /* == owner: and it has the name */
	uint64_t host, born;     /* of the process: where, and when it was started there */
	int64_t pid;
	_Atomic uint32_t knocks; /* links asked of it, ever */
	alignas(64) _Atomic uint64_t beat;
	char name[LEND_ADDR_NAME_MAX + 1]; /* "": it only calls */
	struct lend_bell bell;
};
_Static_assert(sizeof(struct lend_pod_end) == 384, "the same for all");

struct lend_pod_link {
	alignas(64) _Atomic uint64_t word;       /* generation 32, client 12, server 12, bits 8 */
	_Atomic uint64_t want;                   /* number of the server that the client means */
	_Atomic uint32_t client_bit, server_bit; /* of each one's bell, for the other to ring */
};
_Static_assert(sizeof(struct lend_pod_link) == 64, "a line");

enum {
	LEND_LINK_TAKEN = 1, /* no bits: free */
	LEND_LINK_ASKED = 2,
	LEND_LINK_UP = 4,
	LEND_LINK_CLIENT_LEFT = 8,
	LEND_LINK_SERVER_LEFT = 16,
};

struct lend_pod_memory {
	_Atomic uint64_t head; /* magic 16, version 16, length in units 32 */
	_Atomic uint32_t turn; /* where the next search for a free link begins: a hint */
	alignas(4096) struct lend_pod_end end[LEND_POD_ENDS];
	struct lend_pod_link link[LEND_POD_LINKS];
};
_Static_assert(sizeof(struct lend_pod_memory) <= LEND_POD_PAIRS, "room before the pairs");

/* What we have seen of an endpoint. */
struct lend_pod_seen {
	uint64_t owner, beat;
	lend_ns since; /* when that changed last, or we began to look */
	bool lives;    /* it did change */
};

enum lend_pod_state { LEND_POD_DEAD, LEND_POD_LIVES, LEND_POD_UNSURE /* ask again later */ };

struct lend_pod {
	struct lend_pod_memory *at;
	size_t len;
	int fd;
	const char *path; /* the caller's, for error texts */
	uint32_t links;   /* that have a pair */
	uint32_t me;      /* our end */
	uint64_t number;  /* and what makes it ours; 0: none */
	uint64_t beat, host, born;
	int64_t pid;
	lend_ns looked; /* at seen[] */
	struct lend_pod_seen seen[LEND_POD_ENDS];
};

/* Maps the memory, and makes it a pod if it is zero. Borrows path until unmap(). 0 or -errno with
 * lend_why_text(). */
int lend_pod_map(struct lend_pod *pod, const char *path);
/* Allocates a link's rings where the memory is a file with holes. 0, or -errno with
 * lend_why_text(): they must not be touched. */
int lend_pod_back(const struct lend_pod *pod, uint32_t link);
void lend_pod_unmap(struct lend_pod *pod);

/* Takes an end, and the name unless it is "". Waits up to patience (0, or LEND_POD_STALE_NS and a
 * bit) to see whether a silent owner is dead. 0, -EADDRINUSE or -ENOSPC with lend_why_text(). */
int lend_pod_join(struct lend_pod *pod, const char *name, lend_ns patience);
/* Frees our end and all links to it. */
void lend_pod_leave(struct lend_pod *pod);
/* Tells that we live. False: somebody took our end. */
bool lend_pod_beat(struct lend_pod *pod);
/* The end that holds this name, and its owner; LEND_POD_NONE. */
uint32_t lend_pod_find(const struct lend_pod *pod, const char *name, uint64_t *owner);
/* Does the owner of an end live? */
enum lend_pod_state lend_pod_judge(struct lend_pod *pod, uint32_t end, uint64_t owner);
/* Takes an end from a dead owner; its peers see that, and whoever takes the end leaves its links.
 */
void lend_pod_evict(struct lend_pod *pod, uint32_t end, uint64_t owner);

/* A link that a side knows: it is still that one while word's generation is. */
struct lend_pod_tie {
	uint32_t link; /* LEND_POD_NONE: none */
	uint32_t generation;
	uint32_t end; /* the other's */
	uint64_t owner;
	bool server; /* which side we are */
};

/* Takes a free link to a server and asks it in. 0; -EAGAIN: none is free, but a silent owner may be
 * dead, ask again; -ENOSPC with lend_why_text(). */
int lend_pod_ask(struct lend_pod *pod, uint32_t end, uint64_t owner, uint32_t bit,
		 struct lend_pod_tie *tie);
/* The next link at or after *link that asks for us; *link is behind it then. Those that ask for who
 * had our end before are refused. */
bool lend_pod_asked(struct lend_pod *pod, uint32_t *link, struct lend_pod_tie *tie);
/* Answers it. False: the client has left. */
bool lend_pod_answer(struct lend_pod *pod, const struct lend_pod_tie *tie, uint32_t bit);
/* Our side leaves; the link is free when the other has, too. */
void lend_pod_part(struct lend_pod *pod, struct lend_pod_tie *tie);
/* Each side that is this end leaves, on all links. */
void lend_pod_sweep(struct lend_pod *pod, uint32_t end);
/* Bits of the link, SERVER_LEFT and CLIENT_LEFT both when it is another's by now. */
uint32_t lend_pod_bits(const struct lend_pod *pod, const struct lend_pod_tie *tie);
/* The bit of the other's bell that is ours, or LEND_SHM_PEERS and more: nonsense. */
uint32_t lend_pod_bit(const struct lend_pod *pod, const struct lend_pod_tie *tie);

static inline struct lend_shm_pair *lend_pod_pair(const struct lend_pod *pod, uint32_t link)
{
	return (struct lend_shm_pair *)(void *)((char *)pod->at + LEND_POD_PAIRS +
						link * LEND_SHM_PAIR_LEN);
}

#endif

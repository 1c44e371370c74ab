/* peer_table - the table from addresses to peer indices: pinned entries stay, unpinned entries are
 * a bounded LRU list.
 *
 * A sender gets an index when its first datagram arrives. Datagrams with forged source addresses
 * therefore only evict unpinned entries, and the LRU list is longer than any receive burst. There
 * are as many pinned entries as the core has sessions. Layer: io. One thread's. Indices are stable,
 * pointers to entries are not: the table grows by realloc.
 */
#ifndef LEND_IO_PEER_TABLE_H
#define LEND_IO_PEER_TABLE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	LEND_UDP_LOOSE_MAX = 256,     /* unpinned peers kept; more than one receive burst */
	LEND_UDP_PEERS_MAX = 1 << 20, /* as many peers as the core can have sessions */
	LEND_UDP_PEER_NONE = -1,
};

/* An address without its family, so that an IPv4 peer has the same key on an IPv4 and on a
 * dual-stack socket. */
struct lend_udp_key {
	uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t scope; /* interface of a link-local address */
	uint16_t port;  /* network order */
	uint16_t zero;
};
_Static_assert(sizeof(struct lend_udp_key) == 24, "no padding: it is hashed and compared");

struct lend_udp_peer {
	struct lend_udp_key key;
	uint32_t pins;  /* pin count */
	uint32_t next;  /* next entry of its hash chain, or of the list of free entries: index + 1,
			   0: last */
	uint32_t older; /* neighbour in the LRU list of unpinned entries, index + 1 */
	uint32_t newer;
	uint16_t joined_max; /* longest datagrams to it that the kernel may send as one GSO batch */
	bool route_known;    /* the route was looked up, and joined_max is set from it */
	bool used;
};

struct lend_udp_peers {
	struct lend_udp_peer *peer; /* cap entries */
	uint32_t *bucket;           /* cap chains, index + 1 */
	uint32_t cap;               /* a power of two */
	uint32_t top;               /* entries ever used: [0, top) */
	uint32_t free;              /* list, index + 1 */
	uint32_t oldest, newest;    /* ends of the LRU list of unpinned entries, index + 1 */
	uint32_t loose;             /* number of unpinned entries */
	uint64_t secret[2]; /* random key of the hash: a remote host cannot choose addresses that
			       share one chain */
};

/* Returns 0 or -ENOMEM. */
int lend_udp_peers_init(struct lend_udp_peers *peers);
void lend_udp_peers_free(struct lend_udp_peers *peers);
/* Returns the index of this address and makes an entry if it has none. An unpinned entry becomes
 * the newest. NONE: the table is full. */
int32_t lend_udp_peers_find(struct lend_udp_peers *peers, const struct lend_udp_key *key);
void lend_udp_peers_pin(struct lend_udp_peers *peers, uint32_t index, bool kept);
/* Sets the length up to which datagrams to this peer may be joined in one GSO batch, and marks
 * its route as known. The entry must be in use. */
void lend_udp_peers_set_joined_max(struct lend_udp_peers *peers, uint32_t index,
				   uint32_t joined_max);
/* Returns the entry of an index that is in use. NULL: it was never used, or was evicted. */
const struct lend_udp_peer *lend_udp_peers_at(const struct lend_udp_peers *peers, uint32_t index);

bool lend_udp_key_is_v4(const struct lend_udp_key *key);
/* Makes a key from a socket address. False: it is not an IPv4 or IPv6 address. */
bool lend_udp_key_from(struct lend_udp_key *key, const struct sockaddr_storage *address);
/* Writes the key as an address for a socket of that family, and returns its length. 0: an IPv4
 * socket cannot reach an IPv6 address. */
socklen_t lend_udp_key_to(const struct lend_udp_key *key, int family,
			  struct sockaddr_storage *address);

#endif

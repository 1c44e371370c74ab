/* peer_table - the table from addresses to peer indices: pinned ones stay, the others are a bounded
 * LRU.
 *
 * A sender gets an index when its first datagram arrives; whoever forges addresses therefore only
 * turns the wheel of unpinned indices, which is larger than any burst. Pinned ones are as many as
 * the core's sessions. Layer: io. One thread's. Indices are stable, entries are not: the table
 * grows by realloc.
 */
#ifndef LEND_IO_PEER_TABLE_H
#define LEND_IO_PEER_TABLE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	LEND_UDP_LOOSE_MAX = 256,     /* unpinned peers kept; more than one burst */
	LEND_UDP_PEERS_MAX = 1 << 20, /* as many as the core can have sessions */
	LEND_UDP_PEER_NONE = -1,
};

/* An address without its family, so that one looks the same on an IPv4 and on a dual socket. */
struct lend_udp_key {
	uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t scope; /* of a link-local address */
	uint16_t port;  /* network order */
	uint16_t zero;
};
_Static_assert(sizeof(struct lend_udp_key) == 24, "no padding: it is hashed and compared");

struct lend_udp_peer {
	struct lend_udp_key key;
	uint32_t pins;  /* how often it was pinned */
	uint32_t next;  /* in its hash chain, or in the list of free entries; index + 1, 0: last */
	uint32_t older; /* among the unpinned ones, index + 1 */
	uint32_t newer;
	uint16_t joined_max; /* longest datagrams that can be handed to the kernel joined */
	bool way_known;      /* it was asked whether any can */
	bool used;
};

struct lend_udp_peers {
	struct lend_udp_peer *peer; /* cap entries */
	uint32_t *bucket;           /* cap chains, index + 1 */
	uint32_t cap;               /* a power of two */
	uint32_t top;               /* entries ever used: [0, top) */
	uint32_t free;              /* list, index + 1 */
	uint32_t oldest, newest;    /* of the unpinned ones, index + 1 */
	uint32_t loose;             /* how many are unpinned */
	uint64_t secret[2];         /* so that nobody can aim at one hash chain */
};

/* 0 or -ENOMEM. */
int lend_udp_peers_init(struct lend_udp_peers *peers);
void lend_udp_peers_free(struct lend_udp_peers *peers);
/* The index of this address, made if need be, and now the newest of the unpinned; NONE: table full.
 */
int32_t lend_udp_peers_find(struct lend_udp_peers *peers, const struct lend_udp_key *key);
void lend_udp_peers_pin(struct lend_udp_peers *peers, uint32_t index, bool kept);
/* Datagrams to this one, which is in use, are joined up to a length of at most that; its way is
 * known. */
void lend_udp_peers_narrow(struct lend_udp_peers *peers, uint32_t index, uint32_t joined_max);
/* The entry of an index that is in use; NULL: it never was, or it was let go. */
const struct lend_udp_peer *lend_udp_peers_at(const struct lend_udp_peers *peers, uint32_t index);

bool lend_udp_key_is_v4(const struct lend_udp_key *key);
/* false: neither IPv4 nor IPv6. */
bool lend_udp_key_from(struct lend_udp_key *key, const struct sockaddr_storage *address);
/* How a socket of that family writes it; the length. 0: an IPv4 socket cannot reach an IPv6
 * address. */
socklen_t lend_udp_key_to(const struct lend_udp_key *key, int family,
			  struct sockaddr_storage *address);

#endif

/* eth - Ethernet, IP and UDP headers around a datagram, and address resolution of neighbours.
 *
 * All functions work on plain bytes and take the time as an argument, so carriers over any kind of
 * device share them. Received bytes are untrusted: each length is checked before it is used.
 *
 * Layer: io. Threads: any; a table of hosts is protected by its owner's lock.
 */
#ifndef LEND_IO_ETH_ETH_H
#define LEND_IO_ETH_ETH_H

#include <string.h>

#include "util/traffic_class.h"
#include "util/dgram.h"

enum {
	LEND_ETH_HEAD4 = 14 + 20 + 8,
	LEND_ETH_HEAD_MAX = 14 + 4 + 40 + 8,
	LEND_ETH_AROUND_IP = 14 + 4,
	LEND_ETH_UDP4 = 20 + 8, /* bytes of IP and UDP headers, part of a device's MTU */
	LEND_ETH_UDP6 = 40 + 8,
	LEND_ETH_NEIGH_MAX = 14 + 4 + 40 + 32, /* the longest ARP or neighbour discovery frame */
	LEND_HOSTS = 256,
};

/* An IP address in network order; IPv4 is mapped into ::ffff:0:0/96. */
struct lend_ip {
	uint8_t b[16];
};

static inline bool lend_ip_same(const struct lend_ip *a, const struct lend_ip *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Builds the address in a register: a compare right after smaller stores would stall on store
 * forwarding. */
static inline struct lend_ip lend_ip_of4(const uint8_t b[4])
{
	uint64_t half[2] = {0, 0};
	uint32_t four;
	struct lend_ip ip;

	memcpy(&four, b, 4);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	half[1] = (uint64_t)four << 32 | 0xffff0000u;
#else
	half[1] = 0x0000ffff00000000u | four;
#endif
	memcpy(&ip, half, sizeof(ip));
	return ip;
}

static inline bool lend_ip_is4(const struct lend_ip *ip)
{
	const struct lend_ip zero = lend_ip_of4((const uint8_t[4]){0});

	return memcmp(ip, &zero, 12) == 0;
}

/* One end of a path. */
struct lend_eth_end {
	struct lend_ip ip;
	uint16_t udp;
	uint16_t vlan; /* 0: frames have no tag */
	uint8_t mac[6];
};

/* frame.c: frames that carry a datagram. */

enum lend_eth_verdict {
	LEND_ETH_UDP,      /* a whole datagram over UDP */
	LEND_ETH_NEIGH,    /* ARP or neighbour discovery */
	LEND_ETH_FOREIGN,  /* another protocol */
	LEND_ETH_FRAGMENT, /* a part of an IP packet */
	LEND_ETH_CHECKSUM, /* the IPv4 header checksum is wrong */
	LEND_ETH_BAD,      /* its length fields contradict each other */
};

struct lend_eth_frame {
	const uint8_t *to_mac, *mac; /* mac: the sender's */
	const uint8_t *ip;           /* the IP header */
	const uint8_t *data;
	uint32_t len;
	uint16_t ip_len; /* bytes of the IP packet with its header: the length that an MTU limits */
	uint16_t udp, to_udp;
	uint16_t vlan;
	bool ip4;
	uint8_t ecn; /* congestion experienced */
	struct lend_ip from, to;
};

/* Parses a frame. Fills *frame for LEND_ETH_UDP, and only its MACs and VLAN for LEND_ETH_NEIGH.
 * Does not check the UDP checksum: see lend_eth_sum_good(). */
enum lend_eth_verdict lend_eth_read(const uint8_t *bytes, uint32_t len,
				    struct lend_eth_frame *frame);
/* Returns whether the UDP checksum is right, or absent over IPv4, or equal to the pseudo header's
 * sum. A kernel leaves that sum in frames between veth or bridge ports, for a device to finish
 * which the frame never reaches. */
bool lend_eth_sum_good(const struct lend_eth_frame *frame);

/* The constant header bytes of frames from one sender, over IPv4 without a VLAN tag. All zeros: no
 * frame matches. */
struct lend_eth_expected {
	uint64_t word[2]; /* from the type to the sender's first 2 bytes, varying fields masked */
	uint64_t ends;    /* the rest of both addresses, and the sender's port */
	uint16_t to_udp;
};

/* Learns the header from a parsed frame; bytes is its start. */
void lend_eth_expected(struct lend_eth_expected *usual, const uint8_t *bytes,
		       const struct lend_eth_frame *frame);
/* True for a whole UDP datagram from that sender; its payload is *len bytes behind LEND_ETH_HEAD4.
 * Same result as lend_eth_read(), but the IPv4 header checksum is not verified. */
static inline bool lend_eth_is_expected(const struct lend_eth_expected *usual, const uint8_t *bytes,
					uint32_t room, uint32_t *len);

/* The header of all frames on one path, as last written, and the checksum over its constant
 * words. */
struct lend_eth_head {
	uint8_t bytes[LEND_ETH_HEAD_MAX]; /* the header's bytes, from the receiver's MAC on */
	uint8_t len;
	uint8_t class;    /* traffic class of the last frame */
	uint32_t payload; /* payload bytes of the last frame */
	uint8_t ip;       /* offset of the IP header */
	bool ip4;
	uint32_t sum;    /* checksum of the constant words of the IPv4 header */
	uint32_t pseudo; /* checksum of the pseudo header: addresses and protocol */
};

void lend_eth_head(struct lend_eth_head *head, const struct lend_eth_end *to,
		   const struct lend_eth_end *from);
/* Sets the header's fields for a frame with len payload bytes and that traffic class. The UDP
 * checksum stays 0. */
void lend_eth_head_set(struct lend_eth_head *head, uint8_t class, uint32_t len);
/* Writes the header to bytes. Consecutive frames of a path mostly have equal headers, so most calls
 * only copy. */
static inline void lend_eth_write(uint8_t *bytes, struct lend_eth_head *head, uint8_t class,
				  uint32_t len)
{
	if (head->payload != len || head->class != class)
		lend_eth_head_set(head, class, len);
	if (head->len == LEND_ETH_HEAD4)
		memcpy(bytes, head->bytes, LEND_ETH_HEAD4);
	else
		memcpy(bytes, head->bytes, head->len);
}
/* lend_eth_sum() fills in the UDP checksum of a frame with its payload. lend_eth_sum_begin() stores
 * the pseudo header's sum, for a device that finishes the checksum. */
void lend_eth_sum(uint8_t *bytes, const struct lend_eth_head *head, uint32_t len);
void lend_eth_sum_begin(uint8_t *bytes, const struct lend_eth_head *head, uint32_t len);

/* arp_nd.c: ARP and neighbour discovery's solicitations and advertisements. */

struct lend_eth_neigh {
	bool question;       /* a request for target's MAC; else a reply or announcement */
	struct lend_ip from; /* the sender's IP, at mac; all zero: it has no address yet */
	struct lend_ip target;
	uint8_t mac[6];
	uint16_t vlan;
};

/* Parses an ARP or neighbour discovery frame. True when it is well formed. */
bool lend_eth_neigh_read(const uint8_t *bytes, uint32_t len, struct lend_eth_neigh *ask);
/* Writes a request by `from` for the MAC of target. It is unicast to the MAC `to`; NULL: broadcast
 * or multicast. Returns its length. */
uint32_t lend_eth_neigh_request_write(uint8_t bytes[LEND_ETH_NEIGH_MAX],
				      const struct lend_eth_end *from, const struct lend_ip *target,
				      const uint8_t *to);
/* Writes the reply of `from` to a question; NULL: an unsolicited announcement. Returns its
 * length. */
uint32_t lend_eth_neigh_reply_write(uint8_t bytes[LEND_ETH_NEIGH_MAX],
				    const struct lend_eth_end *from,
				    const struct lend_eth_neigh *question);

/* neighbours.c: the table of neighbours in use, and their MACs.
 *
 * A MAC is learned only from replies to our requests, and only for the requested address. A claim
 * of another MAC starts a broadcast request; the new MAC is accepted when the old one does not
 * reply.
 */

/* REQUESTED -> KNOWN <-> RECHECKED; KNOWN -> REQUESTED when it no longer replies. */
enum lend_host_state { LEND_HOST_REQUESTED, LEND_HOST_KNOWN, LEND_HOST_RECHECKED };

struct lend_host {
	struct lend_eth_end from; /* our end, the sender of requests */
	struct lend_ip ip;
	uint8_t mac[6];
	uint8_t other[6]; /* RECHECKED: the other MAC that replied */
	bool others;      /* RECHECKED: another MAC replied */
	bool same;        /* RECHECKED: the known MAC replied, too */
	uint8_t state;    /* enum lend_host_state */
	uint8_t tries;    /* requests since the last reply */
	lend_ns due;      /* earliest time of the next request or decision */
	lend_ns wanted;   /* time of its last use */
};

struct lend_hosts {
	uint32_t n;       /* entries from here on were never used */
	uint32_t version; /* changes with each MAC that is learned or replaced */
	struct lend_host host[LEND_HOSTS];
};

/* Returns the entry for from's neighbour ip and marks it as in use. A new entry is due for a
 * request at once. NULL: all entries are in use. */
struct lend_host *lend_host_use(struct lend_hosts *hosts, const struct lend_eth_end *from,
				const struct lend_ip *ip, lend_ns now);
/* Returns whether the host's MAC is known. */
static inline bool lend_host_is_known(const struct lend_host *host)
{
	return host->state == LEND_HOST_KNOWN || host->state == LEND_HOST_RECHECKED;
}
/* Returns whether a round of requests got no reply; starts the next round. */
bool lend_host_next_round(struct lend_host *host, lend_ns now);
/* Updates the table from a received ARP or neighbour discovery message. */
void lend_host_update(struct lend_hosts *hosts, const struct lend_eth_neigh *ask, lend_ns now);
/* Reports a frame of that host from another MAC than the known one. It is no proof, but starts a
 * new request. */
void lend_host_recheck(struct lend_host *host, lend_ns now);
/* Writes the next request that is due to bytes. Returns its length; 0: none. */
uint32_t lend_host_next_request(struct lend_hosts *hosts, lend_ns now,
				uint8_t bytes[LEND_ETH_NEIGH_MAX]);

static inline void lend_eth_put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline uint32_t lend_eth_get16(const uint8_t *p)
{
	return (uint32_t)(p[0] << 8 | p[1]);
}

/* Folds a one's complement sum of up to 2^16 words into 16 bits. */
static inline uint16_t lend_eth_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Reads the constant header bytes from the type on, without TOS, length, id and checksum. */
static inline void lend_eth_expected_words(const uint8_t *bytes, uint64_t word[2])
{
	static const uint8_t kept[16] = {0xff, 0xff, 0xff, 0,    0, 0, 0,    0,
					 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff};
	uint64_t mask[2];

	memcpy(mask, kept, sizeof(mask));
	memcpy(word, bytes + 12, sizeof(mask));
	word[0] &= mask[0];
	word[1] &= mask[1];
}

static inline bool lend_eth_is_expected(const struct lend_eth_expected *usual, const uint8_t *bytes,
					uint32_t room, uint32_t *len)
{
	uint64_t word[2], ends, differ;
	uint16_t to_udp;
	uint32_t udp_len;

	if (room < LEND_ETH_HEAD4)
		return false;
	lend_eth_expected_words(bytes, word);
	memcpy(&ends, bytes + 28, sizeof(ends));
	memcpy(&to_udp, bytes + 36, sizeof(to_udp));
	differ = (word[0] ^ usual->word[0]) | (word[1] ^ usual->word[1]) | (ends ^ usual->ends) |
		 (to_udp ^ usual->to_udp);
	udp_len = lend_eth_get16(bytes + 38);
	*len = udp_len - 8; /* of a shorter one: above every room */
	return !differ && lend_eth_get16(bytes + 16) == udp_len + 20 &&
	       *len <= room - LEND_ETH_HEAD4;
}

/* Returns whether a frame with IPv4 and no tag carries the ECN mark "congestion experienced". */
static inline bool lend_eth_is_marked4(const uint8_t *bytes)
{
	return (bytes[15] & 3) == 3;
}

/* Adds bytes to a checksum as 16-bit words in network order; the first byte has an even offset. */
uint32_t lend_eth_add(uint32_t sum, const uint8_t *bytes, uint32_t len);

#endif

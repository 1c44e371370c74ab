/* eth - Ethernet, IP and UDP around a datagram, and who has which address on a wire.
 *
 * All of it works on plain bytes and takes the time as an argument, so carriers over any kind of
 * device share it. Whatever is read comes from strangers: each length is checked before it is used.
 *
 * Layer: io. Threads: any; a table of hosts belongs to whoever locks it.
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
	LEND_ETH_UDP4 = 20 + 8, /* what IP and UDP take of a device's MTU */
	LEND_ETH_UDP6 = 40 + 8,
	LEND_ETH_ASK_MAX = 14 + 4 + 40 + 32, /* the longest question or answer about an address */
	LEND_HOSTS = 256,
};

/* Network order; IPv4 lies in ::ffff:0:0/96. */
struct lend_ip {
	uint8_t b[16];
};

static inline bool lend_ip_same(const struct lend_ip *a, const struct lend_ip *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Put together in a register: whoever compares it at once would wait for stores of pieces. */
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

/* One end of a way. */
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
	LEND_ETH_CHECKSUM, /* the IPv4 head's is wrong */
	LEND_ETH_BAD,      /* contradicts itself */
};

struct lend_eth_frame {
	const uint8_t *to_mac, *mac; /* mac: the sender's */
	const uint8_t *ip;           /* where the IP head lies */
	const uint8_t *data;
	uint32_t len;
	uint16_t ip_len; /* the packet's, head included: what an MTU bounds */
	uint16_t udp, to_udp;
	uint16_t vlan;
	bool ip4;
	uint8_t ecn; /* congestion experienced */
	struct lend_ip from, to;
};

/* Fills frame for LEND_ETH_UDP, and its MACs and VLAN for LEND_ETH_NEIGH. The UDP checksum is left
 * to lend_eth_sum_good(). */
enum lend_eth_verdict lend_eth_read(const uint8_t *bytes, uint32_t len,
				    struct lend_eth_frame *frame);
/* The UDP checksum is right, absent over IPv4, or was left to a device that never saw the frame: a
 * kernel whose veth or bridge promises to finish it leaves the pseudo head's sum there. */
bool lend_eth_sum_good(const struct lend_eth_frame *frame);

/* How the frames of one sender begin, where they have IPv4 and no tag. Zeros: no frame does. */
struct lend_eth_usual {
	uint64_t word[2]; /* from the type to the sender's first two bytes, what varies left out */
	uint64_t ends;    /* the rest of the addresses, the sender's port */
	uint16_t to_udp;
};

/* Learns it of a frame that was read from bytes. */
void lend_eth_usual(struct lend_eth_usual *usual, const uint8_t *bytes,
		    const struct lend_eth_frame *frame);
/* A whole datagram over UDP from that sender, of *len bytes behind LEND_ETH_HEAD4: as
 * lend_eth_read() would find, but that the IPv4 head's checksum is not looked at. */
static inline bool lend_eth_is_usual(const struct lend_eth_usual *usual, const uint8_t *bytes,
				     uint32_t room, uint32_t *len);

/* What all frames of one way begin with, as the last one had it, and the sums of its constant
 * words.
 */
struct lend_eth_head {
	uint8_t bytes[LEND_ETH_HEAD_MAX]; /* the receiver's MAC first */
	uint8_t len;
	uint8_t class;    /* of the last frame, */
	uint32_t payload; /* and its bytes behind the head */
	uint8_t ip;       /* where the IP head begins */
	bool ip4;
	uint32_t sum;    /* IPv4's head */
	uint32_t pseudo; /* addresses and protocol; and the UDP ports */
};

void lend_eth_head(struct lend_eth_head *head, const struct lend_eth_end *to,
		   const struct lend_eth_end *from);
/* Makes it that of a frame whose payload has len bytes, of a class of calls; the UDP checksum stays
 * 0. */
void lend_eth_aim(struct lend_eth_head *head, uint8_t class, uint32_t len);
/* Writes it. Frames of one way are mostly alike, so most heads are copied. */
static inline void lend_eth_write(uint8_t *bytes, struct lend_eth_head *head, uint8_t class,
				  uint32_t len)
{
	if (head->payload != len || head->class != class)
		lend_eth_aim(head, class, len);
	if (head->len == LEND_ETH_HEAD4)
		memcpy(bytes, head->bytes, LEND_ETH_HEAD4);
	else
		memcpy(bytes, head->bytes, head->len);
}
/* Fills in the UDP checksum once the payload is there; or, for a device that finishes it, the
 * pseudo head's sum. */
void lend_eth_sum(uint8_t *bytes, const struct lend_eth_head *head, uint32_t len);
void lend_eth_sum_begin(uint8_t *bytes, const struct lend_eth_head *head, uint32_t len);

/* arp_nd.c: ARP and neighbour discovery's solicitations and advertisements. */

struct lend_eth_ask {
	bool question; /* who has `target`? Else an answer, or a claim that nobody asked for */
	struct lend_ip from; /* who speaks, at mac; all zero: it has no address yet */
	struct lend_ip target;
	uint8_t mac[6];
	uint16_t vlan;
};

/* True for a well-formed one. */
bool lend_eth_ask_read(const uint8_t *bytes, uint32_t len, struct lend_eth_ask *ask);
/* A question of `from` for target; to NULL: to whom it may concern. Returns its length. */
uint32_t lend_eth_ask_write(uint8_t bytes[LEND_ETH_ASK_MAX], const struct lend_eth_end *from,
			    const struct lend_ip *target, const uint8_t *to);
/* The answer of `from` to a question; NULL: an announcement that nobody asked for. */
uint32_t lend_eth_answer_write(uint8_t bytes[LEND_ETH_ASK_MAX], const struct lend_eth_end *from,
			       const struct lend_eth_ask *question);

/* neighbours.c: the neighbours that are wanted, and what they answered.
 *
 * Only what was asked for is believed, and only from whom it was asked. A claim of another MAC
 * makes us ask everybody; the new one counts when the old one kept silent.
 */

/* ASKED -> KNOWN <-> DOUBTED; KNOWN -> ASKED when it answers no more. */
enum lend_host_state { LEND_HOST_ASKED, LEND_HOST_KNOWN, LEND_HOST_DOUBTED };

struct lend_host {
	struct lend_eth_end from; /* us, as it is asked */
	struct lend_ip ip;
	uint8_t mac[6];
	uint8_t other[6]; /* DOUBTED: who else answered */
	bool others;      /* DOUBTED: somebody else did; */
	bool same;        /* and the one we knew */
	uint8_t state;    /* enum lend_host_state */
	uint8_t tries;    /* questions since the last answer */
	lend_ns due;      /* ask, or decide, not before */
	lend_ns wanted;   /* last time */
};

struct lend_hosts {
	uint32_t n;       /* entries from here on were never used */
	uint32_t version; /* changes with each MAC that is learned or replaced */
	struct lend_host host[LEND_HOSTS];
};

/* The entry for from's neighbour ip, asked for at once when it is new; NULL: all are in use. */
struct lend_host *lend_host_want(struct lend_hosts *hosts, const struct lend_eth_end *from,
				 const struct lend_ip *ip, lend_ns now);
/* True when its MAC may be used. */
static inline bool lend_host_is_known(const struct lend_host *host)
{
	return host->state == LEND_HOST_KNOWN || host->state == LEND_HOST_DOUBTED;
}
/* True when nobody answered a round of questions; the next round begins. */
bool lend_host_give_up(struct lend_host *host, lend_ns now);
/* Takes notice of what somebody said. */
void lend_host_heard(struct lend_hosts *hosts, const struct lend_eth_ask *ask, lend_ns now);
/* A frame of that host came from another MAC than the one that is known: not proof, a reason to
 * ask.
 */
void lend_host_doubt(struct lend_host *host, lend_ns now);
/* The next question that is due, written to bytes; 0: none. */
uint32_t lend_host_due(struct lend_hosts *hosts, lend_ns now, uint8_t bytes[LEND_ETH_ASK_MAX]);

static inline void lend_eth_put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline uint32_t lend_eth_get16(const uint8_t *p)
{
	return (uint32_t)(p[0] << 8 | p[1]);
}

/* One's complement sum of up to 2^16 words, in 16 bits. */
static inline uint16_t lend_eth_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Of the head from the type on: not TOS, length and id; and not the checksum. */
static inline void lend_eth_usual_words(const uint8_t *bytes, uint64_t word[2])
{
	static const uint8_t kept[16] = {0xff, 0xff, 0xff, 0,    0, 0, 0,    0,
					 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff};
	uint64_t mask[2];

	memcpy(mask, kept, sizeof(mask));
	memcpy(word, bytes + 12, sizeof(mask));
	word[0] &= mask[0];
	word[1] &= mask[1];
}

static inline bool lend_eth_is_usual(const struct lend_eth_usual *usual, const uint8_t *bytes,
				     uint32_t room, uint32_t *len)
{
	uint64_t word[2], ends;
	uint16_t to_udp;
	uint32_t total;

	if (room < LEND_ETH_HEAD4)
		return false;
	lend_eth_usual_words(bytes, word);
	memcpy(&ends, bytes + 28, sizeof(ends));
	memcpy(&to_udp, bytes + 36, sizeof(to_udp));
	total = lend_eth_get16(bytes + 16);
	*len = total - LEND_ETH_UDP4;
	return word[0] == usual->word[0] && word[1] == usual->word[1] && ends == usual->ends &&
	       to_udp == usual->to_udp && total >= LEND_ETH_UDP4 && total + 14 <= room &&
	       lend_eth_get16(bytes + 38) == total - 20;
}

/* Where a frame with IPv4 and no tag ends, as it says itself. */
static inline uint32_t lend_eth_end4(const uint8_t *bytes)
{
	return 14 + lend_eth_get16(bytes + 16);
}

/* Congestion was experienced by a frame with IPv4 and no tag. */
static inline bool lend_eth_is_marked4(const uint8_t *bytes)
{
	return (bytes[15] & 3) == 3;
}

/* Adds up bytes as words in network order, from an even place. */
uint32_t lend_eth_add(uint32_t sum, const uint8_t *bytes, uint32_t len);

#endif

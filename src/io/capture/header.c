#include "io/capture/header.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "util/bits.h"

/* Exported PDU tags, big endian, padded to four bytes. */
enum {
	TAG_END = 0,
	TAG_DISSECTOR = 12,
	TAG_IPV4_SOURCE = 20, /* the destination's follow their source's */
	TAG_IPV6_SOURCE = 22,
	TAG_PORT_TYPE = 24,
	TAG_PORT_SOURCE = 25,
	PORT_UDP = 3,
};

struct end {
	int family; /* 0: no IP address */
	uint8_t ip[16];
	uint16_t port;
};

/* Parses the IP address and port at the end of an address: udp:1.2.3.4:5,
 * dpdk:DEV@[fd00::1]:5?key=value. */
static struct end parse_end(const char *text)
{
	struct end end = {.family = 0};
	const char *host = strchr(text, '@'), *stop;
	char ip[INET6_ADDRSTRLEN];
	bool six;

	host = host ? host : strchr(text, ':');
	if (!host)
		return end;
	six = *++host == '[';
	host += six;
	stop = strchr(host, six ? ']' : ':');
	if (!stop || (size_t)(stop - host) >= sizeof(ip))
		return end;
	memcpy(ip, host, (size_t)(stop - host));
	ip[stop - host] = 0;
	if (inet_pton(six ? AF_INET6 : AF_INET, ip, end.ip) == 1)
		end.family = six ? AF_INET6 : AF_INET;
	stop += six;
	end.port = *stop == ':' ? (uint16_t)strtoul(stop + 1, NULL, 10) : 0;
	return end;
}

static uint8_t *put_be16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
	return at + 2;
}

static uint8_t *put_tag(uint8_t *at, unsigned tag, const void *value, unsigned len)
{
	at = put_be16(put_be16(at, tag), len);
	memcpy(at, value, len);
	return at + len;
}

static uint8_t *put_number(uint8_t *at, unsigned tag, unsigned v)
{
	return put_be16(put_be16(put_be16(put_be16(at, tag), 4), 0), v);
}

static uint8_t *put_end(uint8_t *at, const struct end *end, unsigned destination)
{
	unsigned ip = end->family == AF_INET ? TAG_IPV4_SOURCE : TAG_IPV6_SOURCE;

	at = put_tag(at, ip + destination, end->ip, end->family == AF_INET ? 4 : 16);
	return put_number(at, TAG_PORT_SOURCE + destination, end->port);
}

static void write_lead(struct lend_capture_header *lead, unsigned out,
		       const struct lend_capture_headers *of, const char *peer)
{
	struct end end[2] = {parse_end(out ? of->self : peer), parse_end(out ? peer : of->self)};
	size_t text = strnlen(peer, sizeof(((struct lend_io_peer_info *)NULL)->address));
	uint8_t *at = lead->bytes[out];

	at = put_tag(at, TAG_DISSECTOR, LEND_CAPTURE_DISSECTOR, sizeof(LEND_CAPTURE_DISSECTOR) - 1);
	if (end[0].family && end[1].family) {
		at = put_number(at, TAG_PORT_TYPE, PORT_UDP);
		at = put_end(put_end(at, &end[0], 0), &end[1], 1);
	}
	at = put_tag(at, TAG_END, "", 0);
	lead->at = (uint32_t)(at - lead->bytes[out]);
	at[0] = LEND_CAPTURE_VERSION;
	at[1] = 0;
	at[2] = of->checked ? LEND_CAPTURE_CHECKED : 0;
	at[3] = (uint8_t)text;
	lend_store_u32(at + 4, lead->peer);
	lend_store_u32(at + 8, of->carrier);
	memcpy(at + LEND_CAPTURE_HEADER, peer, text);
	lead->len[out] = lead->at + LEND_CAPTURE_HEADER + (uint32_t)text;
}
_Static_assert(sizeof(LEND_CAPTURE_DISSECTOR) % 4 == 1, "a tag without padding");
_Static_assert(16 + 8 + 2 * (20 + 8) + 4 + LEND_CAPTURE_HEADER +
		       sizeof(((struct lend_io_peer_info *)NULL)->address) <=
		   LEND_CAPTURE_HEADER_MAX,
	       "the longest lead fits");

static bool is_of(const struct lend_capture_header *lead, uint32_t peer, const struct lend_in *in)
{
	if (!lead->known || lead->peer != peer)
		return false;
	return !in || !in->addr ||
	       (lead->addr_len == in->addr_len && memcmp(lead->addr, in->addr, in->addr_len) == 0);
}

struct lend_capture_header *lend_capture_header_of(struct lend_capture_headers *leads,
						   struct lend_io *io,
						   const struct lend_io_ops *ops, uint32_t peer,
						   const struct lend_in *in)
{
	struct lend_capture_header *lead = &leads->header[peer % LEND_CAPTURE_HEADERS];
	struct lend_io_peer_info info = {.uid = -1};

	if (is_of(lead, peer, in))
		return lead;
	ops->peer_info(io, peer, &info);
	lead->peer = peer;
	lead->addr_len = 0;
	if (in && in->addr && in->addr_len <= LEND_CAPTURE_ADDR_MAX) {
		lead->addr_len = in->addr_len;
		memcpy(lead->addr, in->addr, in->addr_len);
	}
	for (unsigned out = 0; out < 2; out++)
		write_lead(lead, out, leads, info.address);
	lead->known = true;
	return lead;
}

void lend_capture_header_forget(struct lend_capture_headers *leads, uint32_t peer)
{
	leads->header[peer % LEND_CAPTURE_HEADERS].known = false;
}

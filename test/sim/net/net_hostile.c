/* net_hostile - datagrams of an attacker.
 *
 * The attacker sees all traffic, sends from any address that the path allows, and can compute
 * checksums. It does not send from a node's address in a session of that node, because only
 * encryption could distinguish the two. Layer: test/sim. */
#include "sim/net/net_state.h"
#include "util/bits.h"
#include "util/crc32c.h"

enum { HOSTILE_MAX = 24 }; /* hostile datagrams per live one */

static uint64_t draw_below(struct sim *sim, uint64_t n)
{
	return sim_below(sim, SIM_RNG_HOSTILE, n);
}

static uint64_t draw_all(struct sim *sim)
{
	return lend_rng_next(&sim->rng[SIM_RNG_HOSTILE]);
}

/* Makes the checksum right, so that it is not the reason for the rejection. */
static void seal_checksum(const struct sim_net *n, struct sim_flight *f)
{
	uint32_t body = f->len - (uint32_t)sizeof(struct lend_pkt_trailer);

	if (!n->plan.checked && f->len > sizeof(struct lend_pkt_trailer))
		lend_store_u32(f->data + body, lend_crc32c(0, f->data, body));
}

static void send_forged(struct sim *sim, struct sim_flight *f, const char *what, size_t by_state)
{
	struct sim_net *n = sim->net;

	f->forged = true;
	n->ledger.forged++;
	if (by_state)
		net_mark(sim, f, what, by_state);
	net_later(sim, f, n->hostile_at);
}

static uint32_t other_address(struct sim *sim, const struct sim_flight *live)
{
	struct sim_net *n = sim->net;
	uint32_t from;

	/* Where addresses are proven, each attacker has only its own. A RESET does not show to
	 * which address its session belongs: from another node's address it would have to be
	 * believed. */
	if (n->plan.proven || live->data[offsetof(struct lend_pkt, kind)] == LEND_PKT_RESET)
		return n->nodes + (uint32_t)draw_below(sim, SIM_STRANGERS);
	do
		from = (uint32_t)draw_below(sim, n->nodes + SIM_STRANGERS);
	while (from == live->from || from == live->to);
	return from;
}

static void send_noise(struct sim *sim, const struct sim_flight *live)
{
	uint32_t mtu = (uint32_t)sim->net->plan.mtu, at;
	const uint32_t edge[] = {0, 1, 31, 32, 47, 48, 49, mtu - 1, mtu, mtu + 1};
	uint32_t len =
	    draw_below(sim, 2) ? edge[draw_below(sim, 10)] : (uint32_t)draw_below(sim, mtu + 2);
	struct sim_flight *f = net_take(sim, other_address(sim, live), live->to, len);

	for (at = 0; at + 8 <= len; at += 8)
		lend_store_u64(f->data + at, draw_all(sim));
	memset(f->data + at, 0x5a, len - at);
	if (len)
		f->data[0] = (uint8_t)(LEND_PKT_MAGIC + 1 + draw_below(sim, 255));
	send_forged(sim, f, "noise", 0);
}

/* The header ends too soon. */
static void send_stump(struct sim *sim, const struct sim_flight *live)
{
	struct sim_flight *f = net_copy(sim, live);

	f->len = (uint32_t)draw_below(sim, sizeof(struct lend_pkt));
	send_forged(sim, f, "stump", SIM_MARK_OF(malformed));
}

/* The header of a live datagram with right checksum and address, but contradicting fields. */
static void send_malformed(struct sim *sim, const struct sim_flight *live)
{
	struct sim_flight *f = net_copy(sim, live);
	struct lend_pkt head;

	memcpy(&head, f->data, sizeof(head));
	switch (draw_below(sim, 6)) {
	case 0:
		head.magic ^= (uint8_t)(1 + draw_below(sim, 255));
		break;
	case 1:
		head.version ^= (uint8_t)(1 + draw_below(sim, 255));
		break;
	case 2:
		head.kind = draw_below(sim, 2)
				? 0
				: (uint8_t)(LEND_PKT_KINDS + draw_below(sim, 256 - LEND_PKT_KINDS));
		break;
	case 3:
		head.flags ^= LEND_PKT_ENCRYPTED;
		break;
	case 4: /* the payload is outside of its message */
		head.kind = (uint8_t)(LEND_PKT_REQUEST + draw_below(sim, 2));
		head.length = (uint32_t)draw_below(sim, UINT32_MAX);
		head.offset = head.length + 1 + (uint32_t)draw_below(sim, UINT32_MAX - head.length);
		break;
	default: /* longer than any message */
		head.kind = (uint8_t)(LEND_PKT_REQUEST + draw_below(sim, 2));
		head.length = (uint32_t)(LEND_MESSAGE_MAX + 1 +
					 draw_below(sim, UINT32_MAX - LEND_MESSAGE_MAX));
		head.offset = (uint32_t)draw_below(sim, 4096) * 16;
		break;
	}
	memcpy(f->data, &head, sizeof(head));
	seal_checksum(sim->net, f);
	send_forged(sim, f, "malformed", SIM_MARK_OF(malformed));
}

/* Valid, but for a session that never existed. Its reply is a RESET that no node accepts. */
static void send_stray(struct sim *sim, const struct sim_flight *live)
{
	struct sim_flight *f = net_copy(sim, live);
	uint8_t *session = f->data + offsetof(struct lend_pkt, session);
	uint8_t kind = f->data[offsetof(struct lend_pkt, kind)];

	/* The session of a RESET may be an unknown one, and another generation of it may be a live
	 * one. */
	switch (kind == LEND_PKT_CONNECT ? 0 : kind == LEND_PKT_RESET ? 2 : draw_below(sim, 3)) {
	case 0: /* no session at all, of every kind but CONNECT */
		lend_store_u64(session, 0);
		f->data[offsetof(struct lend_pkt, kind)] =
		    (uint8_t)(LEND_PKT_ACCEPT + draw_below(sim, LEND_PKT_KINDS - LEND_PKT_ACCEPT));
		f->data[offsetof(struct lend_pkt, flags)] &= LEND_PKT_CLASS;
		break;
	case 1: /* another generation of this one */
		lend_store_u64(session, lend_load_u64(session) ^ (1 + draw_below(sim, 0xffff))
								     << 24);
		break;
	default:
		lend_store_u64(session, draw_all(sim) | 1);
		break;
	}
	seal_checksum(sim->net, f);
	SIM_MARK(sim, stray);
	send_forged(sim, f, "stray", 0);
}

/* A live datagram from another address, possibly with another kind, number, call or offset. */
static void send_spoofed(struct sim *sim, const struct sim_flight *live)
{
	struct sim_flight *f = net_copy(sim, live);
	struct lend_pkt head;

	f->from = other_address(sim, live);
	memcpy(&head, f->data, sizeof(head));
	switch (draw_below(sim, 6)) {
	case 0:
		head.kind = (uint8_t)(1 + draw_below(sim, LEND_PKT_KINDS - 1));
		break;
	case 1:
		head.number += draw_below(sim, 200);
		break;
	case 2:
		head.call = (uint32_t)draw_all(sim);
		break;
	case 3:
		head.offset += 16 * (uint32_t)draw_below(sim, 200);
		break;
	case 4:
		head.flags ^= (uint8_t)(1u << draw_below(sim, 5));
		break;
	default:
		break;
	}
	memcpy(f->data, &head, sizeof(head));
	seal_checksum(sim->net, f);
	send_forged(sim, f, "spoofed", SIM_MARK_OF(spoofed));
}

/* Any address may connect; some of the fields are invalid. */
static void send_stranger(struct sim *sim, const struct sim_flight *live)
{
	static const uint32_t payload[] = {0, 48, 64, 100, 1376, UINT32_MAX};
	struct sim_net *n = sim->net;
	struct lend_pkt head = {
	    LEND_PKT_MAGIC, LEND_PKT_VERSION, LEND_PKT_CONNECT, 0, 0, 0, 1, 0, 0};
	struct lend_pkt_connect hello = {.connect = draw_all(sim), .session = draw_all(sim)};
	uint32_t len = sizeof(head) + sizeof(hello) + sizeof(struct lend_pkt_connect_end) +
		       (n->plan.checked ? 0 : (uint32_t)sizeof(struct lend_pkt_trailer));
	struct sim_flight *f = net_take(sim, other_address(sim, live), live->to, len);

	hello.params.payload = payload[draw_below(sim, 6)];
	hello.params.unscheduled = draw_below(sim, 2) ? 65536 : 0;
	hello.params.message_max = draw_below(sim, 2) ? LEND_MESSAGE_MAX : (uint32_t)draw_all(sim);
	hello.params.calls = (uint32_t)draw_below(sim, 3);
	lend_store_u64(hello.params.incarnation, draw_all(sim));
	memset(f->data, 0, len);
	memcpy(f->data, &head, sizeof(head));
	memcpy(f->data + sizeof(head), &hello, sizeof(hello));
	seal_checksum(n, f);
	SIM_MARK(sim, stranger);
	send_forged(sim, f, "stranger", 0);
}

void net_hostile(struct sim *sim, const struct sim_flight *live)
{
	static void (*const how[])(struct sim *, const struct sim_flight *) = {
	    send_noise, send_stump,   send_malformed, send_malformed,
	    send_stray, send_spoofed, send_spoofed,   send_stranger};
	struct sim_net *n = sim->net;

	if (live->len < sizeof(struct lend_pkt) ||
	    !sim_odds(sim, SIM_RNG_HOSTILE, n->plan.hostile_ppm))
		return;
	/* All arrive together, before or after the live one, so that the oracle checks them at
	 * once. */
	n->hostile_at = sim->now + n->plan.delay_ns + draw_below(sim, 2000);
	for (uint64_t i = 1 + draw_below(sim, HOSTILE_MAX); i > 0; i--)
		/* A lossless ring must keep room for datagrams that may not be lost. */
		if (!n->hung || n->under_way[live->to] < n->plan.ring / 2)
			how[draw_below(sim, sizeof(how) / sizeof(how[0]))](sim, live);
}

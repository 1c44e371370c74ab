/* Goal: lend_pkt_decode accepts complete datagrams only, and never reads past the bytes received.
 * Method: one valid datagram per kind; each truncation of it in a block of exactly that size; one
 * field at a time made wrong. Covers: src/wire/pkt.c, src/wire/pkt.h */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "wire/pkt.h"

static uint32_t build_packet(uint8_t *out, const struct lend_pkt *head, uint32_t payload)
{
	uint32_t block = head->kind < LEND_PKT_KINDS ? (uint32_t)lend_pkt_block_len(head->kind) : 0;
	bool seen = lend_pkt_reports(head);
	uint32_t end =
	    head->kind == LEND_PKT_CONNECT ? (uint32_t)sizeof(struct lend_pkt_connect_end) : 0;
	uint32_t len = sizeof(*head) + block + (seen ? (uint32_t)sizeof(struct lend_pkt_seen) : 0) +
		       payload + end;

	memset(out, 0x5a, len);
	memcpy(out, head, sizeof(*head));
	return len;
}

/* The full decoder accepts all that the fast path accepts, with the same result. Of valid requests
 * and replies, the fast path refuses only fragments of longer messages, empty requests, and
 * messages with a head or cut fine. */
static void compare_short(const uint8_t *data, uint32_t len, enum lend_pkt_fault fault,
			  const struct lend_pkt_view *v)
{
	struct lend_pkt_view s;
	bool took = lend_pkt_decode_short(&s, data, len);

	if (fault == LEND_PKT_OK && v->payload_len >= 4 && v->payload_len == v->head.length &&
	    (v->head.kind == LEND_PKT_REQUEST || v->head.kind == LEND_PKT_REPLY) &&
	    !(v->head.flags & (LEND_PKT_WITH_HEAD | LEND_PKT_FINE)))
		cr_assert(took, "kind %u", v->head.kind);
	if (!took)
		return;
	cr_assert_eq(fault, LEND_PKT_OK);
	cr_assert_eq(memcmp(&s.head, &v->head, sizeof(s.head)), 0);
	cr_assert_eq(memcmp(&s.reply, &v->reply, lend_pkt_block_len(s.head.kind)), 0);
	if (s.head.flags & LEND_PKT_ACKED)
		cr_assert_eq(memcmp(&s.seen, &v->seen, sizeof(s.seen)), 0);
	cr_assert(s.payload == v->payload && s.payload_len == v->payload_len);
}

static enum lend_pkt_fault decode_copy(const uint8_t *data, uint32_t len, struct lend_pkt_view *v)
{
	uint8_t *exact = malloc(len ? len : 1);
	enum lend_pkt_fault fault;

	memcpy(exact, data, len);
	fault = lend_pkt_decode(v, exact, len);
	compare_short(exact, len, fault, v);
	free(exact);
	return fault;
}

static struct lend_pkt good_head(uint8_t kind, uint32_t payload)
{
	return (struct lend_pkt){.magic = LEND_PKT_MAGIC,
				 .version = LEND_PKT_VERSION,
				 .kind = kind,
				 .session = 7,
				 .number = 9,
				 .length = payload};
}

Test(pkt, every_kind_and_every_truncation)
{
	for (uint8_t kind = 1; kind < LEND_PKT_KINDS; kind++)
		for (int seen = 0; seen < 2; seen++) {
			bool message = kind == LEND_PKT_REQUEST || kind == LEND_PKT_REPLY;
			struct lend_pkt head = good_head(kind, message ? 20 : 0);
			uint8_t data[512];
			struct lend_pkt_view v;
			uint32_t len;

			head.flags = seen ? LEND_PKT_ACKED : 0;
			len = build_packet(data, &head, head.length);
			cr_assert_eq(decode_copy(data, len, &v), LEND_PKT_OK, "kind %d", kind);
			cr_assert_eq(v.payload_len, head.length);
			for (uint32_t cut = 0; cut < len; cut++)
				if (!(message && cut > len - 20))
					cr_assert_neq(decode_copy(data, cut, &v), LEND_PKT_OK,
						      "kind %d cut to %u", kind, cut);
		}
}

/* Frames of every length within a datagram of its exact size, and cut anywhere. */
Test(pkt, frames__every_length_and_every_cut)
{
	uint8_t data[512];
	struct lend_pkt_view v;

	for (uint16_t length = 0; length < 40; length++) {
		struct lend_pkt_frame f = {.call = 7 << 10, .length = length, .flags = 3};
		uint32_t each = lend_pkt_frame_len(length), at = 0;

		cr_assert_eq(each % LEND_PKT_FRAME_ALIGN, 0);
		memset(data, 0, sizeof(data));
		for (uint32_t i = 0; i < 2; i++) {
			f.flags ^= LEND_PKT_SERVED;
			memcpy(data + i * each, &f, sizeof(f));
		}
		for (uint32_t i = 0; i < 2; i++) {
			cr_assert(lend_pkt_decode_frame(&v, data, 2 * each, &at));
			cr_assert_eq(at, (i + 1) * each);
			cr_assert_eq(v.payload, data + i * each + sizeof(f));
			cr_assert_eq(v.payload_len, length);
			cr_assert_eq(v.head.length, length);
			cr_assert_eq(v.head.flags & LEND_PKT_SERVED, i ? 0 : LEND_PKT_SERVED);
		}
		for (uint32_t cut = 0; cut < each; cut++) {
			at = 0;
			cr_assert_not(lend_pkt_decode_frame(&v, data, cut, &at));
			cr_assert_eq(at, 0);
		}
	}
}

Test(pkt, frames__one_wrong_field__refused)
{
	static const uint8_t bit[][2] = {{6, 0x10}, {6, 0x20}, {6, 0x40}, {6, 0x80},
					 {7, 1},    {5, 1},    {20, 1},   {23, 0x80}};
	struct lend_pkt_frame f = {.call = 7 << 10, .length = 8, .flags = 3};
	struct lend_pkt_view v;

	for (size_t i = 0; i < sizeof(bit) / sizeof(bit[0]); i++) {
		uint8_t data[32] = {0};
		uint32_t at = 0;

		memcpy(data, &f, sizeof(f));
		data[bit[i][0]] ^= bit[i][1];
		cr_assert_not(lend_pkt_decode_frame(&v, data, sizeof(data), &at), "row %zu", i);
	}
}

Test(pkt, calls__one_wrong_field_of_the_head__refused)
{
	static const size_t at[] = {4, 7, 24, 27, 28, 31}; /* call, offset, length */

	for (size_t i = 0; i < 2 * sizeof(at) / sizeof(at[0]); i++) {
		struct lend_pkt head = good_head(LEND_PKT_CALLS, 24);
		uint8_t data[256];
		struct lend_pkt_view v;

		head.flags = i & 1 ? LEND_PKT_ACKED : 0;
		cr_assert_eq(decode_copy(data, build_packet(data, &head, 24), &v), LEND_PKT_OK);
		((uint8_t *)&head)[at[i / 2]] ^= 1;
		cr_assert_eq(decode_copy(data, build_packet(data, &head, 24), &v), LEND_PKT_LENGTH,
			     "byte %zu", at[i / 2]);
	}
}

Test(pkt, decode__one_wrong_field__names_the_error)
{
	static const struct {
		size_t at;
		uint8_t xor ;
		enum lend_pkt_fault want;
	} row[] = {
	    {0, 1, LEND_PKT_FOREIGN},    {1, 2, LEND_PKT_FOREIGN}, {2, 0x40, LEND_PKT_KIND},
	    {3, 0x20, LEND_PKT_OK},      {3, 0x40, LEND_PKT_OK},   {3, 0x80, LEND_PKT_KIND},
	    {27, 0x80, LEND_PKT_LENGTH}, /* offset past the message */
	    {28, 1, LEND_PKT_OK},        /* 21 bytes, of which 20 arrived */
	    {28, 4, LEND_PKT_LENGTH},    /* 16 bytes, and 20 arrived */
	    {31, 0x40, LEND_PKT_LENGTH}, /* over 1 GiB */
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_pkt head = good_head(LEND_PKT_REQUEST, 20);
		uint8_t data[256];
		struct lend_pkt_view v;
		uint32_t len;

		((uint8_t *)&head)[row[i].at] ^= row[i].xor ;
		len = build_packet(data, &head, 0); /* the kind implies its block's length */
		if (head.kind == LEND_PKT_REQUEST)
			len = build_packet(data, &head, 20);
		cr_assert_eq(decode_copy(data, len, &v), row[i].want, "row %zu", i);
	}
}

Test(pkt, decode__empty_payload__only_empty_messages)
{
	struct lend_pkt head = good_head(LEND_PKT_REQUEST, 0);
	uint8_t data[256];
	struct lend_pkt_view v;

	cr_assert_eq(decode_copy(data, build_packet(data, &head, 0), &v), LEND_PKT_OK);
	head.length = 8;
	cr_assert_eq(decode_copy(data, build_packet(data, &head, 0), &v), LEND_PKT_LENGTH);
}

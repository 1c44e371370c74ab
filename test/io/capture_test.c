/* Goal: a capture holds each datagram of a carrier as it was sent or received, and does not change
 * the carrier's behaviour.
 * Method: the conformance suite with a capture in front; single blocks and whole files, read by a
 * reader that shares no code with the writer.
 * Covers: src/io/capture/capture.c, src/io/capture/pcapng.c, src/io/capture/header.c */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/capture/capture.h"
#include "io/captured.h"
#include "io/capture/pcapng.h"
#include "one_line_test.h"

TestSuite(capture, .init = captured_begin, .fini = captured_end, .timeout = 600);

CONFORM_SUITE(shm_captured, &captured_shm)
CONFORM_SUITE(udp_captured, &captured_udp)

Test(capture, blocks_of_every_length)
{
	uint8_t bytes[512], *out = malloc(1 << 20);
	size_t at = 0;
	struct blocks *b;
	uint32_t n = 0;

	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	at += lend_pcapng_section(out, "five.");
	at += lend_pcapng_interface(out + at, "eth", "", 99);
	for (uint32_t kept = 0; kept < 40; kept++)
		for (uint32_t how = 0; how < 8; how++) {
			struct lend_pcapng_bytes part[3] = {
			    {bytes, kept / 3}, {bytes, 0}, {bytes + kept / 3, 400}};
			struct lend_pcapng_packet p = {.time = UINT64_C(0x123456789abcdef) + n++,
						       .len = kept + how,
						       .kept = kept,
						       .out = how & 1,
						       .lost = how & 2 ? UINT64_C(1) << 40 : 0,
						       .comment =
							   how & 4 ? "sigh" + how % 3 : NULL};
			size_t len = lend_pcapng_packet_len(&p);

			memset(out + at, 0xee, len + 1);
			lend_pcapng_packet(out + at, &p, part, 3);
			cr_assert_eq(out[at + len], 0xee, "longer than its length field");
			cr_assert_eq(lend_pcapng_whole(out, at + len - 1), at);
			at += len;
			cr_assert_eq(lend_pcapng_whole(out, at), at);
		}
	b = blocks_parse(out, at);
	cr_assert_eq(b->n, 320);
	cr_assert_str_eq(b->program, "five.");
	cr_assert_str_eq(b->name[0], "eth");
	cr_assert_eq(b->snap, 99);
	for (uint32_t i = 0; i < b->n; i++) {
		const struct blocks_packet *p = &b->packet[i];

		cr_assert_eq(p->time, UINT64_C(0x123456789abcdef) + i);
		cr_assert(p->kept == i / 8 && p->len == i / 8 + i % 8 &&
			  p->way == 1 + (int)(i & 1));
		cr_assert_eq(p->lost, i & 2 ? UINT64_C(1) << 40 : 0);
		cr_assert_str_eq(p->comment, i & 4 ? "sigh" + i % 8 % 3 : "");
		cr_assert_eq(memcmp(p->data, bytes, p->kept), 0);
	}
	blocks_free(b);
	free(out);
}

static void check_both_sides(const struct conform_row *row, bool ip)
{
	static const uint32_t lens[] = {16, 17, 18, 19, 100, 1000, 4096, 8000};
	enum { N = sizeof(lens) / sizeof(lens[0]) };
	struct captured e = captured_ends(row, "a.pcapng", 0, 0);
	char address[104];
	struct blocks *b;
	uint32_t n = 0;

	memcpy(address, e.address, sizeof(address));
	for (uint32_t i = 0; i < N; i++)
		captured_exchange(&e, i, lens[i]);
	captured_close(&e);
	b = captured_read("a.pcapng");
	cr_assert_eq(b->interfaces, 2);
	for (uint32_t i = 0; i < b->n; i++) {
		struct blocks_lead lead;
		struct lend_in in;
		uint32_t id, seq;

		blocks_lead(&b->packet[i], &lead);
		if (lead.event == LEND_CAPTURE_GONE)
			continue;
		in = (struct lend_in){.data = lead.data, .len = lead.len};
		cr_assert_eq(lead.kept, lead.len);
		cr_assert(conform_check(&in, &id, &seq), "byte for byte");
		cr_assert(id == 7 && seq == n / 2 && lead.len == lens[seq], "in order");
		cr_assert_eq(lead.event, n % 2 ? LEND_CAPTURE_RECEIVED : LEND_CAPTURE_SENT);
		cr_assert_eq(b->packet[i].way, n % 2 ? 1 : 2);
		cr_assert_eq(lead.flags, ip ? 0 : LEND_CAPTURE_CHECKED);
		cr_assert(!ip || !strcmp(lead.destination, address + 4), "%s", lead.destination);
		cr_assert_eq(lead.source[0] != 0, ip);
		if (n % 2 == 0)
			cr_assert_str_eq(lead.address, address);
		n++;
	}
	cr_assert_eq(n, 2 * N);
	blocks_free(b);
}

TestRuns(capture, both_sides_of_udp, check_both_sides(&captured_udp, true));
TestRuns(capture, both_sides_of_shm, check_both_sides(&captured_shm, false));

Test(capture, snap_keeps_the_first_bytes)
{
	struct captured e = captured_ends(&captured_udp, "a.pcapng", 33, 0);
	struct blocks_lead lead;
	struct blocks *b;

	captured_exchange(&e, 0, 32);
	captured_exchange(&e, 1, 33);
	captured_exchange(&e, 2, 34);
	captured_exchange(&e, 3, 3000);
	captured_close(&e);
	b = captured_read("a.pcapng");
	cr_assert_eq(b->n, 8);
	for (uint32_t i = 0; i < 8; i++) {
		static const uint32_t len[] = {32, 33, 34, 3000};

		blocks_lead(&b->packet[i], &lead);
		cr_assert_eq(lead.len, len[i / 2]);
		cr_assert_eq(lead.kept, i / 2 ? 33 : 32);
		cr_assert_geq(b->snap, b->packet[i].kept);
	}
	blocks_free(b);
}

Test(capture, a_full_peer_is_seen)
{
	struct captured e = captured_ends(&captured_shm, "a.pcapng", 64, 0);
	struct blocks_lead lead;
	uint32_t seq = 0;
	struct blocks *b;

	while (conform_send(e.client, e.peer, 1, seq, 200) == LEND_SENT)
		cr_assert_lt(seq++, 10000);
	e.server->ops->close(e.server);
	while (conform_send(e.client, e.peer, 1, seq, 200) != LEND_SENT_DEAD)
		(void)conform_take(e.client, NULL, NULL);
	e.client->ops->close(e.client);
	b = captured_read("a.pcapng");
	for (uint32_t i = 0; i < b->n; i++) {
		const char *comment = b->packet[i].comment;

		blocks_lead(&b->packet[i], &lead);
		cr_assert_eq(lead.event == LEND_CAPTURE_FULL, strstr(comment, "full") != NULL);
		cr_assert_eq(lead.event == LEND_CAPTURE_DEAD, strstr(comment, "is gone") != NULL);
		cr_assert_eq(lead.event == LEND_CAPTURE_SENT, i < seq);
	}
	cr_assert_eq(lead.event, LEND_CAPTURE_DEAD);
	blocks_free(b);
}

/* Attributes of a peer are not recorded for the next peer that gets its index. */
Test(capture, reused_index__describes_the_new_peer)
{
	struct captured e = captured_ends(&captured_udp, "a.pcapng", 0, 0);
	uint32_t first = e.peer, peer = first + 1;
	struct blocks_lead lead;
	char address[104];
	struct blocks *b;

	captured_exchange(&e, 0, 100);
	e.client->ops->pin(e.client, first, false);
	for (int port = 1; peer != first; port++) {
		cr_assert_lt(port, 1000, "indices of unpinned peers are reused");
		(void)snprintf(address, sizeof(address), "udp:127.0.0.1:%d", port);
		cr_assert_eq(e.client->ops->resolve(e.client, address, &peer), 0);
		if (peer != first)
			e.client->ops->pin(e.client, peer, false);
	}
	cr_assert_eq(conform_send(e.client, peer, 7, 1, 100), LEND_SENT);
	captured_close(&e);
	b = captured_read("a.pcapng");
	blocks_lead(&b->packet[b->n - 1], &lead);
	cr_assert_str_eq(lead.address, address);
	cr_assert_str_eq(lead.destination, address + 4);
	blocks_free(b);
}

/* Goal: with a key a session opens only between ends that both have it, and a copied datagram
 * proves nothing. Method: two cores, trace text; datagrams lost, duplicated and changed. Covers:
 * src/core/handshake_proof.c, src/core/handshake.c */
#include <criterion/criterion.h>
#include <string.h>

#include "core/arena.h"
#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { HEAD = sizeof(struct lend_pkt), KEY = 0xabcd };

static const struct lend_core_identity with_key = {.incarnation = {1, 2, 3}, .key_id = KEY};

/* Side 0 has the key of salt client, side 1 that of salt server; 0: none. */
static void begin_pair(struct core_pair *d, uint8_t client, uint8_t server)
{
	pair_open(d, false);
	d->self = &with_key;
	d->side[0].salt = client;
	d->side[1].salt = server;
	d->on_end = pair_give_at_end;
	d->on_request = pair_answer;
	d->side[0].session = pair_connect(d);
}

static uint64_t proven_key(const struct core_pair *d, int side)
{
	struct lend_core_names names = {.key_id = 1};

	(void)lend_core_session_names(d->side[side].core, d->side[side].session, &names);
	return names.key_id;
}

static uint64_t unproven_count(const struct core_pair *d, int side)
{
	return lend_core_stats(d->side[side].core)->rx_unproven;
}

/* Changes byte `at` of the last datagram that this side sent. */
static void change_byte(struct core_pair *d, int side, uint32_t at)
{
	struct pair_dgram *g = &d->side[side].wire[d->side[side].n - 1];

	g->data[at] ^= 1;
}

Test(proof, both_ends_prove_the_key)
{
	struct lend_core_names names[2];
	struct core_pair d;

	begin_pair(&d, 3, 3);
	pair_settle(&d);
	pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> PROOF\n1 up\n1> ACK\n");
	cr_assert_eq(proven_key(&d, 0), (uint64_t)KEY);
	cr_assert_eq(proven_key(&d, 1), (uint64_t)KEY);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(lend_core_session_names(d.side[i].core, d.side[i].session, &names[i]),
			     0);
	cr_assert_eq(memcmp(&names[0], &names[1], sizeof(names[0])), 0, "the channel binding");
	pair_pass(&d, 100 * MS);
	pair_expect(&d, "");
	pair_close(&d);
}

static uint8_t lost_kind;
static bool lose_first(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)from, (void)nth;
	if (v->head.kind != lost_kind || d->arg)
		return false;
	d->arg = d;
	return true;
}

Test(proof, handshake__any_datagram_lost__is_resent)
{
	static const uint8_t kind[] = {LEND_PKT_CONNECT, LEND_PKT_ACCEPT, LEND_PKT_PROOF,
				       LEND_PKT_ACK};

	for (size_t i = 0; i < sizeof(kind); i++) {
		struct core_pair d;

		begin_pair(&d, 3, 3);
		lost_kind = kind[i];
		d.lose = lose_first;
		pair_call(&d, 0, 0, LEND_NEVER);
		pair_pass(&d, 200 * MS);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1, "kind %u", kind[i]);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 0);
		cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
		cr_assert_eq(proven_key(&d, 1), (uint64_t)KEY);
		pair_close(&d);
	}
}

/* A retransmitted ACCEPT does not confirm PROOF, although it is the newest datagram of the
 * session. */
Test(proof, accept__resent__confirms_nothing)
{
	struct pair_dgram connect;
	struct core_pair d;

	begin_pair(&d, 3, 3);
	pair_output(&d, 0);
	connect = d.side[0].wire[0];
	cr_assert_eq(connect.data[2], LEND_PKT_CONNECT);
	lost_kind = LEND_PKT_PROOF;
	d.lose = lose_first;
	pair_settle(&d);
	pair_inject(&d, 1, connect.data, connect.len);
	pair_settle(&d);
	pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> PROOF lost\n1> ACCEPT\n");
	pair_pass(&d, 50 * MS);
	pair_expect(&d, "0> PROOF\n1 up\n1> ACK\n");
	cr_assert_eq(proven_key(&d, 1), (uint64_t)KEY);
	pair_close(&d);
}

/* The request overtakes PROOF, is dropped, and is retransmitted. */
Test(proof, request__before_proof__is_dropped)
{
	struct core_pair d;

	begin_pair(&d, 3, 3);
	lost_kind = LEND_PKT_PROOF;
	d.lose = lose_first;
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> PROOF lost\n0> REQUEST\n");
	cr_assert_eq(unproven_count(&d, 1), 1);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 0);
	pair_pass(&d, 50 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	pair_close(&d);
}

/* A copy of PROOF gets an ACK and nothing more. */
Test(proof, proof__copied__changes_nothing)
{
	struct pair_dgram proof;
	struct core_pair d;

	begin_pair(&d, 3, 3);
	pair_carry(&d, 0);
	pair_carry(&d, 1);
	pair_output(&d, 0);
	proof = d.side[0].wire[0];
	cr_assert_eq(proof.data[2], LEND_PKT_PROOF);
	pair_settle(&d);
	pair_forget(&d);
	pair_inject(&d, 1, proof.data, proof.len);
	pair_settle(&d);
	pair_expect(&d, "");
	pair_close(&d);
}

/* Each byte of the handshake that can be changed on the way, unless it names another session. */
Test(proof, handshake__changed_byte__opens_nothing)
{
	static const struct {
		int side;
		uint32_t first, end;
	} part[] = {
	    {0, HEAD + 8, HEAD + 64},    /* CONNECT: client's id to e */
	    {0, HEAD + 128, HEAD + 164}, /* parameters */
	    {1, HEAD + 16, HEAD + 192},  /* ACCEPT: pattern to tag */
	};

	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		for (uint32_t at = part[i].first; at < part[i].end; at++) {
			struct core_pair d;

			begin_pair(&d, 3, 3);
			d.quiet = true;
			pair_output(&d, 0);
			if (part[i].side == 0)
				change_byte(&d, 0, at);
			pair_deliver(&d, 0);
			pair_output(&d, 1);
			if (part[i].side == 1)
				change_byte(&d, 1, at);
			pair_deliver(&d, 1);
			pair_carry(&d, 0);
			pair_output(&d, 1);
			cr_assert_neq(proven_key(&d, 0), (uint64_t)KEY, "part %zu, byte %u", i, at);
			cr_assert_neq(proven_key(&d, 1), (uint64_t)KEY, "part %zu, byte %u", i, at);
			pair_close(&d);
		}
}

Test(proof, proof__forged__opens_nothing)
{
	for (uint32_t at = HEAD; at < HEAD + 16; at++) {
		struct core_pair d;

		begin_pair(&d, 3, 3);
		d.quiet = true;
		pair_carry(&d, 0);
		pair_carry(&d, 1);
		pair_output(&d, 0);
		change_byte(&d, 0, at);
		pair_deliver(&d, 0);
		pair_output(&d, 1);
		cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 0, "byte %u", at);
		cr_assert_eq(unproven_count(&d, 1), 1);
		pair_pass(&d, 100 * MS); /* the genuine one is retransmitted */
		cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 1);
		pair_close(&d);
	}
}

/* The server has another key under this id: its ACCEPT is dropped, and the client gives up. */
Test(proof, another_key_opens_nothing)
{
	struct core_pair d;

	begin_pair(&d, 3, 4);
	d.quiet = true;
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_pass(&d, 6000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP] + d.side[1].count[LEND_EV_SESSION_UP], 0);
	cr_assert_gt(unproven_count(&d, 0), 0);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 14);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 0);
	pair_close(&d);
}

/* A server without the key accepts, and neither end has proven anything. */
Test(proof, a_server_without_the_key_accepts_without_proof)
{
	struct core_pair d;

	begin_pair(&d, 3, 0);
	pair_settle(&d);
	pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> PING\n1 up\n1> ACK\n");
	cr_assert_eq(proven_key(&d, 0), 0);
	cr_assert_eq(proven_key(&d, 1), 0);
	pair_close(&d);
}

/* An attacker replays a CONNECT after its session ended, and cannot answer the ACCEPT. */
Test(proof, a_copied_connect_proves_nothing)
{
	struct pair_dgram connect, proof;
	struct core_pair d;

	begin_pair(&d, 3, 3);
	d.quiet = true;
	pair_output(&d, 0);
	connect = d.side[0].wire[0];
	pair_deliver(&d, 0);
	pair_carry(&d, 1);
	pair_output(&d, 0);
	proof = d.side[0].wire[0];
	pair_settle(&d);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_settle(&d);
	pair_inject(&d, 1, connect.data, connect.len);
	pair_output(&d, 1);
	cr_assert_eq(d.side[1].n, 1);
	/* The copied PROOF, for the new session's id. */
	memcpy(proof.data + offsetof(struct lend_pkt, session),
	       d.side[1].wire[0].data + HEAD + offsetof(struct lend_pkt_accept, session), 8);
	d.side[1].n = 0;
	d.side[0].wire[d.side[0].n++] = proof;
	change_byte(&d, 0, offsetof(struct lend_pkt, number));
	pair_deliver(&d, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 1, "only the first one");
	cr_assert_eq(unproven_count(&d, 1), 1);
	pair_pass(&d, 6000 * MS);
	pair_close(&d);
}

/* A CONNECT is reflected to its sender, which answers it itself; this proves nothing. */
Test(proof, connect__reflected__proves_nothing)
{
	struct lend_sess *s;
	struct core_pair d;

	begin_pair(&d, 3, 3);
	d.quiet = true;
	pair_output(&d, 0);
	pair_inject(&d, 0, d.side[0].wire[0].data, d.side[0].wire[0].len);
	d.side[0].n = 0;
	pair_output(&d, 0);
	cr_assert_eq(d.side[0].wire[0].data[2], LEND_PKT_ACCEPT);
	pair_inject(&d, 0, d.side[0].wire[0].data, d.side[0].wire[0].len);
	s = lend_sess_at(d.side[0].core, 0);
	cr_assert_eq(s->key_id, 0);
	pair_close(&d);
}

/* With a key no call is 0-RTT, ticket or not. */
static void with_tickets(struct lend_core_config *c)
{
	c->ticket_ns = 1000 * MS;
	c->attempts = 16;
}

Test(proof, no_call_is_0rtt_under_a_key)
{
	struct lend_core_call call = {.method = 9, .zero_rtt = 1, .deadline = LEND_NEVER};
	uint64_t handle;
	struct core_pair d;

	pair_open_with(&d, false, with_tickets);
	d.on_end = pair_give_at_end;
	d.on_request = pair_answer;
	d.self = &with_key;
	d.side[0].salt = d.side[1].salt = 3;
	for (int i = 0; i < 2; i++) {
		d.side[0].session = pair_connect(&d);
		lend_core_set_server(d.side[0].core, d.side[0].session, 77);
		cr_assert_eq(pair_try(&d, 0, &call, &handle), 0);
		pair_settle(&d);
		pair_expect(&d, "0> CONNECT\n1> ACCEPT\n0 up\n0> PROOF\n0> REQUEST\n1 up\n"
				"1 request 0\n1> ACK\n1> REPLY\n0 call_end status 0 ran 1 len 0\n");
		lend_core_disconnect(d.side[0].core, d.side[0].session);
		pair_settle(&d);
		pair_forget(&d);
	}
	pair_close(&d);
}

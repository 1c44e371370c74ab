/* Goal: a sealed session opens only between ends with the same keys, in each pattern, and both ends
 * have the same secrets then; forged, changed, copied and reflected handshake datagrams open
 * nothing and end nothing. Method: two cores with key exchange, trace text; datagrams lost, copied,
 * cut and changed at every byte. Covers: src/seal/key_exchange.c, src/rpc/shake.c,
 * src/core/admission.c, src/core/handshake.c, src/core/handshake_blocks.c, src/core/sess_timer.c,
 * src/core/cookie.c */
#include <criterion/criterion.h>
#include <string.h>

#include "core/arena.h"
#include "scen/sealed_pair.h"
#include "scen/toy_seal.h"

#define MS UINT64_C(1000000)
enum {
	EXHAUSTED = 8, /* RESOURCE_EXHAUSTED */
	HEAD = sizeof(struct lend_pkt),
	CONNECT_LEN = HEAD + sizeof(struct lend_pkt_connect) + sizeof(struct lend_pkt_connect_end),
	ACCEPT_LEN = HEAD + sizeof(struct lend_pkt_accept),
	SUITE_AT = HEAD + offsetof(struct lend_pkt_connect, suite),
	COOKIE_AT = HEAD + offsetof(struct lend_pkt_connect, cookie),
	TICKET_AT = HEAD + offsetof(struct lend_pkt_connect, ticket),
};
static const uint8_t patterns[] = {LEND_PATTERN_NN, LEND_PATTERN_NK};

static bool is_up(const struct core_pair *d, int side)
{
	return d->side[side].count[LEND_EV_SESSION_UP] > d->side[side].count[LEND_EV_SESSION_DOWN];
}

static uint64_t proven_key(const struct core_pair *d, int side)
{
	struct lend_core_names names = {0};

	(void)lend_core_session_names(d->side[side].core, d->side[side].session, &names);
	return names.key_id;
}

Test(sealed_handshake, both_ends_have_the_same_secrets)
{
	for (size_t i = 0; i < sizeof(patterns); i++) {
		struct lend_core_names names[2];
		struct sealed_pair p;

		sealed_open(&p, patterns[i]);
		p.d.side[0].session = pair_connect(&p.d);
		pair_settle(&p.d);
		pair_expect(&p.d, "0> CONNECT\n1> ACCEPT\n0 up\n0> PING\n1 up\n1> ACK\n");
		cr_expect(sealed_agree(&p), "pattern %u", patterns[i]);
		for (int side = 0; side < 2; side++) {
			cr_expect_eq(proven_key(&p.d, side), (uint64_t)SEALED_KEY);
			(void)lend_core_session_names(p.d.side[side].core, p.d.side[side].session,
						      &names[side]);
		}
		cr_expect_eq(memcmp(names[0].binding, names[1].binding, 16), 0);
		cr_expect_eq(memcmp(names[0].binding, p.side[0].made.binding, 16), 0);
		cr_expect_eq(sealed_kex(&p, 0)->dh, patterns[i] == LEND_PATTERN_NK ? 3 : 2);
		cr_expect_eq(sealed_kex(&p, 1)->dh, patterns[i] == LEND_PATTERN_NK ? 3 : 2);
		sealed_close(&p);
	}
}

/* Nothing of the parameters is in clear. */
Test(sealed_handshake, wire__has_no_incarnation)
{
	struct sealed_pair p;

	sealed_open(&p, LEND_PATTERN_NN);
	memset(p.self.incarnation, 0xc7, 16);
	pair_connect(&p.d);
	pair_output(&p.d, 0);
	cr_expect_eq(p.d.side[0].wire[0].len, (uint32_t)CONNECT_LEN);
	cr_expect_null(memmem(p.d.side[0].wire[0].data, CONNECT_LEN, p.self.incarnation, 4));
	pair_deliver(&p.d, 0);
	pair_output(&p.d, 1);
	cr_expect_eq(p.d.side[1].wire[0].len, (uint32_t)ACCEPT_LEN);
	cr_expect_null(
	    memmem(p.d.side[1].wire[0].data, ACCEPT_LEN, p.d.side[1].cfg.incarnation, 4));
	sealed_close(&p);
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

Test(sealed_handshake, handshake__any_datagram_lost__is_resent)
{
	static const uint8_t kind[] = {LEND_PKT_CONNECT, LEND_PKT_ACCEPT, LEND_PKT_PING};

	for (size_t i = 0; i < sizeof(kind); i++) {
		struct sealed_pair p;

		sealed_open(&p, LEND_PATTERN_NN);
		lost_kind = kind[i];
		p.d.lose = lose_first;
		p.d.side[0].session = pair_connect(&p.d);
		pair_pass(&p.d, 600 * MS);
		cr_expect(is_up(&p.d, 0) && is_up(&p.d, 1), "kind %u", kind[i]);
		cr_expect(sealed_agree(&p), "kind %u", kind[i]);
		cr_expect_eq(sealed_kex(&p, 1)->dh, 2, "a copy costs no DH");
		sealed_close(&p);
	}
}

/* Writes a valid mac1: under NK its key is public. */
static void write_mac(const struct sealed_pair *p, struct pair_dgram *g)
{
	const struct sealed_side *s = &p->side[0];
	uint8_t key[16];

	lend_kex_mac_key(&toy_seal_ops, p->self.pattern == LEND_PATTERN_NK ? s->server : s->psk,
			 key);
	lend_siphash128(key, g->data, g->len - 16, g->data + g->len - 16);
}

/* The downgrade test: each byte of CONNECT, then of ACCEPT, is changed on its way. What is changed
 * opens no session; the copy that follows does. */
static void change_and_expect_nothing(uint8_t pattern, int side, uint32_t at, bool with_mac)
{
	struct sealed_pair p;

	sealed_open(&p, pattern);
	p.d.quiet = true;
	p.d.side[0].session = pair_connect(&p.d);
	pair_output(&p.d, 0);
	if (side == 1) {
		pair_deliver(&p.d, 0);
		pair_output(&p.d, 1);
	}
	p.d.side[side].wire[0].data[at] ^= (uint8_t)(1u << at % 8);
	if (with_mac)
		write_mac(&p, &p.d.side[0].wire[0]);
	pair_deliver(&p.d, side);
	cr_expect(!is_up(&p.d, 0) && p.side[0].done == 0, "side %d, byte %u", side, at);
	cr_expect(p.side[1].done == (uint32_t)side, "side %d, byte %u", side, at);
	p.d.side[0].n = p.d.side[1].n = 0;
	pair_pass(&p.d, 60 * MS);
	cr_expect(is_up(&p.d, 0) && sealed_agree(&p), "the next copy opens: side %d, byte %u", side,
		  at);
	cr_expect_eq(p.side[0].made.level, 2);
	/* With a changed suite or least level the server names its suites: the client may take the
	 * other one. */
	cr_expect(p.side[0].made.suite == 1 || (with_mac && at >= SUITE_AT && at < SUITE_AT + 3),
		  "byte %u", at);
	sealed_close(&p);
}

/* Distance of the bytes that are changed: a run with sanitizers takes ten times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { STEP = 7 };
#else
enum { STEP = 1 };
#endif

Test(sealed_handshake, downgrade__each_byte_changed__is_refused)
{
	for (size_t i = 0; i < sizeof(patterns); i++) {
		for (uint32_t at = 0; at < CONNECT_LEN; at += STEP)
			change_and_expect_nothing(patterns[i], 0, at, false);
		for (uint32_t at = 0; at < CONNECT_LEN - 16; at += STEP)
			if (at < COOKIE_AT || at >= TICKET_AT)
				change_and_expect_nothing(patterns[i], 0, at, true);
		for (uint32_t at = 0; at < ACCEPT_LEN; at += STEP)
			change_and_expect_nothing(patterns[i], 1, at, false);
	}
}

Test(sealed_handshake, handshake__cut_at_each_byte__is_refused)
{
	for (int side = 0; side < 2; side++)
		for (uint32_t len = 0; len < (side ? ACCEPT_LEN : CONNECT_LEN); len++) {
			struct sealed_pair p;

			sealed_open(&p, LEND_PATTERN_NN);
			p.d.quiet = true;
			pair_connect(&p.d);
			pair_output(&p.d, 0);
			if (side == 1) {
				pair_deliver(&p.d, 0);
				pair_output(&p.d, 1);
			}
			p.d.side[side].wire[0].len = len;
			pair_deliver(&p.d, side);
			cr_expect(!is_up(&p.d, 0) && p.side[1].done == (uint32_t)side,
				  "side %d, %u bytes", side, len);
			sealed_close(&p);
		}
}

/* Without a key, or with another one, nothing is answered. */
Test(sealed_handshake, another_key__opens_nothing)
{
	for (int unknown = 0; unknown < 2; unknown++) {
		struct sealed_pair p;

		sealed_open(&p, LEND_PATTERN_NN);
		p.d.quiet = true;
		p.side[1].no_key = unknown;
		p.side[1].psk[3] ^= !unknown;
		pair_connect(&p.d);
		pair_pass(&p.d, 6000 * MS);
		cr_expect_eq(p.d.side[0].count[LEND_EV_SESSION_UP], 0);
		cr_expect_eq(p.d.side[1].sent_bytes, 0);
		cr_expect_eq(p.d.side[0].ev[LEND_EV_SESSION_DOWN].status, 14);
		sealed_close(&p);
	}
}

/* An open server asks an end that encrypts for nothing, and the other way round. */
Test(sealed_handshake, level__refused__ends_an_open_attempt)
{
	struct sealed_pair p;

	sealed_open(&p, LEND_PATTERN_NN);
	p.d.self = NULL;
	pair_connect(&p.d);
	pair_settle(&p.d);
	pair_expect(&p.d, "0> CONNECT\n1> RETRY\n0 down 16\n");
	cr_expect_eq(sealed_core(&p, 1)->rx_level, 1);
	sealed_close(&p);
}

/* A scanner does not have the key of mac1: it gets no answer, and costs no DH. */
Test(sealed_handshake, mac1__wrong__costs_no_dh)
{
	for (size_t i = 0; i < sizeof(patterns); i++)
		for (uint8_t bit = 0; bit < 128; bit++) {
			struct sealed_pair p;
			uint8_t *at;

			sealed_open(&p, patterns[i]);
			p.d.quiet = true;
			pair_connect(&p.d);
			pair_output(&p.d, 0);
			at = p.d.side[0].wire[0].data + CONNECT_LEN - 16;
			at[bit / 8] ^= (uint8_t)(1u << bit % 8);
			pair_deliver(&p.d, 0);
			pair_output(&p.d, 1);
			cr_expect_eq(sealed_kex(&p, 1)->dh, 0, "bit %u", bit);
			cr_expect_eq(sealed_kex(&p, 1)->bad_mac, 1, "bit %u", bit);
			cr_expect_eq(p.d.side[1].n, 0, "an answer to bit %u", bit);
			sealed_close(&p);
		}
}

/* A client with the key that offers less than the carrier demands. */
Test(sealed_handshake, level__below_the_least__is_refused)
{
	struct sealed_pair p;

	sealed_open(&p, LEND_PATTERN_NN);
	p.d.quiet = true;
	p.self.level = p.self.least = 1;
	pair_connect(&p.d);
	pair_pass(&p.d, 6000 * MS);
	cr_expect(!is_up(&p.d, 0) && p.side[1].done == 0);
	cr_expect_gt(sealed_core(&p, 1)->rx_level, 0);
	sealed_close(&p);
}

/* The clock of one end jumps during the handshake, and while the session is up: forward, as after
 * a suspension, or backward. */
Test(sealed_handshake, clock__jumps__a_session_opens)
{
	static const int64_t jump[] = {-3600000, -1, 1, 4000, 11000, 70000, 86400000}; /* ms */

	for (size_t i = 0; i < 2 * sizeof(jump) / sizeof(jump[0]); i++) {
		uint64_t by = (uint64_t)(jump[i / 2] * (int64_t)MS);
		struct sealed_pair p;

		sealed_open(&p, LEND_PATTERN_NN);
		p.d.quiet = true;
		p.d.now = 7200000 * MS;
		p.d.side[0].session = pair_connect(&p.d);
		if (i % 2)
			pair_settle(&p.d);
		else
			pair_output(&p.d, 0);
		p.d.now += by;
		pair_pass(&p.d, 200 * MS);
		p.d.side[0].session = pair_connect(&p.d);
		pair_pass(&p.d, 200 * MS);
		p.d.now = 7200000 * MS + 100000000 * MS;
		p.d.side[0].session = pair_connect(&p.d);
		pair_pass(&p.d, 200 * MS);
		cr_expect(is_up(&p.d, 0) && sealed_agree(&p), "%ld ms, %s", (long)jump[i / 2],
			  i % 2 ? "up" : "connecting");
		sealed_close(&p);
	}
}

/* RETRY names the suites; the client takes another one that both ends have. */
Test(sealed_handshake, suite__refused__is_chosen_anew)
{
	struct sealed_pair p;

	sealed_open(&p, LEND_PATTERN_NN);
	p.side[1].shake.policy[0].suites = 1 << 2;
	p.d.side[0].session = pair_connect(&p.d);
	pair_settle(&p.d);
	pair_expect(&p.d,
		    "0> CONNECT\n1> RETRY\n0> CONNECT\n1> ACCEPT\n0 up\n0> PING\n1 up\n1> ACK\n");
	cr_expect(sealed_agree(&p));
	cr_expect_eq(p.side[0].made.suite, 2);
	sealed_close(&p);
}

/* Our own CONNECT comes back, at once and after its attempt has ended. */
Test(sealed_handshake, selfie__own_connect__is_dropped)
{
	struct pair_dgram connect;
	struct sealed_pair p;

	sealed_open(&p, LEND_PATTERN_NN);
	p.d.quiet = true;
	pair_connect(&p.d);
	pair_output(&p.d, 0);
	connect = p.d.side[0].wire[0];
	p.d.side[0].n = 0;
	pair_inject(&p.d, 0, connect.data, connect.len);
	cr_expect_eq(sealed_core(&p, 0)->rx_own, 1);
	cr_expect_eq(p.side[0].done, 0);
	pair_output(&p.d, 0);
	cr_expect_eq(p.d.side[0].n, 0, "no answer");
	pair_pass(&p.d, 20 * MS);
	pair_inject(&p.d, 0, connect.data, connect.len);
	cr_expect_eq(sealed_core(&p, 0)->rx_own, 2);
	sealed_close(&p);
}

/* A CONNECT is replayed after its session ended: it takes a half-open session for 5 s, and its
 * sender cannot open the ACCEPT. */
Test(sealed_handshake, replayed_connect__opens_nothing)
{
	struct pair_dgram connect;
	struct sealed_pair p;

	sealed_open(&p, LEND_PATTERN_NN);
	p.d.quiet = true;
	p.d.side[0].session = pair_connect(&p.d);
	pair_output(&p.d, 0);
	connect = p.d.side[0].wire[0];
	pair_settle(&p.d);
	lend_core_disconnect(p.d.side[0].core, p.d.side[0].session);
	pair_settle(&p.d);
	pair_inject(&p.d, 1, connect.data, connect.len);
	pair_output(&p.d, 1);
	pair_deliver(&p.d, 1);
	cr_expect_eq(p.side[0].done, 1);
	cr_expect_eq(p.d.side[1].count[LEND_EV_SESSION_UP], 1);
	pair_pass(&p.d, 6000 * MS);
	cr_expect_eq(lend_core_sessions_free(p.d.side[1].core), 4);
	sealed_close(&p);
}

/* Many CONNECTs within a short time: from the 65th on, a cookie is needed. */
Test(sealed_handshake, many_connects__need_a_cookie)
{
	struct sealed_pair p;
	uint32_t n;

	sealed_open(&p, LEND_PATTERN_NN);
	p.d.quiet = true;
	for (n = 0; sealed_core(&p, 1)->retries == 0 && n < 100; n++) {
		p.d.side[0].session = pair_connect(&p.d);
		pair_settle(&p.d);
		cr_assert(is_up(&p.d, 0), "connection %u", n);
		lend_core_disconnect(p.d.side[0].core, p.d.side[0].session);
		pair_settle(&p.d);
	}
	cr_expect_eq(n, 65, "%u", n);
	sealed_close(&p);
}

/* Datagrams that an attacker can send without a key: RESET, RETRY and ACCEPT. */
static void inject_head(struct sealed_pair *p, int to, uint8_t kind, uint64_t session)
{
	struct lend_pkt head = {
	    .magic = LEND_PKT_MAGIC, .version = LEND_PKT_VERSION, .kind = kind, .session = session};

	pair_inject(&p->d, to, &head, sizeof(head));
}

Test(sealed_handshake, forged_control__reset__is_a_hint)
{
	for (int to = 0; to < 2; to++) {
		struct sealed_pair p;

		sealed_open(&p, LEND_PATTERN_NN);
		p.d.quiet = true;
		p.d.side[0].session = pair_connect(&p.d);
		pair_settle(&p.d);
		for (int i = 0; i < 20; i++) {
			inject_head(&p, to, LEND_PKT_RESET, p.d.side[!to].session);
			p.d.now += 1000; /* the answer takes a while */
			pair_pass(&p.d, 30 * MS);
		}
		cr_expect(is_up(&p.d, 0) && is_up(&p.d, 1), "RESET to side %d", to);
		sealed_close(&p);
	}
}

/* A server that restarted answers PINGs with RESET: three of them end the session. */
Test(sealed_handshake, restarted_server__ends_the_session)
{
	struct sealed_pair p;

	sealed_open(&p, LEND_PATTERN_NN);
	p.d.quiet = true;
	p.d.side[0].session = pair_connect(&p.d);
	pair_settle(&p.d);
	sealed_restart(&p);
	inject_head(&p, 0, LEND_PKT_RESET, p.d.side[1].session);
	cr_expect(is_up(&p.d, 0));
	pair_pass(&p.d, 100 * MS);
	cr_expect(!is_up(&p.d, 0));
	cr_expect_eq(p.d.side[0].ev[LEND_EV_SESSION_DOWN].status, 14);
	sealed_close(&p);
}

Test(sealed_handshake, forged_control__retry_and_accept__end_nothing)
{
	for (uint8_t reason = 0; reason < 6; reason++) {
		struct lend_pkt_retry retry = {.reason = reason, .suites = 0xff, .connect = 1};
		uint8_t forged[HEAD + sizeof(retry)] = {LEND_PKT_MAGIC, LEND_PKT_VERSION,
							LEND_PKT_RETRY};
		struct sealed_pair p;

		sealed_open(&p, LEND_PATTERN_NN);
		p.d.quiet = true;
		p.d.side[0].session = pair_connect(&p.d);
		pair_output(&p.d, 0);
		memcpy(forged + 8, &p.d.side[0].session, 8);
		memcpy(forged + HEAD, &retry, sizeof(retry));
		pair_inject(&p.d, 0, forged, sizeof(forged));
		pair_settle(&p.d);
		cr_expect(is_up(&p.d, 0) && sealed_agree(&p), "reason %u", reason);
		sealed_close(&p);
	}
}

/* An attacker that reads CONNECT answers it in clear, with a number far ahead, during the handshake
 * or later: datagrams of the session that follow are no old ones. */
Test(sealed_handshake, forged_control__accept_in_clear__is_not_noted)
{
	for (int up = 0; up < 2; up++) {
		uint8_t forged[ACCEPT_LEN] = {LEND_PKT_MAGIC, LEND_PKT_VERSION, LEND_PKT_ACCEPT};
		struct lend_pkt_accept b = {.session = 77, .connect = 1};
		const uint64_t number = 1 << 30;
		struct lend_pkt_connect connect;
		struct lend_core_call call = {.method = 9, .deadline = LEND_NEVER};
		struct sealed_pair p;
		uint64_t handle;

		sealed_open(&p, LEND_PATTERN_NN);
		p.d.quiet = true;
		p.d.side[0].session = pair_connect(&p.d);
		pair_output(&p.d, 0);
		memcpy(&connect, p.d.side[0].wire[0].data + HEAD, sizeof(connect));
		if (up)
			pair_settle(&p.d);
		b.connect = connect.connect;
		b.session = up ? p.d.side[1].session : 77;
		b.params = (struct lend_pkt_params){
		    .payload = 1000, .unscheduled = 1000, .message_max = 1000, .calls = 8};
		memcpy(forged + 8, &p.d.side[0].session, 8);
		memcpy(forged + offsetof(struct lend_pkt, number), &number, sizeof(number));
		memcpy(forged + HEAD, &b, sizeof(b));
		pair_inject(&p.d, 0, forged, sizeof(forged));
		pair_settle(&p.d);
		cr_expect(is_up(&p.d, 0) && sealed_agree(&p), "up %d", up);
		cr_assert_eq(pair_try(&p.d, 0, &call, &handle), 0);
		pair_settle(&p.d);
		cr_expect_eq(p.d.side[0].count[LEND_EV_CALL_END], 1, "up %d", up);
		cr_expect_eq(sealed_core(&p, 0)->rx_dup, 0, "up %d", up);
		sealed_close(&p);
	}
}

/* The second session resumes the first one: no DH, other secrets. */
Test(sealed_handshake, ticket__resumes_without_dh)
{
	struct lend_kex_result first;
	struct sealed_pair p;
	uint64_t dh;

	sealed_open(&p, LEND_PATTERN_NN);
	p.d.quiet = true;
	p.d.side[0].session = pair_connect(&p.d);
	lend_core_set_server(p.d.side[0].core, p.d.side[0].session, 77);
	pair_settle(&p.d);
	first = p.side[0].made;
	dh = sealed_kex(&p, 0)->dh + sealed_kex(&p, 1)->dh;
	p.d.side[0].session = pair_connect(&p.d);
	lend_core_set_server(p.d.side[0].core, p.d.side[0].session, 77);
	pair_settle(&p.d);
	cr_expect(sealed_agree(&p));
	cr_expect_eq(p.side[0].made.pattern, LEND_PATTERN_RESUME);
	cr_expect_eq(sealed_kex(&p, 0)->dh + sealed_kex(&p, 1)->dh, dh);
	cr_expect_neq(memcmp(first.to_server, p.side[0].made.to_server, 32), 0);
	cr_expect_eq(sealed_kex(&p, 1)->resumed, 1);
	sealed_close(&p);
}

/* A server that restarted has no ticket key: the first CONNECT gets no answer, the next one runs
 * the whole handshake. */
Test(sealed_handshake, ticket__of_a_restarted_server__full_handshake)
{
	struct sealed_pair p;

	sealed_open(&p, LEND_PATTERN_NN);
	p.d.quiet = true;
	p.d.side[0].session = pair_connect(&p.d);
	lend_core_set_server(p.d.side[0].core, p.d.side[0].session, 77);
	pair_settle(&p.d);
	sealed_restart(&p);
	p.d.side[0].session = pair_connect(&p.d);
	lend_core_set_server(p.d.side[0].core, p.d.side[0].session, 77);
	pair_pass(&p.d, 50 * MS);
	cr_expect(sealed_agree(&p));
	cr_expect_eq(p.side[0].made.pattern, LEND_PATTERN_NN);
	sealed_close(&p);
}

/* RETRY proves nothing: an attempt that got one for a full server goes on, with a full
 * handshake; if nothing else answers, its calls end with that reason. */
Test(sealed_handshake, forged_control__retry_full__full_handshake)
{
	for (int answered = 0; answered < 2; answered++) {
		struct {
			struct lend_pkt head;
			struct lend_pkt_retry retry;
		} g = {.head = {.magic = LEND_PKT_MAGIC,
				.version = LEND_PKT_VERSION,
				.kind = LEND_PKT_RETRY},
		       .retry = {.reason = LEND_RETRY_FULL}};
		struct lend_pkt_connect b;
		struct sealed_pair p;

		sealed_open(&p, LEND_PATTERN_NN);
		p.d.quiet = true;
		p.d.side[0].session = pair_connect(&p.d);
		lend_core_set_server(p.d.side[0].core, p.d.side[0].session, 77);
		pair_settle(&p.d);
		p.d.side[0].session = pair_connect(&p.d);
		lend_core_set_server(p.d.side[0].core, p.d.side[0].session, 77);
		pair_output(&p.d, 0);
		memcpy(&b, p.d.side[0].wire[0].data + HEAD, sizeof(b));
		cr_assert_eq(b.pattern, LEND_PATTERN_RESUME);
		g.head.session = b.session;
		g.retry.connect = b.connect;
		p.d.side[0].n = 0;
		pair_inject(&p.d, 0, &g, sizeof(g));
		p.d.lose = answered ? NULL : pair_lose_all;
		pair_pass(&p.d, answered ? 50 * MS : 20000 * MS);
		cr_expect_eq(p.d.side[0].count[LEND_EV_SESSION_UP], 1u + (uint32_t)answered);
		if (answered)
			cr_expect_eq(p.side[0].made.pattern, LEND_PATTERN_NN);
		else
			cr_expect_eq(p.d.side[0].ev[LEND_EV_SESSION_DOWN].status, EXHAUSTED);
		sealed_close(&p);
	}
}

static int early_call(struct sealed_pair *p)
{
	struct lend_core_call call = {.method = 9, .zero_rtt = 1, .deadline = LEND_NEVER};
	uint64_t handle;

	p->d.side[0].session = pair_connect(&p->d);
	lend_core_set_server(p->d.side[0].core, p->d.side[0].session, 77);
	return pair_try(&p->d, 0, &call, &handle);
}

/* A 0-RTT call runs once, however often and wherever its CONNECT is replayed. */
Test(sealed_handshake, zero_rtt__replayed__runs_once)
{
	for (int restart = 0; restart < 2; restart++) {
		struct pair_dgram connect;
		struct sealed_pair p;

		sealed_open(&p, LEND_PATTERN_NN);
		p.d.quiet = true;
		cr_assert_eq(early_call(&p), 0);
		pair_settle(&p.d);
		cr_assert_eq(early_call(&p), 0);
		pair_output(&p.d, 0);
		connect = p.d.side[0].wire[0];
		cr_assert_gt(connect.len, (uint32_t)CONNECT_LEN);
		pair_settle(&p.d);
		cr_expect_eq(p.d.side[1].count[LEND_EV_REQUEST], 2);
		cr_expect_eq(sealed_core(&p, 1)->zero_rtt, 1);
		cr_expect(sealed_agree(&p));
		lend_core_disconnect(p.d.side[0].core, p.d.side[0].session);
		pair_settle(&p.d);
		if (restart)
			sealed_restart(&p);
		for (int i = 0; i < 3; i++)
			pair_inject(&p.d, 1, connect.data, connect.len);
		pair_settle(&p.d);
		cr_expect_eq(p.d.side[1].count[LEND_EV_REQUEST], 2, "restart %d", restart);
		cr_expect_eq(p.side[0].done, 2);
		pair_pass(&p.d, 6000 * MS);
		sealed_close(&p);
	}
}

/* The CONNECT with the call is lost, or its ACCEPT: the next one is another form of the attempt. */
Test(sealed_handshake, zero_rtt__lost__runs_once)
{
	static const uint8_t kind[] = {LEND_PKT_CONNECT, LEND_PKT_ACCEPT};

	for (size_t i = 0; i < sizeof(kind); i++) {
		struct sealed_pair p;

		sealed_open(&p, LEND_PATTERN_NN);
		p.d.quiet = true;
		cr_assert_eq(early_call(&p), 0);
		pair_settle(&p.d);
		lost_kind = kind[i];
		p.d.lose = lose_first;
		cr_assert_eq(early_call(&p), 0);
		pair_pass(&p.d, 100 * MS);
		cr_expect_eq(p.d.side[1].count[LEND_EV_REQUEST], 2, "kind %u", kind[i]);
		cr_expect_eq(p.d.side[0].count[LEND_EV_CALL_END], 2, "kind %u", kind[i]);
		cr_expect_eq(p.d.side[0].ev[LEND_EV_CALL_END].status, 0, "kind %u", kind[i]);
		cr_expect(sealed_agree(&p), "kind %u", kind[i]);
		sealed_close(&p);
	}
}

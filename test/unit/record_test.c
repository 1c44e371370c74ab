/* Goal: a sealed datagram arrives once and unchanged, and nothing else does. Method: two ends of a
 * session over a cipher for tests; datagrams that are changed, repeated, reordered, of other epochs
 * and in clear, and the counter of each. Covers: src/seal/record.c, src/seal/record_open.c,
 * src/seal/record_seal.c, src/seal/record_keys.c, src/seal/reopen.c */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/toy_suite.h"
#include "rpc/keys.h"
#include "seal/record_keys.h"
#include "seal/reopen.h"
#include "util/rng.h"

#define MS UINT64_C(1000000)
enum { SESSIONS = 4, ROOM = 256 << 10, TEXT = 100, INDEX = 2 };

struct end {
	struct lend_records records;
	struct lend_record_keys *of[SESSIONS];
	uint64_t id, acked;
	uint32_t strays, spent;
};

static struct pair {
	struct end end[2];
	lend_ns now;
	uint64_t number;
	_Alignas(64) uint8_t room[ROOM];
	struct lend_seg seg[2];
	struct lend_out out;
	struct lend_records_path path;
} p;

/* The cipher: for tests, unless a test takes another. */
static const struct lend_seal_ops *ops = &lend_toy_ops;
static uint8_t suite = LEND_SUITE_TEST;

static void *take_memory(void *arg, size_t len)
{
	(void)arg;
	return memset(aligned_alloc(64, len), 0, len);
}

static void give_memory(void *arg, void *memory, size_t len)
{
	(void)arg;
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(((uint8_t *)memory)[i], 0, "keys are not wiped");
	free(memory);
}

static uint64_t acked_of(void *arg, uint64_t session)
{
	cr_assert_eq(session, ((struct end *)arg)->id);
	return ((struct end *)arg)->acked;
}

static void note_stray(void *arg, const struct lend_in *in)
{
	(void)in;
	((struct end *)arg)->strays++;
}

static void note_spent(void *arg, uint64_t session)
{
	(void)session;
	((struct end *)arg)->spent++;
}

static void install_keys(int i, uint8_t level)
{
	struct lend_seal_keys keys = {
	    .session = p.end[i].id, .peer_id = p.end[!i].id, .suite = suite, .level = level};

	memset(keys.tx, 1 + i, LEND_KEY);
	memset(keys.rx, 2 - i, LEND_KEY);
	cr_assert_eq(lend_records_install(&p.end[i].records, p.now, &keys), 0);
}

/* level LEND_LEVEL_NONE: without keys. */
static void begin_pair(uint8_t level)
{
	memset(&p, 0, sizeof(p));
	p.now = 1;
	for (int i = 0; i < 2; i++) {
		struct end *e = &p.end[i];
		const struct lend_records_calls calls = {.take = take_memory,
							 .give = give_memory,
							 .acked = acked_of,
							 .stray = note_stray,
							 .spent = note_spent,
							 .arg = e};

		e->id = UINT64_C(0xabcdef0000000000) + ((uint64_t)i << 32) + INDEX;
		lend_records_begin(&e->records, ops, &calls, e->of, SESSIONS);
	}
	for (int i = 0; i < 2 && level; i++)
		install_keys(i, level);
}

/* An epoch of the sender has this many datagrams. */
static void begin_short_epochs(uint64_t datagrams)
{
	begin_pair(LEND_LEVEL_NONE);
	p.end[0].records.limits.epoch_datagrams = datagrams;
	install_keys(0, LEND_LEVEL_ENCRYPT);
	install_keys(1, LEND_LEVEL_ENCRYPT);
}

static void finish_pair(void)
{
	for (int i = 0; i < 2; i++) {
		lend_records_end(&p.end[i].records);
		cr_assert_eq(p.end[i].records.keyed, 0);
	}
}

struct dgram {
	uint8_t bytes[16 << 10];
	uint32_t len;
};

/* Writes a datagram of a head and a text of len bytes, half of it in a piece. */
static void make_datagram(uint8_t kind, uint64_t number, uint32_t len)
{
	static struct lend_pkt head;
	static uint8_t first[sizeof(head) + TEXT], text[16 << 10];

	head = (struct lend_pkt){.magic = LEND_PKT_MAGIC,
				 .version = LEND_PKT_VERSION,
				 .kind = kind,
				 .session = p.end[1].id,
				 .number = number};
	memcpy(first, &head, sizeof(head));
	for (uint32_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 7 + number);
	memcpy(first + sizeof(head), text, TEXT / 2);
	p.seg[1] = (struct lend_seg){.data = text, .len = sizeof(text), .cap = sizeof(text)};
	p.out = (struct lend_out){.head = first, .sess = INDEX};
	p.out.head_len = (uint16_t)(sizeof(head) + (len ? TEXT / 2 : 0));
	p.out.n = len > TEXT / 2;
	p.out.piece[0] = (struct lend_piece){1, TEXT / 2, len - TEXT / 2};
}

static uint32_t seal_made(void)
{
	const struct lend_records_memory room = {p.room, p.room + ROOM};
	const struct lend_bufs bufs = {p.seg, 2};

	return lend_records_seal(&p.end[0].records, &p.path, p.now, &bufs, room, &p.out, 1);
}

static void gather_out(struct dgram *g)
{
	memcpy(g->bytes, p.out.head, p.out.head_len);
	g->len = p.out.head_len;
	for (uint32_t i = 0; i < p.out.n; g->len += p.out.piece[i++].len)
		memcpy(g->bytes + g->len, (uint8_t *)p.seg[1].data + p.out.piece[i].offset,
		       p.out.piece[i].len);
	if (p.out.tail_len)
		memcpy(g->bytes + g->len, p.out.tail, p.out.tail_len);
	g->len += p.out.tail_len;
}

static struct dgram *seal_number(uint64_t number)
{
	static struct dgram g;

	make_datagram(LEND_PKT_REQUEST, number, TEXT);
	cr_assert_eq(seal_made(), 1);
	gather_out(&g);
	return &g;
}

/* Returns whether the other end opens a copy of it, as it was before. */
static bool is_opened(const struct dgram *g)
{
	static struct dgram copy, clear;
	struct lend_in in = {.data = copy.bytes, .len = g->len};
	uint64_t number;

	copy = *g;
	if (lend_records_open(&p.end[1].records, &p.path, p.now, &in, 1) == 0)
		return false;
	memcpy(&number, copy.bytes + offsetof(struct lend_pkt, number), sizeof(number));
	make_datagram(LEND_PKT_REQUEST, number, in.len - (uint32_t)sizeof(struct lend_pkt));
	gather_out(&clear);
	cr_assert_eq(in.len, clear.len);
	cr_assert_eq(memcmp(copy.bytes, clear.bytes, clear.len), 0, "number %lu", number);
	return true;
}

static const struct lend_records_stats *receiver_stats(void)
{
	return &p.end[1].records.stats;
}

Test(record, clear__a_changed_bit__dropped)
{
	for (int checked = 0; checked < 2; checked++) {
		struct dgram g;

		begin_pair(LEND_LEVEL_NONE);
		p.path.checked = checked;
		g = *seal_number(5);
		cr_assert_eq(g.len, sizeof(struct lend_pkt) + TEXT + (checked ? 0 : 16));
		cr_assert(is_opened(&g));
		cr_assert(is_opened(&g), "a number that is used again is for the core");
		g.bytes[60] ^= 1;
		if (!checked) {
			cr_assert_not(is_opened(&g));
			g.len = 15;
			cr_assert_not(is_opened(&g));
			cr_assert_eq(receiver_stats()->rx_corrupt, 2);
		}
		finish_pair();
	}
}

Test(record, sealed__any_changed_bit__dropped_and_counted)
{
	for (uint8_t level = LEND_LEVEL_AUTHENTICATE; level < LEND_LEVELS; level++) {
		uint64_t dropped = 0;
		struct dgram g;

		begin_pair(level);
		g = *seal_number(1);
		cr_assert_eq(memcmp(g.bytes + 32, p.seg[1].data, TEXT / 2) != 0,
			     level == LEND_LEVEL_ENCRYPT);
		for (uint32_t bit = 0; bit < 8 * g.len; bit++) {
			g.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			cr_assert_not(is_opened(&g), "bit %u", bit);
			g.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		for (uint32_t len = g.len; len-- > 0;) {
			struct dgram cut = g;

			cut.len = len;
			cr_assert_not(is_opened(&cut), "%u bytes", len);
		}
		dropped = receiver_stats()->rx_forged + receiver_stats()->rx_epoch +
			  receiver_stats()->rx_clear + receiver_stats()->rx_corrupt +
			  p.end[1].strays;
		cr_assert_eq(dropped, 9 * g.len, "%lu", dropped);
		cr_assert(is_opened(&g), "what is forged uses up no number");
		cr_assert_not(is_opened(&g));
		cr_assert_eq(receiver_stats()->rx_replayed, 1);
		finish_pair();
	}
}

/* The text is in the head and a piece; or all in one piece, or all behind the head, or in all of
 * head, pieces and tail. */
enum shape { HALVES, PIECE, HEAD_ONLY, ALL, SHAPES };

static void reshape_out(enum shape shape, uint32_t len)
{
	static uint8_t whole[16 << 10];
	const uint8_t *text = p.seg[1].data;
	uint32_t first = shape == ALL ? 8 : 0, last = shape == ALL ? 20 : 0;
	uint32_t rest = len - first - last;

	if (shape == HALVES)
		return;
	memcpy(whole, p.out.head, sizeof(struct lend_pkt));
	memcpy(whole + sizeof(struct lend_pkt), text, len);
	p.out.head = whole;
	p.out.n = shape == HEAD_ONLY ? 0 : shape == PIECE ? 1 : 2;
	if (shape == HEAD_ONLY)
		first = len;
	p.out.head_len = (uint16_t)(sizeof(struct lend_pkt) + first);
	p.out.piece[0] = (struct lend_piece){1, first, p.out.n == 1 ? rest : rest / 3};
	p.out.piece[1] = (struct lend_piece){1, first + rest / 3, rest - rest / 3};
	p.out.tail = text + len - last;
	p.out.tail_len = (uint8_t)last;
}

/* Lengths around the one from which on pieces are not copied, and the longest. */
Test(record, sealed__text_in_any_shape__arrives)
{
	for (uint8_t level = LEND_LEVEL_AUTHENTICATE; level < LEND_LEVELS; level++) {
		begin_pair(level);
		for (uint32_t len = TEXT; len < 15000; len += 61) {
			struct dgram g;

			make_datagram(LEND_PKT_REQUEST, ++p.number, len);
			reshape_out((enum shape)(len % SHAPES), len);
			cr_assert_eq(seal_made(), 1);
			cr_assert_eq(p.out.n + p.out.tail_len, 0);
			gather_out(&g);
			cr_assert(is_opened(&g), "%u bytes", len);
		}
		finish_pair();
	}
}

Test(record, number__sealed_twice__ends_the_program, .signal = SIGABRT)
{
	begin_pair(LEND_LEVEL_ENCRYPT);
	(void)seal_number(7);
	(void)seal_number(6);
	(void)seal_number(7);
}

Test(record, bare_kinds__pass_in_clear__others_of_the_session_do_not)
{
	begin_pair(LEND_LEVEL_ENCRYPT);
	for (uint8_t kind = 1; kind < LEND_PKT_KINDS; kind++) {
		struct lend_pkt_trailer *t;
		struct dgram g;
		bool bare = lend_record_is_bare(kind);
		struct lend_in in = {.data = g.bytes};

		make_datagram(kind, kind, TEXT);
		cr_assert_eq(seal_made(), 1);
		gather_out(&g);
		cr_assert_eq(!(g.bytes[3] & LEND_PKT_ENCRYPTED), bare, "kind %u", kind);
		/* The same in clear, with a right CRC32C. */
		lend_records_remove(&p.end[0].records, p.end[0].id);
		make_datagram(kind, kind, TEXT);
		cr_assert_eq(seal_made(), 1);
		gather_out(&g);
		in.len = g.len;
		cr_assert_eq(lend_records_open(&p.end[1].records, &p.path, p.now, &in, 1), bare,
			     "kind %u", kind);
		/* And marked as sealed. */
		g.bytes[3] |= LEND_PKT_ENCRYPTED;
		t = (void *)(g.bytes + g.len - sizeof(*t));
		t->crc ^= 1;
		in.len = g.len;
		cr_assert_eq(lend_records_open(&p.end[1].records, &p.path, p.now, &in, 1), 0);
		install_keys(0, LEND_LEVEL_ENCRYPT);
	}
	cr_assert_eq(receiver_stats()->rx_clear, 10);
	finish_pair();
}

Test(record, least_level__without_keys__nothing_passes)
{
	struct dgram g;

	begin_pair(LEND_LEVEL_NONE);
	g = *seal_number(1);
	p.path.least = LEND_LEVEL_ENCRYPT;
	cr_assert_not(is_opened(&g));
	cr_assert_eq(receiver_stats()->rx_clear, 1);
	make_datagram(LEND_PKT_REQUEST, 2, TEXT);
	cr_assert_eq(seal_made(), 0);
	cr_assert_eq(p.out.sent, LEND_SENT_DEAD);
	cr_assert_eq(p.end[0].records.stats.tx_clear, 1);
	make_datagram(LEND_PKT_CONNECT, 3, TEXT);
	cr_assert_eq(seal_made(), 1);
	finish_pair();
}

Test(record, keys_that_are_gone__stray)
{
	struct dgram g;

	begin_pair(LEND_LEVEL_ENCRYPT);
	g = *seal_number(1);
	lend_records_remove(&p.end[1].records, p.end[1].id ^ UINT64_C(1) << 40);
	cr_assert_eq(p.end[1].records.keyed, 1, "another session");
	lend_records_remove(&p.end[1].records, p.end[1].id);
	cr_assert_not(is_opened(&g));
	cr_assert_eq(p.end[1].strays, 1);
	for (uint32_t at = 0; at < 2; at++) { /* magic, version */
		g.bytes[at] ^= 1;
		cr_assert_not(is_opened(&g));
		g.bytes[at] ^= 1;
	}
	cr_assert_eq(p.end[1].strays, 1, "another protocol is answered");
	finish_pair();
}

Test(record, another_session_in_the_place__not_sealed_with_its_keys)
{
	begin_pair(LEND_LEVEL_ENCRYPT);
	make_datagram(LEND_PKT_REQUEST, 1, TEXT);
	((uint8_t *)(uintptr_t)p.out.head)[15] ^= 1; /* the peer's id of it */
	cr_assert_eq(seal_made(), 1);
	cr_assert_not(((const uint8_t *)p.out.head)[3] & LEND_PKT_ENCRYPTED);
	finish_pair();
}

static uint8_t epoch_of(const struct dgram *g)
{
	return g->bytes[23];
}

Test(record, epoch__due__waits_for_an_acknowledgement)
{
	begin_short_epochs(3);
	for (uint64_t number = 1; number <= 300 * 4; number++) {
		struct dgram *g = seal_number(number);

		cr_assert_eq(epoch_of(g), (uint8_t)((number - 1) / 4), "number %lu", number);
		cr_assert(is_opened(g), "number %lu", number);
		if (number % 4 == 0) /* a fourth one, because only then it is acknowledged */
			p.end[0].acked = number;
	}
	cr_assert_eq(p.end[1].records.stats.epochs, 299);
	finish_pair();
}

Test(record, epoch__of_datagrams_that_overtook__not_taken_for_acknowledged)
{
	begin_short_epochs(2);
	(void)seal_number(10); /* epoch 0: sealed before lower numbers */
	(void)seal_number(2);
	p.end[0].acked = 2;
	cr_assert_eq(epoch_of(seal_number(3)), 1);
	(void)seal_number(4);
	p.end[0].acked = 10; /* of epoch 0: says nothing about epoch 1 */
	cr_assert_eq(epoch_of(seal_number(5)), 1);
	(void)seal_number(11);
	p.end[0].acked = 11;
	cr_assert_eq(epoch_of(seal_number(12)), 2);
	finish_pair();
}

Test(record, epoch__by_time)
{
	begin_pair(LEND_LEVEL_ENCRYPT);
	cr_assert(is_opened(seal_number(1)));
	p.end[0].acked = 1;
	p.now += UINT64_C(3600) * 1000 * MS - 1;
	cr_assert_eq(epoch_of(seal_number(2)), 0);
	p.now += 1;
	cr_assert_eq(epoch_of(seal_number(3)), 1);
	finish_pair();
}

Test(record, epoch__before__accepted_for_a_while__others_never)
{
	struct dgram old[4], g;

	begin_short_epochs(4);
	for (int i = 0; i < 4; i++)
		old[i] = *seal_number((uint64_t)i + 1);
	p.end[0].acked = 4;
	cr_assert(is_opened(&old[0]));
	g = *seal_number(5);
	cr_assert_eq(epoch_of(&g), 1);
	cr_assert(is_opened(&g));
	cr_assert(is_opened(&old[1]));
	p.now += 300 * MS - 1;
	cr_assert(is_opened(&old[2]));
	p.now += 1;
	cr_assert_not(is_opened(&old[3]));
	cr_assert_eq(receiver_stats()->rx_epoch, 1);
	for (int i = 2; i < 255; i++) {
		g.bytes[23] = (uint8_t)(1 + i);
		cr_assert_not(is_opened(&g), "%d ahead", i);
	}
	cr_assert_eq(receiver_stats()->rx_epoch, 254);
	finish_pair();
}

/* The sender has gone on to epoch 1 when the receiver restarts: nothing of the old session is
 * opened by the new one's keys, in the same place, in any epoch; the new one's is, from epoch 0 on.
 */
Test(record, epoch__receiver_restarts_in_its_change__old_ones_are_strays)
{
	struct dgram old[2], g;

	begin_short_epochs(2);
	cr_assert(is_opened(seal_number(1)));
	old[0] = *seal_number(2);
	p.end[0].acked = 2;
	old[1] = *seal_number(3);
	cr_assert_eq(epoch_of(&old[1]), 1);
	lend_records_remove(&p.end[1].records, p.end[1].id);
	cr_assert_not(is_opened(&old[1]));
	for (int i = 0; i < 2; i++) {
		lend_records_remove(&p.end[i].records, p.end[i].id);
		p.end[i].id += UINT64_C(1) << 40;
	}
	install_keys(0, LEND_LEVEL_ENCRYPT);
	install_keys(1, LEND_LEVEL_ENCRYPT);
	cr_assert_not(is_opened(&old[0]));
	cr_assert_not(is_opened(&old[1]));
	cr_assert_eq(p.end[1].strays, 3);
	p.end[0].acked = 0;
	g = *seal_number(1);
	cr_assert_eq(epoch_of(&g), 0);
	cr_assert(is_opened(&g));
	finish_pair();
}

/* A datagram that comes back to its sender, even as if for the sender's own session. */
Test(record, reflected__not_opened)
{
	struct lend_in in;
	struct dgram g;

	begin_pair(LEND_LEVEL_ENCRYPT);
	g = *seal_number(1);
	in = (struct lend_in){.data = g.bytes, .len = g.len};
	cr_assert_eq(lend_records_open(&p.end[0].records, &p.path, p.now, &in, 1), 0);
	cr_assert_eq(p.end[0].strays, 1);
	memcpy(g.bytes + offsetof(struct lend_pkt, session), &p.end[0].id, sizeof(p.end[0].id));
	cr_assert_eq(lend_records_open(&p.end[0].records, &p.path, p.now, &in, 1), 0);
	cr_assert_eq(p.end[0].records.stats.rx_forged, 1);
	finish_pair();
}

/* A burst of the first datagram of an epoch, then one of the epoch before the present one. */
Test(record, epoch__followed_in_a_burst__an_old_one_is_no_first)
{
	struct dgram old, next;
	struct lend_in in[2];

	begin_short_epochs(2);
	cr_assert(is_opened(seal_number(1)));
	old = *seal_number(2);
	p.end[0].acked = 1;
	cr_assert(is_opened(seal_number(3)));
	(void)seal_number(4);
	p.end[0].acked = 3;
	next = *seal_number(5);
	cr_assert(epoch_of(&old) == 0 && epoch_of(&next) == 2);
	in[0] = (struct lend_in){.data = next.bytes, .len = next.len};
	in[1] = (struct lend_in){.data = old.bytes, .len = old.len};
	(void)lend_records_open(&p.end[1].records, &p.path, p.now, in, 2);
	cr_expect_eq(receiver_stats()->epochs, 2);
	cr_expect(is_opened(seal_number(6)), "the epoch goes on");
	finish_pair();
}

/* Behind later numbers a datagram may be too old, and there it would never come again. */
Test(record, lossless_path__sealed_datagrams_keep_their_order)
{
	for (int sealed = 0; sealed < 2; sealed++)
		for (int lossless = 0; lossless < 2; lossless++) {
			begin_pair(sealed ? LEND_LEVEL_ENCRYPT : LEND_LEVEL_NONE);
			p.path.lossless = lossless;
			make_datagram(LEND_PKT_REQUEST, 1, TEXT);
			p.out.fast = 1;
			cr_assert_eq(seal_made(), 1);
			cr_expect_eq(p.out.fast, !(sealed && lossless));
			finish_pair();
		}
}

#ifdef __SANITIZE_ADDRESS__
enum { FORGERIES = 50000 };
#else
enum { FORGERIES = 1000000 };
#endif

/* One to four bytes behind the head, or of the tag, are others. */
static void forge_datagram(struct lend_rng *r, const struct dgram *g, uint8_t *bytes, bool tag)
{
	uint32_t from = tag ? g->len - LEND_TAG : sizeof(struct lend_pkt);

	memcpy(bytes, g->bytes, g->len);
	for (uint64_t n = 1 + lend_rng_below(r, 4); n > 0; n--)
		bytes[from + lend_rng_below(r, g->len - from)] = (uint8_t)lend_rng_next(r);
	if (memcmp(bytes, g->bytes, g->len) == 0)
		bytes[from] ^= 1;
}

static void open_forgeries(uint64_t n)
{
	const uint64_t seed = 25;
	static struct dgram g;
	uint8_t bytes[512];
	struct lend_rng r;

	begin_pair(LEND_LEVEL_ENCRYPT);
	g = *seal_number(1);
	cr_assert_leq(g.len, sizeof(bytes));
	lend_rng_seed(&r, seed);
	for (uint64_t i = 0; i < n; i++) {
		struct lend_in in = {.data = bytes, .len = g.len};

		forge_datagram(&r, &g, bytes, i % 2);
		cr_assert_eq(lend_records_open(&p.end[1].records, &p.path, p.now, &in, 1), 0,
			     "suite %u, seed %lu, forgery %lu", suite, seed, i);
	}
	cr_expect_eq(receiver_stats()->rx_forged, n);
	cr_expect(is_opened(&g), "the genuine one");
	finish_pair();
	printf("suite %u: %lu forged datagrams, none opened\n", suite, n);
}

/* By each suite, $LEND_FORGERIES times. */
Test(record, a_million_forgeries__none_opened)
{
	const char *many = getenv("LEND_FORGERIES");
	uint64_t n = many ? strtoull(many, NULL, 0) : FORGERIES;

	open_forgeries(n);
	if (lend_keys_seal(&ops) < 0)
		return; /* not in this build */
	for (suite = 1; suite < LEND_SUITES; suite++)
		if (ops->suite[suite])
			open_forgeries(n);
}

Test(record, failures__too_many__spent_once)
{
	struct dgram g;

	begin_pair(LEND_LEVEL_ENCRYPT);
	p.end[1].records.limits.failures_max = 10;
	g = *seal_number(1);
	g.bytes[g.len - 1] ^= 1;
	for (uint32_t i = 1; i < 20; i++) {
		cr_assert_not(is_opened(&g));
		cr_assert_eq(p.end[1].spent, i >= 10, "%u", i);
	}
	finish_pair();
}

/* Bursts with datagrams of several kinds: those that fail are left out, the others keep their
 * order. */
Test(record, burst__of_good_and_bad__order_kept)
{
	enum { N = 32 };
	static struct dgram g[N];

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct lend_in in[N];
		uint64_t want[N];
		struct lend_rng r;
		uint32_t n = 0, left;

		lend_rng_seed(&r, seed);
		begin_pair(LEND_LEVEL_ENCRYPT);
		for (uint32_t i = 0; i < N; i++) {
			bool bad = lend_rng_below(&r, 3) == 0;

			g[i] = *seal_number(i + 1);
			in[i] = (struct lend_in){.data = g[i].bytes, .len = g[i].len};
			if (bad)
				g[i].bytes[lend_rng_below(&r, g[i].len)] ^= 0x10;
			else
				want[n++] = i + 1;
		}
		left = lend_records_open(&p.end[1].records, &p.path, p.now, in, N);
		cr_assert_eq(left, n, "seed %lu", seed);
		for (uint32_t i = 0; i < n; i++)
			cr_assert_eq(lend_load_u64((const uint8_t *)in[i].data +
						   offsetof(struct lend_pkt, number)),
				     want[i]);
		finish_pair();
	}
}

Test(record, room__used_up__the_rest_comes_later)
{
	enum { N = 32 };
	const struct lend_bufs bufs = {p.seg, 2};
	struct lend_records_memory room = {p.room, p.room + 1000};
	static uint8_t head[N][64];
	struct lend_out out[N];
	uint32_t done = 0;

	begin_pair(LEND_LEVEL_ENCRYPT);
	make_datagram(LEND_PKT_REQUEST, 1, 0);
	for (uint32_t i = 0; i < N; i++) {
		uint64_t number = i + 1;

		out[i] = p.out;
		memcpy(head[i], p.out.head, sizeof(struct lend_pkt));
		memcpy(head[i] + offsetof(struct lend_pkt, number), &number, sizeof(number));
		out[i].head = head[i];
		out[i].head_len = sizeof(head[i]);
	}
	while (done < N) {
		uint32_t n = lend_records_seal(&p.end[0].records, &p.path, p.now, &bufs, room,
					       out + done, N - done);

		cr_assert(n > 0 && n < 10, "%u", n);
		done += n;
	}
	cr_assert_eq(p.end[0].records.stats.sealed, N);
	finish_pair();
}

/* A peer that has a key chooses suite and level of its CONNECT. */
Test(record, install__suite_or_level_not_here__refused)
{
	static const uint8_t wrong[][2] = {{LEND_SUITE_AES128_GCM, LEND_LEVEL_ENCRYPT},
					   {LEND_SUITES, LEND_LEVEL_ENCRYPT},
					   {UINT8_MAX, LEND_LEVEL_ENCRYPT},
					   {LEND_SUITE_TEST, LEND_LEVEL_NONE},
					   {LEND_SUITE_TEST, LEND_LEVELS},
					   {LEND_SUITE_TEST, UINT8_MAX}};

	begin_pair(LEND_LEVEL_NONE);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const struct lend_seal_keys keys = {
		    .session = 1, .suite = wrong[i][0], .level = wrong[i][1]};

		cr_expect_eq(lend_records_install(&p.end[0].records, p.now, &keys), -22, "%zu", i);
	}
	cr_assert_eq(lend_suites(&lend_toy_ops), 1 << LEND_SUITE_TEST);
	cr_assert_eq(lend_suite_best(&lend_toy_ops), LEND_SUITE_TEST);
	finish_pair();
}

/* A capture of both ends: each datagram twice, of many epochs, and not in order. */
Test(record, reopen__with_the_first_secret__any_epoch)
{
	enum { N = 400, EACH = 4 };
	static struct dgram all[N + 1], copy;
	static struct lend_reopen o;
	uint8_t secret[LEND_KEY];
	uint64_t epoch;

	begin_short_epochs(EACH - 1);
	for (uint64_t number = 1; number <= N; number++) {
		all[number] = *seal_number(number);
		p.end[0].acked = number % EACH ? p.end[0].acked : number;
	}
	memset(secret, 1, sizeof(secret));
	cr_expect_not(lend_reopen_begin(&o, &lend_toy_ops, LEND_SUITE_AES128_GCM, 2, secret));
	cr_expect_not(lend_reopen_begin(&o, &lend_toy_ops, LEND_SUITE_TEST, 0, secret));
	cr_assert(
	    lend_reopen_begin(&o, &lend_toy_ops, LEND_SUITE_TEST, LEND_LEVEL_ENCRYPT, secret));
	for (uint32_t i = 0; i < 2 * N; i++) {
		uint32_t number = i / 2 ^ 5; /* the next epoch before this one, now and then */

		if (number < 1 || number > N)
			continue;
		copy = all[number];
		copy.bytes[40] ^= 1;
		cr_assert_not(lend_reopen(&o, copy.bytes, copy.len, &epoch));
		copy.bytes[40] ^= 1;
		cr_assert_arr_eq(copy.bytes, all[number].bytes, copy.len, "a failure changed it");
		cr_assert(lend_reopen(&o, copy.bytes, copy.len, &epoch), "number %u", number);
		cr_assert_eq(epoch, (number - 1) / EACH);
		make_datagram(LEND_PKT_REQUEST, number, TEXT);
		cr_assert_arr_eq(copy.bytes, p.out.head, p.out.head_len);
		cr_assert(lend_pkt_whole(copy.bytes, copy.len - LEND_RECORD_TRAILER));
	}
	finish_pair();
}

/* Goal: whatever arrives, a receiver opens nothing but what its peer sealed, each datagram once,
 * and reads nothing past its end. Method: a sender whose keys change every few datagrams; the input
 * chooses which of them are delivered, changed, cut, repeated or late, and puts bytes of its own in
 * between. Covers: src/seal/record_open.c, src/seal/record_keys.c, src/seal/replay_window.c */
#include <stdlib.h>
#include <string.h>

#include "fuzz/choice.h"
#include "fuzz/finding.h"
#include "kit/toy_suite.h"
#include "seal/record.h"

const char fuzz_name[] = "record";

enum { SENT = 64, LONGEST = 96, INDEX = 1, HEAD = sizeof(struct lend_pkt), STEPS = 400 };

struct sent {
	uint8_t bytes[HEAD + LONGEST + LEND_RECORD_TRAILER];
	uint32_t len;
	bool taken;
};

static struct ends {
	struct lend_records from, to;
	struct lend_record_keys *of_from[2], *of_to[2];
	struct sent sent[SENT];
	uint64_t number, acked;
	lend_ns now;
} e;

static void *take_memory(void *arg, size_t len)
{
	(void)arg;
	return memset(aligned_alloc(64, len), 0, len);
}

static void give_memory(void *arg, void *memory, size_t len)
{
	(void)arg;
	(void)len;
	free(memory);
}

static uint64_t acked_of(void *arg, uint64_t session)
{
	(void)arg;
	(void)session;
	return e.acked;
}

static void open_ends(uint8_t level)
{
	const struct lend_records_calls calls = {
	    .take = take_memory, .give = give_memory, .acked = acked_of};
	struct lend_seal_keys keys = {
	    .session = INDEX, .peer_id = INDEX, .suite = LEND_SUITE_TEST, .level = level};

	memset(&e, 0, sizeof(e));
	e.now = 1;
	lend_records_begin(&e.from, &lend_toy_ops, &calls, e.of_from, 2);
	lend_records_begin(&e.to, &lend_toy_ops, &calls, e.of_to, 2);
	e.from.limits.epoch_datagrams = 5;
	memset(keys.tx, 1, sizeof(keys.tx));
	FUZZ_CHECK(lend_records_install(&e.from, e.now, &keys) == 0, "no keys");
	memset(keys.tx, 0, sizeof(keys.tx));
	memset(keys.rx, 1, sizeof(keys.rx));
	FUZZ_CHECK(lend_records_install(&e.to, e.now, &keys) == 0, "no keys");
}

/* Seals the next datagram. Its text is made of its number. */
static void seal_next(struct choice *c)
{
	static _Alignas(64) uint8_t room[1024];
	const struct lend_records_path path = {.checked = true};
	const struct lend_records_memory memory = {room, room + sizeof(room)};
	struct sent *s = &e.sent[++e.number % SENT];
	uint32_t len = choice_of(c, LONGEST + 1);
	uint8_t bytes[HEAD + LONGEST];
	struct lend_pkt head = {.magic = LEND_PKT_MAGIC,
				.version = LEND_PKT_VERSION,
				.kind = LEND_PKT_CALLS,
				.session = INDEX,
				.number = e.number,
				.length = len};
	struct lend_out out = {.head = bytes, .head_len = (uint16_t)(HEAD + len), .sess = INDEX};

	memcpy(bytes, &head, sizeof(head));
	memset(bytes + HEAD, (int)(e.number & 0xff), len);
	FUZZ_CHECK(lend_records_seal(&e.from, &path, e.now, NULL, memory, &out, 1) == 1,
		   "not sealed");
	s->len = out.head_len;
	s->taken = false;
	memcpy(s->bytes, out.head, s->len);
}

/* Checks a datagram that was opened. */
static void check_opened(const uint8_t *at, uint32_t len)
{
	struct lend_pkt head;
	struct sent *s;

	FUZZ_CHECK(len >= HEAD, "a head that is cut");
	memcpy(&head, at, sizeof(head));
	s = &e.sent[head.number % SENT];
	FUZZ_CHECK(head.number && head.number <= e.number && head.number + SENT > e.number,
		   "a number that was not sealed lately");
	FUZZ_CHECK(!s->taken, "opened twice");
	FUZZ_CHECK(len + LEND_RECORD_TRAILER == s->len && head.length == len - HEAD &&
		       head.kind == LEND_PKT_CALLS && head.session == INDEX && !head.flags,
		   "another head");
	for (uint32_t i = HEAD; i < len; i++)
		FUZZ_CHECK(at[i] == (uint8_t)head.number, "another text");
	s->taken = true;
	e.acked = head.number > e.acked ? head.number : e.acked;
}

/* Delivers bytes that end where their memory does. Returns whether they were opened. */
static bool deliver_copy(const uint8_t *bytes, uint32_t len, bool forged)
{
	const struct lend_records_path path = {.checked = true, .least = LEND_LEVEL_AUTHENTICATE};
	uint8_t *exact = malloc(len ? len : 1);
	struct lend_in in = {.data = exact, .len = len};
	uint64_t opened = e.to.stats.opened;

	if (len)
		memcpy(exact, bytes, len);
	(void)lend_records_open(&e.to, &path, e.now, &in, 1);
	if (e.to.stats.opened != opened) {
		FUZZ_CHECK(!forged, "a changed datagram was opened");
		check_opened(exact, in.len);
	}
	fuzz_hostile += forged;
	free(exact);
	return e.to.stats.opened != opened;
}

static void change_one(struct choice *c)
{
	struct sent s = e.sent[choice_of(c, SENT)];
	uint8_t by = choice_u8(c);

	if (!s.len)
		return;
	if (by == 0)
		s.len = choice_of(c, s.len);
	else
		s.bytes[choice_of(c, s.len)] ^= by;
	(void)deliver_copy(s.bytes, s.len, true);
}

static void invent_one(struct choice *c)
{
	uint8_t bytes[128];
	uint32_t len = choice_of(c, sizeof(bytes) + 1);

	for (uint32_t i = 0; i < len; i++)
		bytes[i] = choice_u8(c);
	if (len > 16 && choice_u8(c) & 1)
		memcpy(bytes + 8, &(uint64_t){INDEX}, 8);
	(void)deliver_copy(bytes, len, true);
}

static void take_step(struct choice *c)
{
	const struct sent *s;

	switch (choice_of(c, 8)) {
	case 0:
		change_one(c);
		return;
	case 1:
		invent_one(c);
		return;
	case 2:
		s = &e.sent[choice_of(c, SENT)];
		(void)deliver_copy(s->bytes, s->len, false);
		return;
	case 3:
		e.now += (lend_ns)choice_u8(c) * 10000000;
		return;
	default:
		seal_next(c);
		if (choice_of(c, 4))
			FUZZ_CHECK(deliver_copy(e.sent[e.number % SENT].bytes,
						e.sent[e.number % SENT].len, false),
				   "the newest datagram is not opened");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct choice c = {.at = data, .end = data + len};

	fuzz_begin();
	open_ends(choice_u8(&c) & 1 ? LEND_LEVEL_ENCRYPT : LEND_LEVEL_AUTHENTICATE);
	for (int i = 0; i < STEPS && choice_left(&c); i++)
		take_step(&c);
	lend_records_end(&e.from);
	lend_records_end(&e.to);
	return 0;
}

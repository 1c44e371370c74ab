/* Goal: whatever the other end of a stream sends or answers, messages are taken in order and once,
 * memory and calls stay bounded, and the stream can be ended. Method: the bytes are steps of one
 * end: notes with any numbers, results with any credit, writes, reads, and ends. Covers:
 * src/stream/duplex.c */
#include "fuzz/choice.h"
#include "fuzz/finding.h"
#include "stream/duplex.h"
#include "util/bits.h"

const char fuzz_name[] = "stream";

enum { LEN_MAX = 1 << 20 };

struct state {
	struct lend_duplex d;
	uint64_t kept, kept_bytes,
	    longest; /* messages that were not taken; bytes; longest so far */
	uint64_t read, sent;
	lend_ns now;
};

static struct lend_note draw_note(struct choice *c, const struct state *s)
{
	struct lend_note note = {.stream = choice_edge(c),
				 .at = choice_rare(c, 3) ? choice_edge(c)
							 : s->read + choice_of(c, 20),
				 .kind = choice_u8(c) % (LEND_NOTE_KINDS + 1),
				 .to_opener = choice_u8(c) % 3};

	note.zero[choice_of(c, sizeof(note.zero))] = choice_rare(c, 16);
	return note;
}

static void receive_note(struct choice *c, struct state *s)
{
	struct lend_note note = draw_note(c, s);
	uint32_t len = (uint32_t)lend_min_u64(choice_edge(c), LEN_MAX), entry = UINT32_MAX;

	fuzz_hostile++;
	if (!lend_note_valid(&note))
		return;
	if (lend_duplex_arrived(&s->d, &note, len, &entry) != LEND_ARRIVAL_KEEP)
		return;
	FUZZ_CHECK(note.kind == LEND_NOTE_MESSAGE && entry < LEND_STREAM_WINDOW, "nothing to keep");
	FUZZ_CHECK(note.at >= s->read && note.at < s->read + LEND_STREAM_WINDOW, "out of window");
	s->d.in[entry].tag = note.at;
	s->kept++;
	s->kept_bytes += len;
	s->longest = lend_max_u64(s->longest, len);
	FUZZ_CHECK(s->kept <= LEND_STREAM_WINDOW, "too many messages");
	FUZZ_CHECK(s->kept_bytes < LEND_STREAM_BYTES + s->longest, "too many bytes");
}

static void take_message(struct state *s)
{
	uint32_t len = s->d.in[s->read % LEND_STREAM_WINDOW].len;
	uint64_t tag = 0;
	enum lend_taking got = lend_duplex_take(&s->d, &tag);

	FUZZ_CHECK(got != LEND_TAKING_END || s->read == s->d.end, "an early end");
	if (got != LEND_TAKING_MESSAGE)
		return;
	FUZZ_CHECK(tag == s->read, "out of order, or twice");
	s->read++;
	s->kept--;
	s->kept_bytes -= len;
}

static void make_calls(struct state *s)
{
	struct lend_note note;

	while (lend_duplex_next(&s->d, s->now, &note) < LEND_STREAM_CALLS) {
		FUZZ_CHECK(lend_note_valid(&note), "an invalid note");
		FUZZ_CHECK(note.kind != LEND_NOTE_MESSAGE || note.at < s->sent, "not written");
	}
	FUZZ_CHECK(lend_duplex_wake(&s->d) > s->now, "a call is due");
}

static void end_call(struct choice *c, struct state *s)
{
	uint32_t call = choice_of(c, LEND_STREAM_CALLS);

	if (s->d.flying >> call & 1)
		lend_duplex_call_ended(&s->d, s->now, call, (enum lend_call_result)choice_of(c, 3),
				       choice_rare(c, 4) ? choice_edge(c)
							 : choice_u8(c) % (s->sent + 1));
}

static void write_message(struct choice *c, struct state *s)
{
	uint32_t busy = s->d.ready | s->d.flying | s->d.waiting, call = UINT32_MAX;
	uint64_t bytes = s->d.out_bytes;

	if (lend_duplex_put(&s->d, (uint32_t)lend_min_u64(choice_edge(c), LEN_MAX), &call) !=
	    LEND_PUT_TAKEN)
		return;
	FUZZ_CHECK(call < LEND_STREAM_WINDOW && !(busy >> call & 1), "a call in use");
	FUZZ_CHECK(bytes < LEND_STREAM_BYTES, "beyond the credit in bytes");
	s->sent++;
	FUZZ_CHECK(s->sent - s->d.taken <= LEND_STREAM_WINDOW, "beyond the credit");
}

static void drop_all(struct state *s)
{
	uint64_t tag;

	while (lend_duplex_drop(&s->d, &tag))
		s->kept--;
	FUZZ_CHECK(s->kept == 0, "a message is left");
}

static void take_step(struct choice *c, struct state *s)
{
	switch (choice_u8(c) % 16) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		receive_note(c, s);
		return;
	case 5:
	case 6:
		take_message(s);
		return;
	case 7:
	case 8:
		write_message(c, s);
		return;
	case 9:
	case 10:
		make_calls(s);
		return;
	case 11:
	case 12:
		end_call(c, s);
		return;
	case 13:
		s->now += choice_edge(c) % 1000000000;
		(void)lend_duplex_unblock(&s->d);
		return;
	case 14:
		lend_duplex_finish(&s->d, choice_u8(c) & 1);
		return;
	case 15:
		if (choice_rare(c, 8))
			lend_duplex_end(&s->d);
		return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct choice c = {.at = data, .end = data + len};
	struct state s = {.now = 1};

	fuzz_begin();
	lend_duplex_init(&s.d);
	while (choice_left(&c))
		take_step(&c, &s);
	drop_all(&s);
	lend_duplex_close(&s.d);
	make_calls(&s);
	for (uint32_t call = 0; call < LEND_STREAM_CALLS; call++)
		if (s.d.flying >> call & 1)
			lend_duplex_call_ended(&s.d, s.now, call, LEND_CALL_AGAIN, 0);
	FUZZ_CHECK(!lend_duplex_is_busy(&s.d) && lend_duplex_wake(&s.d) == LEND_NEVER,
		   "a call is left");
	return 0;
}

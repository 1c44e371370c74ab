/* Goal: a receive queue of the raw carrier reads the completions of an mlx5 device correctly, and
 * no completion makes it access memory out of bounds.
 * Method: rings in plain memory between inaccessible pages; a table of completions, then random
 * ones; then a queue that wraps many times, against a naive device.
 * Covers: src/io/raw/rx.c */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "io/raw/rx.h"
#include "sys/clock.h"
#include "util/rng.h"

enum { BUFFERS = 4, STRIDE_LOG = 6, STRIDES_LOG = 3, STRIDES = 8, CQES = 32, PAGE = 4096 };
enum { BUFFER_LEN = STRIDES << STRIDE_LOG };

struct bench {
	struct raw_rx rx;
	uint32_t at[2];
	uint8_t *cq, *wq, *memory;
};

/* Returns len bytes that end at an inaccessible page. */
static uint8_t *fence_bytes(size_t len)
{
	size_t whole = (len + PAGE - 1) & ~(size_t)(PAGE - 1);
	uint8_t *base = mmap(NULL, whole + 2 * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert(base != MAP_FAILED);
	cr_assert(mprotect(base, PAGE, PROT_NONE) == 0);
	cr_assert(mprotect(base + PAGE + whole, PAGE, PROT_NONE) == 0);
	return base + PAGE + whole - len;
}

static void set_up(struct bench *b, uint32_t cqe_len)
{
	*b = (struct bench){.cq = fence_bytes((size_t)CQES * cqe_len),
			    .wq = fence_bytes((size_t)BUFFERS * RAW_WQE_LEN),
			    .memory = fence_bytes((size_t)BUFFERS * BUFFER_LEN)};
	memset(b->cq, 0xf0, (size_t)CQES * cqe_len);
	b->rx = (struct raw_rx){.q = {.cq = b->cq,
				      .cq_at = &b->at[0],
				      .cqe_n = CQES,
				      .cqe_len = cqe_len,
				      .wq = b->wq,
				      .wq_at = &b->at[1],
				      .wqe_n = BUFFERS,
				      .wqe_len = RAW_WQE_LEN,
				      .key = 0x01020304},
				.memory = b->memory,
				.stride_log = STRIDE_LOG,
				.strides_log = STRIDES_LOG};
	raw_rx_start(&b->rx);
}

static uint32_t load_be32(const void *at)
{
	const uint8_t *p = at;

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_completion(struct bench *b, uint32_t index, uint32_t buffer, uint32_t bytes,
			   uint32_t first, uint32_t op)
{
	uint8_t *cqe = b->cq + (size_t)(index % CQES + 1) * b->rx.q.cqe_len - RAW_CQE_LEN;

	cqe[RAW_CQE_BUFFER] = (uint8_t)(buffer >> 8);
	cqe[RAW_CQE_BUFFER + 1] = (uint8_t)buffer;
	cqe[RAW_CQE_CHECKS] = RAW_CQE_L3_OK;
	for (int i = 0; i < 4; i++)
		cqe[RAW_CQE_BYTES + i] = (uint8_t)(bytes >> (24 - 8 * i));
	cqe[RAW_CQE_STRIDE] = (uint8_t)(first >> 8);
	cqe[RAW_CQE_STRIDE + 1] = (uint8_t)first;
	cqe[RAW_CQE_OP_OWNER] = (uint8_t)(op | (index / CQES & 1));
}

enum { GOOD = RAW_OP_RECEIVED << 4 };

Test(raw_rx, buffers_are_described_and_given)
{
	struct bench b;

	set_up(&b, 64);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		const uint8_t *seg = b.wq + i * RAW_WQE_LEN + RAW_WQE_SEG;
		uint64_t address = (uint64_t)load_be32(seg + 8) << 32 | load_be32(seg + 12);

		cr_assert_eq(load_be32(seg), BUFFER_LEN);
		cr_assert_eq(load_be32(seg + 4), 0x01020304);
		cr_assert_eq(address, (uintptr_t)b.memory + i * BUFFER_LEN);
	}
	cr_assert_eq(load_be32(&b.at[1]), BUFFERS);
	cr_assert_eq(load_be32(&b.at[0]), 0);
}

#define LEN(len, strides) ((uint32_t)(strides) << 16 | (len))
#define FILLER            0x80000000u

/* One completion for a new queue with an unused first buffer. */
static const struct {
	const char *name;
	uint32_t buffer, bytes, first, op;
	enum raw_got want;
	uint32_t len;
} table[] = {
    {"one stride", 0, LEN(60, 1), 0, GOOD, RAW_FRAME, 60},
    {"a full stride", 0, LEN(64, 1), 0, GOOD, RAW_FRAME, 64},
    {"all strides", 0, LEN(512, 8), 0, GOOD, RAW_FRAME, 512},
    {"the last stride", 0, LEN(1, 1), 7, GOOD, RAW_FRAME, 1},
    {"no byte", 0, LEN(0, 1), 0, GOOD, RAW_FRAME, 0},
    {"a solicited one", 0, LEN(60, 1), 0, GOOD | 2, RAW_FRAME, 60},
    {"a filler", 0, LEN(0, 3) | FILLER, 0, GOOD, RAW_FILLER, 0},
    {"a filler without a stride index", 0, LEN(65535, 8) | FILLER, 65535, GOOD, RAW_FILLER, 0},
    {"nothing yet", 0, LEN(60, 1), 0, 0xf0, RAW_NOTHING, 0},
    {"of the previous round", 0, LEN(60, 1), 0, GOOD | 1, RAW_NOTHING, 0},
    {"of another buffer", 1, LEN(60, 1), 0, GOOD, RAW_BROKEN, 0},
    {"of a buffer counter that runs on", 4, LEN(60, 1), 0, GOOD, RAW_FRAME, 60},
    {"longer than its strides", 0, LEN(65, 1), 0, GOOD, RAW_BROKEN, 0},
    {"longest", 0, LEN(65535, 8), 0, GOOD, RAW_BROKEN, 0},
    {"no stride", 0, LEN(0, 0), 0, GOOD, RAW_BROKEN, 0},
    {"one stride too many", 0, LEN(60, 9), 0, GOOD, RAW_BROKEN, 0},
    {"largest number of strides", 0, LEN(60, 0x3fff), 0, GOOD, RAW_BROKEN, 0},
    {"a filler too long", 0, LEN(0, 9) | FILLER, 0, GOOD, RAW_BROKEN, 0},
    {"from behind the buffer", 0, LEN(60, 1), 8, GOOD, RAW_BROKEN, 0},
    {"from far behind", 0, LEN(60, 1), 65535, GOOD, RAW_BROKEN, 0},
    {"across the buffer's end", 0, LEN(100, 2), 7, GOOD, RAW_BROKEN, 0},
    {"failed", 0, LEN(60, 1), 0, RAW_OP_FAILED << 4, RAW_BROKEN, 0},
    {"sent", 0, LEN(60, 1), 0, 0, RAW_BROKEN, 0},
    {"compressed", 0, LEN(60, 1), 0, GOOD | 0xc, RAW_BROKEN, 0},
    {"inline", 0, LEN(60, 1), 0, GOOD | 0x4, RAW_BROKEN, 0},
};

static void run_table(uint32_t cqe_len)
{
	struct raw_frame frame;
	struct bench b;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		set_up(&b, cqe_len);
		put_completion(&b, 0, table[i].buffer, table[i].bytes, table[i].first, table[i].op);
		cr_assert_eq(raw_rx_waiting(&b.rx), table[i].want != RAW_NOTHING, "%s",
			     table[i].name);
		cr_assert_eq(raw_rx_next(&b.rx, &frame), table[i].want, "%s", table[i].name);
		if (table[i].want != RAW_FRAME)
			continue;
		cr_assert_eq(frame.len, table[i].len, "%s", table[i].name);
		cr_assert_eq(frame.data, b.memory + (table[i].first << STRIDE_LOG), "%s",
			     table[i].name);
		cr_assert(frame.ip_ok && !frame.udp_ok);
	}
}

Test(raw_rx, table)
{
	run_table(64);
	run_table(128);
}

Test(raw_rx, buffer__returns_after_its_last_stride)
{
	struct raw_frame frame;
	struct bench b;

	set_up(&b, 64);
	put_completion(&b, 0, 0, LEN(400, 7), 0, GOOD);
	put_completion(&b, 1, 0, LEN(0, 1) | FILLER, 0, GOOD);
	cr_assert_eq(raw_rx_next(&b.rx, &frame), RAW_FRAME);
	raw_rx_done(&b.rx);
	cr_assert_eq(load_be32(&b.at[1]), BUFFERS);
	cr_assert_eq(load_be32(&b.at[0]), 1);
	cr_assert_eq(raw_rx_next(&b.rx, &frame), RAW_FILLER);
	cr_assert_eq(load_be32(&b.at[1]), BUFFERS, "one of its frames may be lent");
	raw_rx_done(&b.rx);
	cr_assert_eq(load_be32(&b.at[1]), BUFFERS + 1);
	cr_assert_eq(load_be32(&b.at[0]), 2);
}

/* Whatever is written, a frame stays within memory; inaccessible pages catch the rest. */
Test(raw_rx, any_bytes_at_all)
{
	uint64_t seed = lend_clock_cycles(), bytes, volatile_sum = 0;
	struct raw_frame frame;
	struct lend_rng rng;
	struct bench b;

	if (getenv("SEED"))
		seed = strtoull(getenv("SEED"), NULL, 0);
	lend_rng_seed(&rng, seed);
	set_up(&b, 64);
	for (uint32_t round = 0; round < 200000; round++) {
		uint8_t *cqe = b.cq + (size_t)(b.rx.next % CQES) * 64;
		uint32_t buffer = b.rx.buffer;
		enum raw_got got;

		for (int i = 0; i < 64; i += 8) {
			bytes = lend_rng_next(&rng);
			memcpy(cqe + i, &bytes, 8);
		}
		/* Half of them are almost valid. */
		if (round & 1) {
			put_completion(&b, b.rx.next,
				       buffer + (uint32_t)lend_rng_below(&rng, 8) / 7,
				       LEN((uint32_t)lend_rng_below(&rng, 600),
					   (uint32_t)lend_rng_below(&rng, 10)) |
					   (lend_rng_below(&rng, 4) ? 0 : FILLER),
				       (uint32_t)lend_rng_below(&rng, 10), GOOD);
		}
		got = raw_rx_next(&b.rx, &frame);
		if (got == RAW_FRAME) {
			cr_assert(frame.data >= b.memory &&
				      frame.data + frame.len <= b.memory + BUFFERS * BUFFER_LEN,
				  "SEED=%lu", (unsigned long)seed);
			for (uint32_t i = 0; i < frame.len; i++)
				volatile_sum += frame.data[i];
			cr_assert_eq((frame.data - b.memory) / BUFFER_LEN, buffer % BUFFERS);
		}
		cr_assert_leq(b.rx.used, STRIDES);
		if (got == RAW_BROKEN)
			raw_rx_start(&b.rx);
		raw_rx_done(&b.rx);
	}
	cr_assert_eq(volatile_sum, 0, "no write there");
}

/* A correct device that fills buffers in order: all frames arrive in order, through many rounds. */
Test(raw_rx, ring__wraps)
{
	uint64_t seed = lend_clock_cycles();
	uint32_t made = 0, buffer = 0, used = 0, want = 0;
	struct raw_frame frame;
	struct lend_rng rng;
	struct bench b;

	lend_rng_seed(&rng, seed);
	set_up(&b, 64);
	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t burst = (uint32_t)lend_rng_below(&rng, 12), number = want;

		for (uint32_t i = 0; i < burst && buffer - b.rx.buffer < BUFFERS - 1; i++) {
			uint32_t need = 1 + (uint32_t)lend_rng_below(&rng, 3);

			if (need > STRIDES - used) {
				put_completion(&b, made++, buffer, LEN(0, STRIDES - used) | FILLER,
					       0, GOOD);
				buffer++;
				used = 0;
			}
			memcpy(b.memory + buffer % BUFFERS * BUFFER_LEN + (used << STRIDE_LOG),
			       &number, 4);
			number++;
			put_completion(&b, made++, buffer, LEN(4, need), used, GOOD);
			used += need;
			buffer += used == STRIDES;
			used %= STRIDES;
		}
		for (enum raw_got got; (got = raw_rx_next(&b.rx, &frame)) != RAW_NOTHING;) {
			cr_assert_neq(got, RAW_BROKEN, "SEED=%lu", (unsigned long)seed);
			if (got != RAW_FRAME)
				continue;
			cr_assert_eq(frame.len, 4);
			cr_assert_eq(memcmp(frame.data, &want, 4), 0, "SEED=%lu",
				     (unsigned long)seed);
			want++;
		}
		cr_assert_eq(want, number);
		raw_rx_done(&b.rx);
		cr_assert_eq(load_be32(&b.at[0]), made & 0xffffff);
		cr_assert_eq(load_be32(&b.at[1]), (buffer + BUFFERS) & 0xffff);
	}
	cr_assert_gt(made, 10 * CQES);
}

/* After an error the device restarts its rings, which still contain old completions. */
Test(raw_rx, reset__ignores_old_completions)
{
	struct raw_frame frame;
	struct bench b;

	set_up(&b, 64);
	put_completion(&b, 0, 0, LEN(512, 8), 0,
		       GOOD); /* so that the next buffer is not the first */
	for (uint32_t i = 1; i < 5; i++)
		put_completion(&b, i, 1, LEN(60, 1), i - 1, i == 2 ? RAW_OP_FAILED << 4 : GOOD);
	cr_assert_eq(raw_rx_next(&b.rx, &frame), RAW_FRAME);
	cr_assert_eq(raw_rx_next(&b.rx, &frame), RAW_FRAME);
	cr_assert_eq(raw_rx_next(&b.rx, &frame), RAW_BROKEN);
	cr_assert_eq(raw_rx_next(&b.rx, &frame), RAW_BROKEN, "until it is reset");
	raw_rx_start(&b.rx);
	cr_assert_eq(raw_rx_next(&b.rx, &frame), RAW_NOTHING);
	cr_assert_eq(load_be32(&b.at[0]), 5);
	put_completion(&b, 5, 0, LEN(60, 1), 0, GOOD);
	cr_assert_eq(raw_rx_next(&b.rx, &frame), RAW_FRAME);
	cr_assert_eq(frame.data, b.memory);
}

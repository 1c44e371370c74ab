/* seal_failure - forged datagrams that fail, each kind in a function of its own, for
 * equal_counts.sh: what a forger learns from the time of an answer must not depend on which byte is
 * wrong. Functions with one first letter must cost the same. Threads: one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/toy_suite.h"
#include "seal/key_exchange.h"
#include "seal/record_keys.h"
#include "util/check.h"
#include "util/siphash.h"

enum {
	TIMES = 100,
	TEXT = 64,
	RECORD = sizeof(struct lend_pkt) + TEXT + LEND_TAG,
	CONNECT = sizeof(struct lend_pkt) + sizeof(struct lend_pkt_connect) +
		  sizeof(struct lend_pkt_connect_end)
};

static struct lend_records records;
static struct lend_record_keys *of[2];
static struct lend_kex *kex;
static const struct lend_kex_keys keys = {.id = 7, .mac_key = {1}};
static uint8_t record[RECORD], connect[CONNECT]; /* genuine */

static void *take_memory(void *arg, size_t len)
{
	void *memory = aligned_alloc(64, len);

	(void)arg;
	LEND_CHECK(memory != NULL);
	return memset(memory, 0, len);
}

__attribute__((noinline)) static unsigned check_record(const uint8_t *datagram)
{
	const struct lend_records_path path = {.checked = true};
	uint8_t bytes[RECORD];
	unsigned failed = 0;

	for (int i = 0; i < TIMES; i++) {
		struct lend_in in = {.data = bytes, .len = RECORD};

		memcpy(bytes, datagram, RECORD);
		failed += lend_records_open(&records, &path, 1, &in, 1) == 0;
	}
	return failed;
}

__attribute__((noinline)) static unsigned check_connect(const uint8_t *datagram)
{
	unsigned failed = 0;

	for (int i = 0; i < TIMES; i++)
		failed += !lend_kex_mac_valid(kex, &keys, datagram, CONNECT);
	return failed;
}

#define FAILURES(X)                                                                                \
	X(record, f_tag_first, r[RECORD - LEND_TAG] ^= 1)                                          \
	X(record, f_tag_last, r[RECORD - 1] ^= 128)                                                \
	X(record, f_tag_all, memset(r + RECORD - LEND_TAG, 0, LEND_TAG))                           \
	X(record, f_text, r[RECORD - LEND_TAG - 1] ^= 1)                                           \
	X(record, f_head, r[offsetof(struct lend_pkt, call)] ^= 1)                                 \
	X(connect, g_mac_first, r[CONNECT - LEND_TAG] ^= 1)                                        \
	X(connect, g_mac_last, r[CONNECT - 1] ^= 128)                                              \
	X(connect, g_mac_all, memset(r + CONNECT - LEND_TAG, 0, LEND_TAG))                         \
	X(connect, g_text, r[offsetof(struct lend_pkt, call)] ^= 1)

/* The change is not counted: only what check_ runs is inside the function. */
#define X(group, name, change)                                                                     \
	__attribute__((noinline)) static unsigned failure_##name(const uint8_t *forged)            \
	{                                                                                          \
		unsigned failed = check_##group(forged);                                           \
                                                                                                   \
		__asm__ volatile("# " #name : "+r"(failed)); /* unlike others */                   \
		return failed;                                                                     \
	}
FAILURES(X)
#undef X

/* Seals a datagram to this end itself: both directions have one secret. */
static void make_genuine(void)
{
	const struct lend_records_calls calls = {.take = take_memory};
	const struct lend_records_path path = {.checked = true};
	struct lend_seal_keys both = {
	    .session = 1, .peer_id = 1, .suite = LEND_SUITE_TEST, .level = LEND_LEVEL_ENCRYPT};
	const struct lend_pkt head = {.magic = LEND_PKT_MAGIC,
				      .version = LEND_PKT_VERSION,
				      .kind = LEND_PKT_REQUEST,
				      .session = 1,
				      .number = 1};
	_Alignas(64) static uint8_t room[4096], clear[sizeof(head) + TEXT];
	struct lend_out out = {.head = clear, .head_len = sizeof(clear), .sess = 1};

	lend_records_begin(&records, &lend_toy_ops, &calls, of, 2);
	LEND_CHECK(lend_records_install(&records, 1, &both) == 0);
	memcpy(clear, &head, sizeof(head));
	LEND_CHECK(lend_records_seal(&records, &path, 1, NULL,
				     (struct lend_records_memory){room, room + sizeof(room)}, &out,
				     1) == 1);
	memcpy(record, out.head, RECORD);
	kex = lend_kex_init(take_memory(NULL, (lend_kex_size(1) + 63) & ~(size_t)63), &lend_toy_ops,
			    1, 1);
	connect[0] = LEND_PKT_MAGIC;
	lend_siphash128(keys.mac_key, connect, CONNECT - LEND_TAG, connect + CONNECT - LEND_TAG);
}

int main(void)
{
	unsigned kinds = 0, failed = 0;

	make_genuine();
#define X(group, name, change)                                                                     \
	{                                                                                          \
		uint8_t r[sizeof(group)];                                                          \
                                                                                                   \
		memcpy(r, group, sizeof(r));                                                       \
		change;                                                                            \
		failed += failure_##name(r);                                                       \
		kinds++;                                                                           \
	}
	FAILURES(X)
#undef X
	printf("%u kinds, %u of %u checks failed\n", kinds, failed, kinds * TIMES);
	return failed != kinds * TIMES || check_record(record) != TIMES - 1 ||
	       check_connect(connect) != 0;
}

/* pattern - the bytes that requests carry, made once from a seed; declared in closed_loop.h.
 *
 * A block of random bytes is as long as the longest request and a little more: the k-th request is
 * the block from (k % KINDS) * STEP on, so that neighbours differ in every place and no request
 * costs more than a pointer. Layer: apps. Threads: the main one; read only once made. */
#include <string.h>
#include <sys/mman.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "lend/alloc.h"
#include "util/check.h"
#include "util/crc32c.h"
#include "util/rng.h"

enum { STEP = 64, SPARE = APP_PATTERN_KINDS * STEP };

static unsigned char *block;
static uint64_t block_len, made_of; /* made_of: the seed */
static bool is_shared;              /* the heap's, not mapped here */
static uint64_t crc_len = UINT64_MAX;
static uint32_t crc_of[APP_PATTERN_KINDS];

void app_pattern_init(uint64_t seed, uint64_t len_max)
{
	uint64_t len = (len_max + SPARE + 8191) & ~UINT64_C(4095);
	struct lend_rng rng;

	if (block && block_len == len && made_of == seed)
		return; /* another thread's requests may be in flight */
	made_of = seed;
	if (is_shared)
		lend_free(block);
	else if (block)
		munmap(block, block_len);
	is_shared = false;
	block = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		app_die("no memory for requests of %llu bytes: choose a smaller --size",
			(unsigned long long)len_max);
	block_len = len;
	crc_len = UINT64_MAX;
	lend_rng_seed(&rng, seed);
	for (uint64_t i = 0; i < len; i += 8) {
		uint64_t word = lend_rng_next(&rng);

		memcpy(block + i, &word, 8);
	}
}

/* Moves the block to the shared heap, which peers over shm read in place and devices have
 * registered. Returns false, and leaves the block as it is, when that heap has no memory. */
static bool move_to_shared(void)
{
	unsigned char *to = lend_malloc_shared(block_len);

	if (!to)
		return false;
	memcpy(to, block, block_len);
	munmap(block, block_len);
	block = to;
	is_shared = true;
	return true;
}

void app_pattern_register(struct lend_ep *ep)
{
	if (is_shared || move_to_shared())
		return;
	if (lend_register(ep, block, block_len) < 0)
		app_note("requests are copied once more: %s", lend_why());
}

const void *app_pattern(uint64_t number, uint64_t len)
{
	LEND_CHECK(len + SPARE <= block_len);
	return block + number % APP_PATTERN_KINDS * STEP;
}

static void release_nothing(void *arg)
{
	(void)arg; /* the pattern is never freed while it is in use */
}

struct lend_buf *app_pattern_wrap(struct lend_ep *ep, const void *bytes, uint64_t len)
{
	return lend_buf_wrap(ep, (void *)(uintptr_t)bytes, (uint32_t)len, release_nothing, NULL);
}

uint32_t app_pattern_crc(uint64_t number, uint64_t len)
{
	if (len != crc_len)
		for (unsigned i = 0; i < APP_PATTERN_KINDS; i++)
			crc_of[i] = lend_crc32c(0, app_pattern(i, len), len);
	crc_len = len;
	return crc_of[number % APP_PATTERN_KINDS];
}

static uint64_t wrong_in(const unsigned char *a, const unsigned char *b, uint64_t len)
{
	uint64_t wrong = 0;

	if (!memcmp(a, b, len))
		return 0;
	for (uint64_t i = 0; i < len; i++)
		wrong += a[i] != b[i];
	return wrong;
}

uint64_t app_pattern_wrong(const struct lend_buf *message, uint64_t number, uint64_t len)
{
	const unsigned char *want = app_pattern(number, len);
	uint64_t at = 0, wrong = 0;

	for (; message; message = message->next) {
		uint64_t n = message->len < len - at ? message->len : len - at;

		wrong += wrong_in(message->data, want + at, n) + (message->len - n);
		at += n;
	}
	return wrong + (len - at);
}

uint32_t app_message_crc(const struct lend_buf *message, uint64_t *len)
{
	uint32_t crc = 0;

	for (*len = 0; message; message = message->next) {
		crc = lend_crc32c(crc, message->data, message->len);
		*len += message->len;
	}
	return crc;
}

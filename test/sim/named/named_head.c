/* named_head - metadata and texts of a number. Layer: test/sim. */
#include <string.h>

#include "sim/named/named.h"
#include "wire/head.h"

enum { PAIRS = 12, VALUE = 400, LONG_VALUE = 2500, ENTRY = 6 };

static struct lend_rng rng_of(uint64_t number)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, lent->seed * UINT64_C(0x9e3779b97f4a7c15) + number);
	return rng;
}

/* Draws a pair: keys repeat, and values are empty, text or any bytes. */
static size_t draw_pair(struct lend_rng *rng, char *key, uint8_t *value)
{
	static const char *const keys[] = {"user", "trace-bin", "a", "x_1.y-bin"};
	uint64_t most = lend_rng_below(rng, 16) ? VALUE : LONG_VALUE;
	size_t len = lend_rng_below(rng, lend_rng_below(rng, most) + 1);
	bool any;

	strcpy(key, keys[lend_rng_below(rng, 4)]);
	any = strstr(key, "-bin") != NULL;
	for (size_t i = 0; i < len; i++)
		value[i] = (uint8_t)(any ? lend_rng_next(rng) : 'a' + lend_rng_below(rng, 26));
	return len;
}

/* Makes the metadata if there is a place for them. Returns their bytes in a head. */
static uint32_t make_metadata(uint64_t number, struct lend_metadata *to)
{
	struct lend_rng rng = rng_of(number);
	uint64_t n = lend_rng_below(&rng, lend_rng_below(&rng, PAIRS) + 1);
	uint8_t value[LONG_VALUE];
	uint32_t all = 0;
	char key[16];

	for (uint64_t i = 0; i < n; i++) {
		size_t len = draw_pair(&rng, key, value);

		if (all + len > LONG_VALUE)
			return all;
		all += (uint32_t)(len + strlen(key) + ENTRY);
		LENT_CHECK(!to || lend_metadata_add(to, key, value, len) == 0,
			   "metadata are refused: %s", key);
	}
	return all;
}

struct lend_metadata *named_metadata(uint64_t number)
{
	struct lend_metadata *m = lend_metadata_new();

	LEND_CHECK(m);
	(void)make_metadata(number, m);
	return m;
}

uint32_t named_metadata_len(uint64_t number)
{
	return make_metadata(number, NULL);
}

static bool next_pair(const struct named_source *s, uint32_t *at, struct lend_pair *pair)
{
	return s->call ? lend_call_metadata(s->ep, s->call, s->trailing, at, pair)
		       : lend_request_metadata(s->ep, s->request, at, pair);
}

static bool is_same(const struct lend_pair *a, const struct lend_pair *b)
{
	return strcmp(a->key, b->key) == 0 && a->len == b->len &&
	       memcmp(a->value, b->value, a->len) == 0;
}

void named_metadata_check(const struct named_source *source, uint64_t number)
{
	struct lend_metadata *want = number ? named_metadata(number) : lend_metadata_new();
	uint32_t at = 0, want_at = 0;
	struct lend_pair got, wanted;

	LEND_CHECK(want);
	while (next_pair(source, &at, &got)) {
		LENT_CHECK(lend_metadata_next(want, &want_at, &wanted) && is_same(&got, &wanted),
			   "metadata %lu: a pair that was not sent, or not in this place: %s",
			   (unsigned long)number, got.key);
		named_sums.pairs++;
	}
	LENT_CHECK(!lend_metadata_next(want, &want_at, &wanted),
		   "metadata %lu: a pair is missing: %s", (unsigned long)number, wanted.key);
	lend_metadata_free(want);
}

const char *named_text(uint64_t number)
{
	static const char *const text[] = {"", "the shop is closed", "\xc3\xa4rgerlich",
					   "no \xe2\x82\xac left, and a long story about it"};
	struct lend_rng rng = rng_of(number);

	return text[lend_rng_below(&rng, 4)];
}

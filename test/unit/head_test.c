/* Goal: a head that is accepted has exactly the entries that were written, each text a C string
 * inside it; all others are refused. Method: tables; then random entries under seeds, and every
 * change of one byte and every length of each head. Covers: src/wire/head.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/rng.h"
#include "wire/head.h"

static uint32_t write_entry(uint8_t *to, uint32_t cap, uint8_t kind, const char *key,
			    const char *value, size_t len)
{
	struct lend_head_writer w = lend_head_begin(to, cap);

	lend_head_add(&w, kind, key, value, len);
	return lend_head_end(&w);
}

Test(head, values)
{
#define LONG_KEY "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
	static const struct {
		uint8_t kind;
		const char *key, *value;
		uint32_t len; /* 0: strlen */
		bool valid;
	} row[] = {
	    {LEND_HEAD_METHOD, NULL, "/shop.Cart/Add", 0, true},
	    {LEND_HEAD_METHOD, NULL, "", 0, true},
	    {LEND_HEAD_METHOD, "key", "/shop.Cart/Add", 0, false},
	    {LEND_HEAD_METHOD, NULL, "a\0b", 3, false},
	    {LEND_HEAD_MESSAGE, NULL, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x91", 0, true},
	    {LEND_HEAD_MESSAGE, NULL, "\xc3", 0, false},
	    {LEND_HEAD_MESSAGE, NULL, "\xc0\xaf", 0, false},
	    {LEND_HEAD_MESSAGE, NULL, "\xe0\x80\xaf", 0, false},
	    {LEND_HEAD_MESSAGE, NULL, "\xed\xa0\x80", 0, false},
	    {LEND_HEAD_MESSAGE, NULL, "\xed\x9f\xbf", 0, true},
	    {LEND_HEAD_MESSAGE, NULL, "\xf4\x8f\xbf\xbf", 0, true},
	    {LEND_HEAD_MESSAGE, NULL, "\xf4\x90\x80\x80", 0, false},
	    {LEND_HEAD_MESSAGE, NULL, "\xf0\x8f\xbf\xbf", 0, false},
	    {LEND_HEAD_MESSAGE, NULL, "\xff", 0, false},
	    {LEND_HEAD_MESSAGE, NULL, "\x80", 0, false},
	    {LEND_HEAD_MESSAGE, NULL, "x\xe2\x82", 0, false},
	    {LEND_HEAD_INITIAL, "user-agent", "lend/0.2 (x)", 0, true},
	    {LEND_HEAD_INITIAL, "user-agent", "", 0, true},
	    {LEND_HEAD_INITIAL, "k", " ~", 0, true},
	    {LEND_HEAD_INITIAL, "k", "\x1f", 0, false},
	    {LEND_HEAD_INITIAL, "k", "\x7f", 0, false},
	    {LEND_HEAD_INITIAL, "", "v", 0, false},
	    {LEND_HEAD_INITIAL, NULL, "v", 0, false},
	    {LEND_HEAD_INITIAL, "User", "v", 0, false},
	    {LEND_HEAD_INITIAL, "a b", "v", 0, false},
	    {LEND_HEAD_INITIAL, "a_b.c-9", "v", 0, true},
	    {LEND_HEAD_TRAILING, "id-bin", "\0\1\377", 3, true},
	    {LEND_HEAD_TRAILING, "-bin", "\1", 0, false},
	    {LEND_HEAD_TRAILING, "x-bin", "\1", 0, true},
	    {LEND_HEAD_TRAILING, LONG_KEY LONG_KEY LONG_KEY "kkkk", "v", 0, true},
	    {LEND_HEAD_TRAILING, LONG_KEY LONG_KEY LONG_KEY LONG_KEY, "v", 0, false},
	    {LEND_HEAD_STREAM, NULL, "", 0, true},
	    {LEND_HEAD_STREAM, NULL, "1", 0, false},
	    {LEND_HEAD_STREAM, "k", "", 0, false},
	    {LEND_HEAD_COMPRESSED, NULL, "", 0, true},
	    {LEND_HEAD_COMPRESSED, NULL, "1", 0, false},
	    {LEND_HEAD_KINDS, "later", "\1", 0, true},
	    {0, NULL, "", 0, false},
	};
	uint8_t head[1024];

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		uint32_t want = row[i].len ? row[i].len : (uint32_t)strlen(row[i].value);
		uint32_t len =
		    write_entry(head, sizeof(head), row[i].kind, row[i].key, row[i].value, want);
		struct lend_head_entry e;
		uint32_t at = 0;

		cr_assert_eq(len != 0, row[i].valid, "row %zu", i);
		if (!len)
			continue;
		cr_assert_eq(lend_head_length(head, len, len), len);
		cr_assert(lend_head_valid(head, len), "row %zu", i);
		cr_assert_eq(lend_head_next(head, &at, &e), row[i].kind < LEND_HEAD_KINDS);
		if (row[i].kind >= LEND_HEAD_KINDS)
			continue;
		cr_assert_eq(e.kind, row[i].kind);
		cr_assert_str_eq(e.key, row[i].key ? row[i].key : "");
		cr_assert_eq(e.len, want);
		cr_assert(memcmp(e.value, row[i].value, want) == 0 && e.value[want] == 0);
		cr_assert_not(lend_head_next(head, &at, &e));
	}
}

/* Every byte at every place of a value, and of a key: checked eight at a time, and one by one. */
Test(head, bytes__of_values_and_keys)
{
	_Alignas(8) uint8_t head[LEND_HEAD_MAX];

	for (int c = 1; c < 256; c++)
		for (uint32_t at = 0; at < 19; at++) {
			char text[20] = "abcdefghijklmnopqrs";
			bool key = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
				   c == '.' || c == '-';

			text[at] = (char)c;
			cr_assert_eq(
			    write_entry(head, sizeof(head), LEND_HEAD_INITIAL, "k", text, 19) != 0,
			    c >= ' ' && c <= '~', "%d at %u", c, at);
			cr_assert_eq(
			    write_entry(head, sizeof(head), LEND_HEAD_INITIAL, text, "", 0) != 0,
			    key, "%d at %u", c, at);
		}
}

Test(head, lengths)
{
	static char value[LEND_HEAD_MAX];
	static uint8_t head[2 * LEND_HEAD_MAX];
	/* front, entry, "k-bin" and a value with their zeros, to a multiple of 4 */
	uint32_t most = LEND_HEAD_MAX - 4 - 4 - 6 - 1;

	cr_expect_eq(write_entry(head, sizeof(head), LEND_HEAD_INITIAL, "k-bin", value, most),
		     LEND_HEAD_MAX);
	cr_expect_eq(write_entry(head, sizeof(head), LEND_HEAD_INITIAL, "k-bin", value, most + 1),
		     0);
	cr_expect_eq(write_entry(head, 20, LEND_HEAD_INITIAL, "k-bin", value, 5), 20);
	cr_expect_eq(write_entry(head, 20, LEND_HEAD_INITIAL, "k-bin", value, 6), 0);
	cr_expect_eq(write_entry(head, 3, LEND_HEAD_INITIAL, "k-bin", value, 0), 0);
	for (uint32_t cap = 4; cap < 8; cap++) {
		struct lend_head_writer w = lend_head_begin(head, cap);

		cr_expect_eq(lend_head_end(&w), 4, "an empty head");
		cr_expect(lend_head_valid(head, 4));
	}
	for (uint32_t n = 0; n < 4; n++)
		cr_expect_eq(lend_head_length(head, n, 100), 0);
	cr_expect_eq(lend_head_length(head, 4, 3), 0);
	head[0] = 6;
	cr_expect_eq(lend_head_length(head, 100, 100), 0, "not a multiple of 4");
	head[1] = LEND_HEAD_MAX >> 8;
	head[0] = 4;
	cr_expect_eq(lend_head_length(head, 100, 1 << 20), 0, "longer than a head may be");
}

Test(head, append__adds_all_entries_or_fails)
{
	uint8_t from[64], to[64];
	struct lend_head_writer f = lend_head_begin(from, sizeof(from)), w;
	struct lend_head_entry e;
	uint32_t len, at = 0;

	lend_head_add(&f, LEND_HEAD_INITIAL, "k", "1", 1);
	lend_head_add(&f, LEND_HEAD_INITIAL, "k-bin", "\0\1", 2);
	w = lend_head_begin(to, sizeof(to));
	lend_head_add(&w, LEND_HEAD_AUTHORITY, NULL, "a", 1);
	lend_head_append(&w, &f);
	lend_head_add(&w, LEND_HEAD_TRAILING, "t", "3", 1);
	len = lend_head_end(&w);
	cr_assert(lend_head_valid(to, len));
	cr_assert(lend_head_next(to, &at, &e) && lend_head_next(to, &at, &e));
	cr_assert_str_eq((const char *)e.value, "1");
	cr_assert(lend_head_next(to, &at, &e));
	cr_assert(e.len == 2 && !memcmp(e.value, "\0\1", 2));
	cr_assert(lend_head_next(to, &at, &e) && e.kind == LEND_HEAD_TRAILING);
	cr_assert_not(lend_head_next(to, &at, &e));
	w = lend_head_begin(to, f.len - 1);
	lend_head_append(&w, &f);
	cr_assert_eq(lend_head_end(&w), 0);
	lend_head_add(&f, LEND_HEAD_AUTHORITY, NULL, "a", 1);
	w = lend_head_begin(to, sizeof(to));
	lend_head_append(&w, &f);
	cr_assert_eq(lend_head_end(&w), 0, "two texts of a kind could follow");
}

Test(head, each_text_once_and_found)
{
	uint8_t head[256];
	struct lend_head_writer w = lend_head_begin(head, sizeof(head));

	lend_head_add(&w, LEND_HEAD_INITIAL, "k", "1", 1);
	lend_head_add(&w, LEND_HEAD_AUTHORITY, NULL, "shop:1", 6);
	lend_head_add(&w, LEND_HEAD_INITIAL, "k", "2", 1);
	lend_head_add(&w, LEND_HEAD_KINDS, "later", "x", 1);
	lend_head_add(&w, LEND_HEAD_METHOD, NULL, "/a/b", 4);
	cr_assert_neq(lend_head_end(&w), 0);
	cr_expect_str_eq(lend_head_text(head, LEND_HEAD_AUTHORITY), "shop:1");
	cr_expect_str_eq(lend_head_text(head, LEND_HEAD_METHOD), "/a/b");
	cr_expect_null(lend_head_text(head, LEND_HEAD_MESSAGE));
	lend_head_add(&w, LEND_HEAD_METHOD, NULL, "/a/b", 4);
	cr_expect_eq(lend_head_end(&w), 0, "two methods");
}

/* Entries that a head must return, in order. */
struct model {
	unsigned n;
	struct {
		uint8_t kind;
		char key[16];
		uint8_t value[40];
		uint32_t len;
	} at[12];
};

static uint32_t draw_head(struct lend_rng *rng, struct model *m, uint8_t *head, uint32_t cap)
{
	struct lend_head_writer w = lend_head_begin(head, cap);
	uint32_t texts = 0;

	m->n = 0;
	for (unsigned n = (unsigned)lend_rng_below(rng, 12); n > 0; n--) {
		uint8_t kind = (uint8_t)(1 + lend_rng_below(rng, LEND_HEAD_KINDS - 1));

		if (kind < LEND_HEAD_TEXTS && texts & 1u << kind)
			continue;
		texts |= 1u << kind;
		m->at[m->n].kind = kind;
		m->at[m->n].len = (uint32_t)lend_rng_below(rng, sizeof(m->at[0].value));
		snprintf(m->at[m->n].key, sizeof(m->at[0].key), "k%u%s",
			 (unsigned)lend_rng_below(rng, 1000), n % 2 ? "-bin" : "");
		if (kind < LEND_HEAD_TEXTS || kind >= LEND_HEAD_STREAM)
			m->at[m->n].key[0] = '\0';
		if (kind >= LEND_HEAD_STREAM)
			m->at[m->n].len = 0;
		for (uint32_t i = 0; i < m->at[m->n].len; i++)
			m->at[m->n].value[i] = (uint8_t)(' ' + lend_rng_below(rng, 95));
		lend_head_add(&w, kind, m->at[m->n].key[0] ? m->at[m->n].key : NULL,
			      m->at[m->n].value, m->at[m->n].len);
		m->n++;
	}
	return lend_head_end(&w);
}

static void compare(const struct model *m, const uint8_t *head)
{
	struct lend_head_entry e;
	uint32_t at = 0;

	for (unsigned i = 0; i < m->n; i++) {
		cr_assert(lend_head_next(head, &at, &e));
		cr_assert_eq(e.kind, m->at[i].kind);
		cr_assert_str_eq(e.key, m->at[i].key);
		cr_assert_eq(e.len, m->at[i].len);
		cr_assert_eq(memcmp(e.value, m->at[i].value, e.len), 0);
	}
	cr_assert_not(lend_head_next(head, &at, &e));
}

/* Whatever was changed: each text of an accepted head is a string inside it. */
static void expect_inside(const uint8_t *head, uint32_t len)
{
	struct lend_head_entry e;

	for (uint32_t at = 0; lend_head_next(head, &at, &e);)
		cr_assert((const uint8_t *)e.key + strlen(e.key) + 1 == e.value &&
			  e.value + e.len < head + len && e.value[e.len] == 0);
}

Test(head, seeds)
{
	static const uint8_t changes[] = {0x01, 0x80, 0xff, 0x20};

	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint8_t room[1024], *head;
		struct lend_rng rng;
		struct model m;
		uint32_t len;

		lend_rng_seed(&rng, seed);
		len = draw_head(&rng, &m, room, sizeof(room));
		head = malloc(len); /* exact, for the sanitizer */
		cr_assert_neq(len, 0, "seed %llu", (unsigned long long)seed);
		memcpy(head, room, len);
		cr_assert(lend_head_valid(head, len), "seed %llu", (unsigned long long)seed);
		compare(&m, head);
		for (uint32_t cut = 0; cut < len; cut++) {
			uint8_t *part = malloc(cut ? cut : 1);

			memcpy(part, head, cut);
			cr_assert_not(lend_head_valid(part, cut), "seed %llu, %u of %u bytes",
				      (unsigned long long)seed, cut, len);
			free(part);
		}
		for (uint32_t i = 0; i < len; i++)
			for (size_t c = 0; c < sizeof(changes); c++) {
				head[i] ^= changes[c];
				if (lend_head_valid(head, len))
					expect_inside(head, len);
				head[i] ^= changes[c];
			}
		free(head);
	}
}

#include "wire/head.h"

#include <string.h>

#include "util/utf8.h"

/* Bytes before the first entry, and of an entry before its key. */
enum { FRONT = 4, ENTRY = 4 };

struct front {
	uint16_t len, entries;
};
_Static_assert(sizeof(struct front) == FRONT, "wire");

struct entry {
	uint8_t kind, key_len;
	uint16_t len;
};
_Static_assert(sizeof(struct entry) == ENTRY, "wire");

static uint32_t size_of(const struct entry *e)
{
	return (uint32_t)(ENTRY + e->key_len + 1 + e->len + 1 + 3) & ~3u;
}

#define EACH_BYTE UINT64_C(0x0101010101010101)
#define HIGH_BITS (EACH_BYTE * 0x80)

static bool is_key(const uint8_t *key, uint32_t len)
{
	static const bool allowed[256] = {
	    ['-'] = 1, ['.'] = 1, ['_'] = 1, ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1,
	    ['5'] = 1, ['6'] = 1, ['7'] = 1, ['8'] = 1, ['9'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1,
	    ['d'] = 1, ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1,
	    ['l'] = 1, ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1,
	    ['t'] = 1, ['u'] = 1, ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1};
	bool all = len > 0;

	for (uint32_t i = 0; i < len; i++)
		all &= allowed[key[i]];
	return all;
}

static bool is_binary(const uint8_t *key, uint32_t len)
{
	return len > 4 && memcmp(key + len - 4, "-bin", 4) == 0;
}

/* Returns the high bits of those of eight bytes that are not printable ASCII. */
static uint64_t find_unprintable(uint64_t eight)
{
	return (eight | ~((eight | HIGH_BITS) - EACH_BYTE * ' ') | (eight + EACH_BYTE)) & HIGH_BITS;
}

static bool is_printable(const uint8_t *value, uint32_t len)
{
	uint64_t eight, bad = 0;

	for (; len >= sizeof(eight); len -= (uint32_t)sizeof(eight), value += sizeof(eight)) {
		memcpy(&eight, value, sizeof(eight));
		bad |= find_unprintable(eight);
	}
	for (uint32_t i = 0; i < len; i++)
		bad |= value[i] < ' ' || value[i] > '~';
	return !bad;
}

static bool is_text(const uint8_t *value, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (!value[i])
			return false;
	return lend_utf8_valid(value, len);
}

static bool is_valid(const struct entry *e, const uint8_t *key, const uint8_t *value)
{
	if (e->kind == 0)
		return false;
	if (e->kind >= LEND_HEAD_KINDS) /* of a later release */
		return true;
	if (e->kind < LEND_HEAD_TEXTS)
		return e->key_len == 0 && is_text(value, e->len);
	if (e->kind >= LEND_HEAD_STREAM)
		return e->key_len == 0 && e->len == 0;
	return is_key(key, e->key_len) &&
	       (is_binary(key, e->key_len) || is_printable(value, e->len));
}

struct lend_head_writer lend_head_begin(void *at, uint32_t cap)
{
	return (struct lend_head_writer){.at = at,
					 .len = FRONT,
					 .cap = cap < LEND_HEAD_MAX ? cap : LEND_HEAD_MAX,
					 .failed = cap < FRONT};
}

void lend_head_add(struct lend_head_writer *w, enum lend_head_kind kind, const char *key,
		   const void *value, size_t len)
{
	size_t key_len = key ? strlen(key) : 0;
	struct entry e = {.kind = (uint8_t)kind, .key_len = (uint8_t)key_len, .len = (uint16_t)len};
	uint8_t *to = w->at + w->len;

	w->failed |= key_len > UINT8_MAX || len > LEND_HEAD_MAX;
	if (w->failed || size_of(&e) > w->cap - w->len) {
		w->failed = true;
		return;
	}
	memset(to, 0, size_of(&e));
	memcpy(to, &e, ENTRY);
	if (key_len > 0)
		memcpy(to + ENTRY, key, key_len);
	if (len > 0)
		memcpy(to + ENTRY + key_len + 1, value, len);
	w->failed = !is_valid(&e, to + ENTRY, to + ENTRY + key_len + 1) ||
		    (kind < LEND_HEAD_TEXTS && w->texts & 1u << kind);
	if (w->failed)
		return;
	w->texts |= (uint8_t)(kind < LEND_HEAD_TEXTS ? 1u << kind : 0);
	w->len += size_of(&e);
	w->entries++;
}

void lend_head_append(struct lend_head_writer *w, const struct lend_head_writer *from)
{
	uint32_t len = from->len - FRONT;

	w->failed |= from->failed || from->texts || len > w->cap - w->len;
	if (w->failed)
		return;
	memcpy(w->at + w->len, from->at + FRONT, len);
	w->len += len;
	w->entries = (uint16_t)(w->entries + from->entries);
}

uint32_t lend_head_end(struct lend_head_writer *w)
{
	struct front front = {.len = (uint16_t)w->len, .entries = w->entries};

	if (w->failed)
		return 0;
	memcpy(w->at, &front, FRONT);
	return w->len;
}

uint32_t lend_head_length(const void *at, uint32_t n, uint64_t len)
{
	struct front front;

	if (n < FRONT)
		return 0;
	memcpy(&front, at, FRONT);
	if (front.len < FRONT || front.len > LEND_HEAD_MAX || front.len % 4 || front.len > len)
		return 0;
	return front.len;
}

bool lend_head_valid(const void *head, uint32_t len)
{
	const uint8_t *bytes = head;
	uint32_t at = FRONT, seen = 0;
	struct front front;
	uint16_t n = 0;

	if (len == 0 || lend_head_length(head, len, len) != len)
		return false;
	memcpy(&front, head, FRONT);
	for (; at < len; n++) {
		const uint8_t *key = bytes + at + ENTRY, *value;
		struct entry e;

		memcpy(&e, bytes + at, ENTRY); /* len and at are multiples of 4 */
		if (size_of(&e) > len - at)
			return false;
		value = key + e.key_len + 1;
		if (value[-1] != 0 || !is_valid(&e, key, value))
			return false;
		for (const uint8_t *zero = value + e.len; zero < bytes + at + size_of(&e); zero++)
			if (*zero)
				return false;
		if (e.kind < LEND_HEAD_TEXTS) {
			if (seen & 1u << e.kind)
				return false;
			seen |= 1u << e.kind;
		}
		at += size_of(&e);
	}
	return n == front.entries;
}

bool lend_head_next(const void *head, uint32_t *at, struct lend_head_entry *entry)
{
	const uint8_t *bytes = head;
	struct front front;
	struct entry e;

	memcpy(&front, head, FRONT);
	do {
		uint32_t from = *at ? *at : FRONT;

		if (from >= front.len)
			return false;
		memcpy(&e, bytes + from, ENTRY);
		*entry = (struct lend_head_entry){.kind = e.kind,
						  .len = e.len,
						  .key = (const char *)bytes + from + ENTRY,
						  .value = bytes + from + ENTRY + e.key_len + 1};
		*at = from + size_of(&e);
	} while (e.kind >= LEND_HEAD_KINDS);
	return true;
}

const char *lend_head_text(const void *head, enum lend_head_kind kind)
{
	struct lend_head_entry e;

	for (uint32_t at = 0; lend_head_next(head, &at, &e);)
		if (e.kind == kind)
			return (const char *)e.value;
	return NULL;
}

/* pcapng_reader - see pcapng_reader.h. */
#include "io/pcapng_reader.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t le(const uint8_t *at, unsigned n)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint32_t)at[i] << 8 * i;
	return v;
}

static uint64_t le64(const uint8_t *at)
{
	return le(at, 4) | (uint64_t)le(at + 4, 4) << 32;
}

static void text(char *out, size_t cap, const uint8_t *value, uint32_t len)
{
	cr_assert_lt(len, cap);
	memcpy(out, value, len);
	out[len] = 0;
	cr_assert_eq(strlen(out), len, "a zero within a text");
}

/* Reads one option of a block. */
static void option(struct blocks *b, uint32_t type, uint32_t code, const uint8_t *value,
		   uint32_t len)
{
	struct blocks_packet *p = b->n ? &b->packet[b->n - 1] : NULL;

	if (type == 0x0a0d0d0a && code == 4) {
		text(b->program, sizeof(b->program), value, len);
	} else if (type == 1 && code == 2 && b->interfaces <= 8) {
		text(b->name[b->interfaces - 1], sizeof(b->name[0]), value, len);
	} else if (type == 1 && code == 9) {
		cr_assert(len == 1 && value[0] == 9, "nanoseconds");
	} else if (type == 6 && code == 2) {
		cr_assert_eq(len, 4);
		p->way = (int)(le(value, 4) & 3);
	} else if (type == 6 && code == 4) {
		cr_assert_eq(len, 8);
		p->lost = le64(value);
	} else if (type == 6 && code == 1) {
		text(p->comment, sizeof(p->comment), value, len);
	}
}

static void options(struct blocks *b, uint32_t type, const uint8_t *at, const uint8_t *end)
{
	while (at < end) {
		uint32_t code = le(at, 2), len = le(at + 2, 2), padded = (len + 3) / 4 * 4;

		if (code == 0) {
			cr_assert(len == 0 && at + 4 == end, "options end at the block's end");
			return;
		}
		cr_assert_leq(padded, (uint32_t)(end - at - 4), "an option leaves its block");
		for (uint32_t i = len; i < padded; i++)
			cr_assert_eq(at[4 + i], 0);
		option(b, type, code, at + 4, len);
		at += 4 + padded;
	}
	cr_assert_fail("options without an end");
}

static uint32_t packet(struct blocks *b, const uint8_t *at, uint32_t len, uint32_t interfaces)
{
	struct blocks_packet *p = &b->packet[b->n++];
	uint32_t padded;

	cr_assert_leq(b->n, BLOCKS_MAX);
	cr_assert_geq(len, 32);
	*p = (struct blocks_packet){.section = b->sections,
				    .interface = le(at + 8, 4),
				    .time = (uint64_t)le(at + 12, 4) << 32 | le(at + 16, 4),
				    .kept = le(at + 20, 4),
				    .len = le(at + 24, 4),
				    .data = at + 28};
	padded = (p->kept + 3) / 4 * 4;
	cr_assert_lt(p->interface, interfaces, "of an interface that was not described");
	cr_assert_leq(p->kept, p->len);
	cr_assert_leq(padded, len - 32);
	return 28 + padded;
}

struct blocks *blocks_parse(const void *bytes, size_t len)
{
	struct blocks *b = calloc(1, sizeof(*b));
	uint32_t interfaces = 0;

	cr_assert_not_null(b);
	b->bytes = malloc(len ? len : 1);
	b->len = len;
	cr_assert_not_null(b->bytes);
	memcpy(b->bytes, bytes, len);
	for (size_t at = 0; at < len;) {
		const uint8_t *block = b->bytes + at;
		uint32_t type = le(block, 4), size, head = 0;

		cr_assert_geq(len - at, 12);
		size = le(block + 4, 4);
		cr_assert(size >= 12 && size % 4 == 0 && size <= len - at, "a block of %u", size);
		cr_assert_eq(le(block + size - 4, 4), size, "its length at its end");
		if (type == 0x0a0d0d0a) {
			cr_assert_eq(le(block + 8, 4), 0x1a2b3c4d);
			cr_assert(le(block + 12, 2) == 1 && le(block + 14, 2) == 0);
			b->sections++;
			interfaces = 0;
			head = 24;
		} else if (type == 1) {
			cr_assert_eq(le(block + 8, 2), 252);
			b->snap = le(block + 12, 4);
			b->interfaces++;
			interfaces++;
			head = 16;
		} else {
			cr_assert_eq(type, 6, "block type %u", type);
			head = packet(b, block, size, interfaces);
		}
		cr_assert_gt(b->sections, 0, "a section comes first");
		options(b, type, block + head, block + size - 4);
		at += size;
	}
	return b;
}

struct blocks *blocks_read(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct blocks *b;
	size_t len, cap = 64 << 20;
	char *bytes = malloc(cap);

	cr_assert(file && bytes, "%s", path);
	len = fread(bytes, 1, cap, file);
	cr_assert_lt(len, cap);
	(void)fclose(file);
	b = blocks_parse(bytes, len);
	free(bytes);
	return b;
}

void blocks_free(struct blocks *b)
{
	free(b->bytes);
	free(b);
}

static uint32_t be(const uint8_t *at, unsigned n)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v = v << 8 | at[i];
	return v;
}

static void tag(struct blocks_lead *lead, uint32_t code, const uint8_t *value, uint32_t len)
{
	char *end = code % 2 ? lead->destination : lead->source;

	if (code == 12) {
		cr_assert(len == 12 && memcmp(value, "lend_capture", 12) == 0);
	} else if (code >= 20 && code <= 23) {
		cr_assert_eq(len, code < 22 ? 4 : 16);
		cr_assert_not_null(inet_ntop(code < 22 ? AF_INET : AF_INET6, value, end, 46));
	} else if (code == 24) {
		cr_assert(len == 4 && be(value, 4) == 3, "UDP");
	} else {
		cr_assert(len == 4 && (code == 25 || code == 26), "tag %u", code);
		end = code == 25 ? lead->source : lead->destination;
		(void)snprintf(end + strlen(end), 8, ":%u", be(value, 4));
	}
}

void blocks_lead(const struct blocks_packet *p, struct blocks_lead *lead)
{
	const uint8_t *at = p->data;

	*lead = (struct blocks_lead){0};
	for (;;) {
		uint32_t code = be(at, 2), len = be(at + 2, 2);

		cr_assert(len % 4 == 0 && len < BLOCKS_TAGS);
		if (code == 0)
			break;
		tag(lead, code, at + 4, len);
		at += 4 + len;
	}
	at += 4;
	cr_assert_eq(at[0], 1);
	lead->event = at[1];
	lead->flags = at[2];
	lead->peer = le(at + 4, 4);
	lead->carrier = le(at + 8, 4);
	text(lead->address, sizeof(lead->address), at + 12, at[3]);
	lead->data = at + 12 + at[3];
	lead->kept = p->kept - (uint32_t)(lead->data - p->data);
	lead->len = p->len - (uint32_t)(lead->data - p->data);
}

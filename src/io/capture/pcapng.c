#include "io/capture/pcapng.h"

#include <string.h>

#include "util/bits.h"
#include "util/check.h"

enum {
	SECTION = 0x0a0d0d0a,
	INTERFACE = 1,
	PACKET = 6,
	BYTE_ORDER = 0x1a2b3c4d,
	/* options */
	END = 0,
	COMMENT = 1,
	SECTION_PROGRAM = 4,
	IF_NAME = 2,
	IF_TEXT = 3,
	IF_RESOLUTION = 9,
	PACKET_FLAGS = 2,
	PACKET_LOST = 4,
	/* bytes */
	OPTION = 4,
	PACKET_HEAD = 28,
};

static size_t padded_len(size_t len)
{
	return (len + 3) & ~(size_t)3;
}

static uint8_t *put_u32(uint8_t *at, uint32_t v)
{
	lend_store_u32(at, v);
	return at + 4;
}

static uint8_t *put_padded(uint8_t *at, const void *data, size_t len)
{
	memcpy(at, data, len);
	memset(at + len, 0, padded_len(len) - len);
	return at + padded_len(len);
}

static uint8_t *put_option(uint8_t *at, uint16_t code, const void *value, size_t len)
{
	lend_store_u16(at, code);
	lend_store_u16(at + 2, (uint16_t)len);
	return put_padded(at + OPTION, value, len);
}

static size_t text_len(const char *text)
{
	return strnlen(text, LEND_PCAPNG_TEXT_MAX);
}

static uint8_t *put_text(uint8_t *at, uint16_t code, const char *text)
{
	return put_option(at, code, text, text_len(text));
}

/* Closes a block that began at out: writes its length behind its type and at its end. */
static size_t close_block(uint8_t *out, uint32_t type, uint8_t *at)
{
	uint32_t len;

	at = put_option(at, END, "", 0);
	len = (uint32_t)(at - out) + 4;
	put_u32(put_u32(out, type), len);
	put_u32(at, len);
	return len;
}

size_t lend_pcapng_section(uint8_t *out, const char *program)
{
	uint8_t *at = out + 8;

	at = put_u32(at, BYTE_ORDER);
	at = put_u32(at, 1); /* version 1.0 */
	memset(at, 0xff, 8); /* length of the section: unknown */
	return close_block(out, SECTION, put_text(at + 8, SECTION_PROGRAM, program));
}

size_t lend_pcapng_interface(uint8_t *out, const char *name, const char *text, uint32_t snap)
{
	static const uint8_t nanoseconds = 9;
	uint8_t *at = out + 8;

	at = put_u32(at, LEND_PCAPNG_UPPER_PDU);
	at = put_u32(at, snap);
	at = put_text(at, IF_NAME, name);
	at = put_text(at, IF_TEXT, text);
	return close_block(out, INTERFACE, put_option(at, IF_RESOLUTION, &nanoseconds, 1));
}

size_t lend_pcapng_packet_len(const struct lend_pcapng_packet *p)
{
	size_t options = OPTION + 4 + OPTION;

	if (p->lost)
		options += OPTION + 8;
	if (p->comment)
		options += OPTION + padded_len(text_len(p->comment));
	return PACKET_HEAD + padded_len(p->kept) + options + 4;
}

/* Copies the first bytes of the parts, as many as are kept. */
static uint8_t *put_parts(uint8_t *at, uint32_t left, const struct lend_pcapng_bytes *part,
			  uint32_t n)
{
	size_t pad = padded_len(left) - left;

	for (uint32_t i = 0; i < n && left; i++) {
		uint32_t len = part[i].len < left ? part[i].len : left;

		if (len > 0) /* with a length of 0, data may be NULL */
			memcpy(at, part[i].data, len);
		at += len;
		left -= len;
	}
	LEND_CHECK(left == 0);
	memset(at, 0, pad);
	return at + pad;
}

void lend_pcapng_packet(uint8_t *out, const struct lend_pcapng_packet *p,
			const struct lend_pcapng_bytes *part, uint32_t n)
{
	uint8_t *at = out + 8, flags[4], lost[8];

	at = put_u32(at, p->interface);
	at = put_u32(at, (uint32_t)(p->time >> 32));
	at = put_u32(at, (uint32_t)p->time);
	at = put_u32(at, p->kept);
	at = put_u32(at, p->len);
	at = put_parts(at, p->kept, part, n);
	lend_store_u32(flags, p->out ? 2 : 1);
	at = put_option(at, PACKET_FLAGS, flags, sizeof(flags));
	lend_store_u64(lost, p->lost);
	if (p->lost)
		at = put_option(at, PACKET_LOST, lost, sizeof(lost));
	if (p->comment)
		at = put_text(at, COMMENT, p->comment);
	close_block(out, PACKET, at);
}

size_t lend_pcapng_whole(const uint8_t *blocks, size_t len)
{
	size_t at = 0;

	while (len - at >= 12) {
		uint32_t block = lend_load_u32(blocks + at + 4);

		if (block < 12 || block > len - at)
			break;
		at += block;
	}
	return at;
}

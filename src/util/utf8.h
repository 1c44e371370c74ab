/* utf8 - check of texts.
 * Layer: util. No state. */
#ifndef LEND_UTIL_UTF8_H
#define LEND_UTIL_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the length of the character at s, which is not ASCII and of which left bytes are
 * readable, or 0. */
static inline size_t lend_utf8_character(const uint8_t *s, size_t left)
{
	uint8_t low = 0x80, high = 0xbf;
	size_t len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (s[0] < 0xc2 || s[0] > 0xf4 || len > left)
		return 0;
	switch (s[0]) { /* ranges of the second byte that exclude overlong forms and surrogates */
	case 0xe0:
		low = 0xa0;
		break;
	case 0xed:
		high = 0x9f;
		break;
	case 0xf0:
		low = 0x90;
		break;
	case 0xf4:
		high = 0x8f;
		break;
	default:
		break;
	}
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

#define LEND_UTF8_NOT_ASCII UINT64_C(0x8080808080808080)

/* Returns whether 8 to 16 bytes are ASCII. */
static inline bool lend_utf8_short_ascii(const uint8_t *s, size_t len)
{
	uint64_t first, last;

	memcpy(&first, s, 8);
	memcpy(&last, s + len - 8, 8);
	return !((first | last) & LEND_UTF8_NOT_ASCII);
}

/* Returns whether bytes are UTF-8 as of RFC 3629: no surrogates, no overlong forms, at most
 * U+10FFFF. */
static inline bool lend_utf8_valid(const uint8_t *s, size_t len)
{
	const uint8_t *end = s + len;
	uint64_t eight;
	size_t n;

	if (len - 8 <= 8 && lend_utf8_short_ascii(s, len))
		return true;
	while (s != end) {
		if (end - s >= 8 && (memcpy(&eight, s, 8), !(eight & LEND_UTF8_NOT_ASCII))) {
			s += 8;
		} else if (*s < 0x80) {
			s++;
		} else {
			n = lend_utf8_character(s, (size_t)(end - s));
			if (!n)
				return false;
			s += n;
		}
	}
	return true;
}

/* Returns the length of a text without a character that is cut at len bytes; the text goes on. */
static inline size_t lend_utf8_cut(const char *text, size_t len)
{
	while (len > 0 && ((uint8_t)text[len] & 0xc0) == 0x80)
		len--;
	return len;
}

#endif

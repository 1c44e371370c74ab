#include "pb/utf8.h"

#include <string.h>

/* Returns the length of the character at s, of which left bytes are readable, or 0. */
static size_t character_len(const uint8_t *s, size_t left)
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

#define NOT_ASCII UINT64_C(0x8080808080808080)

/* Returns whether 8 to 16 bytes are ASCII. */
static bool is_short_ascii(const uint8_t *s, size_t len)
{
	uint64_t first, last;

	memcpy(&first, s, 8);
	memcpy(&last, s + len - 8, 8);
	return !((first | last) & NOT_ASCII);
}

bool lend_pb_is_utf8(const uint8_t *s, size_t len)
{
	const uint8_t *end = s + len;
	uint64_t eight;
	size_t n;

	if (len - 8 <= 8 && is_short_ascii(s, len))
		return true;
	while (s != end) {
		if (end - s >= 8 && (memcpy(&eight, s, 8), !(eight & NOT_ASCII))) {
			s += 8;
		} else if (*s < 0x80) {
			s++;
		} else {
			n = character_len(s, (size_t)(end - s));
			if (!n)
				return false;
			s += n;
		}
	}
	return true;
}

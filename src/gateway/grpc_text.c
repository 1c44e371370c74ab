/* grpc_text - the texts that gRPC writes into HTTP/2 headers. See grpc_text.h. */
#include "gateway/grpc_text.h"

#include <string.h>

enum { DIGITS_MAX = 8 };

static const struct unit {
	char name;
	uint64_t ns;
} units[] = {{'n', 1},          {'u', 1000},        {'m', 1000000},
	     {'S', 1000000000}, {'M', 60000000000}, {'H', 3600000000000}};
enum { UNITS = sizeof(units) / sizeof(units[0]) };

int64_t grpc_timeout_read(const uint8_t *text, size_t len)
{
	uint64_t n = 0;

	if (len < 2 || len > DIGITS_MAX + 1)
		return -1;
	for (size_t i = 0; i + 1 < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = 10 * n + (text[i] - '0');
	}
	for (unsigned i = 0; i < UNITS; i++)
		if (text[len - 1] == units[i].name)
			return n > INT64_MAX / units[i].ns ? INT64_MAX : (int64_t)(n * units[i].ns);
	return -1;
}

void grpc_timeout_write(uint64_t ns, char out[GRPC_TIMEOUT_MAX])
{
	enum { LIMIT = 100000000 };
	unsigned unit = 0;
	uint64_t n = ns;
	char digits[DIGITS_MAX];
	unsigned len = 0;

	while (n >= LIMIT && unit + 1 < UNITS) {
		unit++;
		n = ns / units[unit].ns + (ns % units[unit].ns != 0);
	}
	if (n >= LIMIT)
		n = LIMIT - 1;
	do {
		digits[len++] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	for (unsigned i = 0; i < len; i++)
		out[i] = digits[len - 1 - i];
	out[len] = units[unit].name;
	out[len + 1] = '\0';
}

static const char hex[] = "0123456789ABCDEF";

size_t grpc_percent_encode(const char *text, size_t len, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)text[i];

		if (c >= ' ' && c <= '~' && c != '%') {
			out[n++] = (char)c;
			continue;
		}
		out[n++] = '%';
		out[n++] = hex[c >> 4];
		out[n++] = hex[c & 15];
	}
	return n;
}

/* Returns the value of a hexadecimal digit, or -1. */
static int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t grpc_percent_decode(const uint8_t *text, size_t len, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int high = text[i] == '%' && len - i > 2 ? hex_digit(text[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(text[i + 2]) : -1;

		if (low >= 0) {
			out[n++] = (char)(high << 4 | low);
			i += 2;
		} else {
			out[n++] = (char)text[i];
		}
	}
	out[n] = '\0';
	return n;
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void grpc_base64_write(const uint8_t *bytes, size_t len, char *out)
{
	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t v = (uint32_t)bytes[i] << 16;

		v |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
		v |= left > 2 ? bytes[i + 2] : 0;
		*out++ = base64[v >> 18];
		*out++ = base64[v >> 12 & 63];
		*out++ = left > 1 ? base64[v >> 6 & 63] : '=';
		*out++ = left > 2 ? base64[v & 63] : '=';
	}
}

ptrdiff_t grpc_base64_read(const uint8_t *text, size_t len, uint8_t *out)
{
	uint8_t *start = out;
	uint32_t v = 0;

	if (len % 4 == 0)
		for (unsigned i = 0; i < 2 && len && text[len - 1] == '='; i++)
			len--;
	if (len % 4 == 1)
		return -1;
	for (size_t i = 0; i < len; i++) {
		const char *at = text[i] ? strchr(base64, text[i]) : NULL;

		if (!at)
			return -1;
		v = v << 6 | (uint32_t)(at - base64);
		if (i % 4)
			*out++ = (uint8_t)(v >> (6 - i % 4 * 2));
	}
	return out - start;
}

bool grpc_content_type(const uint8_t *text, size_t len)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof(type) - 1;

	return len >= n && memcmp(text, type, n) == 0 &&
	       (len == n || text[n] == '+' || text[n] == ';');
}

#include "wire/worker_address.h"

#include <string.h>

enum { DIGITS_MAX = 10, TEXT_MAX = 4096 /* longer than any address */ };

static size_t find_stop(const char *text, char stop)
{
	size_t n = 0;

	while (n < TEXT_MAX && text[n] && text[n] != stop)
		n++;
	return n;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool has_name(const char *address)
{
	static const char *const scheme[] = {"shm:", "pool:"};

	for (size_t s = 0; s < sizeof(scheme) / sizeof(scheme[0]); s++) {
		size_t n = find_stop(scheme[s], 0);

		if (find_stop(address, 0) >= n && !memcmp(address, scheme[s], n))
			return true;
	}
	return false;
}

/* An output buffer for text; text beyond cap is only counted. */
struct pen {
	char *out;
	size_t cap, len;
};

static void put_text(struct pen *pen, const char *text, size_t n)
{
	if (pen->len + n < pen->cap) {
		memcpy(pen->out + pen->len, text, n);
		pen->out[pen->len + n] = 0;
	}
	pen->len += n;
}

static void put_number(struct pen *pen, uint32_t value)
{
	char digits[DIGITS_MAX];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + value % 10);
	while (value /= 10);
	put_text(pen, digits + at, sizeof(digits) - at);
}

/* Removes ".from" from the end of a name. Returns the remaining length, or 0. */
static size_t cut_worker(const char *text, size_t len, uint32_t from)
{
	char tail[DIGITS_MAX + 2];
	struct pen pen = {tail, sizeof(tail), 0};

	if (!from)
		return len;
	put_text(&pen, ".", 1);
	put_number(&pen, from);
	if (len <= pen.len || memcmp(text + len - pen.len, tail, pen.len))
		return 0;
	return len - pen.len;
}

static bool write_name(const char *address, uint32_t from, uint32_t to, struct pen *pen)
{
	size_t len = find_stop(address, '@'), root = cut_worker(address, len, from);

	put_text(pen, address, root);
	if (to) {
		put_text(pen, ".", 1);
		put_number(pen, to);
	}
	put_text(pen, address + len, find_stop(address + len, 0));
	return root != 0;
}

/* Finds the digits of the port: before the parameters, after the last colon. */
static bool find_port(const char *address, size_t *first, size_t *end)
{
	*end = find_stop(address, '?');
	for (*first = *end; *first && is_digit(address[*first - 1]);)
		--*first;
	return *first && *first < *end && *end - *first <= 5 && address[*first - 1] == ':';
}

uint32_t lend_worker_address_port(const char *address)
{
	size_t first, end;
	uint32_t port = 0;

	if (has_name(address) || !find_port(address, &first, &end))
		return 0;
	for (; first < end; first++)
		port = port * 10 + (uint32_t)(address[first] - '0');
	return port;
}

static bool write_port(const char *address, uint32_t from, uint32_t to, struct pen *pen)
{
	uint32_t old = lend_worker_address_port(address);
	size_t first, end;

	if (old <= from || old - from + to > UINT16_MAX || !find_port(address, &first, &end))
		return false;
	put_text(pen, address, first);
	put_number(pen, old - from + to);
	put_text(pen, address + end, find_stop(address + end, 0));
	return true;
}

bool lend_worker_address(const char *address, uint32_t from, uint32_t to, char *out, size_t cap)
{
	struct pen pen = {out, cap, 0};

	if (has_name(address) ? !write_name(address, from, to, &pen)
			      : !write_port(address, from, to, &pen))
		return false;
	return pen.len < cap;
}

/* Goal: the texts of gRPC's headers are read and written as its specification defines, and
 * malformed ones are refused. Method: tables; base64 and percent encoding of all lengths and bytes
 * there and back. Covers: src/gateway/grpc_text.c */
#include <criterion/criterion.h>
#include <string.h>

#include "gateway/grpc_text.h"

static const uint8_t *bytes_of(const char *text)
{
	return (const uint8_t *)text;
}

Test(gateway_text, timeouts)
{
	static const struct {
		const char *text;
		int64_t ns;
	} table[] = {{"0n", 0},
		     {"1n", 1},
		     {"20u", 20000},
		     {"3m", 3000000},
		     {"99999999S", 99999999000000000},
		     {"2M", 120000000000},
		     {"1H", 3600000000000},
		     {"99999999H", INT64_MAX},
		     {"", -1},
		     {"m", -1},
		     {"1", -1},
		     {"1s", -1},
		     {"-1m", -1},
		     {"1 m", -1},
		     {"123456789m", -1},
		     {"1mm", -1}};
	char out[GRPC_TIMEOUT_MAX];

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		cr_assert_eq(grpc_timeout_read(bytes_of(table[i].text), strlen(table[i].text)),
			     table[i].ns, "%s", table[i].text);
	for (uint64_t ns = 1; ns < UINT64_C(1) << 62; ns = ns * 3 + 1) {
		int64_t back;

		grpc_timeout_write(ns, out);
		back = grpc_timeout_read(bytes_of(out), strlen(out));
		cr_assert(back >= (int64_t)ns && (uint64_t)back - ns <= ns / 100000, "%s", out);
	}
}

Test(gateway_text, base64)
{
	uint8_t bytes[64], back[64];
	char text[96];

	for (size_t len = 0; len <= sizeof(bytes); len++) {
		size_t n = grpc_base64_len(len);

		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)(i * 37 + len);
		grpc_base64_write(bytes, len, text);
		for (int padded = 1; padded >= 0; padded--) {
			while (!padded && n && text[n - 1] == '=')
				n--;
			cr_assert_eq(grpc_base64_read(bytes_of(text), n, back), (ptrdiff_t)len);
			cr_assert_arr_eq(back, bytes, len);
		}
	}
	cr_assert_eq(grpc_base64_read(bytes_of("AAA*"), 4, back), -1);
	cr_assert_eq(grpc_base64_read(bytes_of("A"), 1, back), -1);
	cr_assert_eq(grpc_base64_read(bytes_of("A\0AA"), 4, back), -1);
	cr_assert_eq(grpc_base64_read(bytes_of("A==="), 4, back), -1);
}

Test(gateway_text, percent_encoding)
{
	static const struct {
		const char *text, *encoded;
	} table[] = {{"", ""},
		     {"plain text", "plain text"},
		     {"50%", "50%25"},
		     {"\t\n\x7f", "%09%0A%7F"},
		     {"\xc3\xa9\xe2\x98\xba", "%C3%A9%E2%98%BA"}};
	static const struct {
		const char *text, *decoded;
	} lenient[] = {
	    {"%", "%"}, {"%4", "%4"}, {"%zz", "%zz"}, {"%c3%a9", "\xc3\xa9"}, {"a%2", "a%2"}};
	char out[64];
	size_t n;

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		n = grpc_percent_encode(table[i].text, strlen(table[i].text), out);
		cr_assert(n == strlen(table[i].encoded) && !memcmp(out, table[i].encoded, n));
		n = grpc_percent_decode(bytes_of(table[i].encoded), n, out);
		cr_assert(n == strlen(table[i].text) && !strcmp(out, table[i].text));
	}
	for (unsigned i = 0; i < sizeof(lenient) / sizeof(lenient[0]); i++) {
		(void)grpc_percent_decode(bytes_of(lenient[i].text), strlen(lenient[i].text), out);
		cr_assert_str_eq(out, lenient[i].decoded);
	}
}

Test(gateway_text, content_types)
{
	static const struct {
		const char *text;
		bool is;
	} table[] = {{"application/grpc", true},     {"application/grpc+proto", true},
		     {"application/grpc;a=b", true}, {"application/grpc-web", false},
		     {"application/json", false},    {"", false}};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		cr_assert_eq(grpc_content_type(bytes_of(table[i].text), strlen(table[i].text)),
			     table[i].is);
}

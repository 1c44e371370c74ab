/* text_scan - see text_scan.h. */
#include "apps/social/text_scan.h"

#include <stdbool.h>
#include <string.h>

static bool is_word(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static bool is_url(char c)
{
	return is_word(c) || (c && strchr("!~*'().&=+$%", c));
}

static size_t count_chars(const char *text, size_t len, size_t at, bool (*is)(char))
{
	size_t n = at;

	while (n < len && is(text[n]))
		n++;
	return n - at;
}

/* Returns the length of the scheme at the begin of a text; 0: there is none. */
static size_t scheme_len(const char *text, size_t len)
{
	if (len >= 7 && !memcmp(text, "http://", 7))
		return 7;
	return len >= 8 && !memcmp(text, "https://", 8) ? 8 : 0;
}

struct social_token social_text_scan(const char *text, size_t len, size_t at)
{
	for (; at < len; at++) {
		size_t n = 0, scheme;

		if (text[at] == '@' && (n = count_chars(text, len, at + 1, is_word)))
			return (struct social_token){SOCIAL_TOKEN_MENTION, at + 1, n};
		if (text[at] != 'h' || !(scheme = scheme_len(text + at, len - at)))
			continue;
		n = count_chars(text, len, at + scheme, is_url);
		if (n)
			return (struct social_token){SOCIAL_TOKEN_URL, at, scheme + n};
	}
	return (struct social_token){SOCIAL_TOKEN_END, len, 0};
}

static char *append_bytes(char *to, const char *bytes, size_t len)
{
	memcpy(to, bytes, len);
	return to + len;
}

size_t social_text_replace(const char *text, size_t len, const char *const url[], size_t n,
			   char *out)
{
	struct social_token token = {.len = 0};
	char *end = out;
	size_t from = 0;

	for (size_t i = 0; i < n;) {
		token = social_text_scan(text, len, token.at + token.len);
		if (token.kind == SOCIAL_TOKEN_END)
			break;
		if (token.kind != SOCIAL_TOKEN_URL)
			continue;
		end = append_bytes(end, text + from, token.at - from);
		end = append_bytes(end, url[i], strlen(url[i]));
		from = token.at + token.len;
		i++;
	}
	end = append_bytes(end, text + from, len - from);
	return (size_t)(end - out);
}

/* Goal: mentions and URLs of a text are found as the original's expressions do. Method: a table of
 * texts and what is found, then random texts next to regcomp(3). Covers: apps/social/text_scan.c */
#include <criterion/criterion.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "apps/social/text_scan.h"
#include "util/rng.h"

/* Lists the tokens of a text: "@name" or "<url>". */
static void list_tokens(const char *text, char *out, size_t cap)
{
	struct social_token t = {.len = 0};

	*out = 0;
	while ((t = social_text_scan(text, strlen(text), t.at + t.len)).kind) {
		size_t used = strlen(out);
		bool url = t.kind == SOCIAL_TOKEN_URL;

		snprintf(out + used, cap - used, url ? "<%.*s>" : "@%.*s", (int)t.len, text + t.at);
	}
}

Test(text_scan, table__text__tokens)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
	    {"", ""},
	    {"plain", ""},
	    {"@", ""},
	    {"@ada", "@ada"},
	    {"x@ada,@bob-1_2!", "@ada@bob-1_2"},
	    {"@@ada", "@ada"},
	    {"http://", ""},
	    {"http:// x", ""},
	    {"http://a", "<http://a>"},
	    {"https://a.b", "<https://a.b>"},
	    {"http://a/b", "<http://a>"},
	    {"http://a?b http://c:1", "<http://a><http://c>"},
	    {"http://a!~*'().&=+$%-_", "<http://a!~*'().&=+$%-_>"},
	    {"http://a@b", "<http://a>@b"},
	    {"hhttp://a", "<http://a>"},
	    {"http://http://a", "<http://http>"},
	    {"httphttps://x", "<https://x>"},
	    {"@a http://b @c", "@a<http://b>@c"},
	};
	char got[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		list_tokens(rows[i].text, got, sizeof(got));
		cr_expect_str_eq(got, rows[i].want, "%s: %s", rows[i].text, got);
	}
}

Test(text_scan, replace__table__texts)
{
	static const struct {
		const char *text, *want;
	} rows[] = {{"", ""},
		    {"no url", "no url"},
		    {"http://a", "S1"},
		    {"x http://a/b @c http://d y", "x S1/b @c S2 y"},
		    {"http://a http://b http://c", "S1 S2 http://c"}};
	static const char *const urls[] = {"S1", "S2"};
	char got[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		got[social_text_replace(rows[i].text, strlen(rows[i].text), urls, 2, got)] = 0;
		cr_expect_str_eq(got, rows[i].want, "%s: %s", rows[i].text, got);
	}
}

Test(text_scan, end__bytes_behind__not_read)
{
	cr_assert_eq(social_text_scan("http://ab", 8, 0).len, 8);
	cr_assert_eq(social_text_scan("http://ab", 7, 0).kind, SOCIAL_TOKEN_END);
	cr_assert_eq(social_text_scan("@ab", 1, 0).kind, SOCIAL_TOKEN_END);
}

/* Lists the tokens by two regular expressions, in the order of their places. */
static void list_by_regex(const regex_t regex[2], const char *text, char *out, size_t cap)
{
	const char *at = text;

	*out = 0;
	for (;;) {
		regmatch_t m[2];
		int none[2], first;
		size_t used = strlen(out);

		for (int i = 0; i < 2; i++)
			none[i] = regexec(&regex[i], at, 1, &m[i], 0);
		if (none[0] && none[1])
			return;
		first = none[0] || (!none[1] && m[1].rm_so < m[0].rm_so);
		snprintf(out + used, cap - used, first ? "<%.*s>" : "%.*s",
			 (int)(m[first].rm_eo - m[first].rm_so), at + m[first].rm_so);
		at += m[first].rm_eo;
	}
}

Test(text_scan, random__texts__as_regex)
{
	static const char *const parts[] = {"@", "ad", "_", "-", " ",  "http://", "https://", "h",
					    "/", ".",  "%", "?", "z9", "t",       ":"};
	const uint64_t seed = 24;
	struct lend_rng rng;
	regex_t regex[2];

	printf("seed %llu\n", (unsigned long long)seed);
	lend_rng_seed(&rng, seed);
	cr_assert_eq(regcomp(&regex[0], "@[A-Za-z0-9_-]+", REG_EXTENDED), 0);
	cr_assert_eq(regcomp(&regex[1], "https?://[A-Za-z0-9_!~*'().&=+$%-]+", REG_EXTENDED), 0);
	for (int i = 0; i < 5000; i++) {
		char text[256] = "", got[1024], want[1024];

		for (uint64_t n = lend_rng_below(&rng, 20); n; n--)
			strcat(text, parts[lend_rng_below(&rng, sizeof(parts) / sizeof(parts[0]))]);
		list_tokens(text, got, sizeof(got));
		list_by_regex(regex, text, want, sizeof(want));
		cr_assert_str_eq(got, want, "%s: %s, not %s", text, got, want);
	}
	regfree(&regex[0]);
	regfree(&regex[1]);
}

/* Goal: timelines are the original's JSON: its names in its order, 64-bit numbers as texts, escapes
 * where JSON needs them. Method: posts and their exact text. Covers: apps/social/timeline_json.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "apps/social/timeline_json.h"
#include "lend/alloc.h"

static Social__User ada, bob;
static Social__Url url;
static Social__Media media;
static Social__Blob text;
static Social__Post post;

/* Makes a post with one of each. */
static void make_post(const char *words)
{
	static Social__User *mentions[] = {&bob};
	static Social__Media *all_media[] = {&media};
	static Social__Url *urls[] = {&url};

	social__user__init(&ada);
	social__user__init(&bob);
	social__url__init(&url);
	social__media__init(&media);
	social__blob__init(&text);
	social__post__init(&post);
	ada.user_id = INT64_MAX;
	ada.username = (char *)(uintptr_t) "a\"da";
	bob.user_id = -2;
	bob.username = (char *)(uintptr_t) "bob";
	url.shortened_url = (char *)(uintptr_t) "http://s";
	url.expanded_url = (char *)(uintptr_t) "http://long";
	media.media_id = 7;
	media.media_type = (char *)(uintptr_t) "png";
	text.data.data = (uint8_t *)(uintptr_t)words;
	text.data.len = words ? strlen(words) : 0;
	post = (Social__Post){.base = post.base,
			      .post_id = INT64_MIN,
			      .creator = &ada,
			      .req_id = 0,
			      .text = &text,
			      .n_user_mentions = 1,
			      .user_mentions = mentions,
			      .n_media = 1,
			      .media = all_media,
			      .n_urls = 1,
			      .urls = urls,
			      .timestamp = 1,
			      .post_type = SOCIAL__POST_TYPE__DM};
}

static void check_json(size_t n, const char *want)
{
	Social__Post *list[] = {&post, &post};
	Social__Posts posts = SOCIAL__POSTS__INIT;
	size_t len;
	char *json;

	posts.n_posts = n;
	posts.posts = list;
	json = timeline_json(&posts, &len);
	cr_assert_eq(len, strlen(want), "%.*s", (int)len, json);
	cr_expect(!memcmp(json, want, len), "%.*s", (int)len, json);
	lend_free(json);
}

Test(timeline_json, no_posts__empty_array)
{
	check_json(0, "[]\n");
}

#define HEAD                                                                                       \
	"{\"post_id\":\"-9223372036854775808\",\"creator\":{\"user_id\":\"9223372036854775807\","  \
	"\"username\":\"a\\\"da\"},\"req_id\":\"0\",\"text\":"
#define TAIL                                                                                       \
	",\"user_mentions\":[{\"user_id\":\"-2\",\"username\":\"bob\"}],\"media\":[{\"media_id\":" \
	"\"7\",\"media_type\":\"png\"}],\"urls\":[{\"shortened_url\":\"http://s\","                \
	"\"expanded_url\":\"http://long\"}],\"timestamp\":\"1\",\"post_type\":3}"

Test(timeline_json, table__texts__escaped)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
	    {"plain", "\"plain\""},
	    {"a\\b\"c", "\"a\\\\b\\\"c\""},
	    {"\n\t\x01\x1f", "\"\\n\\u0009\\u0001\\u001f\""},
	    {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
	    {"", "\"\""},
	    {NULL, "null"},
	};
	char want[1024];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		make_post(rows[i].text);
		snprintf(want, sizeof(want), "[" HEAD "%s" TAIL "]\n", rows[i].want);
		check_json(1, want);
	}
}

/* Each byte that needs an escape, at each place of a block and behind it. */
Test(timeline_json, escape__any_place__found)
{
	for (int c = 1; c < 256; c++)
		for (size_t at = 0; at < 72; at++) {
			char words[80] = "", escape[8], want[1024];

			memset(words, 'a', sizeof(words) - 1);
			words[at] = (char)c;
			make_post(words);
			if (c == '"' || c == '\\')
				snprintf(escape, sizeof(escape), "\\%c", c);
			else
				snprintf(escape, sizeof(escape),
					 c == '\n' ? "\\n"
					 : c < ' ' ? "\\u%04x"
						   : "%c",
					 c);
			snprintf(want, sizeof(want), "[" HEAD "\"%.*s%s%s\"" TAIL "]\n", (int)at,
				 words, escape, words + at + 1);
			check_json(1, want);
		}
}

Test(timeline_json, two_posts__comma)
{
	make_post("x");
	check_json(2, "[" HEAD "\"x\"" TAIL "," HEAD "\"x\"" TAIL "]\n");
}

Test(timeline_json, long_text__grows)
{
	static char words[100001], want[700000];

	memset(words, 1, sizeof(words) - 1);
	make_post(words);
	strcpy(want, "[" HEAD "\"");
	for (size_t i = 0, at = strlen(want); i < sizeof(words) - 1; i++, at += 6)
		memcpy(want + at, "\\u0001", 7);
	strcat(want, "\"" TAIL "]\n");
	check_json(1, want);
}

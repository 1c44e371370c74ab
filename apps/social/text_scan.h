/* text_scan - mentions and URLs in a text, in one pass.
 *
 * A mention is "@" and one or more of A-Z a-z 0-9 _ -. A URL is "http://" or "https://" and one or
 * more of A-Z a-z 0-9 _ ! ~ * ' ( ) . & = + $ % -.
 *
 * Layer: apps. Threads: any. */
#ifndef APPS_SOCIAL_TEXT_SCAN_H
#define APPS_SOCIAL_TEXT_SCAN_H

#include <stddef.h>

enum social_token_kind { SOCIAL_TOKEN_END, SOCIAL_TOKEN_MENTION, SOCIAL_TOKEN_URL };
struct social_token {
	enum social_token_kind kind;
	size_t at, len; /* in the text; of a mention without its "@" */
};

/* Returns the first token of a text from at on. */
struct social_token social_text_scan(const char *text, size_t len, size_t at);
/* Writes a text with its first n URLs replaced, in order. out has room for the text and for all of
 * url. Returns the length. */
size_t social_text_replace(const char *text, size_t len, const char *const url[], size_t n,
			   char *out);

#endif

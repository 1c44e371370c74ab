/* call_metadata - see call_metadata.h. */
#include "apps/tools/call_metadata.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "apps/common/html.h"
#include "apps/common/options.h"

static bool is_binary(const char *key)
{
	size_t len = strlen(key);

	return len >= 4 && !strcmp(key + len - 4, "-bin");
}

/* Stores the bytes of a base64 text in its place. Returns their number, or -1. */
static ssize_t decode_base64(char *text)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned bits = 0;
	uint32_t word = 0;
	ssize_t len = 0;

	for (const char *c = text; *c && *c != '='; c++) {
		const char *digit = strchr(digits, *c);

		if (!digit)
			return -1;
		word = word << 6 | (uint32_t)(digit - digits);
		bits += 6;
		if (bits < 8)
			continue;
		bits -= 8;
		text[len++] = (char)(word >> bits);
	}
	return len;
}

static const char *why_refused(int err)
{
	switch (err) {
	case -EINVAL:
		return "a NAME has a-z 0-9 _ . - and a VALUE printable ASCII, or base64 if NAME "
		       "ends in -bin";
	case -E2BIG:
		return "all of them have more than 8 KiB; send less";
	default:
		return strerror(-err);
	}
}

void call_metadata_take(struct lend_metadata **metadata, const char *option, char *text)
{
	char *value = strchr(text, ':');
	ssize_t len;
	int err;

	if (!value)
		app_bad("--%s %s: no value; give NAME:VALUE", option, text);
	*value++ = 0;
	value += strspn(value, " ");
	len = is_binary(text) ? decode_base64(value) : (ssize_t)strlen(value);
	if (!*metadata)
		*metadata = lend_metadata_new();
	err = !*metadata ? -ENOMEM : -EINVAL;
	if (*metadata && len >= 0)
		err = lend_metadata_add(*metadata, text, value, (size_t)len);
	if (err)
		app_bad("--%s %s: %s", option, text, why_refused(err));
}

static void write_value(FILE *out, const struct lend_pair *pair)
{
	if (!is_binary(pair->key)) {
		app_report_quote(out, pair->value);
		return;
	}
	putc('"', out);
	page_base64(out, pair->value, pair->len);
	putc('"', out);
}

/* Writes the values of a key from its first pair on, unless an earlier pair has the key. */
static void write_key(FILE *out, struct lend_ep *ep, const struct lend_call *call, bool trailing,
		      const struct lend_pair *first)
{
	struct lend_pair pair;
	uint32_t at = 0;
	unsigned n = 0;

	while (lend_call_metadata(ep, call, trailing, &at, &pair))
		if (!strcmp(pair.key, first->key) && n++ == 0 && pair.key != first->key)
			return;
	if (ftell(out) > 1)
		fputs(", ", out);
	app_report_quote(out, first->key);
	fputs(n > 1 ? ": [" : ": ", out);
	at = 0;
	for (unsigned i = 0; lend_call_metadata(ep, call, trailing, &at, &pair);) {
		if (strcmp(pair.key, first->key) != 0)
			continue;
		fputs(i++ ? ", " : "", out);
		write_value(out, &pair);
	}
	if (n > 1)
		putc(']', out);
}

void call_metadata_report(struct app_report *report, struct lend_ep *ep,
			  const struct lend_call *call, bool trailing)
{
	struct lend_pair pair;
	uint32_t at = 0;
	size_t len;
	char *text;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		app_die("no memory for the metadata; end some processes");
	putc('{', out);
	while (lend_call_metadata(ep, call, trailing, &at, &pair))
		write_key(out, ep, call, trailing, &pair);
	putc('}', out);
	if (fclose(out) != 0)
		app_die("no memory for the metadata; end some processes");
	app_report_json(report, trailing ? "trailing" : "initial", text, "");
	free(text);
}

void call_metadata_print(struct lend_ep *ep, const struct lend_call *call, bool trailing)
{
	struct lend_pair pair;

	for (uint32_t at = 0; lend_call_metadata(ep, call, trailing, &at, &pair);) {
		fprintf(stderr, "%s: ", pair.key);
		if (is_binary(pair.key))
			page_base64(stderr, pair.value, pair.len);
		else
			fputs(pair.value, stderr);
		putc('\n', stderr);
	}
}

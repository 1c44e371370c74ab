#include "apps/load/load_form.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"

#define BOUNDARY "lend-load-5f1c6f0e2f9a4d1b"
enum {
	HEAD_MAX = 512,    /* bytes before a form */
	FIELDS_MAX = 4096, /* bytes of a form without its text: six mentions, URLs and media */
	URL_LEN = 64,
	MENTIONS_MAX = 6,
	URLS_MAX = 6,
	MEDIA_MAX = 5,
	MEDIA_DIGITS = 18,
	PHOTO_MAX = 64 << 20,
};

struct load_photo load_photo_read(const char *path)
{
	struct load_photo photo = {.bytes = malloc(PHOTO_MAX)};
	FILE *file = fopen(path, "rb");

	if (!file)
		app_bad("%s: %s", path, strerror(errno));
	if (!photo.bytes)
		app_die("no memory for %s", path);
	photo.len = fread(photo.bytes, 1, PHOTO_MAX, file);
	fclose(file);
	if (photo.len < 4 || memcmp(photo.bytes, "\xff\xd8\xff", 3) != 0)
		app_bad("%s: no JPEG file", path);
	return photo;
}

void load_photo_comment(uint64_t number, char comment[LOAD_COMMENT + 1])
{
	memcpy(comment, "\xff\xfe\x00\x12", 4); /* a comment of 18 bytes, its length included */
	(void)snprintf(comment + 4, LOAD_COMMENT - 3, "%016llx", (unsigned long long)number);
}

static uint64_t count_wrong(const char *a, const char *b, size_t len)
{
	uint64_t wrong = 0;

	if (memcmp(a, b, len) == 0)
		return 0;
	for (size_t i = 0; i < len; i++)
		wrong += a[i] != b[i];
	return wrong;
}

uint64_t load_photo_wrong(const struct load_photo *photo, uint64_t number, const char *bytes,
			  size_t len)
{
	size_t want = photo->len + LOAD_COMMENT;
	char comment[LOAD_COMMENT + 1];

	if (len != want)
		return len > want ? len - want : want - len;
	load_photo_comment(number, comment);
	return count_wrong(bytes, photo->bytes, LOAD_SOI) +
	       count_wrong(bytes + LOAD_SOI, comment, LOAD_COMMENT) +
	       count_wrong(bytes + LOAD_SOI + LOAD_COMMENT, photo->bytes + LOAD_SOI,
			   photo->len - LOAD_SOI);
}

void load_form_open(struct load_form *form, const struct load_shape *shape)
{
	form->cap = HEAD_MAX + FIELDS_MAX + shape->text;
	form->bytes = malloc(form->cap);
	if (!form->bytes)
		app_die("no memory for a request of %zu bytes", form->cap);
}

/* A form that is being written behind HEAD_MAX bytes, in which its head is put when its length is
 * known. */
struct writer {
	struct load_form *form;
	size_t len;
};

static void put_bytes(struct writer *w, const void *bytes, size_t len)
{
	LEND_CHECK(len <= w->form->cap - w->len);
	memcpy(w->form->bytes + w->len, bytes, len);
	w->len += len;
}

__attribute__((format(printf, 2, 3))) static void print_text(struct writer *w, const char *format,
							     ...)
{
	char text[HEAD_MAX];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	LEND_CHECK(n >= 0 && (size_t)n < sizeof(text));
	put_bytes(w, text, (size_t)n);
}

/* Writes random letters and digits. */
static void put_letters(struct writer *w, struct lend_rng *rng, size_t len)
{
	static const char letters[] =
	    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZab";

	LEND_CHECK(len <= w->form->cap - w->len);
	for (uint64_t bits = 0, left = 0; len > 0; len--, left--, bits >>= 6) {
		if (left == 0) {
			bits = lend_rng_next(rng);
			left = 10;
		}
		w->form->bytes[w->len++] = letters[bits & 63];
	}
}

/* Writes the text of a post: letters, mentions and URLs. */
static void put_text(struct writer *w, struct lend_rng *rng, const struct load_shape *shape)
{
	unsigned mentions = 1 + (unsigned)lend_rng_below(rng, MENTIONS_MAX);
	unsigned urls = 1 + (unsigned)lend_rng_below(rng, URLS_MAX);

	put_letters(w, rng, shape->text);
	while (mentions-- > 0)
		print_text(w, " @username_%u", (unsigned)lend_rng_below(rng, shape->users));
	while (urls-- > 0) {
		print_text(w, " http://");
		put_letters(w, rng, URL_LEN);
	}
}

static void put_media(struct writer *w, struct lend_rng *rng)
{
	unsigned n = 1 + (unsigned)lend_rng_below(rng, MEDIA_MAX);

	print_text(w, "&media_ids=[");
	for (unsigned i = 0; i < n; i++)
		print_text(w, "%s\"%0*llu\"", i ? "," : "", MEDIA_DIGITS,
			   (unsigned long long)lend_rng_below(rng, UINT64_C(1000000000000000000)));
	print_text(w, "]&media_types=[");
	for (unsigned i = 0; i < n; i++)
		print_text(w, "%s\"png\"", i ? "," : "");
	print_text(w, "]");
}

/* Puts the head before what was written from HEAD_MAX on, as the first part. more: bytes of the
 * form in other parts. */
static void put_head(struct writer *w, const char *host, const char *path, const char *type,
		     size_t more)
{
	struct load_form *form = w->form;
	size_t len = w->len - HEAD_MAX;
	char head[HEAD_MAX];
	int n = snprintf(head, sizeof(head),
			 "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: "
			 "%zu\r\n\r\n",
			 path, host, type, len + more);

	LEND_CHECK(n > 0 && (size_t)n < sizeof(head));
	memcpy(form->bytes + HEAD_MAX - n, head, (size_t)n);
	form->part[0] = (struct iovec){form->bytes + HEAD_MAX - n, len + (size_t)n};
}

static void put_field(struct writer *w, const char *name)
{
	print_text(w, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n",
		   name);
}

/* Ends a form of several parts with a photo. */
static void end_with_photo(struct writer *w, const char *host, const char *path, uint64_t number,
			   const struct load_photo *photo)
{
	static const char end[] = "\r\n--" BOUNDARY "--\r\n";
	struct load_form *form = w->form;
	char comment[LOAD_COMMENT + 1];

	print_text(w, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"media\"; "
		      "filename=\"photo.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n");
	load_photo_comment(number, comment);
	put_bytes(w, photo->bytes, LOAD_SOI);
	put_bytes(w, comment, LOAD_COMMENT);
	put_head(w, host, path, "multipart/form-data; boundary=" BOUNDARY,
		 photo->len - LOAD_SOI + sizeof(end) - 1);
	form->part[1] = (struct iovec){photo->bytes + LOAD_SOI, photo->len - LOAD_SOI};
	form->part[2] = (struct iovec){(void *)(uintptr_t)end, sizeof(end) - 1};
	form->parts = 3;
}

void load_form_compose(struct load_form *form, const char *host, const struct load_request *request,
		       const struct load_shape *shape, const struct load_photo *photo,
		       struct lend_rng *rng)
{
	static const char path[] = "/wrk2-api/post/compose";
	struct writer w = {.form = form, .len = HEAD_MAX};

	if (photo->bytes) {
		put_field(&w, "username");
		print_text(&w, "username_%u\r\n", request->user);
		put_field(&w, "user_id");
		print_text(&w, "%u\r\n", request->user);
		put_field(&w, "post_type");
		print_text(&w, "0\r\n");
		put_field(&w, "text");
		put_text(&w, rng, shape);
		print_text(&w, "\r\n");
		end_with_photo(&w, host, path, request->number, photo);
		return;
	}
	print_text(&w, "username=username_%u&user_id=%u&text=", request->user, request->user);
	put_text(&w, rng, shape);
	put_media(&w, rng);
	print_text(&w, "&post_type=0");
	put_head(&w, host, path, "application/x-www-form-urlencoded", 0);
	form->parts = 1;
}

void load_form_upload(struct load_form *form, const char *host, uint64_t number,
		      const struct load_photo *photo)
{
	struct writer w = {.form = form, .len = HEAD_MAX};

	end_with_photo(&w, host, "/upload-media", number, photo);
}

/* Makes a request without a form the only part. */
__attribute__((format(printf, 2, 3))) static void print_get(struct load_form *form,
							    const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(form->bytes, form->cap, format, args);
	va_end(args);
	LEND_CHECK(n > 0 && (size_t)n < form->cap);
	form->part[0] = (struct iovec){form->bytes, (size_t)n};
	form->parts = 1;
}

void load_form_read(struct load_form *form, const char *host, const struct load_request *request)
{
	print_get(form,
		  "GET /wrk2-api/%s-timeline/read?user_id=%u&start=%u&stop=%u HTTP/1.1\r\n"
		  "Host: %s\r\n\r\n",
		  request->kind == LOAD_HOME ? "home" : "user", request->user, request->start,
		  request->stop, host);
}

void load_form_get_media(struct load_form *form, const char *host, const char *id)
{
	print_get(form, "GET /get-media?filename=%s HTTP/1.1\r\nHost: %s\r\n\r\n", id, host);
}

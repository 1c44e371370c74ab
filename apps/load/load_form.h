/* load_form - requests in HTTP/1.1, with the fields of DeathStarBench's wrk scripts.
 * Layer: apps. Threads: one. Owner: load_http.c. */
#ifndef APPS_LOAD_LOAD_FORM_H
#define APPS_LOAD_LOAD_FORM_H

#include <sys/uio.h>

#include "apps/load/load.h"

/* A JPEG file. A sent photo has a comment with a number behind its first two bytes, so that each is
 * different. */
struct load_photo {
	char *bytes; /* NULL: none */
	size_t len;
};
enum {
	LOAD_SOI = 2,      /* bytes of a JPEG's start */
	LOAD_COMMENT = 20, /* bytes of the comment */
	LOAD_ID_MAX = 128,
};

/* Reads a file; app_bad() if it is no JPEG. */
struct load_photo load_photo_read(const char *path);
/* Writes a comment that follows a photo's start. */
void load_photo_comment(uint64_t number, char comment[LOAD_COMMENT + 1]);
/* Returns how many bytes differ from a photo with this number, including missing and surplus
 * ones. */
uint64_t load_photo_wrong(const struct load_photo *photo, uint64_t number, const char *bytes,
			  size_t len);

/* The bytes of one request: parts[0..n) point into it, and at a photo. */
struct load_form {
	char *bytes;
	size_t cap;
	struct iovec part[3];
	unsigned parts;
};

/* Makes room for requests of a shape; app_die() without memory. */
void load_form_open(struct load_form *form, const struct load_shape *shape);
/* Write a request. host: HOST:PORT. id: of a stored photo, with its suffix. */
void load_form_read(struct load_form *form, const char *host, const struct load_request *request);
void load_form_get_media(struct load_form *form, const char *host, const char *id);
/* photo->bytes NULL: with media ids. */
void load_form_compose(struct load_form *form, const char *host, const struct load_request *request,
		       const struct load_shape *shape, const struct load_photo *photo,
		       struct lend_rng *rng);
void load_form_upload(struct load_form *form, const char *host, uint64_t number,
		      const struct load_photo *photo);

#endif

/* images_list - the photographs of a run: finds, checks and decodes them, and computes their
 * expected results.
 * Layer: apps. Threads: one. */
#ifndef LEND_APPS_IMAGES_IMAGES_LIST_H
#define LEND_APPS_IMAGES_IMAGES_LIST_H

#include "apps/images/images.h"

struct images_item {
	char *path; /* owned */
	struct images_size size;
	/* While loaded. */
	void *rgb;                   /* images_size_bytes(size) bytes; owned */
	struct lend_ref ref;         /* reference to the pixels, if they are in a pool */
	struct images_jpeg want;     /* result of the operation done here; owned */
	enum images_what what;       /* operation with the result in want */
	lend_ns decode_ns, local_ns; /* duration of decoding and of that operation */
	/* Results. */
	unsigned results, differ; /* received; different from want */
};

struct images_list {
	struct images_item *item; /* sorted by path */
	unsigned n;
	unsigned skipped; /* named like a JPEG, but not usable */
	struct images_codec *codec;
	enum images_what what; /* operation that requests name: NEAREST, or any other */
};
/* Finds all *.jpg and *.jpeg in path, a file or a folder with its subfolders. Prints one line for
 * each file that is skipped: not a JPEG, damaged, not readable, too large. app_bad() when path is
 * missing or no file is left. */
void images_list_open(struct images_list *list, const char *path);
void images_list_close(struct images_list *list);
/* Decodes item i and does its operation here. Returns false when it cannot be decoded; then prints
 * a line and counts it as skipped. */
bool images_list_load(struct images_list *list, unsigned i);
void images_list_unload(struct images_list *list, unsigned i);
/* Crops item i, if it is loaded, to its upper left part of at most side x side pixels, and does its
 * operation again. app_die() when that fails. */
void images_list_crop(struct images_list *list, unsigned i, uint32_t side);

/* Makes the folder if it is missing; app_bad() when it is not writable. */
void images_out_open(const char *dir);
/* Writes NUMBER-NAME.OPERATION.jpg, complete or not at all; app_die() when it cannot be written. */
void images_out_save(const char *dir, const struct images_item *item, uint32_t number,
		     const void *data, size_t len);

#endif

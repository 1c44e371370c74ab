/* images_list - the photographs of a run: found, checked, decoded, and what must come of them.
 * Layer: apps. Threads: one. */
#ifndef LEND_APPS_IMAGES_IMAGES_LIST_H
#define LEND_APPS_IMAGES_IMAGES_LIST_H

#include "apps/images/images.h"

struct images_item {
	char *path; /* owned */
	struct images_size size;
	/* While loaded. */
	void *rgb;                   /* images_size_bytes(size) of them; owned */
	struct images_jpeg want;     /* the operation done here; owned */
	enum images_what what;       /* which operation that was */
	lend_ns decode_ns, local_ns; /* what decoding and that operation took */
	/* Results. */
	unsigned results, differ; /* came back; differ from want */
};

struct images_list {
	struct images_item *item; /* sorted by path */
	unsigned n;
	unsigned skipped; /* named like a JPEG, but of no use */
	struct images_codec *codec;
};
/* All *.jpg and *.jpeg in path, which is a file or a folder and what is below it. Says one line for
 * each that is skipped: not a JPEG, damaged, not readable, too large. app_bad() when path is
 * missing or nothing is left. */
void images_list_open(struct images_list *list, const char *path);
void images_list_close(struct images_list *list);
/* Decodes item i and does its operation here. false: it cannot be decoded, said so, counted as
 * skipped. */
bool images_list_load(struct images_list *list, unsigned i);
void images_list_unload(struct images_list *list, unsigned i);

/* Makes the folder if need be; app_bad() when nothing can be written there. */
void images_out_open(const char *dir);
/* Writes NUMBER-NAME.OPERATION.jpg, whole or not at all; app_die() when it cannot. */
void images_out_save(const char *dir, const struct images_item *item, uint32_t number,
		     const void *data, size_t len);

#endif

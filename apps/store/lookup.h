/* lookup - the page tables of one large space, and two hash maps of the same pages beside them.
 *
 * No page has bytes: only the tables are made, by the store's own functions. A page has an entry of
 * 16 bytes in either map, a key of 64 bits and a frame, as a node with many spaces would need it.
 *
 * Layer: apps/store, which sees into the store. Threads: any, one lookup each.
 */
#ifndef APPS_STORE_LOOKUP_H
#define APPS_STORE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum app_way {
	APP_WAY_TREE,   /* the store's page tables */
	APP_WAY_FLAT,   /* flat hash map as Abseil's: groups of 16, searched by a byte of each hash
			 */
	APP_WAY_LINEAR, /* entries alone; a collision goes to the next one */
	APP_WAYS,
};

struct app_lookup {
	struct lend_store *store;
	struct app_entry *flat, *linear;
	uint8_t *tag; /* of the flat map's entries: 7 bits of the hash, or 128: free */
	uint64_t pages;
	uint64_t bytes[APP_WAYS]; /* mapped */
	unsigned bits;            /* of both maps: 2^bits entries */
};

/* Tables of so many pages, at most 2^29; all memory with or without huge pages. app_die() when
 * there is none. */
void app_lookup_open(struct app_lookup *l, uint64_t pages, bool huge);
void app_lookup_close(struct app_lookup *l);
/* The sum of the frames under n pages. waits: each lookup needs the one before to have ended, as
 * that of an operation does; else the processor may work on many at once. */
uint64_t app_lookup_sum(const struct app_lookup *l, enum app_way table, bool waits,
			const uint32_t *page, size_t n);
/* How many of the pages have another frame than was put there, in any. */
uint64_t app_lookup_wrong(const struct app_lookup *l, const uint32_t *page, size_t n);

#endif

/* lookup - the page tables of one large space, and two hash maps of the same pages for comparison.
 *
 * Pages have no bytes: only the tables exist, made by the store's own functions. In both maps a
 * page has an entry of 16 bytes, a key of 64 bits and a frame, as a node with many spaces would
 * need it.
 *
 * Layer: apps/store, which may include the store's code. Threads: any, one lookup each. */
#ifndef APPS_STORE_LOOKUP_H
#define APPS_STORE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum app_way {
	APP_WAY_TREE,   /* the store's page tables */
	APP_WAY_FLAT,   /* flat hash map like Abseil's: groups of 16, searched by one byte of each
			   hash */
	APP_WAY_LINEAR, /* entries only; linear probing */
	APP_WAYS,
};

struct app_lookup {
	struct lend_store *store;
	struct app_entry *flat, *linear;
	uint8_t *tag; /* one per entry of the flat map: 7 bits of the hash, or 128: free */
	uint64_t pages;
	uint64_t bytes[APP_WAYS]; /* mapped */
	unsigned bits;            /* log2 of the entries of both maps */
};

/* Makes the tables for pages pages, at most 2^29; all memory with or without huge pages. app_die()
 * without memory. */
void app_lookup_open(struct app_lookup *l, uint64_t pages, bool huge);
void app_lookup_close(struct app_lookup *l);
/* Returns the sum of the frames of n pages. waits: each lookup depends on the result of the
 * previous one, as in an operation; else the processor may overlap lookups. */
uint64_t app_lookup_sum(const struct app_lookup *l, enum app_way table, bool waits,
			const uint32_t *page, size_t n);
/* Returns in how many lookups, over all tables, a page has another frame than the stored one. */
uint64_t app_lookup_wrong(const struct app_lookup *l, const uint32_t *page, size_t n);

#endif

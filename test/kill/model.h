/* model - what one client holds on one memory node, in the simplest form: bytes kept twice, pages
 * as numbers, counted by a loop over all. Layer: test. Memory: its owner's; shared with no
 * process. */
#ifndef TEST_KILL_MODEL_H
#define TEST_KILL_MODEL_H

#include "kill/kill.h"
#include "kill/node_process.h"

enum { THINGS = 20, THING_PAGES = 6, THING_LEN = THING_PAGES * 4096 };

enum thing_kind { THING_NONE, THING_SNAPSHOT, THING_SPACE };
struct thing {
	enum thing_kind kind;
	uint32_t held; /* snapshot: number of this client's holds; 0: only a grant keeps it */
	bool granted;  /* SHARED until the end of the run */
	uint32_t len;
	uint32_t page[2 * THING_PAGES]; /* page numbers; 0: zeros without a page; then those that a
					 * pool keeps because a client was given them to map */
	bool pinned_map;                /* the pinned mapping keeps the pages */
	bool written, pointer;          /* space: written by an operation; has a pointer */
	bool stored[THING_PAGES];       /* stored to through the pointer, and not sent since */
	bool marked;                    /* the kernel tracks dirty pages; else: ever stored to */
	uint32_t worker;                /* index of the node's worker that has it */
	struct lend_ref ref;
	lend_space space;
	uint8_t bytes[THING_LEN];
};

struct model {
	struct thing thing[THINGS];
	uint32_t pages; /* numbers given so far */
};

/* NULL: no room. */
struct thing *model_add(struct model *model, enum thing_kind kind, uint32_t len);
/* A random one of a kind; NULL: none drawn. */
struct thing *model_pick(struct model *model, struct lend_rng *rng, enum thing_kind kind);
void model_put(struct model *model, struct thing *thing, const void *bytes);
void model_copy(struct thing *to, const struct thing *from, uint32_t first_page, uint32_t len);
void model_write(struct model *model, struct thing *space, uint32_t at, const void *bytes,
		 uint32_t len);
/* Removes one hold. */
void model_release(struct thing *thing);
/* A worker of the node ended this client's life there: the objects that only this client kept are
 * gone. */
void model_fence(struct model *model, uint32_t worker);
/* The difference between model and node as text; NULL: none. others: the clients of other
 * processes. */
const char *model_compare(const struct model *model, const struct node_counts *counts);
uint32_t model_holds(const struct model *model);
uint32_t model_spaces(const struct model *model);
uint32_t model_pinned_maps(const struct model *model);
/* The client was given the pages that the space has now, to map them. */
void model_pinned_map(struct thing *space);
/* A seal of [at, at + len) sends the pages that were stored to. */
void model_send(struct model *model, struct thing *space, uint32_t at, uint32_t len);

#endif

/* fdstore - memory that outlives this process, in the service manager's file descriptor store.
 *
 * Each worker has two files, its pages and its arena. The manager gets copies of their descriptors
 * as soon as a store stands in them, so a kill -9 at any later moment loses nothing; the next start
 * finds them among those that it was given, and the store goes on (store/recover.h).
 * Layer: mn. Threads: the main one, before workers run. */
#ifndef MN_FDSTORE_H
#define MN_FDSTORE_H

#include "mn/config.h"
#include "mn/memory.h"

enum mn_keep_part { MN_KEEP_PAGES, MN_KEEP_ARENA };

/* Whether this config can be kept here. 0, or -EINVAL with lend_why(). */
int mn_keep_check(const struct mn_config *config);
/* All that this many workers keep was given to this process. */
bool mn_keep_is_whole(uint32_t workers);
/* The given file of a worker, or -1. It stays open. */
int mn_keep_find(uint32_t worker, enum mn_keep_part part);
/* From now on the manager keeps it, in place of an earlier one. 0 or -errno with lend_why(). */
int mn_keep_store(uint32_t worker, enum mn_keep_part part, const struct mn_memory *memory);

#endif

/* fdstore - memory that outlives this process, in the service manager's file descriptor store.
 *
 * Each worker has two files, its pages and its arena. The manager gets copies of their descriptors
 * as soon as they contain a store, so a kill -9 at any later moment loses nothing. The next start
 * finds them among the descriptors passed to it, and reopens the store (store/recover.h).
 * Layer: mn. Threads: the main one, before workers run. */
#ifndef MN_FDSTORE_H
#define MN_FDSTORE_H

#include "mn/config.h"
#include "mn/memory.h"

enum mn_fdstore_part { MN_FDSTORE_PAGES, MN_FDSTORE_ARENA };

/* Checks whether a node of this config can keep its memory here. Returns 0, or -EINVAL with
 * lend_why(). */
int mn_fdstore_check(const struct mn_config *config);
/* Returns whether all files of this many workers were passed to this process. */
bool mn_fdstore_is_whole(uint32_t workers);
/* Returns a worker's file that was passed to this process, or -1. It stays open. */
int mn_fdstore_find(uint32_t worker, enum mn_fdstore_part part);
/* Stores a file at the manager, replacing an earlier one. Returns 0, or -errno with lend_why(). */
int mn_fdstore_store(uint32_t worker, enum mn_fdstore_part part, const struct mn_memory *memory);

#endif

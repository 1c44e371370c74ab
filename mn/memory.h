/* memory - the memory of a store: private, shared with peers on this host that connect over shm, or
 * a file for other processes and a later start.
 *
 * A file is a memfd, one on huge pages, an unnamed one in a folder (of hugetlbfs or DAX), a named
 * one, or a DAX device. It is mapped shared; the bytes of a new one are zero.
 * Layer: mn. Threads: any; each area has one owner, the caller that opened it. */
#ifndef MN_MEMORY_H
#define MN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mn_memory {
	void *base;    /* aligned to grain; NULL: none */
	size_t len;    /* mapped length: the requested one, rounded up to grain */
	size_t grain;  /* smallest unit that can be mapped: 4096, 2 MiB, ... */
	int fd;        /* -1: private */
	bool sealable; /* a memfd: mn_memory_seal() can deny writing to other processes */
	bool sealed;
	bool arena;       /* in the memory that shm peers read in place */
	uint64_t *asked;  /* a bit per 2 MiB that huge pages were requested for; NULL: none */
	uint64_t n_asked; /* number of these bits that are set */
};

/* Returns whether kind is a name of one: "private", "shared" (shm peers read it in place), "memfd",
 * "huge" (memfd on huge pages), or a path. */
bool mn_memory_is_kind(const char *kind);
/* Opens at least len (> 0) zero bytes of a kind; name appears in /proc. overwrite: replace a file
 * even if it has other contents. Returns 0, or -errno with lend_why(): a system call's error,
 * -EBUSY (another node uses the file), -EEXIST (it has contents), -EPERM (another user can open
 * it), -ENOSPC, -EFBIG (ulimit -f), -EINVAL (not a kind; too small). */
int mn_memory_open(struct mn_memory *memory, const char *kind, const char *name, size_t len,
		   bool overwrite);
/* Maps the file of an earlier start and keeps its bytes. Takes fd on success, and never closes it
 * on failure. A file sealed against writing is copied. -EINVAL: shorter than len. */
int mn_memory_adopt(struct mn_memory *memory, int fd, const char *name, size_t len);
/* Returns the kind of pages that the system gives this memory: "reserved huge", "transparent huge"
 * or "small". */
const char *mn_memory_pages(const struct mn_memory *memory);
/* Makes [at, at + len) huge pages before bytes are first written there, if the system can: one page
 * fault then replaces 512. Each 2 MiB are tried once, some ahead of their use. Does nothing to
 * private memory, which is huge anyway, or if these pages are there already. */
void mn_memory_prepare(struct mn_memory *memory, const void *at, uint64_t len);
/* Takes all of the memory from the system now, as huge pages if it can: later first writes need no
 * page fault. Keeps the bytes. Returns 0, or -ENOMEM with lend_why(). */
int mn_memory_populate(struct mn_memory *memory);
/* Seals the memory: from now on no other process can write to it or change its length; this mapping
 * can write. Does nothing to a file that cannot be sealed: see sealed. Returns 0, or -errno with
 * lend_why(). */
int mn_memory_seal(struct mn_memory *memory);
/* Unmaps and closes the memory. Never fails; an empty one (all zero) is allowed. Mappings of other
 * processes stay valid. */
void mn_memory_close(struct mn_memory *memory);

/* Prints one line for the operator, the first time that a page does not match its checksum when it
 * is read; the store's counter has the number. Any thread. */
void mn_memory_complain(void);

#endif

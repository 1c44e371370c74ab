/* memory - what a store lies in: private, or a file that other processes and a later start can map.
 *
 * A file is a memfd, one on huge pages, an unnamed one in a folder (of hugetlbfs or DAX), a named
 * one, or a DAX device. It is mapped shared; the bytes of a new one are zero.
 * Layer: mn. Threads: any; an area belongs to who opened it. */
#ifndef MN_MEMORY_H
#define MN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mn_memory {
	void *base;    /* aligned to grain; NULL: none */
	size_t len;    /* as mapped: what was asked for, rounded up to grain */
	size_t grain;  /* the least that can be mapped of it: 4096, 2 MiB, ... */
	int fd;        /* -1: private */
	bool sealable; /* a memfd: mn_memory_seal() can take writing away from others */
	bool sealed;
};

/* The kinds by name: "private", "memfd", "huge" (memfd on huge pages), or a path. */
bool mn_memory_is_kind(const char *kind);
/* At least len (> 0) zero bytes of a kind; name is what /proc shows. overwrite: replace a file
 * whatever it holds. 0, or -errno with lend_why(): a system call's error, -EBUSY (another node has
 * the file), -EEXIST (it holds something), -EPERM (another user can open it), -ENOSPC, -EFBIG
 * (ulimit -f), -EINVAL (not a kind; too small). */
int mn_memory_open(struct mn_memory *memory, const char *kind, const char *name, size_t len,
		   bool overwrite);
/* What an earlier start left, by its file: its bytes are kept. Takes fd on success, and never
 * closes it on failure. Of one that is sealed against writing, a copy. -EINVAL: shorter than len.
 */
int mn_memory_adopt(struct mn_memory *memory, int fd, const char *name, size_t len);
/* Nobody else can write to it or change its length from now on; this mapping can. Does nothing to a
 * file that cannot be sealed: see sealed. 0 or -errno with lend_why(). */
int mn_memory_seal(struct mn_memory *memory);
/* Never fails; an empty one (all zero) is fine. What others mapped stays with them. */
void mn_memory_close(struct mn_memory *memory);

/* One line to whoever runs this node, the first time that a page was read which does not hold what
 * was written: the store's counter tells how often. Any thread. */
void mn_memory_complain(void);

#endif

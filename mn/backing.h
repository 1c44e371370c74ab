/* backing - the folder, file or DAX device that pages lie in: no other user can open it, a file
 * with other contents is not replaced unless asked for, and all of its bytes are allocated.
 *
 * A file of a memory node ends with a mark behind its pages. The tables of those pages went with
 * the process, so such a file is replaced; any other file that is not empty is refused. A file is
 * replaced by a new one of its name, never truncated: processes that map it keep what they see.
 * Layer: mn. Threads: any. */
#ifndef MN_BACKING_H
#define MN_BACKING_H

#include <stdbool.h>
#include <stddef.h>

/* Opens path, locked; a folder: a file in it without a name. overwrite: replace any regular file.
 * Returns it or -errno with lend_why(): -EBUSY (another node has it), -EEXIST (it holds something),
 * or an error of lend_mapfile_open(). A regular file is empty. */
int mn_backing_open(const char *path, bool overwrite);
/* Gives an empty regular file len bytes, all allocated. 0 or -errno with lend_why(): the file is
 * empty again. */
int mn_backing_fill(int fd, const char *path, size_t len);

#endif

/* backing - the folder, file or DAX device that holds the pages. No other user can open it, a file
 * with other contents is only replaced when the caller asks for it, and all of its bytes are
 * allocated.
 *
 * A memory node's file ends with a mark behind its pages. The tables of those pages ended with the
 * process, so such a file is replaced; any other file that is not empty is refused. Replacing means
 * a new file of the same name, never truncation: processes that have mapped the old file keep their
 * data.
 * Layer: mn. Threads: any. */
#ifndef MN_BACKING_H
#define MN_BACKING_H

#include <stdbool.h>
#include <stddef.h>

/* Opens and locks path; if it is a folder, a file in it without a name. overwrite: replace any
 * regular file. Returns the descriptor, or -errno with lend_why(): -EBUSY (another node uses it),
 * -EEXIST (it has contents), or an error of lend_mapfile_open(). A regular file is empty. */
int mn_backing_open(const char *path, bool overwrite);
/* Gives an empty regular file len bytes, all allocated. Returns 0, or -errno with lend_why(); the
 * file is empty again then. */
int mn_backing_fill(int fd, const char *path, size_t len);

#endif

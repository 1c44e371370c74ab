/* library_copy - further copies of a loaded library, each with variables of its own. Layer: seal,
 * private to the module. */
#ifndef LEND_SEAL_MODULE_LIBRARY_COPY_H
#define LEND_SEAL_MODULE_LIBRARY_COPY_H

#include <stddef.h>

/* Maps one more copy of the library that has this function. The copy shares code and constants with
 * the library's file, and has the present values of its variables. It is never unmapped. Returns
 * the distance from the library to the copy, for its functions; 0: there is no copy. */
ptrdiff_t lend_library_copy(const void *function);

#endif

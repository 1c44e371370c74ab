/* utf8 - check of strings.
 * Layer: pb (pure). Threads: any. */
#ifndef LEND_PB_UTF8_H
#define LEND_PB_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether bytes are UTF-8 as of RFC 3629: no surrogates, no overlong forms, at most
 * U+10FFFF. */
bool lend_pb_is_utf8(const uint8_t *bytes, size_t len);

#endif

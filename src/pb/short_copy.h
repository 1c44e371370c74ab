/* short_copy - memcpy() without a call for the lengths that most strings have.
 * Layer: pb (pure). No state. */
#ifndef LEND_PB_SHORT_COPY_H
#define LEND_PB_SHORT_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void lend_pb_copy(uint8_t *to, const uint8_t *from, size_t len)
{
	uint64_t first, last;

	if (len - 8 > 8) {
		if (len) /* from may be NULL otherwise */
			memcpy(to, from, len);
		return;
	}
	memcpy(&first, from, 8);
	memcpy(&last, from + len - 8, 8);
	memcpy(to, &first, 8);
	memcpy(to + len - 8, &last, 8);
}

#endif

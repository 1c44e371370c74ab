/* field_option - options of fields in a descriptor set, as protoc --descriptor_set_out writes it.
 *
 * protoc-c's descriptors have no options of a .proto file's own. Layer: pb (pure). No state. */
#ifndef LEND_PB_FIELD_OPTION_H
#define LEND_PB_FIELD_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEND_PB_BY_REF = 71020 }; /* number of (lend.by_ref), see lend/lend.proto */

/* Returns whether a field has this bool option set: the field with a number in the message type
 * with a full name, such as "shop.Cart". A malformed set has no options from there on. */
bool lend_pb_option_set(const void *set, size_t len, const char *type, uint32_t number,
			uint32_t option);

#endif

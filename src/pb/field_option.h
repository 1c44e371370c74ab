/* field_option - options of fields and kinds of methods in a descriptor set, as protoc
 * --descriptor_set_out writes it.
 *
 * protoc-c's descriptors have neither. Layer: pb (pure). No state. */
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
/* Returns which sides of a method stream, 1: the client, 2: the server, 3: both; -1: the set does
 * not have this method of this service, such as "shop.Cart". */
int lend_pb_method_kind(const void *set, size_t len, const char *service, const char *method);

#endif

/* schema - services of protobuf-c, all types that they use, and the files that these make up.
 *
 * protobuf-c does not keep files: the types and services of a package are one. Layer: pb (pure, but
 * for protobuf-c's header). Threads: one at a time. */
#ifndef LEND_PB_SCHEMA_H
#define LEND_PB_SCHEMA_H

#include <protobuf-c/protobuf-c.h>
#include <string.h>

#include "pb/blocks.h"

struct lend_pb_type {
	const char *name, *package;
	const ProtobufCMessageDescriptor *message; /* NULL: an enumeration */
	const ProtobufCEnumDescriptor *values;     /* NULL: a message */
	struct lend_pb_type *next;
};
struct lend_pb_described {
	const ProtobufCServiceDescriptor *service;
	const uint8_t *kinds;
	struct lend_pb_described *next;
};

/* Zero but for blocks: nothing. */
struct lend_pb_schema {
	struct lend_pb_blocks *blocks; /* for all that it has, and for files */
	struct lend_pb_type *types;    /* in the order of their names */
	struct lend_pb_described *services;
};

/* Adds a service and its types. kinds: for each method 1 if the client streams, plus 2 if the
 * server does; borrowed as long as the schema is used. Returns false: no memory, or its .proto file
 * has the option optimize_for = CODE_SIZE, which leaves out the names. */
bool lend_pb_schema_add(struct lend_pb_schema *schema, const ProtobufCServiceDescriptor *service,
			const uint8_t *kinds);
/* Finds the package that has a type, service or method with a full name, such as "shop.Cart.Add".
 * Returns NULL: none does. */
const char *lend_pb_schema_find(const struct lend_pb_schema *schema, const char *symbol);
/* Finds the package whose file has a name: a/b.proto is that of a.b. Returns NULL: none does. */
const char *lend_pb_schema_find_file(const struct lend_pb_schema *schema, const char *name);

/* Returns what is behind a first part of a name and a dot; NULL: the name begins otherwise. */
static inline const char *lend_pb_skip_scope(const char *name, const char *scope, size_t len)
{
	if (len == 0)
		return name;
	return strncmp(name, scope, len) == 0 && name[len] == '.' ? name + len + 1 : NULL;
}

#endif

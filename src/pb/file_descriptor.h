/* file_descriptor - writes the descriptors of protobuf-c as FileDescriptorProto, for reflection.
 *
 * The names of oneofs, defaults and most options are not in them. Layer: pb (pure, but for
 * protobuf-c's header). Threads: one at a time. */
#ifndef LEND_PB_FILE_DESCRIPTOR_H
#define LEND_PB_FILE_DESCRIPTOR_H

#include "pb/encoder.h"
#include "pb/schema.h"

/* Writes the file of a package, a FileDescriptorProto. Returns false: no memory. */
bool lend_pb_schema_write(const struct lend_pb_schema *schema, const char *package,
			  struct lend_pb_segment *file);

#endif

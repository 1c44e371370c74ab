/* cxx_oracle - protobuf C++, to which the tests of src/pb compare.
 * Layer: test. Threads: one. */
#ifndef TEST_PB_CXX_ORACLE_H
#define TEST_PB_CXX_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parses a message of the type with this full name and serializes it again, with maps in the order
 * of their keys, and strings up to their first zero byte. Returns false if it does not parse; else
 * *out, which the caller frees, and whether a string in it is not UTF-8, which proto2 does not
 * check. */
bool oracle_reparse(const char *type, const void *bytes, size_t len, void **out, size_t *out_len,
		    bool *bad_utf8);

/* Builds a file of the bytes of a FileDescriptorProto, after the files that it imports. Returns
 * false: it is malformed or inconsistent. */
bool oracle_add_file(const void *bytes, size_t len);
/* Compares a message type, enumeration or service of the added files to what protoc made of the
 * .proto file, but for options, defaults and names of oneofs. Returns NULL, or what differs. */
const char *oracle_compare(const char *full_name);

#ifdef __cplusplus
}
#endif

#endif

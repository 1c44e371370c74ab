#include "pb/field_option.h"

#include <string.h>

/* Fields of descriptor.proto. */
enum {
	SET_FILE = 1,
	FILE_PACKAGE = 2,
	FILE_TYPE = 4,
	FILE_SERVICE = 6,
	TYPE_NAME = 1, /* also of services and methods */
	TYPE_FIELD = 2,
	TYPE_NESTED = 3,
	FIELD_NUMBER = 3,
	FIELD_OPTIONS = 8,
	SERVICE_METHOD = 2,
	METHOD_CLIENT_STREAMING = 5,
	METHOD_SERVER_STREAMING = 6,
};
enum { VARINT = 0, BITS64 = 1, LEN = 2, BITS32 = 5, NESTED_MAX = 32 };

struct span {
	const uint8_t *at, *end;
};

struct field {
	uint32_t number;
	uint64_t value; /* a varint's */
	struct span bytes;
};

static bool read_varint(struct span *in, uint64_t *v)
{
	*v = 0;
	for (uint32_t shift = 0; in->at < in->end && shift < 64; shift += 7) {
		*v |= (uint64_t)(*in->at & 0x7f) << shift;
		if (*in->at++ < 0x80)
			return true;
	}
	return false;
}

/* Reads the next field of a message. Returns false: there is none, or it is malformed. */
static bool next_field(struct span *in, struct field *f)
{
	uint64_t tag, len = 0;

	*f = (struct field){.number = 0};
	if (!read_varint(in, &tag) || tag > UINT32_MAX)
		return false;
	f->number = (uint32_t)tag >> 3;
	switch (tag & 7) {
	case VARINT:
		return read_varint(in, &f->value);
	case BITS64:
		len = 8;
		break;
	case BITS32:
		len = 4;
		break;
	case LEN:
		if (read_varint(in, &len))
			break;
		return false;
	default:
		return false;
	}
	if (len > (size_t)(in->end - in->at))
		return false;
	f->bytes = (struct span){in->at, in->at + len};
	in->at += len;
	return true;
}

/* Finds the first field with a number; zeros: there is none. */
static struct field find_field(struct span in, uint32_t number)
{
	struct field f;

	while (next_field(&in, &f))
		if (f.number == number)
			return f;
	return (struct field){.number = 0};
}

/* Returns the name behind a first part and a dot, "" if it has that part only; NULL: it begins
 * otherwise. */
static const char *skip_part(const char *name, struct span part)
{
	size_t len = (size_t)(part.end - part.at);

	if (!len || strlen(name) < len || memcmp(name, part.at, len) != 0)
		return NULL;
	name += len;
	return *name == '.' ? name + 1 : *name ? NULL : name;
}

static bool type_has_option(struct span type, uint32_t number, uint32_t option)
{
	struct field f;

	while (next_field(&type, &f))
		if (f.number == TYPE_FIELD && find_field(f.bytes, FIELD_NUMBER).value == number &&
		    find_field(find_field(f.bytes, FIELD_OPTIONS).bytes, option).value)
			return true;
	return false;
}

/* Finds a type, whose name is relative to the file's or outer type's. */
static struct span find_type(struct span in, uint32_t field, const char *name, uint32_t depth)
{
	struct span found = {NULL, NULL};
	struct field f;

	while (depth && !found.at && next_field(&in, &f)) {
		const char *rest = f.number == field
				       ? skip_part(name, find_field(f.bytes, TYPE_NAME).bytes)
				       : NULL;

		if (rest)
			found = *rest ? find_type(f.bytes, TYPE_NESTED, rest, depth - 1) : f.bytes;
	}
	return found;
}

/* Finds the next file of a set whose package has a full name, which *name is then relative to. */
static bool next_file(struct span *set, struct span *file, const char *full, const char **name)
{
	struct field f;

	while (next_field(set, &f)) {
		struct span package = find_field(f.bytes, FILE_PACKAGE).bytes;

		*file = f.bytes;
		*name = package.at == package.end ? full : skip_part(full, package);
		if (f.number == SET_FILE && *name)
			return true;
	}
	return false;
}

bool lend_pb_option_set(const void *set, size_t len, const char *type, uint32_t number,
			uint32_t option)
{
	struct span in = {set, len ? (const uint8_t *)set + len : set}, file;
	const char *name;

	while (next_file(&in, &file, type, &name))
		if (type_has_option(find_type(file, FILE_TYPE, name, NESTED_MAX), number, option))
			return true;
	return false;
}

int lend_pb_method_kind(const void *set, size_t len, const char *service, const char *method)
{
	struct span in = {set, len ? (const uint8_t *)set + len : set}, file;
	const char *name;

	while (next_file(&in, &file, service, &name)) {
		struct span found = find_type(file, FILE_SERVICE, name, 1);

		found = find_type(found, SERVICE_METHOD, method, 1);
		if (found.at)
			return (find_field(found, METHOD_CLIENT_STREAMING).value ? 1 : 0) |
			       (find_field(found, METHOD_SERVER_STREAMING).value ? 2 : 0);
	}
	return -1;
}

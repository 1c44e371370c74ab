#include "pb/file_descriptor.h"

#include <string.h>

#include "pb/proto_writer.h"

/* Fields of descriptor.proto. */
enum {
	NAME = 1, /* of everything */
	FILE_PACKAGE = 2,
	FILE_DEPENDENCY = 3,
	FILE_MESSAGE = 4,
	FILE_ENUM = 5,
	FILE_SERVICE = 6,
	FILE_SYNTAX = 12,
	MESSAGE_FIELD = 2,
	MESSAGE_NESTED = 3,
	MESSAGE_ENUM = 4,
	MESSAGE_OPTIONS = 7,
	MESSAGE_ONEOF = 8,
	OPTION_MAP_ENTRY = 7,
	FIELD_NUMBER = 3,
	FIELD_LABEL = 4,
	FIELD_TYPE = 5,
	FIELD_TYPE_NAME = 6,
	FIELD_OPTIONS = 8,
	FIELD_ONEOF = 9,
	FIELD_PROTO3_OPTIONAL = 17,
	OPTION_PACKED = 2,
	OPTION_DEPRECATED = 3,
	ENUM_VALUE = 2,
	ENUM_OPTIONS = 3,
	OPTION_ALLOW_ALIAS = 2,
	VALUE_NUMBER = 2,
	SERVICE_METHOD = 2,
	METHOD_INPUT = 2,
	METHOD_OUTPUT = 3,
	METHOD_CLIENT_STREAMING = 5,
	METHOD_SERVER_STREAMING = 6,
};
enum { OPTIONAL = 1, REQUIRED = 2, REPEATED = 3 };

static void write_file_name(struct lend_pb_writer *w, unsigned field, const char *package)
{
	size_t start = lend_pb_begin(w, field), name = w->len;

	lend_pb_put(w, package, strlen(package));
	for (; !w->failed && name < w->len; name++)
		w->at[name] = w->at[name] == '.' ? '/' : w->at[name];
	lend_pb_put(w, ".proto", strlen(".proto"));
	lend_pb_end_at(w, start);
}

static void write_type_name(struct lend_pb_writer *w, unsigned field, const char *name)
{
	size_t start = lend_pb_begin(w, field);

	lend_pb_put(w, ".", 1);
	lend_pb_put(w, name, strlen(name));
	lend_pb_end_at(w, start);
}

static bool has_zero(const ProtobufCEnumDescriptor *values)
{
	for (unsigned i = 0; i < values->n_values; i++)
		if (values->values[i].value == 0)
			return true;
	return false;
}

/* Only proto3 has fields with implicit presence; a package without them is proto3 if nothing in it
 * needs proto2. */
static bool is_proto3(const struct lend_pb_schema *schema, const char *package)
{
	bool implicit = false, explicit = false;

	for (const struct lend_pb_type *t = schema->types; t; t = t->next) {
		if (strcmp(t->package, package) != 0)
			continue;
		explicit |= t->values && !has_zero(t->values);
		for (unsigned i = 0; t->message && i < t->message->n_fields; i++) {
			implicit |= t->message->fields[i].label == PROTOBUF_C_LABEL_NONE;
			explicit |= t->message->fields[i].label == PROTOBUF_C_LABEL_OPTIONAL ||
				    t->message->fields[i].label == PROTOBUF_C_LABEL_REQUIRED;
		}
	}
	return implicit || !explicit;
}

static bool same_oneof(const ProtobufCFieldDescriptor *a, const ProtobufCFieldDescriptor *b)
{
	return a->flags & b->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
	       a->quantifier_offset == b->quantifier_offset;
}

static bool is_first_of_oneof(const ProtobufCMessageDescriptor *m, unsigned i)
{
	for (unsigned j = 0; j < i; j++)
		if (same_oneof(&m->fields[i], &m->fields[j]))
			return false;
	return m->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

/* A oneof of one field is what `lend protoc` makes of an optional field of proto3. */
static bool is_lone(const ProtobufCMessageDescriptor *m, unsigned i)
{
	unsigned n = 0;

	for (unsigned j = 0; j < m->n_fields; j++)
		n += same_oneof(&m->fields[i], &m->fields[j]);
	return n == 1;
}

/* Writes the oneofs with several fields, or those with one, which protoc puts last. */
static void write_oneofs(struct lend_pb_writer *w, const ProtobufCMessageDescriptor *m, bool lone)
{
	for (unsigned i = 0; i < m->n_fields; i++) {
		size_t start, name;

		if (!is_first_of_oneof(m, i) || is_lone(m, i) != lone)
			continue;
		start = lend_pb_begin(w, MESSAGE_ONEOF);
		name = lend_pb_begin(w, NAME);
		lend_pb_put(w, lone ? "_" : "one_of_", lone ? 1 : strlen("one_of_"));
		lend_pb_put(w, m->fields[i].name, strlen(m->fields[i].name));
		lend_pb_end_at(w, name);
		lend_pb_end_at(w, start);
	}
}

static unsigned oneof_index(const ProtobufCMessageDescriptor *m, unsigned i)
{
	bool lone = is_lone(m, i), reached = false;
	unsigned n = 0;

	for (unsigned j = 0; j < m->n_fields; j++) {
		reached |= same_oneof(&m->fields[i], &m->fields[j]);
		if (is_first_of_oneof(m, j))
			n += is_lone(m, j) == lone ? !reached : lone;
	}
	return n;
}

/* Returns whether a field is a map: protoc names the entries of photo_sizes PhotoSizesEntry. */
static bool is_map(const ProtobufCMessageDescriptor *m, const ProtobufCFieldDescriptor *f)
{
	const ProtobufCMessageDescriptor *entry = f->descriptor;
	const char *name;
	bool upper = true;

	if (f->type != PROTOBUF_C_TYPE_MESSAGE || f->label != PROTOBUF_C_LABEL_REPEATED ||
	    entry->n_fields != 2 || entry->fields[0].id != 1 || entry->fields[1].id != 2)
		return false;
	name = lend_pb_skip_scope(entry->name, m->name, strlen(m->name));
	for (const char *at = f->name; name && *at; at++) {
		if (*at != '_' && *name++ != (upper && *at >= 'a' && *at <= 'z' ? *at - 32 : *at))
			return false;
		upper = *at == '_';
	}
	return name && strcmp(name, "Entry") == 0;
}

static bool is_map_entry(const ProtobufCMessageDescriptor *parent,
			 const ProtobufCMessageDescriptor *entry)
{
	for (unsigned i = 0; parent && i < parent->n_fields; i++)
		if (parent->fields[i].descriptor == entry && is_map(parent, &parent->fields[i]))
			return true;
	return false;
}

static void write_field_options(struct lend_pb_writer *w, const ProtobufCFieldDescriptor *f)
{
	bool packed = f->flags & PROTOBUF_C_FIELD_FLAG_PACKED;
	bool numbers = f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_BYTES &&
		       f->type != PROTOBUF_C_TYPE_MESSAGE;
	size_t start = lend_pb_begin(w, FIELD_OPTIONS);

	if (f->label == PROTOBUF_C_LABEL_REPEATED && numbers)
		lend_pb_put_number(w, OPTION_PACKED, packed);
	if (f->flags & PROTOBUF_C_FIELD_FLAG_DEPRECATED)
		lend_pb_put_number(w, OPTION_DEPRECATED, 1);
	lend_pb_end_at(w, start);
}

static void write_field(struct lend_pb_writer *w, const ProtobufCMessageDescriptor *m, unsigned i,
			bool proto3)
{
	static const uint8_t type_of[] = {
	    [PROTOBUF_C_TYPE_DOUBLE] = 1,    [PROTOBUF_C_TYPE_FLOAT] = 2,
	    [PROTOBUF_C_TYPE_INT64] = 3,     [PROTOBUF_C_TYPE_UINT64] = 4,
	    [PROTOBUF_C_TYPE_INT32] = 5,     [PROTOBUF_C_TYPE_FIXED64] = 6,
	    [PROTOBUF_C_TYPE_FIXED32] = 7,   [PROTOBUF_C_TYPE_BOOL] = 8,
	    [PROTOBUF_C_TYPE_STRING] = 9,    [PROTOBUF_C_TYPE_MESSAGE] = 11,
	    [PROTOBUF_C_TYPE_BYTES] = 12,    [PROTOBUF_C_TYPE_UINT32] = 13,
	    [PROTOBUF_C_TYPE_ENUM] = 14,     [PROTOBUF_C_TYPE_SFIXED32] = 15,
	    [PROTOBUF_C_TYPE_SFIXED64] = 16, [PROTOBUF_C_TYPE_SINT32] = 17,
	    [PROTOBUF_C_TYPE_SINT64] = 18};
	const ProtobufCFieldDescriptor *f = &m->fields[i];
	const ProtobufCMessageDescriptor *message = f->descriptor;
	const ProtobufCEnumDescriptor *values = f->descriptor;
	size_t start = lend_pb_begin(w, MESSAGE_FIELD);

	lend_pb_put_text(w, NAME, f->name);
	lend_pb_put_number(w, FIELD_NUMBER, f->id);
	lend_pb_put_number(w, FIELD_LABEL,
			   f->label == PROTOBUF_C_LABEL_REPEATED              ? REPEATED
			   : f->label == PROTOBUF_C_LABEL_REQUIRED && !proto3 ? REQUIRED
									      : OPTIONAL);
	lend_pb_put_number(w, FIELD_TYPE, type_of[f->type]);
	if (f->type == PROTOBUF_C_TYPE_MESSAGE)
		write_type_name(w, FIELD_TYPE_NAME, message->name);
	else if (f->type == PROTOBUF_C_TYPE_ENUM)
		write_type_name(w, FIELD_TYPE_NAME, values->name);
	write_field_options(w, f);
	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
		lend_pb_put_number(w, FIELD_ONEOF, oneof_index(m, i));
		lend_pb_put_number(w, FIELD_PROTO3_OPTIONAL, proto3 && is_lone(m, i));
	}
	lend_pb_end_at(w, start);
}

static void write_value(struct lend_pb_writer *w, const char *name, int value)
{
	size_t start = lend_pb_begin(w, ENUM_VALUE);

	lend_pb_put_text(w, NAME, name);
	lend_pb_put_number(w, VALUE_NUMBER, (uint64_t)(int64_t)value);
	lend_pb_end_at(w, start);
}

/* Writes the values that are zero, with which an enumeration of proto3 begins, or the others. */
static void write_values(struct lend_pb_writer *w, const ProtobufCEnumDescriptor *values, bool zero)
{
	for (unsigned i = 0; i < values->n_values; i++) {
		const ProtobufCEnumValue *v = &values->values[i];

		if ((v->value == 0) != zero)
			continue;
		write_value(w, v->name, v->value);
		for (unsigned j = 0; j < values->n_value_names; j++)
			if (values->values_by_name[j].index == i &&
			    strcmp(values->values_by_name[j].name, v->name) != 0)
				write_value(w, values->values_by_name[j].name, v->value);
	}
}

static void write_enum(struct lend_pb_writer *w, const ProtobufCEnumDescriptor *values)
{
	write_values(w, values, true);
	write_values(w, values, false);
	if (values->n_value_names > values->n_values) {
		size_t options = lend_pb_begin(w, ENUM_OPTIONS);

		lend_pb_put_number(w, OPTION_ALLOW_ALIAS, 1);
		lend_pb_end_at(w, options);
	}
}

/* The file that is written, and the scope that its types are written of. */
struct scope {
	const struct lend_pb_schema *schema;
	const char *package;
	bool proto3;
	const char *name; /* full name of len bytes; of the package, or of a message */
	size_t len;
	const ProtobufCMessageDescriptor *message; /* NULL: a package, or an unused message */
	unsigned depth;
};
static void write_types(struct lend_pb_writer *w, const struct scope *scope);

static void write_message(struct lend_pb_writer *w, const struct scope *parent,
			  const struct scope *own)
{
	const ProtobufCMessageDescriptor *m = own->message;

	for (unsigned i = 0; m && i < m->n_fields; i++)
		write_field(w, m, i, own->proto3);
	if (m) {
		write_oneofs(w, m, false);
		write_oneofs(w, m, true);
	}
	write_types(w, own);
	if (m && is_map_entry(parent->message, m)) {
		size_t options = lend_pb_begin(w, MESSAGE_OPTIONS);

		lend_pb_put_number(w, OPTION_MAP_ENTRY, 1);
		lend_pb_end_at(w, options);
	}
}

/* Writes the types of a scope. The types inside of one follow it in the order of names; a message
 * that only is the scope of others is written without fields. */
static void write_types(struct lend_pb_writer *w, const struct scope *scope)
{
	const char *last = NULL;
	size_t last_len = 0;

	for (const struct lend_pb_type *t = scope->schema->types; t; t = t->next) {
		const char *rest = lend_pb_skip_scope(t->name, scope->name, scope->len);
		size_t len = rest ? strcspn(rest, ".") : 0, start;
		struct scope own = *scope;

		if (!rest || strcmp(t->package, scope->package) != 0 ||
		    (last && len == last_len && !strncmp(last, rest, len)))
			continue;
		last = rest;
		last_len = len;
		own.name = t->name;
		own.len = (size_t)(rest - t->name) + len;
		own.message = rest[len] ? NULL : t->message;
		own.depth++;
		start = lend_pb_begin(w, t->values && !rest[len]
					     ? scope->depth ? MESSAGE_ENUM : FILE_ENUM
					 : scope->depth ? MESSAGE_NESTED
							: FILE_MESSAGE);
		lend_pb_put_bytes(w, NAME, rest, len);
		if (t->values && !rest[len])
			write_enum(w, t->values);
		else
			write_message(w, scope, &own);
		lend_pb_end_at(w, start);
	}
}

static void write_service(struct lend_pb_writer *w, const struct lend_pb_described *d)
{
	size_t start = lend_pb_begin(w, FILE_SERVICE);

	lend_pb_put_text(w, NAME, d->service->short_name);
	for (unsigned i = 0; i < d->service->n_methods; i++) {
		const ProtobufCMethodDescriptor *m = &d->service->methods[i];
		size_t method = lend_pb_begin(w, SERVICE_METHOD);

		lend_pb_put_text(w, NAME, m->name);
		write_type_name(w, METHOD_INPUT, m->input->name);
		write_type_name(w, METHOD_OUTPUT, m->output->name);
		lend_pb_put_number(w, METHOD_CLIENT_STREAMING, d->kinds[i] & 1);
		lend_pb_put_number(w, METHOD_SERVER_STREAMING, d->kinds[i] >> 1);
		lend_pb_end_at(w, method);
	}
	lend_pb_end_at(w, start);
}

static bool message_uses(const ProtobufCMessageDescriptor *m, const char *package)
{
	for (unsigned i = 0; m && i < m->n_fields; i++) {
		const ProtobufCMessageDescriptor *message = m->fields[i].descriptor;
		const ProtobufCEnumDescriptor *values = m->fields[i].descriptor;

		if ((m->fields[i].type == PROTOBUF_C_TYPE_MESSAGE &&
		     !strcmp(message->package_name, package)) ||
		    (m->fields[i].type == PROTOBUF_C_TYPE_ENUM &&
		     !strcmp(values->package_name, package)))
			return true;
	}
	return false;
}

static bool service_uses(const ProtobufCServiceDescriptor *service, const char *package)
{
	for (unsigned i = 0; i < service->n_methods; i++)
		if (!strcmp(service->methods[i].input->package_name, package) ||
		    !strcmp(service->methods[i].output->package_name, package))
			return true;
	return false;
}

/* Returns whether the file of a package imports that of another. */
static bool package_uses(const struct lend_pb_schema *schema, const char *package,
			 const char *other)
{
	for (const struct lend_pb_type *t = schema->types; t; t = t->next)
		if (!strcmp(t->package, package) && message_uses(t->message, other))
			return true;
	for (const struct lend_pb_described *d = schema->services; d; d = d->next)
		if (!strcmp(d->service->package, package) && service_uses(d->service, other))
			return true;
	return false;
}

static void write_imports(struct lend_pb_writer *w, const struct lend_pb_schema *schema,
			  const char *package)
{
	for (const struct lend_pb_type *t = schema->types; t; t = t->next) {
		const struct lend_pb_type *first = schema->types;

		while (strcmp(first->package, t->package) != 0)
			first = first->next;
		if (first == t && strcmp(t->package, package) != 0 &&
		    package_uses(schema, package, t->package))
			write_file_name(w, FILE_DEPENDENCY, t->package);
	}
}

bool lend_pb_schema_write(const struct lend_pb_schema *schema, const char *package,
			  struct lend_pb_segment *file)
{
	struct lend_pb_writer w = {.blocks = schema->blocks};
	const struct scope scope = {.schema = schema,
				    .package = package,
				    .proto3 = is_proto3(schema, package),
				    .name = package,
				    .len = strlen(package)};

	write_file_name(&w, NAME, package);
	lend_pb_put_text(&w, FILE_PACKAGE, package);
	write_imports(&w, schema, package);
	write_types(&w, &scope);
	for (const struct lend_pb_described *d = schema->services; d; d = d->next)
		if (!strcmp(d->service->package, package))
			write_service(&w, d);
	lend_pb_put_text(&w, FILE_SYNTAX, scope.proto3 ? "proto3" : "proto2");
	*file = (struct lend_pb_segment){w.at, w.len};
	return !w.failed;
}

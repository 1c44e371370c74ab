#include "pb/schema.h"

#include <string.h>

/* Adds a type in the order of names. Returns whether it was missing; *failed: no memory. */
static bool add_type(struct lend_pb_schema *schema, const struct lend_pb_type *type, bool *failed)
{
	struct lend_pb_type **at = &schema->types, *added;
	int order = -1;

	*failed |= !type->name || !*type->name;
	while (!*failed && *at && (order = strcmp((*at)->name, type->name)) < 0)
		at = &(*at)->next;
	if (*failed || (*at && order == 0))
		return false;
	added = lend_pb_take(schema->blocks, sizeof(*added));
	*failed = !added;
	if (!added)
		return false;
	*added = *type;
	added->next = *at;
	*at = added;
	return true;
}

static void add_message(struct lend_pb_schema *schema, const ProtobufCMessageDescriptor *m,
			bool *failed)
{
	const struct lend_pb_type type = {
	    .name = m->name, .package = m->package_name, .message = m};

	if (!add_type(schema, &type, failed))
		return;
	for (unsigned i = 0; i < m->n_fields && !*failed; i++) {
		const ProtobufCEnumDescriptor *values = m->fields[i].descriptor;

		*failed |= !m->fields[i].name;
		if (m->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
			add_message(schema, m->fields[i].descriptor, failed);
		else if (m->fields[i].type == PROTOBUF_C_TYPE_ENUM)
			(void)add_type(schema,
				       &(struct lend_pb_type){.name = values->name,
							      .package = values->package_name,
							      .values = values},
				       failed);
	}
}

bool lend_pb_schema_add(struct lend_pb_schema *schema, const ProtobufCServiceDescriptor *service,
			const uint8_t *kinds)
{
	struct lend_pb_described **end = &schema->services, *added;
	bool failed = false;

	for (unsigned i = 0; i < service->n_methods && !failed; i++) {
		add_message(schema, service->methods[i].input, &failed);
		if (!failed)
			add_message(schema, service->methods[i].output, &failed);
	}
	added = failed ? NULL : lend_pb_take(schema->blocks, sizeof(*added));
	if (!added)
		return false;
	*added = (struct lend_pb_described){service, kinds, NULL};
	while (*end)
		end = &(*end)->next;
	*end = added;
	return true;
}

static bool has_method(const ProtobufCServiceDescriptor *service, const char *symbol)
{
	const char *method = lend_pb_skip_scope(symbol, service->name, strlen(service->name));

	for (unsigned i = 0; method && i < service->n_methods; i++)
		if (!strcmp(service->methods[i].name, method))
			return true;
	return false;
}

const char *lend_pb_schema_find(const struct lend_pb_schema *schema, const char *symbol)
{
	size_t len = strlen(symbol);

	for (const struct lend_pb_described *d = schema->services; d; d = d->next)
		if (!strcmp(symbol, d->service->name) || has_method(d->service, symbol))
			return d->service->package;
	for (const struct lend_pb_type *t = schema->types; t; t = t->next)
		if (!strcmp(symbol, t->name) ||
		    (len > strlen(t->package) && lend_pb_skip_scope(t->name, symbol, len)))
			return t->package;
	return NULL;
}

/* The file of the package a.b is a/b.proto. */
static bool is_file_of(const char *name, const char *package)
{
	size_t len = strlen(package);

	if (strlen(name) < len || strcmp(name + len, ".proto") != 0)
		return false;
	for (size_t i = 0; i < len; i++)
		if (name[i] != (package[i] == '.' ? '/' : package[i]))
			return false;
	return true;
}

const char *lend_pb_schema_find_file(const struct lend_pb_schema *schema, const char *name)
{
	for (const struct lend_pb_described *d = schema->services; d; d = d->next)
		if (is_file_of(name, d->service->package))
			return d->service->package;
	for (const struct lend_pb_type *t = schema->types; t; t = t->next)
		if (is_file_of(name, t->package))
			return t->package;
	return NULL;
}

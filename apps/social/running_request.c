/* running_request - requests of services: their memory, the calls that they wait for, their end.
 * Layer: apps. Threads: the endpoint's. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/social/blob.h"
#include "apps/social/social.h"
#include "apps/social/social_store.h"
#include "util/check.h"

enum { FIRST_MAX = 3 << 10, BLOCK_MIN = 16 << 10, WHY_MAX = 200, ALIGN = 16 };

/* Memory of a request beyond its first. */
struct block {
	struct block *next;
	size_t used, cap;
	_Alignas(ALIGN) uint8_t bytes[];
};

struct social_request {
	enum social_role role;
	ProtobufCClosure closure; /* the transport's */
	void *closure_data;
	void *parent; /* the transport's request that calls are made for; NULL: none */
	void (*fail)(void *closure_data, enum lend_status status, const char *why);
	unsigned waiting; /* calls and operations that have not ended */
	lend_ns began;    /* begin of the first of them */
	unsigned calls;   /* calls that have not ended */
	lend_ns called;   /* begin of the first of them */
	enum lend_status status;
	char why[WHY_MAX];
	void (*undo)(void *state);
	void *undo_state;
	struct block *blocks;
	size_t used;
	struct social_request *next; /* next idle one */
	_Alignas(ALIGN) uint8_t first[FIRST_MAX];
};

/* A served role: invoke() of base makes the request. */
struct role {
	ProtobufCService base; /* first */
	ProtobufCService *service;
};

struct social social;
static struct role roles[SOCIAL_ROLES];
static struct social_request *idle;

static void free_request(struct social_request *r)
{
	while (r->blocks) {
		struct block *b = r->blocks;

		r->blocks = b->next;
		free(b);
	}
	r->next = idle;
	idle = r;
}

void social_answer(void *request, const void *reply)
{
	struct social_request *r = request;

	r->closure(reply, r->closure_data);
	free_request(r);
}

void social_answer_empty(void *request)
{
	Social__Empty reply = SOCIAL__EMPTY__INIT;

	social_answer(request, &reply);
}

void social_on_fail(void *request, void (*undo)(void *state), void *state)
{
	struct social_request *r = request;

	r->undo = undo;
	r->undo_state = state;
}

struct social_counters *social_counters_of(void *request)
{
	return &social.counters[((struct social_request *)request)->role];
}

/* The closure of every request. */
static void close_request(const ProtobufCMessage *reply, void *request)
{
	if (reply)
		social_answer(request, reply);
	else
		social_fail(request, LEND_INTERNAL, "no reply");
}

void social_fail(void *request, enum lend_status status, const char *why)
{
	struct social_request *r = request;

	social.counters[r->role].errors++;
	if (r->undo)
		r->undo(r->undo_state);
	r->fail(r->closure_data, status, why);
	free_request(r);
}

void social_answer_bytes(void *request, void *bytes, size_t len)
{
	struct social_request *r = request;

	social.transport->answer(r->closure_data, bytes, len);
	free_request(r);
}

void social_forward(void *request, enum social_role role, unsigned method,
		    const ProtobufCMessage *input)
{
	struct social_request *r = request;

	social.counters[r->role].calls++;
	social.transport->forward(role, method, input, r->closure_data,
				  &social.counters[r->role].call_ns);
	free_request(r);
}

static struct social_request *take_request(enum social_role role)
{
	struct social_request *r = idle;

	if (r)
		idle = r->next;
	else
		r = malloc(sizeof(*r));
	if (!r)
		app_die("no memory for a request; end some processes");
	r->role = role;
	r->waiting = r->calls = 0;
	r->status = LEND_OK;
	r->undo = NULL;
	r->blocks = NULL;
	r->used = 0;
	social.counters[role].requests++;
	return r;
}

static void run_request(ProtobufCService *service, unsigned method, const ProtobufCMessage *input,
			ProtobufCClosure closure, void *closure_data)
{
	struct role *role = (struct role *)service;
	struct social_request *r = take_request((enum social_role)(role - roles));

	r->closure = closure;
	r->closure_data = r->parent = closure_data;
	r->fail = social.transport->fail;
	role->service->invoke(role->service, method, input, close_request, r);
}

void *social_root(enum social_role role,
		  void (*fail)(void *arg, enum lend_status status, const char *why), void *arg)
{
	struct social_request *r = take_request(role);

	r->closure_data = arg;
	r->parent = NULL;
	r->fail = fail;
	return r;
}

void social_end(void *request)
{
	free_request(request);
}

void *social_memory(void *request, size_t size)
{
	struct social_request *r = request;
	struct block *b = r->blocks;
	void *at;

	size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (size <= FIRST_MAX - r->used) {
		at = r->first + r->used;
		r->used += size;
		return at;
	}
	if (!b || size > b->cap - b->used) {
		size_t cap = size > BLOCK_MIN ? size : BLOCK_MIN;

		b = malloc(sizeof(*b) + cap);
		if (!b)
			app_die("no memory for a request of %zu bytes; end some processes", cap);
		*b = (struct block){.next = r->blocks, .cap = cap};
		r->blocks = b;
	}
	at = b->bytes + b->used;
	b->used += size;
	return at;
}

void *social_state(void *request, size_t size)
{
	return memset(social_memory(request, size), 0, size);
}

char *social_text_copy(void *request, const char *text, size_t len)
{
	char *copy = social_memory(request, len + 1);

	if (len)
		memcpy(copy, text, len);
	copy[len] = 0;
	return copy;
}

const char *social_key(void *request, const char *format, ...)
{
	char *key = social_memory(request, STORE_KEY_MAX);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(key, STORE_KEY_MAX, format, args);
	va_end(args);
	return key;
}

/* Replaces the pointers in one value of a field by copies. */
static void copy_value(struct social_request *r, const ProtobufCFieldDescriptor *f, void *value)
{
	if (f->type == PROTOBUF_C_TYPE_STRING) {
		char **text = value;

		*text = *text ? social_text_copy(r, *text, strlen(*text)) : NULL;
	} else if (f->type == PROTOBUF_C_TYPE_BYTES) {
		ProtobufCBinaryData *bytes = value;

		bytes->data = (uint8_t *)social_text_copy(r, (char *)bytes->data, bytes->len);
	} else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
		ProtobufCMessage **message = value;

		*message = social_copy(r, *message);
	}
}

static size_t value_size(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
		return 8;
	default:
		return 4;
	}
}

static void copy_field(struct social_request *r, const ProtobufCFieldDescriptor *f, void *message)
{
	void *at = (uint8_t *)message + f->offset;
	size_t n, size = value_size(f);
	uint8_t *values;

	if (f->label != PROTOBUF_C_LABEL_REPEATED) {
		copy_value(r, f, at);
		return;
	}
	memcpy(&n, (uint8_t *)message + f->quantifier_offset, sizeof(n));
	values = social_memory(r, n * size);
	if (n)
		memcpy(values, *(void **)at, n * size);
	*(void **)at = values;
	for (size_t i = 0; i < n; i++)
		copy_value(r, f, values + i * size);
}

void *social_copy(void *request, const void *message)
{
	const ProtobufCMessageDescriptor *d;
	ProtobufCMessage *copy;

	if (!message)
		return NULL;
	d = ((const ProtobufCMessage *)message)->descriptor;
	copy = social_memory(request, d->sizeof_message);
	memcpy(copy, message, d->sizeof_message);
	copy->n_unknown_fields = 0;
	copy->unknown_fields = NULL;
	for (unsigned i = 0; i < d->n_fields; i++)
		copy_field(request, &d->fields[i], copy);
	return copy;
}

/* The client of a role that cannot be reached. */
static void refuse_call(ProtobufCService *service, unsigned method, const ProtobufCMessage *input,
			ProtobufCClosure closure, void *closure_data)
{
	(void)service, (void)method, (void)input;
	closure(NULL, closure_data);
}
static ProtobufCService unreachable = {.invoke = refuse_call};

ProtobufCService *social_call(void *request, enum social_role role)
{
	struct social_request *r = request;
	ProtobufCService *client = social.transport->client(role, r->parent);

	social_begin(request);
	if (!r->calls++)
		r->called = r->waiting > 1 ? lend_now(social.ep) : r->began;
	social.counters[r->role].calls++;
	unreachable.descriptor = social_descriptor(role);
	return client ? client : &unreachable;
}

void social_begin(void *request)
{
	struct social_request *r = request;

	if (!r->waiting++)
		r->began = lend_now(social.ep);
}

bool social_ended_with(void *request, enum lend_status status, const char *why)
{
	struct social_request *r = request;

	LEND_CHECK(r->waiting > 0);
	r->waiting--;
	if (status != LEND_OK && r->status == LEND_OK) {
		r->status = status;
		(void)snprintf(r->why, sizeof(r->why), "%s", why);
	}
	if (r->waiting)
		return false;
	social.counters[r->role].wait_ns += lend_now(social.ep) - r->began;
	if (r->status == LEND_OK)
		return true;
	social_fail(request, r->status, r->why);
	return false;
}

bool social_ended(void *request, enum social_role role, const void *reply)
{
	enum lend_status status = LEND_OK;
	struct social_request *r = request;
	char why[WHY_MAX] = "";

	if (!--r->calls)
		social.counters[r->role].call_ns += lend_now(social.ep) - r->called;
	if (!reply) {
		const char *reason = social.transport->status(role, &status);

		(void)snprintf(why, sizeof(why), "%s%s%s", social_role_names[role],
			       *reason ? ": " : " is not reachable", reason);
	}
	return social_ended_with(request, status, why);
}

void social_serve(enum social_role role)
{
	static ProtobufCService *(*const make[SOCIAL_GATEWAY])(void) = {
	    social_unique_id,     social_text,          social_url_shorten,  social_user_mention,
	    social_user,          social_media,         social_compose_post, social_post_storage,
	    social_user_timeline, social_home_timeline, social_social_graph};
	struct role *r = &roles[role];

	r->service = make[role]();
	r->base = (ProtobufCService){.descriptor = r->service->descriptor, .invoke = run_request};
	if (social.transport->serve(&r->base) < 0)
		app_die("%s: %s", social_role_names[role], lend_why());
}

bool social_by_ref(size_t len)
{
	size_t min = social.by == SOCIAL_BY_REF ? 1
		     : social.over_shm          ? SOCIAL_REF_MIN_SHM
						: SOCIAL_REF_MIN;

	return social.mem && social.by != SOCIAL_BY_VALUE && len >= min;
}

const char *const social_role_names[] = {
    "unique-id",    "text",         "url-shorten",  "user-mention",  "user",
    "media",        "compose-post", "post-storage", "user-timeline", "home-timeline",
    "social-graph", "gateway",      "web",          "balancer",      NULL};

bool social_counter(enum social_role role, unsigned i, const char **name, const char **meaning,
		    uint64_t *value)
{
	static const struct {
		const char *name, *meaning;
		size_t at;
	} all[] = {
#define X(noun, text) {#noun, text, offsetof(struct social_counters, noun)},
	    SOCIAL_COUNTERS(X)
#undef X
	};

	if (i >= sizeof(all) / sizeof(all[0]))
		return false;
	*name = all[i].name;
	*meaning = all[i].meaning;
	memcpy(value, (const uint8_t *)&social.counters[role] + all[i].at, sizeof(*value));
	return true;
}

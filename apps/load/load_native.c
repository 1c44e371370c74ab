/* load_native - the target of lend social's workload `embedded`: calls of Lend to the balancer of a
 * network in a folder. Posts contain their media, in place or by reference; each is read and
 * checked: its last four bytes are the CRC32C of all before.
 * Layer: apps. Threads: one. Owns the endpoint, the clients and the slots' memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/load/load.h"
#include "apps/social/blob.h"
#include "apps/social/role_address.h"
#include "lend/alloc.h"
#include "lend/carrier.h"
#include "lend/grpc.h"
#include "util/bits.h"
#include "util/crc32c.h"

enum { GETS_MAX = 64, TEXT_MORE = 2048, MEDIA_MAX = 16 << 20, CRC_LEN = 4 };

struct slot {
	struct native_target *target;
	unsigned index;
	struct load_end end;
	unsigned waiting; /* operations of the request that have not ended */
	const ProtobufCService *client;
	struct social_blob_op read[GETS_MAX], put;
	struct lend_arg_view view[GETS_MAX]; /* media that are read, until the request ends */
	unsigned reads;
	struct lend_op many; /* the same over a network: one read into one block of memory */
	struct lend_get_part part[GETS_MAX];
	int parts;
	char *block;
	char *media, *text; /* bytes of a composed post */
	Social__ComposeReq compose;
	Social__User creator;
	Social__MediaReq list;
	Social__Blob words, body, *bodies[1];
	int64_t id[1];
	char *type[1], name[32];
};

struct native_target {
	struct load_target base;
	const struct load_shape *shape;
	struct lend_ep *ep;
	struct lend_mem *mem;
	ProtobufCService *home, *user, *compose;
	struct lend_rng rng;
	unsigned slots;
	bool maps; /* the node's pages are read in place */
	struct slot slot[];
};

/* Ends one of the operations of a request; the last ends the request. */
static void end_part(struct slot *slot)
{
	struct native_target *t = slot->target;

	if (--slot->waiting > 0)
		return;
	while (slot->reads > 0)
		if (slot->read[--slot->reads].op.status == LEND_OK)
			lend_arg_unmap(t->mem, &slot->view[slot->reads]);
	lend_free(slot->block);
	slot->block = NULL;
	slot->end.ok = slot->end.code == LEND_OK;
	slot->end.late = slot->end.code == LEND_DEADLINE_EXCEEDED;
	t->base.ended(t->base.arg, slot->index, &slot->end);
}

/* Counts the bytes of a medium as wrong unless its CRC is right. */
static void check_media(struct slot *slot, const char *bytes, size_t len)
{
	if (len < CRC_LEN ||
	    lend_crc32c(0, bytes, len - CRC_LEN) != lend_load_u32(bytes + len - CRC_LEN))
		slot->end.wrong_bytes += len ? len : 1;
}

static void end_map(struct social_blob_op *op)
{
	struct slot *slot = op->arg;
	const struct lend_arg_view *view = &slot->view[op - slot->read];

	if (op->op.status == LEND_OK)
		check_media(slot, view->bytes, view->len);
	else
		slot->end.code = op->op.status;
	slot->end.bytes += view->len;
	end_part(slot);
}

/* Starts to read a medium that is on the memory node; of a pool in place. */
static void start_map(struct slot *slot, Social__Blob *blob)
{
	unsigned i = slot->reads;

	if (i == GETS_MAX || social_blob_len(blob) > MEDIA_MAX) {
		slot->end.code = LEND_RESOURCE_EXHAUSTED;
		return;
	}
	slot->reads++;
	slot->waiting++;
	slot->read[i] = (struct social_blob_op){.blob = blob, .done = end_map, .arg = slot};
	social_blob_map(slot->target->mem, &slot->read[i], &slot->view[i]);
}

static void end_many(struct lend_op *op)
{
	struct slot *slot = APP_OF(op, struct slot, many);

	for (int i = 0; i < slot->parts; i++) {
		const struct lend_get_part *part = &slot->part[i];

		if (part->status == LEND_OK)
			check_media(slot, part->into, part->len);
		else
			slot->end.code = part->status;
		slot->end.bytes += part->len;
	}
	end_part(slot);
}

/* Notes a medium that is read with others. */
static void add_part(struct slot *slot, const Social__Blob *blob)
{
	if (slot->parts == GETS_MAX || social_blob_len(blob) > MEDIA_MAX)
		slot->end.code = LEND_RESOURCE_EXHAUSTED;
	else
		slot->part[slot->parts++] = social_blob_part(blob, NULL);
}

/* Reads the media that were noted. */
static void get_parts(struct slot *slot)
{
	size_t len = 0;

	for (int i = 0; i < slot->parts; i++)
		len += slot->part[i].len;
	slot->block = lend_malloc_shared(len + 1);
	for (int i = 0; i < slot->parts && slot->block; i++) {
		slot->part[i].into =
		    i ? (char *)slot->part[i - 1].into + slot->part[i - 1].len : slot->block;
	}
	slot->many = (struct lend_op){.done = end_many};
	slot->waiting++;
	if (lend_get_many(slot->target->mem, slot->part, slot->parts, &slot->many) < 0) {
		slot->end.code = LEND_UNAVAILABLE;
		end_part(slot);
	}
}

/* Returns false if the call failed, which ends the request. */
static bool take_status(struct slot *slot, const void *reply)
{
	const struct lend_call *call = lend_pb_call(slot->client);

	slot->end.bytes += call ? call->reply_len : 0;
	if (reply)
		return true;
	slot->end.code = lend_pb_status(slot->client);
	end_part(slot);
	return false;
}

static void end_read(const Social__Posts *posts, void *arg)
{
	struct slot *slot = arg;

	if (!take_status(slot, posts))
		return;
	slot->end.posts = (unsigned)posts->n_posts;
	for (size_t i = 0; i < posts->n_posts; i++)
		for (size_t k = 0; k < posts->posts[i]->n_media; k++) {
			Social__Blob *body = posts->posts[i]->media[k]->body;

			if (body && social_blob_is_ref(body) && slot->target->maps)
				start_map(slot, body);
			else if (body && social_blob_is_ref(body))
				add_part(slot, body);
			else if (body)
				check_media(slot, (const char *)body->data.data, body->data.len);
		}
	if (slot->parts)
		get_parts(slot);
	end_part(slot);
}

static void end_compose(const Social__Empty *empty, void *arg)
{
	struct slot *slot = arg;

	if (take_status(slot, empty))
		end_part(slot);
}

static void call_compose(struct slot *slot)
{
	slot->end.bytes += protobuf_c_message_get_packed_size(&slot->compose.base);
	social__compose_post_service__compose_post(slot->target->compose, &slot->compose,
						   end_compose, slot);
}

static void end_put(struct social_blob_op *op)
{
	struct slot *slot = op->arg;

	slot->end.bytes += slot->target->shape->media;
	if (op->op.status == LEND_OK) {
		call_compose(slot);
		return;
	}
	slot->end.code = op->op.status;
	end_part(slot);
}

static void write_text(struct native_target *t, struct slot *slot)
{
	static const char letters[] =
	    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZab";
	size_t len = t->shape->text;

	for (size_t i = 0; i < len; i++)
		slot->text[i] = letters[lend_rng_next(&t->rng) & 63];
	for (uint64_t n = 1 + lend_rng_below(&t->rng, 6); n; n--)
		len += (size_t)sprintf(slot->text + len, " @username_%u http://short.example/%u",
				       (unsigned)lend_rng_below(&t->rng, t->shape->users),
				       (unsigned)lend_rng_below(&t->rng, 1u << 30));
	social_blob_set(&slot->words, slot->text, len);
}

/* Composes a post with a medium that no other has. */
static void start_compose(struct native_target *t, struct slot *slot,
			  const struct load_request *request)
{
	size_t len = t->shape->media, body = len - CRC_LEN;

	(void)snprintf(slot->name, sizeof(slot->name), "username_%u", request->user);
	slot->creator.user_id = request->user;
	slot->compose.req_id = (int64_t)(lend_rng_next(&t->rng) >> 4);
	slot->id[0] = (int64_t)(1 + (lend_rng_next(&t->rng) >> 2));
	lend_store_u64(slot->media, request->number);
	lend_store_u32(slot->media + body, lend_crc32c(0, slot->media, body));
	write_text(t, slot);
	social_blob_set(&slot->body, slot->media, len);
	if (!t->shape->by_ref) {
		call_compose(slot);
		return;
	}
	slot->put = (struct social_blob_op){.blob = &slot->body, .done = end_put, .arg = slot};
	social_blob_put(t->mem, &slot->put, slot->media, len, LEND_TRANSFER);
}

static struct native_target *target_of(struct load_target *base)
{
	return APP_OF(base, struct native_target, base);
}

static int start_request(struct load_target *base, unsigned index,
			 const struct load_request *request)
{
	struct native_target *t = target_of(base);
	struct slot *slot = &t->slot[index];
	Social__Range range = SOCIAL__RANGE__INIT;

	slot->end = (struct load_end){.code = LEND_OK};
	slot->waiting = 1;
	slot->parts = 0;
	range.user_id = request->user;
	range.start = (int32_t)request->start;
	range.stop = (int32_t)request->stop;
	slot->client = request->kind == LOAD_HOME   ? t->home
		       : request->kind == LOAD_USER ? t->user
						    : t->compose;
	if (request->kind == LOAD_HOME)
		social__home_timeline_service__read_home_timeline(t->home, &range, end_read, slot);
	else if (request->kind == LOAD_USER)
		social__user_timeline_service__read_user_timeline(t->user, &range, end_read, slot);
	else
		start_compose(t, slot, request);
	return 0;
}

static int poll_target(struct load_target *base, lend_ns wait)
{
	struct lend_ep *ep = target_of(base)->ep;
	int rc = wait ? lend_wait(ep, lend_now(ep) + wait) : lend_poll(ep);

	return rc < 0 ? rc : 0;
}

static const char *code_name(unsigned code, char *text)
{
	(void)text;
	return app_status_name((enum lend_status)code);
}

static void close_target(struct load_target *base)
{
	struct native_target *t = target_of(base);

	protobuf_c_service_destroy(t->home);
	protobuf_c_service_destroy(t->user);
	protobuf_c_service_destroy(t->compose);
	lend_mem_close(t->mem);
	lend_close(t->ep);
	for (unsigned i = 0; i < t->slots; i++) {
		lend_free(t->slot[i].media);
		lend_free(t->slot[i].text);
	}
	free(t);
}

static const struct load_target_ops ops = {
    .start = start_request, .poll = poll_target, .code_name = code_name, .close = close_target};

/* Makes the parts of a composed post that do not change. */
static void init_slot(struct native_target *t, unsigned index)
{
	struct slot *slot = &t->slot[index];

	slot->target = t;
	slot->index = index;
	slot->media = lend_malloc_shared(t->shape->media);
	slot->text = lend_malloc_shared(t->shape->text + TEXT_MORE);
	if (!slot->media || !slot->text)
		app_die("no memory for %u posts; give fewer --connections", t->slots);
	for (size_t i = 0; i + 8 <= t->shape->media; i += 8)
		lend_store_u64(slot->media + i, lend_rng_next(&t->rng));
	social__compose_req__init(&slot->compose);
	social__user__init(&slot->creator);
	social__media_req__init(&slot->list);
	slot->creator.username = slot->name;
	slot->compose.creator = &slot->creator;
	slot->compose.text = &slot->words;
	slot->compose.media = &slot->list;
	slot->type[0] = (char *)(uintptr_t) "jpg";
	slot->bodies[0] = &slot->body;
	slot->list.n_media_ids = slot->list.n_media_types = slot->list.n_bodies = 1;
	slot->list.media_ids = slot->id;
	slot->list.media_types = slot->type;
	slot->list.bodies = slot->bodies;
}

static ProtobufCService *open_service(struct native_target *t, lend_session session,
				      const ProtobufCServiceDescriptor *descriptor, lend_ns timeout)
{
	const struct lend_call common = {.timeout = timeout};
	ProtobufCService *client;

	if (lend_pb_client(t->ep, session, descriptor, &client) < 0)
		app_die("%s", lend_why());
	lend_pb_client_set(client, &common);
	return client;
}

static void open_endpoint(struct native_target *t, const char *dir, lend_ns timeout)
{
	char address[SOCIAL_ADDRESS_MAX], node[SOCIAL_ADDRESS_MAX] = "";
	struct lend_config config = LEND_CONFIG_INIT;
	lend_session session;

	config.calls = t->slots < 1024 ? t->slots : 1024;
	config.message_max = 64 << 20;
	if (!social_address_read(dir, "balancer", address))
		app_die("--target %s: no address of a balancer; start lend social --role balancer "
			"--dir %s",
			dir, dir);
	if (lend_open(&config, &t->ep) < 0 || lend_connect(t->ep, address, &session) < 0)
		app_die("--target %s: %s", dir, lend_why());
	if (social_address_read(dir, "node", node) && lend_mem_open(t->ep, node, &t->mem) < 0)
		app_die("--target %s: the memory node: %s", dir, lend_why());
	t->maps =
	    strncmp(node, "pool:", 5) == 0 || lend_carrier_traits(node) & LEND_CARRIER_IN_PLACE;
	t->home = open_service(t, session, &social__home_timeline_service__descriptor, timeout);
	t->user = open_service(t, session, &social__user_timeline_service__descriptor, timeout);
	t->compose = open_service(t, session, &social__compose_post_service__descriptor, timeout);
}

struct load_target *load_native_open(const char *dir, unsigned connections, lend_ns timeout,
				     const struct load_shape *shape, uint64_t seed)
{
	struct native_target *t = calloc(1, sizeof(*t) + connections * sizeof(t->slot[0]));

	if (!t)
		app_die("no memory for %u requests", connections);
	t->base.ops = &ops;
	t->shape = shape;
	t->slots = connections;
	lend_rng_seed(&t->rng, seed);
	open_endpoint(t, dir, timeout);
	for (unsigned i = 0; i < connections; i++)
		init_slot(t, i);
	return &t->base;
}

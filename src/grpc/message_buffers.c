#include "grpc/message_buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lend/alloc.h"
#include "util/bits.h"
#include "util/method_hash.h"

enum {
	HEAP_FIRST = 16 << 10,
	HEAP_MAX = 64 << 20,
	BLOCK_FIRST = 192,
	BLOCK_MAX = 8 << 20,
	SEGMENTS = 48,
	/* Bytes from which it costs less to wrap a value than to copy it, over networks and shm. */
	IN_PLACE = 16 << 10,
	IN_PLACE_SHM = 64 << 10,
};

struct heap_block {
	struct heap_block *next;
	size_t len;
};

static void use_block(struct lend_pb_heap *heap)
{
	heap->blocks.at = (uint8_t *)(heap->list + 1);
	heap->blocks.end = (uint8_t *)heap->list + heap->list->len;
}

static bool more_heap(struct lend_pb_blocks *blocks, size_t len)
{
	struct lend_pb_heap *heap = (struct lend_pb_heap *)blocks;
	struct heap_block *block;

	if (len > HEAP_MAX - heap->used)
		return false;
	len = lend_max_u64(len + sizeof(*block), heap->used ? heap->used : HEAP_FIRST);
	block = malloc(len);
	if (!block)
		return false;
	*block = (struct heap_block){heap->list, len};
	heap->list = block;
	heap->used += len;
	use_block(heap);
	return true;
}

void lend_pb_heap_init(struct lend_pb_heap *heap)
{
	*heap = (struct lend_pb_heap){.blocks = {.more = more_heap}};
}

static void free_until(struct lend_pb_heap *heap, const struct heap_block *last)
{
	while (heap->list != last) {
		struct heap_block *block = heap->list;

		heap->list = block->next;
		heap->used -= block->len;
		free(block);
	}
}

void lend_pb_heap_reset(struct lend_pb_heap *heap)
{
	const struct heap_block *first = heap->list;

	while (first && first->next)
		first = first->next;
	free_until(heap, first);
	if (first)
		use_block(heap);
}

void lend_pb_heap_free(struct lend_pb_heap *heap)
{
	free_until(heap, NULL);
}

struct lend_pb_heap *lend_pb_heap_begin(struct lend_pb_heap *shared, struct lend_pb_heap *own)
{
	if (!shared->busy) {
		shared->busy = true;
		return shared;
	}
	lend_pb_heap_init(own);
	return own;
}

void lend_pb_heap_end(struct lend_pb_heap *heap, const struct lend_pb_heap *own)
{
	heap->busy = false;
	if (heap == own)
		lend_pb_heap_free(heap);
	else
		lend_pb_heap_reset(heap);
}

enum { MANY_WRAPS = 1 << 30 }; /* until their number is known */

static void release_value(void *arg)
{
	struct lend_pb_lent *lent = arg;

	if (--lent->left)
		return;
	if (lent->release)
		lent->release(lent->arg);
	free(lent);
}

struct lend_pb_lent *lend_pb_lent_begin(struct lend_pb_sending *how, void (*release)(void *arg),
					void *arg)
{
	struct lend_pb_lent *lent = malloc(sizeof(*lent));

	if (lent)
		*lent = (struct lend_pb_lent){release, arg, MANY_WRAPS};
	how->release = release_value;
	how->arg = lent;
	return lent;
}

void lend_pb_lent_keep(struct lend_pb_lent *lent)
{
	if (lent)
		lent->release = NULL;
}

void lend_pb_lent_end(struct lend_pb_lent *lent, unsigned wraps)
{
	if (!lent)
		return;
	lent->left -= MANY_WRAPS - wraps - 1;
	release_value(lent);
}

/* Message buffers as blocks of the encoder. */
struct buffers {
	struct lend_pb_blocks blocks;
	struct lend_ep *ep;
	struct lend_buf *taken; /* the newest first */
	uint32_t next_len;
};

static bool more_buffers(struct lend_pb_blocks *blocks, size_t len)
{
	struct buffers *b = (struct buffers *)blocks;
	uint32_t cap = (uint32_t)lend_max_u64(len, b->next_len);
	struct lend_buf *buf = lend_buf_take(b->ep, cap);

	if (!buf)
		return false;
	buf->next = b->taken;
	b->taken = buf;
	blocks->at = buf->data;
	blocks->end = (uint8_t *)buf->data + cap;
	b->next_len = lend_min_u32(2 * cap, BLOCK_MAX);
	return true;
}

/* Takes the buffer that a segment is in from the list; NULL: it is in none of them. */
static struct lend_buf *find_buffer(struct buffers *b, const uint8_t *data)
{
	for (struct lend_buf **at = &b->taken; *at; at = &(*at)->next) {
		struct lend_buf *buf = *at;

		if (data >= (uint8_t *)buf->data && data < (uint8_t *)buf->data + buf->cap) {
			*at = buf->next;
			return buf;
		}
	}
	return NULL;
}

static struct lend_buf *wrap_value(struct lend_pb_sending *how, const struct lend_pb_segment *s)
{
	struct lend_buf *buf = lend_buf_wrap(how->ep, (void *)(uintptr_t)s->data, (uint32_t)s->len,
					     how->release, how->arg);

	how->wraps += buf != NULL;
	return buf;
}

/* Notes whether segment i, a value that is not copied, may be sent by reference. */
static void note_value(struct lend_pb_sending *how, const struct lend_pb_encoder *e, uint32_t i)
{
	uint64_t bit = UINT64_C(1) << (i - e->first);

	if (e->by_ref >> (e->max - 1 - i) & 1)
		how->marked |= bit;
	if (how->ref_min && (how->marked & bit || e->segment[i].len >= how->ref_min))
		how->refs |= bit;
}

/* Links a buffer for each segment. Returns NULL for lack of buffers. */
static struct lend_buf *chain_segments(struct lend_pb_sending *how, struct buffers *b,
				       const struct lend_pb_encoder *e)
{
	struct lend_buf *chain = NULL, **end = &chain;

	for (uint32_t i = e->first; i < e->max; i++) {
		const struct lend_pb_segment *s = &e->segment[i];
		struct lend_buf *buf = find_buffer(b, s->data);

		if (!buf && (buf = wrap_value(how, s)))
			note_value(how, e, i);
		if (!buf) {
			lend_buf_give(how->ep, chain);
			return NULL;
		}
		buf->data = (void *)(uintptr_t)s->data;
		buf->len = (uint32_t)s->len;
		buf->next = NULL;
		*end = buf;
		end = &buf->next;
	}
	return chain ? chain : lend_buf_take(how->ep, 1); /* an empty message */
}

/* Over shm a receiver reads message buffers in place, but other memory is sent as a copy for each
 * datagram: one copy into a message buffer costs half as much. */
static bool stays_in_place(void *arg, const void *data, size_t len)
{
	const struct lend_pb_sending *how = arg;
	struct lend_peer peer;

	if (how->ref_min && len >= how->ref_min)
		return true;
	if (lend_session_peer(how->ep, how->session, &peer) == 0 && peer.uid < 0)
		return true; /* a network: there is no user id from the kernel */
	return len >= IN_PLACE_SHM && lend_is_shared(data);
}

static size_t min_in_place(const struct lend_pb_sending *how)
{
	return how->ref_min && how->ref_min < IN_PLACE ? (size_t)how->ref_min : IN_PLACE;
}

struct lend_buf *lend_pb_to_buffers(struct lend_pb_sending *how, const struct lend_pb_table *table,
				    const ProtobufCMessage *message, enum lend_status *status)
{
	struct lend_pb_segment segment[SEGMENTS];
	struct buffers b = {.blocks = {.more = more_buffers, .separate = true},
			    .ep = how->ep,
			    .next_len = lend_max_u32(*how->packed, BLOCK_FIRST)};
	struct lend_pb_encoder e = {.blocks = &b.blocks,
				    .segment = segment,
				    .max = SEGMENTS,
				    .in_place = how->copies ? SIZE_MAX : min_in_place(how),
				    .stays = stays_in_place,
				    .arg = how,
				    .lends = how->ref_min != 0};
	struct lend_buf *chain = NULL;

	how->wraps = 0;
	how->refs = how->marked = 0;
	switch (lend_pb_encode(&e, table, message)) {
	case LEND_PB_OK:
		chain = chain_segments(how, &b, &e);
		*status = chain ? LEND_OK : LEND_RESOURCE_EXHAUSTED;
		break;
	case LEND_PB_NO_MEMORY:
	case LEND_PB_TOO_LONG:
		*status = LEND_RESOURCE_EXHAUSTED;
		break;
	default:
		*status = LEND_INVALID_ARGUMENT;
	}
	lend_buf_give(how->ep, b.taken);
	if (chain) /* without values in place: the next message probably needs as much */
		*how->packed = how->wraps
				   ? BLOCK_FIRST
				   : (uint32_t)lend_min_u64(e.len + table->simple_max, BLOCK_MAX);
	return chain;
}

static bool no_more(struct lend_pb_blocks *blocks, size_t len)
{
	(void)blocks, (void)len;
	return false;
}

bool lend_pb_to_bytes(const struct lend_pb_table *table, const ProtobufCMessage *message,
		      uint8_t *bytes, size_t cap, struct lend_pb_segment *encoded)
{
	struct lend_pb_blocks blocks = {.at = bytes, .end = bytes + cap, .more = no_more};
	struct lend_pb_encoder e = {
	    .blocks = &blocks, .segment = encoded, .max = 1, .in_place = SIZE_MAX};

	encoded->len = 0; /* an empty message is no segment */
	return lend_pb_encode(&e, table, message) == LEND_PB_OK;
}

int lend_pb_start_args(struct lend_mem *mem, const struct lend_pb_sending *how,
		       struct lend_call *call, struct lend_buf *chain)
{
	struct lend_argument arg[SEGMENTS];
	struct iovec piece[SEGMENTS];
	int n = 0;

	for (const struct lend_buf *b = chain; b; b = b->next, n++) {
		piece[n] = (struct iovec){b->data, b->len};
		arg[n] = (struct lend_argument){.data = &piece[n], .n = 1, .way = LEND_ARG_VALUE};
		if (how->refs >> n & 1)
			arg[n].way = how->marked >> n & 1 ? LEND_ARG_CALLER : LEND_ARG_AUTO;
	}
	return lend_call_start_argv(mem, how->session, call, arg, n);
}

static enum lend_status status_of_decoding(enum lend_pb_status status)
{
	return status == LEND_PB_OK          ? LEND_OK
	       : status == LEND_PB_NO_MEMORY ? LEND_RESOURCE_EXHAUSTED
					     : LEND_INVALID_ARGUMENT;
}

enum lend_status lend_pb_from_args(const struct lend_pb_table *table, const struct lend_arg *arg,
				   int n, struct lend_pb_heap *heap, ProtobufCMessage **message)
{
	struct lend_pb_segment segment[SEGMENTS];

	if (n > SEGMENTS)
		return LEND_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++)
		segment[i] = (struct lend_pb_segment){arg[i].bytes, (size_t)arg[i].len};
	return status_of_decoding(
	    lend_pb_decode(table, segment, (uint32_t)n, &heap->blocks, message));
}

enum lend_status lend_pb_from_buffers(const struct lend_pb_table *table,
				      const struct lend_buf *chain, struct lend_pb_heap *heap,
				      ProtobufCMessage **message)
{
	struct lend_pb_segment few[SEGMENTS], *segment = few;
	enum lend_pb_status status;
	const struct lend_buf *b;
	uint32_t n = 1;

	for (b = chain; b->next; b = b->next)
		n++;
	if (n > SEGMENTS && !(segment = malloc(n * sizeof(*segment))))
		return LEND_RESOURCE_EXHAUSTED;
	segment[0] = (struct lend_pb_segment){chain->data, chain->len};
	for (n = 1, b = chain->next; b; b = b->next)
		segment[n++] = (struct lend_pb_segment){b->data, b->len};
	status = lend_pb_decode(table, segment, n, &heap->blocks, message);
	if (segment != few)
		free(segment);
	return status_of_decoding(status);
}

uint32_t lend_pb_path(const ProtobufCServiceDescriptor *service, unsigned index, const char *suffix,
		      char path[LEND_PB_PATH_MAX])
{
	(void)snprintf(path, LEND_PB_PATH_MAX, "/%s/%s%s", service->name,
		       service->methods[index].name, suffix);
	return lend_pb_number(path);
}

uint32_t lend_pb_number(const char *path)
{
	return lend_method_hash(path, strlen(path));
}

ProtobufCMessage *lend_pb_encoded(struct lend_pb_bytes *message, const void *bytes, size_t len)
{
	struct encoded_one {
		struct lend_pb_encoded encoded;
		struct lend_pb_segment segment;
	} *one = (void *)message;

	_Static_assert(sizeof(*one) <= sizeof(*message), "it fits the public structure");
	*one = (struct encoded_one){.encoded = {.base = {.descriptor = &lend_pb_encoded_descriptor},
						.segment = &one->segment,
						.n = 1},
				    .segment = {bytes, len}};
	return &message->base;
}

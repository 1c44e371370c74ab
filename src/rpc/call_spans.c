#include "rpc/call_spans.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/last_error.h"
#include "sys/rand.h"
#include "util/bits.h"
#include "util/rng.h"

enum {
	SPANS = 4096,
	/* The value: version 0, then fields by number: 0 the trace, 1 the span, 2 the flags. */
	VALUE_LEN = 29,
	TRACE_AT = 2,
	ID_AT = 19,
	FLAGS_AT = 28,
};
static const char key[] = "grpc-trace-bin";

struct slot {
	struct lend_span span;
	const void *owner; /* NULL: the span has ended */
};

struct lend_trace {
	pthread_mutex_t lock;
	bool off;   /* $LEND_TRACE is 0 */
	double gap; /* mean number of calls from one sampled call to the next; 0: none is sampled */
	struct lend_rng rng;
	uint64_t n; /* spans begun; number i is in slot i % SPANS */
	struct slot slot[SPANS];
};

static struct lend_trace *find_ring(struct lend_ep *ep)
{
	return ep->home ? ep->home->trace : ep->trace;
}

/* Returns the endpoint's ring, made with the first use; NULL: no memory. */
static struct lend_trace *make_ring(struct lend_ep *ep)
{
	struct lend_trace *t = ep->trace;
	uint64_t seed;

	if (t)
		return t;
	t = calloc(1, sizeof(*t)); /* pages without spans use no memory */
	if (!t)
		return NULL;
	lend_random(&seed, sizeof(seed));
	lend_rng_seed(&t->rng, seed);
	pthread_mutex_init(&t->lock, NULL);
	ep->trace = t;
	return t;
}

void lend_trace_close(struct lend_ep *ep)
{
	if (ep->trace)
		pthread_mutex_destroy(&ep->trace->lock);
	free(ep->trace);
}

/* Draws after how many calls the next one is sampled: uniform, so that a period of the calls does
 * not fall in step with the samples. */
static void draw_gap(struct lend_ep *ep)
{
	struct lend_trace *t = ep->trace;

	ep->unsampled = lend_rng_below(&t->rng, (uint64_t)(2 * t->gap - 1));
}

int lend_trace_sample(struct lend_ep *ep, double share)
{
	struct lend_trace *t;

	if (!(share >= 0 && share <= 1))
		return lend_fail(EINVAL, "a share of the calls is from 0 to 1");
	t = make_ring(ep);
	if (!t)
		return lend_fail(ENOMEM, "no memory for %d spans", SPANS);
	t->gap = share > 0 ? 1 / share : 0;
	if (share > 0)
		draw_gap(ep);
	for (uint32_t i = 0; i < ep->session_top; i++)
		ep->session[i].samples = share > 0;
	return 0;
}

int lend_trace_open(struct lend_ep *ep)
{
	const char *text = getenv("LEND_TRACE");
	double share;
	char *end;
	int rc;

	if (!text || !*text)
		return 0;
	share = strtod(text, &end);
	if (*end || !(share >= 0 && share <= 1))
		return lend_fail(EINVAL, "LEND_TRACE=%.40s: give a share of the calls, 0 to 1",
				 text);
	rc = lend_trace_sample(ep, share);
	if (rc == 0)
		ep->trace->off = share == 0;
	return rc;
}

bool lend_trace_samples(const struct lend_ep *ep)
{
	return ep->trace && ep->trace->gap > 0;
}

/* Begins a span below a parent; of a new trace without. Returns its slot. */
static uint32_t begin_span(struct lend_trace *t, const void *owner, enum lend_span_kind kind,
			   const struct lend_span *parent)
{
	uint32_t i = (uint32_t)(t->n++ % SPANS);
	struct lend_span *span = &t->slot[i].span;
	uint64_t ids[3] = {lend_rng_next(&t->rng), lend_rng_next(&t->rng), lend_rng_next(&t->rng)};

	t->slot[i].owner = owner;
	*span = (struct lend_span){
	    .start = lend_clock_now(), .kind = (uint32_t)kind, .status = LEND_UNKNOWN};
	memcpy(span->id, &ids[0], sizeof(span->id));
	memcpy(span->trace, parent ? parent->trace : (void *)&ids[1], sizeof(span->trace));
	if (parent)
		memcpy(span->parent, parent->id, sizeof(span->parent));
	return i + 1;
}

/* Names a span after its method. */
static void name_span(struct lend_trace *t, uint32_t slot, const char *name, uint32_t number)
{
	char *to = t->slot[slot - 1].span.name, digits[16], *at = digits + sizeof(digits) - 1;

	*at = '\0';
	for (; !name && (number || !*at); number /= 10)
		*--at = (char)('0' + number % 10);
	(void)strncpy(to, name ? name : at, sizeof(t->slot[0].span.name) - 1);
}

/* Returns the span of an owner, which has the lock; NULL: a newer one has its slot. */
static struct lend_span *find_span(struct lend_trace *t, uint32_t slot, const void *owner)
{
	struct slot *at = slot ? &t->slot[slot - 1] : NULL;

	return at && at->owner == owner ? &at->span : NULL;
}

bool lend_span_copy(struct lend_ep *ep, const struct lend_req *req, struct lend_span *span)
{
	struct lend_trace *t = find_ring(ep);
	const struct lend_span *found;

	if (!t || !req || !req->head || !req->head->span)
		return false;
	pthread_mutex_lock(&t->lock);
	found = find_span(t, req->head->span, req->head);
	if (found)
		*span = *found;
	pthread_mutex_unlock(&t->lock);
	return found != NULL;
}

/* Returns whether a call can carry ids, and is not one of Lend's own. */
static bool may_trace(struct lend_ep *ep, const struct lend_session_rec *s,
		      const struct lend_call *call)
{
	bool own = call->method >= LEND_METHOD_RESERVED_FIRST &&
		   call->method <= LEND_METHOD_RESERVED_LAST && !(call->head && call->head->name);

	if (call->head && call->head->opens_stream)
		return false;
	if (own || call->zero_rtt)
		return false;
	if (!s->up) /* a call by name needs a peer that reads heads in any case */
		return call->head && call->head->name;
	return s->state == LEND_SESSION_OPEN && lend_core_session_reads_heads(ep->core, s->core);
}

/* Counts a call without a parent. Returns whether it is sampled. */
static bool is_sampled(struct lend_ep *ep, const struct lend_session_rec *s)
{
	if (!s->samples || !lend_trace_samples(ep))
		return false;
	if (ep->unsampled > 0) {
		ep->unsampled--;
		return false;
	}
	draw_gap(ep);
	return true;
}

uint32_t lend_trace_call(struct lend_ep *ep, const struct lend_session_rec *s,
			 const struct lend_call *call, const struct lend_req *request)
{
	struct lend_trace *t = find_ring(ep);
	const struct lend_method *entry;
	struct lend_span parent;
	const char *name;
	uint32_t slot;
	bool nested;

	if (!t)
		return 0;
	nested = lend_span_copy(ep, request, &parent);
	if ((!nested && (call->parent.id || !is_sampled(ep, s))) || !may_trace(ep, s, call))
		return 0;
	entry = call->head ? NULL : lend_methods_find(&ep->called, call->method);
	name = call->head ? call->head->name : entry ? entry->name : NULL;
	pthread_mutex_lock(&t->lock);
	slot = begin_span(t, call, LEND_SPAN_CLIENT, nested ? &parent : NULL);
	name_span(t, slot, name, call->method);
	pthread_mutex_unlock(&t->lock);
	return slot;
}

/* Returns whether the n bytes at `at` are all zeros. */
static bool is_zero(const uint8_t *at, uint32_t n)
{
	uint8_t any = 0;

	for (uint32_t i = 0; i < n; i++)
		any |= at[i];
	return any == 0;
}

/* Reads the ids of a head into the trace and id of a span. False: it has none that are valid, or
 * the trace is not sampled. */
static bool read_ids(const uint8_t *head, struct lend_span *parent)
{
	struct lend_pair pair;
	const uint8_t *v;

	for (uint32_t at = 0; lend_metadata_pair(head, LEND_HEAD_INITIAL, &at, &pair);) {
		if (strcmp(pair.key, key) != 0)
			continue;
		v = pair.value;
		if (pair.len != VALUE_LEN || v[0] || v[1] || v[ID_AT - 1] != 1 ||
		    v[FLAGS_AT - 1] != 2 || !(v[FLAGS_AT] & 1))
			return false;
		memcpy(parent->trace, v + TRACE_AT, sizeof(parent->trace));
		memcpy(parent->id, v + ID_AT, sizeof(parent->id));
		return !is_zero(parent->trace, sizeof(parent->trace)) &&
		       !is_zero(parent->id, sizeof(parent->id));
	}
	return false;
}

void lend_trace_request(struct lend_ep *ep, struct lend_req_head *head, const char *name,
			uint32_t number)
{
	struct lend_span parent;
	struct lend_trace *t;

	head->span = 0;
	if ((ep->trace && ep->trace->off) || !read_ids(head->bytes, &parent))
		return;
	t = make_ring(ep);
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	head->span = begin_span(t, head, LEND_SPAN_SERVER, &parent);
	name_span(t, head->span, name, number);
	pthread_mutex_unlock(&t->lock);
}

void lend_trace_put(struct lend_ep *ep, uint32_t slot, const void *owner,
		    struct lend_head_writer *w)
{
	uint8_t v[VALUE_LEN] = {[ID_AT - 1] = 1, [FLAGS_AT - 1] = 2, [FLAGS_AT] = 1};
	struct lend_trace *t = find_ring(ep);
	const struct lend_span *span;

	pthread_mutex_lock(&t->lock);
	span = find_span(t, slot, owner);
	if (span) {
		memcpy(v + TRACE_AT, span->trace, sizeof(span->trace));
		memcpy(v + ID_AT, span->id, sizeof(span->id));
	}
	pthread_mutex_unlock(&t->lock);
	if (span && w->cap - w->len >= LEND_TRACE_ENTRY)
		lend_head_add(w, LEND_HEAD_INITIAL, key, v, sizeof(v));
}

void lend_trace_end(struct lend_ep *ep, uint32_t slot, const void *owner, enum lend_status status)
{
	struct lend_trace *t = find_ring(ep);
	struct lend_span *span;

	if (!slot || !t)
		return;
	pthread_mutex_lock(&t->lock);
	span = find_span(t, slot, owner);
	if (span) {
		span->end = lend_clock_now();
		span->status = (uint32_t)status;
		t->slot[slot - 1].owner = NULL;
	}
	pthread_mutex_unlock(&t->lock);
}

void lend_spans_read(struct lend_ep *ep, uint64_t from, uint32_t room, struct lend_trace_head *head,
		     char *to)
{
	struct lend_trace *t = ep->trace;
	uint64_t i;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	from = t->n > SPANS ? lend_max_u64(from, t->n - SPANS) : from;
	for (i = from; i < t->n && head->n < room; i++)
		memcpy(to + head->n++ * sizeof(struct lend_span), &t->slot[i % SPANS].span,
		       sizeof(struct lend_span));
	head->next = i < t->n ? i : 0;
	pthread_mutex_unlock(&t->lock);
}

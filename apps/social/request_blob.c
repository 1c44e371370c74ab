/* request_blob - see request_blob.h. */
#include "apps/social/request_blob.h"

#include "apps/social/social.h"

/* One operation, in the memory of its request. */
struct moving {
	struct social_blob_op op; /* first */
	void *request, *bytes;
	Social__Blob *blob, ref; /* ref: the reference that is read */
	social_next_fn *next;
	void *state;
};

static struct moving *make_moving(void *request, Social__Blob *blob, social_next_fn *next,
				  void *state)
{
	struct moving *m = social_memory(request, sizeof(*m));

	*m = (struct moving){
	    .op = {.blob = blob}, .request = request, .blob = blob, .next = next, .state = state};
	social_begin(request);
	return m;
}

static void end_moving(struct moving *m, enum lend_status status)
{
	if (social_ended_with(m->request, status, "bytes are not on the memory node"))
		m->next(m->state);
}

static void end_fetch(struct social_blob_op *op)
{
	struct moving *m = (struct moving *)op;

	social_blob_set(m->blob, m->bytes, social_blob_len(&m->ref));
	end_moving(m, op->op.status);
}

void social_blob_fetch(void *request, Social__Blob *blob, social_next_fn *next, void *state)
{
	struct moving *m = make_moving(request, blob, next, state);

	if (!social_blob_is_ref(blob)) {
		end_moving(m, LEND_OK);
		return;
	}
	m->ref = *blob;
	m->op.blob = &m->ref;
	m->op.done = end_fetch;
	m->bytes = social_memory(request, social_blob_len(blob));
	social_counters_of(request)->blob_rx_bytes += social_blob_len(blob);
	social_blob_get(social.mem, &m->op, m->bytes);
}

static void end_send(struct social_blob_op *op)
{
	end_moving((struct moving *)op, LEND_OK);
}

void social_blob_send(void *request, Social__Blob *blob, social_next_fn *next, void *state)
{
	struct moving *m = make_moving(request, blob, next, state);

	if (!social_by_ref(blob->data.len)) {
		end_moving(m, LEND_OK);
		return;
	}
	m->op.done = end_send;
	social_counters_of(request)->blob_tx_bytes += blob->data.len;
	social_blob_put(social.mem, &m->op, blob->data.data, blob->data.len, LEND_TRANSFER);
}

void social_blob_give_back(const Social__Blob *blob)
{
	struct lend_ref ref;

	if (!social_blob_is_ref(blob))
		return;
	ref = social_blob_ref(blob);
	social_blob_drop(social.mem, &ref);
}

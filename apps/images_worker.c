/* images_worker - the tier that looks at the pixels: fetches, scales and encodes, answers.
 *
 * By value the pixels came with the request and stay where they were received. By reference:
 *
 *	adopt and get, at once      a claim, so that a worker's death frees the pages; and the
 *pixels release                     as soon as the pixels are here put, TRANSFER               the
 *result, when it is longer than inline_max reply                       when the put and the release
 *have ended
 *
 * Codec work runs in the turn: this tier does nothing else, and its peers allow more silence than
 *an image takes. Layer: apps. Threads: the endpoint's. Lend_mem and codec belong to the tier. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/load.h"
#include "apps/images.h"

/* One image. Ends in finish(), whatever fails. */
struct work {
	struct lend_op adopt, get, release, put;
	struct images_tier *tier;
	enum images_what what;
	lend_request from;
	struct images_head head; /* the request's, then the reply's */
	struct lend_ref ref;     /* of the pixels */
	void *pixels;            /* fetched, or copied into one piece; else NULL */
	struct iovec iov;        /* of the operation that reads or writes */
	struct images_jpeg result;
	unsigned pending;        /* operations under way */
	enum lend_status status; /* the first that was not OK */
};

static void fail(struct work *work, enum lend_status status)
{
	if (work->status == LEND_OK)
		work->status = status;
}

/* Counts an operation that was started or could not be. */
static void started(struct work *work, int rc)
{
	if (rc == 0)
		work->pending++;
	else
		fail(work, rc == -EAGAIN ? LEND_RESOURCE_EXHAUSTED : LEND_UNAVAILABLE);
}

/* Counts one that ended; true: it was the last. */
static bool ended(struct work *work, const struct lend_op *op)
{
	if (op->status != LEND_OK)
		fail(work, op->status);
	return --work->pending == 0;
}

static void finish(struct work *work)
{
	struct lend_ep *ep = work->tier->ep;
	struct lend_buf *reply = NULL;

	if (work->status == LEND_OK) {
		reply = work->head.by_ref ? images_message_ref(ep, &work->head, &work->put.ref)
					  : images_message(ep, &work->head, work->result.data,
							   images_jpeg_free, work->result.data);
		if (!reply)
			fail(work, LEND_RESOURCE_EXHAUSTED);
	}
	if (!reply || work->head.by_ref)
		images_jpeg_free(work->result.data);
	lend_reply(ep, work->from, work->status, reply);
	free(work->pixels);
	free(work);
}

static struct work *work_of(struct lend_op *op, size_t offset)
{
	return (struct work *)((char *)op - offset);
}

static void on_released(struct lend_op *op)
{
	struct work *work = work_of(op, offsetof(struct work, release));

	if (--work->pending ==
	    0) /* how it went is not the caller's concern: the lease sees to the rest */
		finish(work);
}

static void on_put(struct lend_op *op)
{
	struct work *work = work_of(op, offsetof(struct work, put));

	if (ended(work, op))
		finish(work);
}

/* The image itself: pixels to a JPEG, and the reply's head. */
static void run_codec(struct work *work, const void *pixels)
{
	lend_ns began = app_now();

	if (images_codec_apply(work->tier->codec, work->what, pixels, work->head.size,
			       &work->result) < 0) {
		fail(work, LEND_INTERNAL);
		return;
	}
	work->head.codec_ns = app_now() - began;
	work->head.what = work->what;
	work->head.len = work->result.len;
	work->head.by_ref = work->result.len > work->head.inline_max;
}

/* The result goes to the memory node if it is to go by reference. */
static void put_result(struct work *work)
{
	struct lend_terms terms = images_terms();

	if (work->status != LEND_OK || !work->head.by_ref)
		return;
	work->iov = (struct iovec){work->result.data, work->result.len};
	work->put.done = on_put;
	work->put.parent = work->from;
	started(work, lend_put(work->tier->mem, &work->iov, 1, &terms, &work->put));
}

/* Both the claim and the pixels are here, or one of them failed: the share is given up either way.
 */
static void on_fetched(struct work *work)
{
	work->release.done = on_released;
	work->release.timeout = IMAGES_TIMEOUT;
	started(work, lend_release(work->tier->mem, &work->ref, 1, &work->release));
	if (work->status == LEND_OK)
		run_codec(work, work->pixels);
	put_result(work);
	if (!work->pending)
		finish(work);
}

static void on_adopted(struct lend_op *op)
{
	struct work *work = work_of(op, offsetof(struct work, adopt));

	if (ended(work, op))
		on_fetched(work);
}

static void on_got(struct lend_op *op)
{
	struct work *work = work_of(op, offsetof(struct work, get));

	if (ended(work, op))
		on_fetched(work);
}

static void fetch(struct work *work, const struct lend_buf *bytes)
{
	images_message_get_ref(bytes, &work->ref);
	work->pixels = malloc(work->head.len);
	work->iov = (struct iovec){work->pixels, work->head.len};
	if (!work->pixels) {
		fail(work, LEND_RESOURCE_EXHAUSTED);
		finish(work);
		return;
	}
	work->adopt = (struct lend_op){.done = on_adopted, .parent = work->from};
	work->get = (struct lend_op){.done = on_got, .parent = work->from};
	started(work, lend_adopt(work->tier->mem, &work->ref, &work->adopt));
	started(work, lend_get(work->tier->mem, &work->ref, 0, &work->iov, 1, &work->get));
	if (!work->pending)
		finish(work);
}

/* The bytes stay where they were received; they are lent until the handler returns. */
static void use(struct work *work, const struct lend_buf *bytes)
{
	const void *pixels = images_message_bytes(bytes, work->head.len, &work->pixels);

	if (pixels)
		run_codec(work, pixels);
	else
		fail(work, LEND_RESOURCE_EXHAUSTED);
	put_result(work);
	if (!work->pending)
		finish(work);
}

static void on_work(lend_request request, const struct lend_buf *bytes, void *arg)
{
	const struct images_service *service = arg;
	struct work *work = calloc(1, sizeof(*work));

	if (!work) {
		lend_reply(service->tier->ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	work->tier = service->tier;
	work->what = service->what;
	work->from = request;
	if (!images_head_load(&work->head, bytes) ||
	    images_size_bytes(work->head.size) != work->head.len || !work->head.len) {
		fail(work, LEND_INVALID_ARGUMENT);
		finish(work);
	} else if (work->head.by_ref) {
		fetch(work, bytes);
	} else {
		use(work, bytes);
	}
}

int images_worker_open(struct images_tier *tier, const char *node)
{
	int rc = images_codec_open(&tier->codec);

	if (rc == 0)
		rc = lend_mem_open(tier->ep, node, &tier->mem);
	for (int i = 0; i < IMAGES_WHATS && rc == 0; i++) {
		tier->service[i] = (struct images_service){tier, (enum images_what)i};
		rc = lend_serve(tier->ep, IMAGES_WORK + (uint32_t)i, on_work, &tier->service[i], 0);
	}
	return rc;
}

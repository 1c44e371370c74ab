/* images_worker - the tier that processes the pixels: fetches, scales, encodes, and replies.
 *
 * Pixels in the message stay in the receive buffer. Pixels by reference are fetched; the reference
 * is valid while the client's call is in flight. The result is an argument of the reply. A result
 * longer than the client's threshold is sent by reference.
 *
 * Codec work runs in the event-loop turn: this tier does nothing else, and an image takes less time
 * than its peers' keepalive timeout. Layer: apps. Threads: the endpoint's. Lend_mem and codec
 * belong to the tier. */
#include <stdlib.h>

#include "apps/common/closed_loop.h"
#include "apps/images/images.h"

/* The work on one image. It always ends in send_answer(), also on failure. */
struct work {
	struct lend_op get;
	struct images_tier *tier;
	enum images_what what;
	lend_request from;
	struct images_head head; /* the request's, then the reply's */
	struct iovec pixels;     /* fetched; else empty */
	struct images_jpeg result;
	uint8_t store[IMAGES_HEAD];
	struct iovec reply[2]; /* in store, and the result */
};

static void on_gone(const struct iovec *reply)
{
	struct work *work = APP_OF(reply, struct work, reply);

	images_jpeg_free(work->result.data);
	free(work->pixels.iov_base);
	free(work);
}

static void send_answer(struct work *work, enum lend_status status)
{
	struct images_tier *tier = work->tier;

	images_head_store(work->store, &work->head);
	work->reply[0] = (struct iovec){work->store, IMAGES_HEAD};
	work->reply[1] = (struct iovec){work->result.data, work->result.len};
	lend_args_threshold_set(tier->mem, work->head.inline_max);
	if (status == LEND_OK &&
	    lend_reply_args(tier->mem, work->from, LEND_OK, work->reply, 2, on_gone) == 0)
		return;
	lend_reply(tier->ep, work->from, status == LEND_OK ? LEND_RESOURCE_EXHAUSTED : status,
		   NULL);
	on_gone(work->reply);
}

/* Encodes the pixels as a JPEG and fills in the reply's head. */
static void run_codec(struct work *work, const void *pixels)
{
	lend_ns began = app_now();
	int rc = images_codec_apply(work->tier->codec, work->what, pixels, work->head.size,
				    &work->result);

	work->head.codec_ns = app_now() - began;
	work->head.what = work->what;
	send_answer(work, rc < 0 ? LEND_INTERNAL : LEND_OK);
}

static void on_got(struct lend_op *op)
{
	struct work *work = APP_OF(op, struct work, get);

	if (op->status == LEND_OK)
		run_codec(work, work->pixels.iov_base);
	else
		send_answer(work, op->status);
}

static void fetch_pixels(struct work *work, const struct lend_arg *pixels)
{
	work->pixels = (struct iovec){malloc(pixels->len), pixels->len};
	work->get = (struct lend_op){.done = on_got, .parent = work->from};
	if (!work->pixels.iov_base)
		send_answer(work, LEND_RESOURCE_EXHAUSTED);
	else if (lend_get(work->tier->mem, &pixels->ref, 0, &work->pixels, 1, &work->get) < 0)
		send_answer(work, LEND_UNAVAILABLE);
}

static void on_work(lend_request request, const struct lend_buf *bytes, void *arg)
{
	const struct images_service *service = arg;
	struct work *work = calloc(1, sizeof(*work));
	struct lend_arg pixels;

	if (!work) {
		lend_reply(service->tier->ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	work->tier = service->tier;
	work->what = service->what;
	work->from = request;
	if (!images_message_load(bytes, &work->head, &pixels) || !pixels.len ||
	    images_size_bytes(work->head.size) != pixels.len)
		send_answer(work, LEND_INVALID_ARGUMENT);
	else if (pixels.bytes)
		run_codec(work, pixels.bytes);
	else
		fetch_pixels(work, &pixels);
}

int images_worker_open(struct images_tier *tier, const char *node)
{
	int rc = images_codec_open(&tier->codec);

	if (rc == 0)
		rc = lend_mem_open(tier->ep, node, &tier->mem);
	for (int i = 0; i < IMAGES_WHATS && rc == 0; i++) {
		tier->service[i] = (struct images_service){tier, (enum images_what)i};
		rc = lend_serve(tier->ep, IMAGES_WORK + (uint32_t)i, on_work, &tier->service[i],
				LEND_RESERVED);
	}
	return rc;
}

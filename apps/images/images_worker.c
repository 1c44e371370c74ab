/* images_worker - the tier that processes the pixels: scales, encodes, and replies.
 *
 * Pixels come as an argument: in the message, in the client's memory, or from a memory node. The
 * result is an argument of the reply, on the node if the pixels were.
 *
 * Codec work runs in the event-loop turn: this tier does nothing else, and an image takes less time
 * than its peers' keepalive timeout. Layer: apps. Threads: the endpoint's. Lend_mem and codec
 * belong to the tier. */
#include <stdlib.h>

#include "apps/common/closed_loop.h"
#include "apps/images/images.h"

/* A result, until no carrier reads it any more. */
struct result {
	struct images_jpeg jpeg;
	uint8_t head[IMAGES_HEAD];
	struct iovec data[2]; /* head and jpeg */
};

static void free_result(void *of)
{
	struct result *result = of;

	images_jpeg_free(result->jpeg.data);
	free(result);
}

static int send_result(struct images_tier *tier, lend_request request,
		       const struct images_head *head, struct result *result)
{
	/* The client does not read this process's memory. */
	enum lend_arg_way way = head->way == LEND_ARG_CALLER ? LEND_ARG_VALUE : head->way;
	const struct lend_argument args[] = {
	    {.data = &result->data[0], .n = 1, .way = LEND_ARG_VALUE},
	    {.data = &result->data[1], .n = 1, .way = way}};

	images_head_store(result->head, head);
	result->data[0] = (struct iovec){result->head, IMAGES_HEAD};
	result->data[1] = (struct iovec){result->jpeg.data, result->jpeg.len};
	return lend_reply_argv(tier->mem, request, LEND_OK, args, 2, free_result, result);
}

static void on_work(lend_request request, const struct lend_arg *args, int n, void *arg)
{
	const struct images_service *service = arg;
	struct images_tier *tier = service->tier;
	struct result *result = calloc(1, sizeof(*result));
	enum lend_status status = LEND_OK;
	struct images_head head;
	lend_ns began = app_now();

	if (!result)
		status = LEND_RESOURCE_EXHAUSTED;
	else if (!images_args_load(args, n, &head) || !args[1].len ||
		 images_size_bytes(head.size) != args[1].len)
		status = LEND_INVALID_ARGUMENT;
	else if (images_codec_apply(tier->codec, service->what, args[1].bytes, head.size,
				    &result->jpeg) < 0)
		status = LEND_INTERNAL;
	if (status == LEND_OK) {
		head.codec_ns = app_now() - began;
		head.what = service->what;
		if (send_result(tier, request, &head, result) == 0)
			return;
		status = LEND_RESOURCE_EXHAUSTED;
	}
	lend_reply(tier->ep, request, status, NULL);
	if (result)
		free_result(result);
}

int images_worker_open(struct images_tier *tier, const char *node)
{
	int rc = images_codec_open(&tier->codec);

	if (rc == 0)
		rc = lend_mem_open(tier->ep, node, &tier->mem);
	for (int i = 0; i < IMAGES_WHATS && rc == 0; i++) {
		tier->service[i] = (struct images_service){tier, (enum images_what)i};
		rc = lend_serve_args(tier->mem, IMAGES_WORK + (uint32_t)i, on_work,
				     &tier->service[i], LEND_RESERVED);
	}
	return rc;
}

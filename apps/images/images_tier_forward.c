/* images_tier_forward - firewall, load balancer and image server: services that forward requests.
 *
 * A forwarded request is one struct hop. It takes the received bytes, starts a call with them to
 * the next tier and returns. When that call ends, its reply becomes our reply. So a tier has any
 * number of requests in flight in one thread, and never copies or reads a forwarded message beyond
 * its head. The call inherits the deadline of the request that it serves, and its status is
 * returned unchanged: when a later tier dies, the client gets UNAVAILABLE. Layer: apps. Threads:
 * the endpoint's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/images/images.h"

const char *const images_role_names[] = {"firewall", "balancer", "server", "worker", NULL};

void images_config(struct lend_config *config)
{
	config->message_max = IMAGES_BYTES_MAX + 2 * IMAGES_HEAD;
	config->receive_budget = UINT64_C(4) * IMAGES_BYTES_MAX;
	config->timeout = IMAGES_TIMEOUT;
}

struct hop {
	struct lend_call call; /* first: on_reply finds the hop by it */
	lend_request from;     /* the request to reply to */
	struct lend_ep *ep;
};

static void on_reply(struct lend_call *call)
{
	struct hop *hop = (struct hop *)call;

	if (call->request)
		lend_buf_give(hop->ep, call->request);
	lend_reply(hop->ep, hop->from, call->status, call->reply);
	free(hop);
}

/* The firewall accepts a well-formed request: the size in the head matches the number of bytes. */
static bool is_allowed(const struct images_head *head, const struct lend_arg *pixels)
{
	return images_size_bytes(head->size) == pixels->len && pixels->len;
}

/* Decides whether the tier forwards a request, and to which method of the next tier. */
static enum lend_status choose_method(const struct images_tier *tier, const struct lend_buf *bytes,
				      uint32_t *method)
{
	struct images_head head;
	struct lend_arg pixels;

	*method = IMAGES_PROCESS;
	if (tier->role == IMAGES_BALANCER)
		return LEND_OK;
	if (!images_message_load(bytes, &head, &pixels))
		return LEND_INVALID_ARGUMENT;
	if (tier->role == IMAGES_FIREWALL)
		return is_allowed(&head, &pixels) ? LEND_OK : LEND_PERMISSION_DENIED;
	*method = IMAGES_WORK + images_pick(&head);
	return LEND_OK;
}

/* Starts a call of a tier, with a new session if that tier was started again meanwhile. */
static int call_next(struct images_tier *tier, unsigned i, struct lend_call *call)
{
	int rc = lend_call_start(tier->ep, tier->next[i], call);

	if (rc == -ESTALE && lend_connect(tier->ep, tier->next_address[i], &tier->next[i]) == 0)
		rc = lend_call_start(tier->ep, tier->next[i], call);
	return rc;
}

static enum lend_status forward_request(struct images_tier *tier, lend_request request,
					uint32_t method)
{
	struct hop *hop = calloc(1, sizeof(*hop));
	int rc;

	if (!hop)
		return LEND_RESOURCE_EXHAUSTED;
	hop->ep = tier->ep;
	hop->from = request;
	hop->call.method = method;
	hop->call.parent = request;
	hop->call.request = lend_request_take(tier->ep, request);
	hop->call.done = on_reply;
	rc = call_next(tier, tier->turn++ % tier->nexts, &hop->call);
	if (rc == 0)
		return LEND_OK;
	if (hop->call.request)
		lend_buf_give(tier->ep, hop->call.request);
	free(hop);
	return rc == -EAGAIN ? LEND_RESOURCE_EXHAUSTED : LEND_UNAVAILABLE;
}

static void on_request(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct images_tier *tier = arg;
	uint32_t method;
	enum lend_status status = choose_method(tier, bytes, &method);

	if (status == LEND_OK)
		status = forward_request(tier, request, method);
	if (status != LEND_OK)
		lend_reply(tier->ep, request, status, NULL);
}

int images_tier_open(struct images_tier *tier, struct lend_ep *ep, enum images_role role,
		     const char *const next[], unsigned n, const char *node)
{
	*tier = (struct images_tier){.ep = ep, .role = role};
	if (role == IMAGES_WORKER)
		return images_worker_open(tier, node);
	for (unsigned i = 0; i < n; i++) {
		int rc = lend_connect(ep, next[i], &tier->next[i]);

		tier->next_address[i] = next[i];
		if (rc < 0)
			return rc;
	}
	tier->nexts = n;
	return lend_serve(ep, IMAGES_PROCESS, on_request, tier, LEND_RESERVED);
}

void images_tier_stop(struct images_tier *tier)
{
	if (tier->mem)
		lend_mem_close(tier->mem);
	tier->mem = NULL;
}

void images_tier_close(struct images_tier *tier)
{
	images_codec_close(tier->codec);
}

/* images_client - sends images through the tiers and checks the results.
 *
 * An image in flight is a job: a call with the pixels as an argument, then a get and a release if
 * the result came by reference. Layer: apps. Threads: the endpoint's. */
#include "apps/images/images_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/hosts.h"

enum { TURN_NS = 100000000 }; /* the longest sleep of a turn */

struct job {
	struct lend_call call;
	struct lend_op get, release;
	struct images_client *client;
	struct images_item *item; /* NULL: idle */
	struct images_head head;  /* the request's, then the reply's */
	uint8_t store[IMAGES_HEAD];
	struct iovec request[2]; /* in store, and the pixels */
	struct lend_arg reply;
	struct iovec result; /* a result that was fetched by reference */
	lend_ns began;
};

const char *const images_by_names[] = {"value", "ref", "auto", "node", NULL};

void images_client_init(struct images_client *client, enum images_by by)
{
	static const enum lend_arg_way way[IMAGES_BYS] = {LEND_ARG_VALUE, LEND_ARG_CALLER,
							  LEND_ARG_AUTO, LEND_ARG_NODE};

	*client = (struct images_client){.way = way[by]};
	lend_hist_init(&client->without_ns);
	lend_hist_init(&client->with_ns);
}

static void end_job(struct job *job)
{
	free(job->result.iov_base);
	job->result.iov_base = NULL;
	job->item = NULL;
	job->client->busy--;
}

static void note_failure(struct job *job, enum lend_status status)
{
	struct images_client *client = job->client;

	client->failed++;
	if (client->status != LEND_OK)
		return;
	client->status = status;
	client->culprit = job->item->path;
}

static void on_released(struct lend_op *op)
{
	end_job(APP_OF(op, struct job, release));
}

/* Releases the job's reference. The job ends when the release has ended. */
static void release_ref(struct job *job)
{
	job->release = (struct lend_op){.done = on_released, .timeout = IMAGES_TIMEOUT};
	if (lend_release(job->client->mem, &job->reply.ref, 1, &job->release) < 0)
		end_job(job);
}

static enum lend_status status_of(int rc)
{
	return rc == -EAGAIN ? LEND_RESOURCE_EXHAUSTED : LEND_UNAVAILABLE;
}

/* Checks and saves the complete result. */
static void check_result(struct job *job, const void *result)
{
	struct images_client *client = job->client;
	struct images_item *item = job->item;
	lend_ns took = app_now() - job->began;
	lend_ns codec = job->head.codec_ns < took ? job->head.codec_ns : took;

	client->ended++;
	if (client->timed) {
		lend_hist_add(&client->without_ns, took - codec);
		lend_hist_add(&client->with_ns, took + item->decode_ns);
	}
	if (job->head.what != item->what || job->reply.len != item->want.len ||
	    memcmp(result, item->want.data, item->want.len))
		item->differ++;
	if (client->out && !item->results)
		images_out_save(client->out, item, job->head.number, result, job->reply.len);
	item->results++;
}

static void on_got(struct lend_op *op)
{
	struct job *job = APP_OF(op, struct job, get);

	if (op->status == LEND_OK)
		check_result(job, job->result.iov_base);
	else
		note_failure(job, op->status);
	release_ref(job);
}

static void fetch_result(struct job *job)
{
	int rc = -ENOMEM;

	job->result = (struct iovec){malloc(job->reply.len + 1), job->reply.len};
	job->get = (struct lend_op){.done = on_got, .timeout = IMAGES_TIMEOUT};
	if (job->result.iov_base)
		rc = lend_get(job->client->mem, &job->reply.ref, 0, &job->result, 1, &job->get);
	if (rc == 0)
		return;
	note_failure(job, status_of(rc));
	release_ref(job);
}

static void on_reply(struct lend_call *call)
{
	struct job *job = APP_OF(call, struct job, call);
	bool fine =
	    call->status == LEND_OK && images_message_load(call->reply, &job->head, &job->reply);

	if (!fine)
		note_failure(job, call->status == LEND_OK ? LEND_DATA_LOSS : call->status);
	else if (job->reply.bytes)
		check_result(job, job->reply.bytes);
	else
		fetch_result(job);
	if (call->reply)
		lend_buf_give(job->client->ep, call->reply);
	if (!fine || job->reply.bytes)
		end_job(job);
}

static void begin_job(struct job *job, struct images_client *client, struct images_item *item,
		      uint32_t number)
{
	const struct lend_argument args[] = {
	    {.data = &job->request[0], .n = 1, .way = LEND_ARG_VALUE},
	    {.data = &job->request[1],
	     .n = !client->stored,
	     .way = client->way,
	     .ref = client->stored ? &item->ref : NULL}};
	int rc;

	job->client = client;
	job->item = item;
	job->head = (struct images_head){
	    .number = number, .what = client->what, .size = item->size, .way = client->way};
	images_head_store(job->store, &job->head);
	job->request[0] = (struct iovec){job->store, IMAGES_HEAD};
	job->request[1] = (struct iovec){item->rgb, images_size_bytes(item->size)};
	job->call = (struct lend_call){
	    .method = IMAGES_PROCESS, .done = on_reply, .timeout = IMAGES_TIMEOUT};
	job->began = app_now();
	client->busy++;
	rc = lend_call_start_argv(client->mem, client->service, &job->call, args, 2);
	if (rc == 0)
		return;
	note_failure(job, status_of(rc));
	end_job(job);
}

static struct job *idle_job(struct job *jobs, unsigned window)
{
	for (unsigned i = 0; i < window; i++)
		if (!jobs[i].item)
			return &jobs[i];
	return NULL;
}

lend_ns images_client_pass(struct images_client *client, struct images_item *items, unsigned first,
			   unsigned end, unsigned window)
{
	static struct job jobs[IMAGES_WINDOW_MAX];
	lend_ns began = app_now();
	unsigned next = first;

	while (client->busy || (next < end && !client->failed)) {
		struct job *job = idle_job(jobs, window);

		if (job && next < end && !client->failed) {
			if (items[next].rgb)
				begin_job(job, client, &items[next], next);
			next++;
			continue;
		}
		if (lend_wait(client->ep, lend_now(client->ep) + TURN_NS) < 0)
			app_die("%s", lend_why());
	}
	return app_now() - began;
}

enum lend_status images_client_try(struct images_client *client, const char *service)
{
	struct images_head head = {.what = client->what, .size = {1, 1}, .way = LEND_ARG_VALUE};
	unsigned char store[IMAGES_HEAD], pixel[8] = {0};
	struct iovec request[] = {{store, IMAGES_HEAD}, {pixel, images_size_bytes(head.size)}};
	const struct lend_argument args[] = {{.data = &request[0], .n = 1, .way = LEND_ARG_VALUE},
					     {.data = &request[1], .n = 1, .way = LEND_ARG_VALUE}};
	struct lend_call call = {.method = IMAGES_PROCESS, .timeout = APP_HOSTS_TRY_NS};
	int rc;

	images_head_store(store, &head);
	rc = lend_call_sync_argv(client->mem, client->service, &call, args, 2);
	if (rc == -ESTALE && lend_connect(client->ep, service, &client->service) < 0)
		app_die("%s", lend_why());
	if (rc < 0)
		return LEND_UNAVAILABLE;
	lend_buf_give(client->ep, call.reply);
	return call.status;
}

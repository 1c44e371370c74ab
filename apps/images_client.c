/* images_client - sends images through the tiers and checks what comes back.
 *
 * One image under way is a job. By value: call, reply. By reference: put, call, get, release; a job
 * whose call failed releases its argument instead, for nobody may have claimed it. Layer: apps.
 * Threads: the endpoint's. */
#include "apps/images_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/args.h"
#include "apps/common/load.h"

enum { TURN_NS = 100000000 }; /* a turn sleeps at most so long */

struct job {
	struct lend_call call;
	struct lend_op put, get, release;
	struct images_client *client;
	struct images_item *item; /* NULL: idle */
	struct images_head head;  /* the request's, then the reply's */
	struct lend_ref ref;      /* of the argument, then of the result */
	struct iovec iov;         /* of the operation that reads or writes */
	void *result;             /* fetched by reference */
	lend_ns began;
};
#define JOB_OF(pointer, member) ((struct job *)((char *)(pointer)-offsetof(struct job, member)))

static const char *const by_names[IMAGES_BYS] = {"value", "ref", "auto"};

const char *images_by_name(enum images_by by)
{
	return by_names[by];
}

bool images_by_parse(const char *text, enum images_by *by)
{
	for (int i = 0; i < IMAGES_BYS; i++) {
		if (strcmp(text, by_names[i]))
			continue;
		*by = (enum images_by)i;
		return true;
	}
	return false;
}

void images_client_init(struct images_client *client, enum images_by by)
{
	static const uint32_t inline_max[IMAGES_BYS] = {UINT32_MAX, 0, IMAGES_AUTO_INLINE};

	*client = (struct images_client){.inline_max = inline_max[by]};
	lend_hist_init(&client->without_ns);
	lend_hist_init(&client->with_ns);
}

static void end(struct job *job)
{
	free(job->result);
	job->result = NULL;
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
	end(JOB_OF(op, release));
}

/* The job's last step when it holds a reference. */
static void release(struct job *job)
{
	job->release = (struct lend_op){.done = on_released, .timeout = IMAGES_TIMEOUT};
	if (lend_release(job->client->mem, &job->ref, 1, &job->release) < 0)
		end(job);
}

static enum lend_status status_of(int rc)
{
	return rc == -EAGAIN ? LEND_RESOURCE_EXHAUSTED : LEND_UNAVAILABLE;
}

/* The result is here, whole. */
static void check(struct job *job, const void *result)
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
	if (job->head.what != item->what || job->head.len != item->want.len ||
	    memcmp(result, item->want.data, item->want.len))
		item->differ++;
	if (client->out && !item->results)
		images_out_save(client->out, item, job->head.number, result, job->head.len);
	item->results++;
}

static void on_got(struct lend_op *op)
{
	struct job *job = JOB_OF(op, get);

	if (op->status == LEND_OK)
		check(job, job->result);
	else
		note_failure(job, op->status);
	release(job);
}

static void fetch(struct job *job)
{
	int rc = -ENOMEM;

	job->result = malloc(job->head.len + 1);
	job->iov = (struct iovec){job->result, job->head.len};
	job->get = (struct lend_op){.done = on_got, .timeout = IMAGES_TIMEOUT};
	if (job->result)
		rc = lend_get(job->client->mem, &job->ref, 0, &job->iov, 1, &job->get);
	if (rc == 0)
		return;
	note_failure(job, status_of(rc));
	release(job);
}

/* Takes the reply apart; true: the job goes on. */
static bool use_reply(struct job *job, const struct lend_buf *reply)
{
	const void *bytes;
	void *copy;

	if (!reply || !images_head_load(&job->head, reply)) {
		note_failure(job, LEND_DATA_LOSS);
		return false;
	}
	if (job->head.by_ref) {
		images_message_get_ref(reply, &job->ref);
		fetch(job);
		return true;
	}
	bytes = images_message_bytes(reply, job->head.len, &copy);
	if (bytes)
		check(job, bytes);
	else
		note_failure(job, LEND_RESOURCE_EXHAUSTED);
	free(copy);
	return false;
}

static void on_reply(struct lend_call *call)
{
	struct job *job = JOB_OF(call, call);
	bool lent = job->head.by_ref;
	bool goes_on = false;

	if (call->request)
		lend_buf_give(job->client->ep, call->request);
	if (call->status == LEND_OK) {
		goes_on = use_reply(job, call->reply);
		lent = false;
	} else {
		note_failure(job, call->status);
	}
	if (call->reply)
		lend_buf_give(job->client->ep, call->reply);
	if (lent)
		release(job);
	else if (!goes_on)
		end(job);
}

static void on_pixels_gone(void *arg)
{
	((struct images_item *)arg)->lent--;
}

/* Starts the call; what it carries stands in the head already. */
static void call(struct job *job)
{
	struct images_client *client = job->client;
	int rc = -EAGAIN;

	job->call = (struct lend_call){
	    .method = IMAGES_PROCESS, .done = on_reply, .timeout = IMAGES_TIMEOUT};
	job->call.request =
	    job->head.by_ref
		? images_message_ref(client->ep, &job->head, &job->ref)
		: images_message(client->ep, &job->head, job->item->rgb, on_pixels_gone, job->item);
	if (job->call.request) {
		job->item->lent += !job->head.by_ref;
		rc = lend_call_start(client->ep, client->service, &job->call);
	}
	if (rc == 0)
		return;
	if (job->call.request)
		lend_buf_give(client->ep, job->call.request);
	note_failure(job, status_of(rc));
	if (job->head.by_ref)
		release(job);
	else
		end(job);
}

static void on_put(struct lend_op *op)
{
	struct job *job = JOB_OF(op, put);

	if (op->status != LEND_OK) {
		note_failure(job, op->status);
		end(job);
		return;
	}
	job->ref = op->ref;
	call(job);
}

static void put(struct job *job)
{
	struct lend_terms terms = images_terms();
	int rc;

	job->iov = (struct iovec){job->item->rgb, job->head.len};
	job->put = (struct lend_op){.done = on_put, .timeout = IMAGES_TIMEOUT};
	rc = lend_put(job->client->mem, &job->iov, 1, &terms, &job->put);
	if (rc == 0)
		return;
	note_failure(job, status_of(rc));
	end(job);
}

static void begin(struct job *job, struct images_client *client, struct images_item *item,
		  uint32_t number)
{
	job->client = client;
	job->item = item;
	job->head = (struct images_head){
	    .number = number,
	    .size = item->size,
	    .inline_max = client->inline_max,
	    .len = images_size_bytes(item->size),
	};
	job->head.by_ref = job->head.len > client->inline_max;
	job->began = app_now();
	client->busy++;
	if (job->head.by_ref)
		put(job);
	else
		call(job);
}

static struct job *idle_job(struct job *jobs, unsigned window)
{
	for (unsigned i = 0; i < window; i++)
		if (!jobs[i].item)
			return &jobs[i];
	return NULL;
}

/* Pixels that a carrier still reads must stay: a call can end, by a timeout say, before that. */
static void wait_lent(struct images_client *client, const struct images_item *items, unsigned n)
{
	lend_ns until = app_now() + IMAGES_TIMEOUT;

	for (unsigned i = 0; i < n; i++)
		while (items[i].lent) {
			if (lend_turn(client->ep, lend_now(client->ep) + TURN_NS) < 0)
				app_die("%s", lend_why());
			if (app_now() > until)
				app_die("%s: a peer does not let go of its pixels; is it stopped?",
					items[i].path);
		}
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
				begin(job, client, &items[next], next);
			next++;
			continue;
		}
		if (lend_turn(client->ep, lend_now(client->ep) + TURN_NS) < 0)
			app_die("%s", lend_why());
	}
	began = app_now() - began;
	wait_lent(client, items + first, end - first);
	return began;
}

/* training - the time of training iterations that exchange parameters over a shaped link, with
 * priorities by layer and in FIFO order.
 *
 * The worker computes backward from the last layer to the first one. When a layer's gradients are
 * ready, it calls the parameter server with them. Then it computes forward from the first layer to
 * the last one, and each layer waits for the server's replies with its parameters. To compute is
 * to let time pass, as a worker's CPU does while an accelerator computes. Iterations with
 * priorities and in FIFO order take turns. Between them each byte of the replies is compared.
 * Layer: apps. Threads: one. */
#include "apps/bench/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/bench_server.h"
#include "apps/common/closed_loop.h"
#include "apps/common/report.h"
#include "apps/common/samples.h"
#include "apps/common/shaped_link.h"
#include "apps/common/spawn.h"
#include "lend/rpc.h"
#include "util/bits.h"

enum { BACKWARD = 2 }; /* time of a layer's backward step over that of its forward step */
enum { SEED = 17, ROUNDS_MAX = 100 };

struct args {
	struct training_shape shape;
	unsigned mbit, rounds, window;
	lend_ns compute; /* of an iteration; 0: as long as the transfer of all parameters */
	bool json;
};

enum order { BY_LAYER, FIFO, ORDERS };

struct training;
struct slice_call {
	struct lend_call call; /* first: on_reply finds the rest by it */
	struct side *side;
	const struct training_slice *slice;
	unsigned char *request; /* TRAINING_HEAD bytes, and gradients */
};

/* The worker's end of one of the two orders, and its server. */
struct side {
	struct training *training;
	enum order order;
	struct app_net net;
	struct app_child server;
	struct lend_ep *ep;
	lend_session session;
	unsigned char *requests, *replies, *want; /* of all slices, one after the other */
	struct slice_call *call;                  /* by slice */
	unsigned missing[TRAINING_LAYERS_MAX];    /* replies, by layer */
	struct app_series seconds;                /* of each iteration */
};

struct training {
	struct args args;
	struct training_model model;
	struct side side[ORDERS];
	lend_ns compute;
	uint64_t iterations, wrong_bytes;
};

static double transfer_seconds(const struct training *t)
{
	return 8e-6 * (double)t->model.bytes / t->args.mbit;
}

/* Returns the time of a layer's forward step. */
static lend_ns forward_ns(const struct training *t, unsigned layer)
{
	return (lend_ns)((double)t->compute / (1 + BACKWARD) * t->model.layer[layer].work /
			 t->model.work);
}

static void on_reply(struct lend_call *call)
{
	struct slice_call *at = (struct slice_call *)(void *)call;

	if (call->status != LEND_OK)
		app_die("an exchange of parameters ended %s: %s", app_status_name(call->status),
			*lend_why() ? lend_why() : "give a larger --link, or a larger --scale");
	at->side->missing[at->slice->layer]--;
}

static struct lend_buf *wrap_bytes(struct side *side, void *bytes, uint32_t len)
{
	struct lend_buf *buf = lend_buf_wrap(side->ep, bytes, len, NULL, NULL);

	if (!buf)
		app_die("no message buffer is free: give a larger --slice");
	return buf;
}

static void start_slice(struct side *side, unsigned i)
{
	struct training *t = side->training;
	struct slice_call *at = &side->call[i];
	/* A call waits for all others of its iteration, on a machine that may be busy. */
	lend_ns most = (lend_ns)(8e9 * transfer_seconds(t)) + t->compute + APP_CALL_NS;

	at->call = (struct lend_call){
	    .method = APP_METHOD_TRAINING,
	    .priority = side->order == FIFO ? LEND_NORMAL : at->slice->priority,
	    .timeout = most,
	    .queue = 1,
	    .done = on_reply,
	    .request = wrap_bytes(side, at->request, TRAINING_HEAD + at->slice->len),
	    .reply = wrap_bytes(side, side->replies + at->slice->at, at->slice->len)};
	if (lend_call_start(side->ep, side->session, &at->call) < 0)
		app_die("%s", lend_why());
}

/* Runs turns until a call ended or the time came. The other side only keeps its session alive. */
static void run_turns(struct side *side, lend_ns until)
{
	struct side *other = &side->training->side[!side->order];

	if (lend_wait(side->ep, until) < 0 || lend_poll(other->ep) < 0)
		app_die("%s", lend_why());
}

/* Lets the time pass that an accelerator computes. */
static void compute_until(struct side *side, lend_ns until)
{
	while (app_now() < until)
		run_turns(side, until);
}

static void run_backward(struct side *side, lend_ns *at)
{
	struct training *t = side->training;

	for (unsigned i = t->model.layers; i-- > 0;) {
		const struct training_layer *layer = &t->model.layer[i];

		compute_until(side, *at += BACKWARD * forward_ns(t, i));
		side->missing[i] = layer->after - layer->first;
		for (unsigned k = layer->first; k < layer->after; k++)
			start_slice(side, k);
	}
}

static void run_forward(struct side *side, lend_ns *at)
{
	struct training *t = side->training;

	for (unsigned i = 0; i < t->model.layers; i++) {
		while (side->missing[i])
			run_turns(side, LEND_NEVER);
		*at = lend_max_u64(*at, app_now());
		compute_until(side, *at += forward_ns(t, i));
	}
}

/* Writes gradients that differ by iteration and slice, and what the parameters are after them. */
static void fill_requests(struct side *side)
{
	struct training *t = side->training;

	for (unsigned i = 0; i < t->model.slices; i++) {
		struct slice_call *at = &side->call[i];
		unsigned char *want = side->want + at->slice->at, *from = at->request;

		lend_store_u32(from, i);
		memcpy(from += TRAINING_HEAD, app_pattern(t->iterations + i, at->slice->len),
		       at->slice->len);
		for (uint32_t k = 0; k < at->slice->len; k += TRAINING_WORD)
			lend_store_u32(want + k, lend_load_u32(want + k) + lend_load_u32(from + k));
	}
	memset(side->replies, 0xa5, t->model.bytes);
}

static void check_replies(struct side *side)
{
	struct training *t = side->training;

	for (unsigned i = 0; i < t->model.slices; i++) {
		struct lend_call *call = &side->call[i].call;

		if (call->reply_len != side->call[i].slice->len)
			t->wrong_bytes += side->call[i].slice->len;
		lend_buf_give(side->ep, call->reply);
		if (call->request)
			lend_buf_give(side->ep, call->request);
	}
	for (uint64_t i = 0; i < t->model.bytes; i++)
		t->wrong_bytes += side->replies[i] != side->want[i];
}

/* Runs one iteration; returns its seconds. */
static double run_iteration(struct side *side)
{
	lend_ns began, at;

	fill_requests(side);
	at = began = app_now();
	run_backward(side, &at);
	run_forward(side, &at);
	at = app_now();
	check_replies(side);
	side->training->iterations++;
	return (double)(at - began) / 1e9;
}

static void start_server(struct side *side)
{
	const struct training_shape *shape = &side->training->args.shape;
	char scale[16], slice[16], budget[24];
	const char *const argv[] = {
	    "training-server",
	    "--model",
	    training_kind_names[shape->kind],
	    "--scale",
	    scale,
	    "--slice",
	    slice,
	    "--message-max",
	    "32M",
	    "--receive-budget",
	    budget,
	    "--schedule",
	    app_schedule_names[side->order == FIFO ? LEND_AS_THEY_COME : LEND_SHORTEST_FIRST],
	    NULL};

	snprintf(scale, sizeof(scale), "%u", shape->scale);
	snprintf(slice, sizeof(slice), "%llu", (unsigned long long)shape->slice);
	snprintf(budget, sizeof(budget), "%llu",
		 2 * (unsigned long long)side->training->model.bytes + (64 << 20));
	app_net_init(&side->net, APP_UDP);
	app_net_add(&side->net);
	snprintf(side->net.listen[0], sizeof(side->net.listen[0]), "udp:%s:0", APP_LINK_FAR);
	app_link_enter(true);
	app_child_start(&side->server, "the parameter server", argv, &side->net, 0, APP_ANY_CPU);
	app_link_enter(false);
}

static unsigned char *take_bytes(uint64_t len)
{
	unsigned char *bytes = calloc(1, len);

	if (!bytes)
		app_die("no memory for %llu bytes: give a larger --scale", (unsigned long long)len);
	return bytes;
}

static void open_side(struct training *t, enum order order)
{
	const struct training_model *m = &t->model;
	struct side *side = &t->side[order];
	struct lend_config config = LEND_CONFIG_INIT;
	unsigned char *request;

	side->training = t;
	side->order = order;
	start_server(side);
	config.schedule = order == FIFO ? LEND_AS_THEY_COME : LEND_SHORTEST_FIRST;
	config.calls = t->args.window;
	config.message_max = 32 << 20;
	config.receive_budget = 2 * m->bytes + (64 << 20);
	if (lend_open(&config, &side->ep) < 0 ||
	    lend_connect(side->ep, app_net_address(&side->net, 0, 0), &side->session) < 0)
		app_die("%s", lend_why());
	side->replies = take_bytes(m->bytes);
	side->want = take_bytes(m->bytes);
	side->requests = request = take_bytes(m->bytes + (uint64_t)m->slices * TRAINING_HEAD);
	side->call = (void *)take_bytes(m->slices * sizeof(*side->call));
	for (unsigned i = 0; i < m->slices; i++) {
		side->call[i].side = side;
		side->call[i].slice = &m->slice[i];
		side->call[i].request = request;
		request += TRAINING_HEAD + m->slice[i].len;
	}
}

static void close_side(struct side *side)
{
	lend_close(side->ep);
	app_child_stop(&side->server);
	free(side->requests);
	free(side->replies);
	free(side->want);
	free(side->call);
}

/* Measures after an iteration of each order, which opens sessions and finds the link's rate. */
static void run_rounds(struct training *t)
{
	lend_ns began = app_now();

	for (unsigned i = 0; i <= t->args.rounds; i++)
		for (int order = 0; order < ORDERS; order++) {
			double seconds = run_iteration(&t->side[order]);

			if (i)
				app_series_add(&t->side[order].seconds, seconds);
			app_progress(began, i * ORDERS + order, (t->args.rounds + 1) * ORDERS);
		}
}

/* Returns the ms of an iteration without headers and delays. */
static double bound_ms(const struct training *t, bool fifo)
{
	return 1e3 * training_model_bound(&t->model, (double)t->compute / 1e9, 1.0 / (1 + BACKWARD),
					  transfer_seconds(t), fifo);
}

static void write_report(const struct training *t)
{
	const struct app_series *by_layer = &t->side[BY_LAYER].seconds;
	const struct app_series *fifo = &t->side[FIFO].seconds;
	struct app_report r;

	app_report_begin(&r, t->args.json, "training: iterations over a shaped link");
	app_report_num(&r, "iteration_ms", 1e3 * app_series_median(by_layer), 1,
		       "ms, median, priority by layer");
	app_report_num(&r, "iteration_ms_fifo", 1e3 * app_series_median(fifo), 1,
		       "ms, median, in FIFO order");
	app_report_num(&r, "ratio", app_series_ratio(by_layer, fifo), 3,
		       "by layer over FIFO, median of the rounds");
	app_report_num(&r, "bound_ms", bound_ms(t, false), 1,
		       "ms, by layer, if no byte had a header or a delay");
	app_report_num(&r, "bound_ms_fifo", bound_ms(t, true), 1, "ms, the same in FIFO order");
	app_report_num(&r, "bound_ratio", bound_ms(t, false) / bound_ms(t, true), 3,
		       "the ratio that the model allows");
	app_report_num(&r, "compute_ms", (double)t->compute / 1e6, 1,
		       "ms of an iteration, backward twice as long as forward");
	app_report_num(&r, "transfer_ms", 1e3 * transfer_seconds(t), 1,
		       "ms, all parameters one way at the link's rate");
	app_report_int(&r, "link_mbit_per_s", t->args.mbit, "10^6 bit/s, in each direction");
	app_report_text(&r, "model", training_kind_names[t->args.shape.kind], "");
	app_report_int(&r, "layers", t->model.layers, "");
	app_report_int(&r, "parameters", t->model.bytes / TRAINING_WORD, "of 4 bytes, exchanged");
	app_report_int(&r, "slices", t->model.slices, "calls of an iteration");
	app_report_int(&r, "slice", t->args.shape.slice, "bytes, the longest message");
	app_report_int(&r, "window", t->args.window, "calls in flight");
	app_report_int(&r, "rounds", t->args.rounds, "one iteration of each order");
	app_report_text(&r, "verified", "memcmp", "every parameter of every reply");
	app_report_int(&r, "wrong_bytes", t->wrong_bytes, "");
	app_report_end(&r);
}

static const struct lend_option options[] = {
    TRAINING_SHAPE_OPTIONS(struct args, shape),
    OPT_NUMBER(struct args, mbit, "link", 10, 100000,
	       "Rate of the link in 10^6 bit/s, each way (200)"),
    OPT_TIME(struct args, compute, "compute",
	     "Computing time of an iteration (as long as the link needs for all parameters)"),
    OPT_NUMBER(struct args, window, "window", 1, 1024,
	       "Calls in flight (4): others wait in the session's queue"),
    OPT_NUMBER(struct args, rounds, "rounds", 1, ROUNDS_MAX, "Iterations of each order (3)"),
    OPT_JSON(struct args, json),
    {.name = NULL}};

static const char doc[] =
    "Training iterations of a worker that exchanges the parameters of a public model with a "
    "parameter server, with priorities by layer and in FIFO order.\v"
    "Gradients become ready from the last layer to the first one, and the next forward step needs "
    "the parameters from the first layer to the last one. With priorities the first layers "
    "overtake the others, and the transfer goes on while the forward step computes. The link is a "
    "veth pair between two network namespaces of this command, with a token bucket at each end; "
    "root is not needed where user namespaces are allowed. Computing is simulated by waiting, "
    "layer by layer in proportion to its multiplications.\n\n"
    "  lend bench training --link 500 --rounds 5\n"
    "  lend bench training --model vit-b16 --scale 8 --json";

int app_training(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .doc = doc};
	static struct training t = {
	    .args = {.shape = TRAINING_SHAPE_INIT, .mbit = 200, .rounds = 3, .window = 4}};

	app_options_read(&syntax, argc, argv, &t.args);
	training_shape_model(&t.args.shape, &t.model);
	t.compute = t.args.compute ? t.args.compute : (lend_ns)(1e9 * transfer_seconds(&t));
	app_link_make(t.args.mbit);
	app_pattern_init(SEED, t.args.shape.slice);
	for (int order = 0; order < ORDERS; order++)
		open_side(&t, order);
	run_rounds(&t);
	for (int order = 0; order < ORDERS; order++)
		close_side(&t.side[order]);
	write_report(&t);
	return t.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}

/* training_server - the parameter server of lend bench training: adds gradients, and replies with
 * the parameters.
 * Layer: apps. Threads: one. */
#include <stdlib.h>

#include "apps/bench/training.h"
#include "apps/commands.h"
#include "apps/common/bench_server.h"
#include "util/bits.h"

struct server {
	struct app_server_args args;
	struct training_shape shape;
	struct training_model model;
	struct lend_ep *ep;
	unsigned char *parameters; /* all zero when training begins */
};

void training_shape_model(const struct training_shape *shape, struct training_model *model)
{
	if (shape->slice % TRAINING_WORD)
		app_bad("--slice: give a multiple of %d bytes", TRAINING_WORD);
	if (training_model_make(model, shape->kind, shape->scale, (uint32_t)shape->slice) < 0)
		app_bad("--slice: the model has more than %d slices; give a larger --slice or "
			"--scale",
			TRAINING_SLICES_MAX);
}

static void add_words(unsigned char *to, const unsigned char *from, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += TRAINING_WORD)
		lend_store_u32(to + i, lend_load_u32(to + i) + lend_load_u32(from + i));
}

/* A long message is one segment, since it was received into memory of its own. Returns the slice of
 * a request, or NULL: it is malformed. */
static const struct training_slice *find_slice(const struct server *s, const struct lend_buf *bytes)
{
	uint32_t number = TRAINING_SLICES_MAX;

	if (bytes && !bytes->next && bytes->len > TRAINING_HEAD)
		number = lend_load_u32(bytes->data);
	if (number >= s->model.slices || bytes->len - TRAINING_HEAD != s->model.slice[number].len)
		return NULL;
	return &s->model.slice[number];
}

static void exchange_slice(lend_request request, const struct lend_buf *bytes, void *of)
{
	struct server *s = of;
	const struct training_slice *slice = find_slice(s, bytes);
	struct lend_buf *reply;

	if (!slice) {
		lend_reply_why(s->ep, request, LEND_INVALID_ARGUMENT, "no slice of this model");
		return;
	}
	reply = lend_buf_wrap(s->ep, s->parameters + slice->at, slice->len, NULL, NULL);
	if (reply)
		add_words(s->parameters + slice->at, (unsigned char *)bytes->data + TRAINING_HEAD,
			  slice->len);
	lend_reply(s->ep, request, reply ? LEND_OK : LEND_RESOURCE_EXHAUSTED, reply);
}

static const struct lend_option options[] = {TRAINING_SHAPE_OPTIONS(struct server, shape),
					     {.name = NULL}};

int app_training_server(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options,
						  .child = &app_server_syntax,
						  .child_at = offsetof(struct server, args),
						  .doc = "The server of lend bench training."};
	static struct server s = {.args = APP_SERVER_ARGS_INIT, .shape = TRAINING_SHAPE_INIT};
	struct app_server server;
	int rc;

	app_options_read(&syntax, argc, argv, &s);
	training_shape_model(&s.shape, &s.model);
	s.parameters = calloc(1, s.model.bytes);
	if (!s.parameters)
		app_die("no memory for %llu bytes of parameters: give a larger --scale",
			(unsigned long long)s.model.bytes);
	app_server_open(&server, &s.args, NULL);
	s.ep = server.ep;
	if (lend_serve(s.ep, APP_METHOD_TRAINING, exchange_slice, &s, LEND_RESERVED) < 0)
		app_die("%s", lend_why());
	rc = app_server_run(&server);
	free(s.parameters);
	return rc;
}

/* tensors: a parameter server and a worker, which read each other's tensors in place.
 *   protoc --include_imports --descriptor_set_out=tensors.desc tensors.proto
 *   tensors &                        the server, at shm:tensors
 *   tensors STEPS tensors.desc       a worker */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lend/alloc.h>
#include <lend/grpc.h>

#include "tensors.pb-c.h"

enum { COUNT = 4000000, BYTES = COUNT * sizeof(float) };
static float *values; /* 16 MB: the server's parameters, or the worker's gradient */

static void parameters_pull(Tensors__Parameters_Service *service, const Tensors__Step *in,
			    Tensors__Tensor_Closure closure, void *closure_data)
{
	Tensors__Tensor out = TENSORS__TENSOR__INIT;

	(void)service, (void)in, (void)closure;
	out.values = (ProtobufCBinaryData){BYTES, (uint8_t *)values};
	lend_pb_reply(closure_data, &out.base, NULL, NULL); /* the worker pushes when it has read */
}

static void parameters_push(Tensors__Parameters_Service *service, const Tensors__Tensor *in,
			    Tensors__Step_Closure closure, void *closure_data)
{
	const float *gradient = (const void *)in->values.data;

	(void)service;
	for (size_t i = 0; i < COUNT && in->values.len == BYTES; i++)
		values[i] -= gradient[i];
	closure(&(Tensors__Step)TENSORS__STEP__INIT, closure_data);
}

static ProtobufCService *server;
static int left;    /* steps; -1: all are done */
static float error; /* the last parameter's; -1: a call failed */
static void push_gradient(const Tensors__Tensor *parameters, void *arg);

static void next_step(const Tensors__Step *done, void *arg)
{
	Tensors__Step step = TENSORS__STEP__INIT;

	error = done ? error : -1;
	if (done && left-- > 0)
		tensors__parameters__pull(server, &step, push_gradient, arg);
}

/* Sends the gradient of parameters that become their own number. */
static void push_gradient(const Tensors__Tensor *parameters, void *arg)
{
	const float *at = parameters ? (const void *)parameters->values.data : values;
	Tensors__Tensor gradient = TENSORS__TENSOR__INIT;

	for (int i = 0; i < COUNT; i++)
		values[i] = (at[i] - (float)i) / 2;
	error = -values[COUNT - 1];
	gradient.values = (ProtobufCBinaryData){BYTES, (uint8_t *)values};
	tensors__parameters__push(server, &gradient, next_step, arg);
}

static int train_steps(struct lend_ep *ep, struct lend_mem *mem, FILE *file)
{
	static char set[1 << 16];
	lend_session session;

	if (!file || lend_connect(ep, "shm:tensors", &session) < 0 ||
	    lend_pb_client(ep, session, &tensors__parameters__descriptor, &server) < 0 ||
	    lend_pb_client_refs(server, mem, set, fread(set, 1, sizeof(set), file)) < 0)
		return -1;
	for (next_step(&(Tensors__Step)TENSORS__STEP__INIT, NULL); left >= 0 && error >= 0;)
		(void)lend_wait(ep, LEND_NEVER);
	return printf("error %.0f\n", error) < 0 || error < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	Tensors__Parameters_Service service = TENSORS__PARAMETERS__INIT(parameters_);
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem *mem = NULL;
	struct lend_ep *ep = NULL;
	int rc = -1;

	config.listen = argc > 2 ? "shm:tensors-worker" : "shm:tensors"; /* both lend memory */
	left = argc > 2 ? atoi(argv[1]) : 0;
	values = lend_malloc_shared(BYTES);
	if (values && memset(values, 0, BYTES) && lend_open(&config, &ep) == 0 &&
	    lend_mem_open(ep, NULL, &mem) == 0)
		rc = argc > 2 ? train_steps(ep, mem, fopen(argv[2], "rb"))
			      : lend_pb_serve(ep, &service.base) |
				    lend_pb_serve_refs(ep, &service.base, mem) |
				    lend_run(ep, LEND_NEVER);
	lend_mem_close(mem);
	lend_close(ep);
	lend_pb_end(ep);
	return rc != 0;
}

/* greeter: a server of greeter.proto at shm:greeter. greeter NAME: its client. greeter at ADDRESS:
 * a server there, such as http2:0.0.0.0:50051 for stock gRPC clients.
 *   lend protoc --c_out=. greeter.proto
 *   cc greeter.c greeter.pb-c.c -o greeter $(pkg-config --cflags --libs lend-grpc) */
#include <stdio.h>

#include <lend/grpc.h>

#include "greeter.pb-c.h"

static void greeter_greet(Greeter__Greeter_Service *service, const Greeter__Name *in,
			  Greeter__Greeting_Closure closure, void *closure_data)
{
	Greeter__Greeting out = GREETER__GREETING__INIT;
	char text[256];

	(void)service;
	if (!*in->name) {
		lend_pb_fail(closure_data, LEND_INVALID_ARGUMENT, "a greeting needs a name");
		return;
	}
	(void)snprintf(text, sizeof(text), "hello, %s", in->name);
	out.text = text;
	closure(&out, closure_data);
}

static void print_greeting(const Greeter__Greeting *reply, void *arg)
{
	int *left = arg;

	*left = reply ? printf("%s\n", reply->text) < 0 : -1;
}

static int serve_greeter(const char *address)
{
	Greeter__Greeter_Service service = GREETER__GREETER__INIT(greeter_);
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep = NULL;
	int err;

	config.listen = address;
	err = lend_open(&config, &ep);
	if (!err)
		err = lend_pb_serve(ep, &service.base);
	if (!err)
		err = lend_run(ep, LEND_NEVER);
	lend_close(ep);
	lend_pb_end(ep);
	return err;
}

static int call_greeter(char *name)
{
	Greeter__Name in = GREETER__NAME__INIT;
	ProtobufCService *client = NULL;
	struct lend_ep *ep = NULL;
	lend_session session;
	int left = 1;

	in.name = name;
	if (lend_open(NULL, &ep) < 0)
		return -1;
	if (lend_connect(ep, "shm:greeter", &session) == 0 &&
	    lend_pb_client(ep, session, &greeter__greeter__descriptor, &client) == 0) {
		greeter__greeter__greet(client, &in, print_greeting, &left);
		while (left > 0)
			(void)lend_wait(ep, LEND_NEVER);
		if (left < 0)
			fprintf(stderr, "greeter: status %d\n", lend_pb_status(client));
	}
	lend_close(ep);
	if (client)
		protobuf_c_service_destroy(client);
	return left;
}

int main(int argc, char **argv)
{
	int failed =
	    argc == 2 ? call_greeter(argv[1]) : serve_greeter(argc > 2 ? argv[2] : "shm:greeter");

	if (failed && *lend_why())
		fprintf(stderr, "greeter: %s\n", lend_why());
	return failed != 0;
}

/* Goal: a stock gRPC client calls methods with arguments, and gets the bytes of every argument of
 * the reply, also of those that are references. Method: an HTTP/2 client in the thread of the
 * endpoint, whose client of a memory node has put objects. Covers: cn/args/args_bytes.c,
 * cn/args/args_serve.c, src/rpc/session.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "gateway/http2_client.h"
#include "lend/metadata.h"

enum { LONG = 300000 };

static struct mem_node node;
static struct lend_ep *ep;
static struct lend_mem *mem;
static struct http2_client client;
static struct lend_ref object, released;
static uint8_t bytes[LONG];
static int releases;
static bool from_gateway;

static void count_release(void *of)
{
	cr_assert_eq(of, &releases);
	releases++;
}

/* Answers with the request's bytes, an object of the node, a slice of it, and nothing. */
static void serve_mixed(lend_request request, const struct lend_arg *arg, int n, void *of)
{
	struct iovec pieces[] = {{(void *)(uintptr_t)arg->bytes, arg->len}, {bytes, LONG}};
	struct lend_ref slice;
	struct lend_argument reply[] = {
	    {.data = pieces, .n = 2}, {.ref = &object}, {.ref = &slice}, {.n = 0}};

	(void)of;
	cr_assert_eq(n, 1);
	from_gateway = lend_session_gateway(ep, lend_request_session(ep, request));
	cr_assert_eq(lend_ref_slice(&object, 7, 1000, LEND_READ, &slice), 0);
	cr_assert_eq(lend_reply_argv(mem, request, LEND_OK, reply, 4, count_release, &releases), 0,
		     "%s", lend_why());
}

static void serve_released(lend_request request, const struct lend_arg *arg, int n, void *of)
{
	const struct lend_argument reply = {.ref = &released};

	(void)arg, (void)n, (void)of;
	cr_assert_eq(lend_reply_argv(mem, request, LEND_OK, &reply, 1, NULL, NULL), 0);
}

static void open_all(void)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char address[256];

	mem_node_start(&node, "shm", "16M", "");
	config.listen = "http2:127.0.0.1:0";
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(ep, node.address, &mem), 0);
	cr_assert_eq(lend_serve_args_name(mem, "/t.T/Mixed", serve_mixed, NULL, 0), 0);
	cr_assert_eq(lend_serve_args_name(mem, "/t.T/Gone", serve_released, NULL, 0), 0);
	cr_assert_eq(lend_address(ep, address, sizeof(address)), 0);
	mem_fill(bytes, sizeof(bytes), 3);
	object = mem_put(mem, bytes, sizeof(bytes), NULL);
	released = mem_put(mem, bytes, sizeof(bytes), NULL);
	cr_assert_eq(mem_release(mem, &released), LEND_OK);
	http2_client_open(&client, address);
}

static void close_all(void)
{
	cr_assert_eq(mem_release(mem, &object), LEND_OK);
	http2_client_close(&client);
	lend_mem_close(mem);
	lend_close(ep);
	mem_node_stop(&node);
}

/* Makes a request of len bytes; its answer's bytes are the caller's. */
static void ask_once(struct answer *a, const char *path, size_t len)
{
	uint8_t *body = calloc(1, len + 5);

	for (unsigned i = 0; i < 4; i++)
		body[1 + i] = (uint8_t)(len >> 8 * (3 - i));
	memcpy(body + 5, bytes, len);
	*a = (struct answer){.headers = "", .path = path, .body = body, .len = len + 5};
	http2_client_ask(&client, a);
	http2_client_until(&client, ep, &a->over);
	free(body);
}

Test(gateway_args, references__reach_the_client_as_bytes, .init = open_all)
{
	static const size_t lens[] = {0, 5, 1000, LONG};

	for (unsigned i = 0; i < 4; i++) {
		const uint8_t *at;
		struct answer a;

		ask_once(&a, "/t.T/Mixed", lens[i]);
		cr_assert_str_eq(answer_header(a.trailing, "grpc-status"), "0");
		cr_assert_eq(a.n, 5 + lens[i] + 2 * LONG + 1000);
		at = a.bytes + 5;
		cr_assert_eq(memcmp(at, bytes, lens[i]), 0);
		cr_assert_eq(memcmp(at + lens[i], bytes, LONG), 0);
		cr_assert_eq(memcmp(at + lens[i] + LONG, bytes, LONG), 0);
		cr_assert_eq(memcmp(at + lens[i] + 2 * LONG, bytes + 7, 1000), 0);
		cr_assert_eq(releases, (int)i + 1);
		cr_assert(from_gateway);
		free(a.bytes);
	}
	close_all();
}

Test(gateway_args, reference__that_is_gone__is_a_status, .init = open_all)
{
	struct answer a;
	const char *status;

	ask_once(&a, "/t.T/Gone", 5);
	status = answer_header(a.trailing, "grpc-status");
	status = status ? status : answer_header(a.initial, "grpc-status");
	cr_assert_str_eq(status, "5");
	cr_assert_eq(a.n, 0);
	free(a.bytes);
	close_all();
}
